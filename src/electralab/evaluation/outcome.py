"""What an evaluation says on its way, and at its end.

Progress, Note... -> Evaluation
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from electralab.corpus.readers import ReadingConfig
from electralab.events import Progress

Suite = Literal["blimp", "rtd", "mlm", "sts", "probe"]
Scores = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every score with what it was measured on; `asdict` of it is the result in Python and JSON."""

    suite: Suite
    model: str
    data: str
    scores: Scores
    groups: dict[str, dict[str, Scores]]
    """Kind of group -> group -> its scores: {"field": {"syntax": {"discriminator": 0.62, ...}}}."""
    counts: dict[str, int]
    identity: str
    """A hash of what was asked: scores of two models are comparable where it is the same."""
    notes: tuple[str, ...]
    """What a reader must know to take the scores for what they are."""
    bad_rows: tuple[str, ...]
    """The first of those left out, with place and reason; `counts` has their number."""
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Findings:
    """What one suite found; the stage adds what all suites have in common."""

    scores: Scores
    groups: dict[str, dict[str, Scores]]
    counts: dict[str, int]
    identity: str
    notes: tuple[str, ...] = ()
    bad_rows: tuple[str, ...] = ()


T = TypeVar("T")
Steps = Generator[Progress, None, T]
"""Work that tells how far it is and returns a T: `found = yield from work`."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What every suite is told."""

    seed: int = 0
    batch_tokens: int = 8192
    max_bad_share: float = 0.05
    device: str = "cpu"
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """How text is found in files."""
    check: Callable[[], None] = lambda: None
    """Raises where the work is to be abandoned."""
