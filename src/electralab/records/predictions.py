"""What a tuned model says of each example: a JSON object a line.

PredictionRow... <-> predictions/dev.jsonl

A row has the id and what was asked, `truth` where it is known, `prediction`, and what the prediction was drawn from.
Its parts are those of every kind of task, so that a reader needs no kind: a class is a string, a number a number, tags
are a list, an answer is a string with the span that it was cut from.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from electralab.records.record import Record

# JSON lets these stand in a string, but str.splitlines() would cut the row there.
_LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})

Value = str | float | tuple[str, ...] | None


class AnswerSpan(Record):
    """A slice of the context, in characters."""

    text: str
    start: int
    end: int
    score: float | None


class PredictionRow(Record):
    row: int = 0
    """The row of the input file that it answers, where there is one; its line in an editor."""
    id: str = ""
    texts: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    question: str = ""
    truth: Value = None
    """A question has a list of answers; an empty one says that there is none."""
    prediction: Value
    """None for a row that could not be read, and for a number that is not finite."""
    probabilities: dict[str, float | None] | tuple[float | None, ...] = ()
    """By class, or of each tag."""
    answer: AnswerSpan | None = None
    no_answer_score: float | None = None
    alternatives: tuple[AnswerSpan, ...] = ()
    cut: bool = False
    """The text did not fit the model's rows, and its end was not read."""
    error: str = ""
    """Why there is no prediction."""

    @property
    def has_truth(self) -> bool:
        return "truth" in self.model_fields_set

    def to_json(self) -> dict[str, Any]:
        # Without the way through JSON text, in which there is no half of a surrogate pair.
        return self.model_dump(mode="json", exclude_unset=True)


class PredictResult(Record):
    """What `predict` answers: a row for every row of the file, bad ones included."""

    predictions: tuple[PredictionRow, ...]
    bad_rows: int
    cut: int
    """Texts that were longer than the model's rows."""


class PredictPlan(Record):
    """`predict --dry-run`: what would be answered, and from which columns."""

    model: str
    task: str
    rows: int
    bad_rows: int
    columns: dict[str, str]
    settings: dict[str, Any]


def read_rows(path: Path) -> Iterator[PredictionRow]:
    """The rows of a file, in order; a line that is none is left out."""
    with path.open("rb") as file:
        for line in file:
            try:
                yield PredictionRow.model_validate(json.loads(line))
            except (ValueError, RecursionError, ValidationError):
                continue


def to_json_lines(rows: Iterable[Record | dict[str, Any]]) -> bytes:
    values = (row.to_json() if isinstance(row, Record) else row for row in rows)
    lines = "".join(json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS) + "\n" for value in values)
    # Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it.
    return lines.encode("utf-8", "backslashreplace")
