"""What long work reports while it runs: one kind of event, whatever the work is.

stage -> Event... -> a live line, plain lines, or nothing

A stage yields events and knows nothing of terminals. Whoever runs it draws them or reads the result.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

R = TypeVar("R")

Style = Literal["plain", "dim", "strong", "good", "score", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase has come. `total` 0: nobody knows. A new phase begins with a clock of its own."""

    phase: str
    done: int
    total: int
    text: str = ""
    """What stands beside the bar, if not the phase: counts, losses, speed."""
    is_line: bool = False
    """Worth a line of its own where nothing is drawn live, as in a pipe."""


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence that stays on the screen."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Result(Generic[R]):
    """What the work ends with: always the last event, and only once."""

    value: R


Event = Progress | Note | Result[R]


def run_to_end(events: Iterable[Progress | Note | Result[R]]) -> R:
    """The result of a stage whose progress nobody looks at."""
    for event in events:
        if isinstance(event, Result):
            return event.value
    raise AssertionError("a stage ends with its result")
