"""What long work reports while it runs: one kind of event, whatever the work is.

stage -> Event... -> a live line, plain lines, or nothing

A stage yields events and knows nothing of terminals. Whoever runs it draws them or reads the result.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

R = TypeVar("R")

Style = Literal["plain", "dim", "strong", "heading", "good", "score", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase has come. `total` 0: nobody knows. A new phase begins with a clock of its own."""

    phase: str
    done: int
    total: int
    text: str = ""
    """What stands beside the bar: counts, losses, speed. Empty: what stood there in this phase, or the phase."""
    line: str = ""
    """The line to print where nothing is drawn live, as in a pipe; empty: none."""
    values: Mapping[str, object] = field(default_factory=dict)
    """The figures of this moment, for programs: of a training step its log record."""


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence that stays on the screen."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Result(Generic[R]):
    """What the work ends with: always the last event, and only once."""

    value: R


Update = Progress | Note
"""What work yields on its way, without its result."""
Event = Progress | Note | Result[R]


def warn(text: str) -> Note:
    return Note(f"warning: {text}", "warning")


def run_to_end(events: Iterable[Progress | Note | Result[R]]) -> R:
    """The result of a stage whose progress nobody looks at."""
    results = [event.value for event in events if isinstance(event, Result)]
    assert len(results) == 1, "a stage ends with its result"
    return results[0]


def format_minutes(minutes: float) -> str:
    """A duration in the largest unit that says enough: 40 s, 12 min, 3.5 h."""
    if minutes < 1.5:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
