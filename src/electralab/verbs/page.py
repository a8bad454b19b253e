"""The page that training leaves in its folder, and what it advises.

folder -> report.html
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.display import Display
from electralab.errors import Stopped, TrainingDiverged

if TYPE_CHECKING:
    from electralab.reporting.artifact import Artifact


@contextmanager
def page_at_end(folder: Path, display: Display) -> Iterator[None]:
    """However the work in the folder ends, unless it was refused: then nothing of it is ours to show."""
    try:
        yield
    except (Stopped, TrainingDiverged):
        leave_page(folder, display)
        raise
    leave_page(folder, display)


def leave_page(folder: Path, display: Display) -> None:
    """Nothing where there is nothing to show yet."""
    from electralab.records.kinds import find_kind
    from electralab.reporting.page import write_page

    if find_kind(folder) is not None:
        note = write_page(folder, advise)
        display.say(note.text, "yellow" if note.style == "warning" else "")


def advise(artifact: "Artifact") -> list[str]:
    """What training says about the last scores that a run has, then what it said on its way and no longer would."""
    from electralab.pretraining.balance import drop_numbers

    now = _diagnose_last(artifact)
    signs = set(map(drop_numbers, now))
    start = artifact.pretrained.warnings if artifact.pretrained else ()
    told = [(warning.step, warning.text) for warning in start if warning.step == 0]
    told += [(record.step, text) for record in artifact.logs.get("", []) for text in record.warnings]
    return [*now, *(f"at step {step}: {text}" for step, text in told if drop_numbers(text) not in signs)]


def _diagnose_last(artifact: "Artifact") -> list[str]:
    scores, (taken, total) = artifact.heldout_scores, artifact.steps
    if artifact.kind != "run" or not {"auc", "called_replaced", "replaced_share"} <= scores.keys():
        return []
    from electralab.pretraining.balance import diagnose
    from electralab.pretraining.settings import parse_stored

    records = artifact.logs.get("", [])
    return diagnose(
        scores,
        taken / total if total else 1.0,
        baselines=artifact.baselines,
        record=records[-1].values if records else {},
        config=parse_stored(artifact.settings),
        highest_rate=max((record.get("learning_rate") or 0.0 for record in records), default=None),
    )
