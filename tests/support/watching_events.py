"""What a stage said on its way, taken out of its events."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from electralab.events import Note, Progress, Result, Style


def notes(events: Iterable[object], style: Style | None = None) -> list[str]:
    return [event.text for event in events if isinstance(event, Note) and style in (None, event.style)]


def warnings(events: Iterable[object]) -> list[str]:
    told = [text for text in notes(events, "warning") if text.startswith("warning: ")]
    return [text.removeprefix("warning: ") for text in told]


def step_records(events: Iterable[object]) -> list[dict[str, Any]]:
    """Of every training step that was logged."""
    return [dict(event.values) for event in events if isinstance(event, Progress) and "loss" in event.values]


def saved(events: Iterable[object]) -> list[Path]:
    lines = [event.line for event in events if isinstance(event, Progress)]
    return [Path(line.removeprefix("saved ")) for line in lines if line.startswith("saved ")]


def has_trained(events: Iterable[object]) -> bool:
    return any(isinstance(event, Progress) and event.phase == "training" for event in events)


def result_of(events: list[Any]) -> Any:
    assert isinstance(events[-1], Result)
    return events[-1].value
