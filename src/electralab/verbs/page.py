"""The page that training leaves in its folder, and what it advises.

folder -> report.html
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab.display import Display
from electralab.errors import Stopped, TrainingDiverged

if TYPE_CHECKING:
    from electralab.reporting.subjects import Subject

PAGE = "report.html"


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
    """Nothing where there is nothing to show yet; a page that fails is told of, and costs the work nothing."""
    from electralab.reporting.stage import write_report
    from electralab.reporting.subjects import recognise

    page = folder / PAGE
    try:
        if recognise(folder) is None:
            return
        write_report([folder], page, advise)
    except Exception as error:  # noqa: BLE001  whatever it was, hours of training must not end with it
        again = f"'electra report {folder} --out {page}' tries again"
        display.say(f"warning: {page}: could not be written ({str(error) or type(error).__name__}); {again}", "yellow")
    else:
        display.say(f"page  {page}")


def advise(subject: "Subject") -> list[str]:
    """What training says about the last scores that a run has, then what it said on its way and no longer would."""
    from electralab.pretraining.balance import drop_numbers

    now = _diagnose_last(subject)
    signs = set(map(drop_numbers, now))
    told = [
        (record.get("step"), text)
        for record in (*_read_start(subject), *subject.logs.get("", []))
        for text in record.get("warnings") or []
    ]
    return [*now, *(f"at step {step}: {text}" for step, text in told if drop_numbers(str(text)) not in signs)]


def _read_start(subject: "Subject") -> list[dict[str, Any]]:
    """What was said before the first step, which is not in the log."""
    told = [warning for warning in subject.results.get("warnings", []) if isinstance(warning, dict)]
    return [{"step": 0, "warnings": [warning.get("text") for warning in told if warning.get("step") == 0]}]


def _diagnose_last(subject: "Subject") -> list[str]:
    from electralab.reporting.summary import last_scores, measure_progress

    scores, (taken, total) = last_scores(subject), measure_progress(subject)
    if subject.kind != "run" or not {"auc", "called_replaced", "replaced_share"} <= scores.keys():
        return []
    from electralab.pretraining.balance import diagnose
    from electralab.pretraining.settings import parse_stored

    records = subject.logs.get("", [])
    return diagnose(
        scores,
        taken / total if total else 1.0,
        baselines=subject.results.get("baselines", {}),
        record=records[-1] if records else {},
        config=parse_stored(subject.settings),
        highest_rate=max((record.get("learning_rate") or 0.0 for record in records), default=None),
    )
