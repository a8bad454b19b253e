"""One labelled thing to learn from, by kind of task; what could not be read as one, and why.

row -> Example | BadRow
"""

from collections.abc import Sequence
from dataclasses import dataclass

NO_LABEL = ""
"""The label of an example whose answer is not known, as in a test set."""
_SHOWN_BAD_ROWS = 5


@dataclass(frozen=True, slots=True)
class TextExample:
    """One text, or a pair, and the name of its class."""

    id: str
    texts: tuple[str, ...]
    label: str


@dataclass(frozen=True, slots=True)
class ScoredExample:
    """One text, or a pair, and a number; not a number (NaN) where it is not known."""

    id: str
    texts: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """Words and a tag for each; no tags where they are not known."""

    id: str
    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """A slice of the context: context[start : start + len(text)] == text."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a context; no answers and not impossible where the answer is not known."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    is_impossible: bool


Example = TextExample | ScoredExample | TaggedExample | Question


@dataclass(frozen=True, slots=True)
class BadRow:
    row: int
    """Counted from 1 as an editor counts lines; for formats without lines, the record's number."""
    reason: str


@dataclass(frozen=True, slots=True)
class Split:
    """The examples of one file, and what was read to get them."""

    name: str
    path: str
    examples: Sequence[Example]
    is_labelled: bool
    columns: dict[str, str]
    """What each part of an example was read from, for tables: {"text": "review", "label": "stars"}."""
    rows: int
    bad_rows: tuple[BadRow, ...]
    notes: tuple[str, ...] = ()
    """What was mended on the way, for a person to know."""
    row_numbers: tuple[int, ...] = ()
    """Of each example, counted as those of bad rows are; none where examples were taken out of several files."""


def format_bad_rows(split: Split) -> list[str]:
    """How many rows could not be used, and why the first of them; nothing where all are good."""
    if not split.bad_rows:
        return []
    shown, more = split.bad_rows[:_SHOWN_BAD_ROWS], len(split.bad_rows) - _SHOWN_BAD_ROWS
    return [
        f"warning: {split.path}: {len(split.bad_rows):,} of {split.rows:,} rows are bad",
        *(f"         row {bad.row}: {bad.reason}" for bad in shown),
        *([f"         and {more:,} more"] if more > 0 else []),
    ]
