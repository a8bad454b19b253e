"""A row, and what its columns mean -> an example; or the reason why it is none.

Row, Columns -> Example | BadRow
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from electralab.finetuning.columns import Columns, is_number
from electralab.finetuning.conll import has_spans, to_iob2
from electralab.finetuning.examples import (
    NO_LABEL,
    BadRow,
    Example,
    Question,
    ScoredExample,
    TaggedExample,
    TextExample,
)
from electralab.finetuning.rows import Row, Table, is_damaged
from electralab.finetuning.squad_files import IMPOSSIBLE, START, NoAnswer, read_answers, shorten
from electralab.finetuning.symbols import spell_symbols
from electralab.finetuning.tasks import Task

# What stands for "not known" in the label column of test sets; for a number only nothing does.
_UNKNOWN = {"regress": ("",)}
_UNKNOWN_CLASS = ("", "-1")


class Unusable(Exception):
    """Why a row is no example."""


@dataclass(frozen=True, slots=True)
class Converted:
    examples: list[Example]
    bad_rows: tuple[BadRow, ...]
    is_labelled: bool
    notes: tuple[str, ...]


def convert(table: Table, task: Task, columns: Columns, labels: tuple[str, ...]) -> Converted:
    """`labels`: those that may occur; none: any."""
    is_labelled = _has_labels(table, task, columns)
    if not is_labelled:
        columns = replace(columns, label="")
    converter = _Converter(task, columns, frozenset(labels), has_spans=_marks_spans(table, task, columns, labels))
    examples: list[Example] = []
    bad_rows: list[BadRow] = []
    for row in table.rows:
        if isinstance(row, BadRow):
            bad_rows.append(row)
            continue
        try:
            examples.append(converter.make(row))
        except (Unusable, NoAnswer) as reason:
            bad_rows.append(BadRow(row.number, str(reason)))
    return Converted(examples, tuple(bad_rows), is_labelled, tuple(converter.notes()))


def _has_labels(table: Table, task: Task, columns: Columns) -> bool:
    """Whether any row has one. A question that cannot be answered is known to have none."""
    if task.kind == "qa":
        return any(row.fields.get(columns.label) or _is_impossible(row) for row in table.good_rows)
    values = (row.fields.get(columns.label) for row in table.good_rows) if columns.label else ()
    return any(
        value is not None and str(value).strip() not in _UNKNOWN.get(task.kind, _UNKNOWN_CLASS) for value in values
    )


def _is_impossible(row: Row) -> bool:
    return str(row.fields.get(IMPOSSIBLE, "")).strip().lower() in ("true", "1", "yes")


def _has_flag(row: Row) -> bool:
    return row.fields.get(IMPOSSIBLE) not in (None, "")


def _marks_spans(table: Table, task: Task, columns: Columns, labels: tuple[str, ...]) -> bool:
    """As in the training file, whose labels are given when another is read."""
    if task.kind != "label" or not columns.label:
        return False
    if labels:
        return has_spans(labels)
    values = (row.fields.get(columns.label) for row in table.good_rows)
    lists = (value.split() if isinstance(value, str) else value for value in values)
    return has_spans({str(tag) for tags in lists if isinstance(tags, list) for tag in tags})


class _Converter:
    def __init__(self, task: Task, columns: Columns, labels: frozenset[str], *, has_spans: bool) -> None:
        self._task = task
        self._columns = columns
        self._labels = labels
        self._has_spans = has_spans
        self._searched = 0
        self._question_ids: set[str] = set()
        self._respelled = 0

    def notes(self) -> list[str]:
        notes = []
        if self._searched:
            notes.append(
                f"answers looked for in their context, since their place was missing or wrong: {self._searched:,}"
            )
        if self._respelled:
            notes.append(f"sentences whose tags were respelled as IOB2: {self._respelled:,}")
        return notes

    def make(self, row: Row) -> Example:
        match self._task.kind:
            case "classify":
                return self._make_text(row)
            case "regress":
                return self._make_scored(row)
            case "label":
                return self._make_tagged(row)
            case "qa":
                return self._make_question(row)

    def _make_text(self, row: Row) -> TextExample:
        return TextExample(self._id(row), self._texts(row), self._label(row) if self._columns.label else NO_LABEL)

    def _make_scored(self, row: Row) -> ScoredExample:
        score = math.nan
        if self._columns.label:
            value = self._field(row, self._columns.label)
            if not is_number(value):
                raise Unusable(f"{self._columns.label!r} holds {shorten(str(value))}, which is no number")
            score = float(value)
        return ScoredExample(self._id(row), self._texts(row), score)

    def _make_tagged(self, row: Row) -> TaggedExample:
        words = self._list(row, self._columns.texts[0])
        if not words or not all(word.strip() for word in words):
            raise Unusable("holds an empty word" if words else "holds no words")
        if not self._columns.label:
            return TaggedExample(self._id(row), words, ())
        tags = self._list(row, self._columns.label)
        if len(tags) != len(words):
            raise Unusable(f"has {len(tags)} tags for {len(words)} words")
        if self._has_spans:
            respelled = to_iob2(tags)
            self._respelled += respelled != tags
            tags = respelled
        for tag in tags:
            self._check(tag)
        return TaggedExample(self._id(row), words, tags)

    def _make_question(self, row: Row) -> Question:
        question, context = self._texts(row)
        given = self._given_answers(row)
        # A list of no answers says so by itself; without the flag there is nothing else it could mean.
        is_impossible = _is_impossible(row) or (bool(self._columns.label) and given == [] and not _has_flag(row))
        if is_impossible and not self._task.has_impossible:
            raise Unusable(f"has no answer in its context, which {self._task.display} does not know; use --task squad2")
        answers, searched = ((), 0) if is_impossible or given is None else read_answers(given, context)
        if self._columns.label and not answers and not is_impossible:
            raise Unusable("has no answer")
        self._searched += searched
        name = self._id(row)
        if name in self._question_ids:  # predictions of questions are found by their id
            raise Unusable(f"has the id {shorten(name)} of a question before it")
        self._question_ids.add(name)
        return Question(name, question, context, answers, is_impossible)

    def _given_answers(self, row: Row) -> Any:
        """[] where the row says that there is none, None where it says nothing."""
        given = row.fields.get(self._columns.label) if self._columns.label else None
        if given == "" or (isinstance(given, dict) and given.get("text") == []):
            return []
        start = row.fields.get(START)
        if isinstance(given, str) and start not in (None, ""):
            return {"text": given, START: int(start) if str(start).isdecimal() else start}
        return given

    def _id(self, row: Row) -> str:
        value = row.fields.get(self._columns.id) if self._columns.id else None
        return str(row.number) if value is None else self._whole(str(value), self._columns.id)

    def _field(self, row: Row, column: str) -> Any:
        value = row.fields.get(column)
        if value is None:
            raise Unusable(f"has no {column!r}")
        return value

    def _texts(self, row: Row) -> tuple[str, ...]:
        return tuple([self._text(row, column) for column in self._columns.texts])

    def _text(self, row: Row, column: str) -> str:
        value = self._field(row, column)
        if self._task.of_symbols and isinstance(value, list):
            return self._spell_list(value, column)
        text = self._spell(value, column)
        if not text.strip():
            raise Unusable(f"{column!r} is empty")
        return text

    def _spell_list(self, symbols: list[Any], column: str) -> str:
        try:
            return self._whole(spell_symbols(symbols), column)
        except ValueError as error:
            raise Unusable(f"{column!r} {error}") from None

    def _label(self, row: Row) -> str:
        column = self._columns.label
        label = self._spell(self._field(row, column), column).strip()
        if not label:
            raise Unusable(f"{column!r} is empty")
        self._check(label)
        return label

    def _check(self, label: str) -> None:
        if self._labels and label not in self._labels:
            known = ", ".join(sorted(self._labels)[:10])
            raise Unusable(f"has the unknown label {shorten(label)} (known are {known})")

    def _list(self, row: Row, column: str) -> tuple[str, ...]:
        """A JSON list; or text, split at white space."""
        value = self._field(row, column)
        if isinstance(value, str):
            return tuple(value.split())
        if not isinstance(value, list):
            raise Unusable(f"{column!r} holds {shorten(str(value))}, which is no list")
        return tuple([self._spell(item, column) for item in value])

    def _spell(self, value: Any, column: str) -> str:
        """Numbers as people write classes: 1 for 1.0, true for True."""
        if isinstance(value, str):
            return self._whole(value, column)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        if isinstance(value, int | float):
            return str(value)
        raise Unusable(f"{column!r} holds a {type(value).__name__} where text is expected")

    def _whole(self, text: str, column: str) -> str:
        if is_damaged(text):
            raise Unusable(f"{column!r} holds half a character")
        return text
