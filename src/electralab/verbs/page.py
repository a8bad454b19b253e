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
    """What training says about the balance of its networks, of the last scores that a run has."""
    from electralab.reporting.summary import last_scores, measure_progress

    scores, (taken, total) = last_scores(subject), measure_progress(subject)
    if subject.kind != "run" or not {"auc", "called_replaced", "replaced_share"} <= scores.keys():
        return []
    from electralab.pretraining.balance import diagnose

    records = subject.logs.get("", [])
    baselines = subject.results.get("baselines", {})
    return diagnose(scores, taken / total if total else 1.0, baselines=baselines, record=records[-1] if records else {})
