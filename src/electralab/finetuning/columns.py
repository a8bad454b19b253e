"""Which column of a table is the text, which the label: as given, as the task fixes it, by name, or by content.

Table -> Columns
"""

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from electralab.errors import InputError, UsageError
from electralab.finetuning.rows import Row, Table
from electralab.finetuning.tasks import Kind

_PAIRS = (
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "passage"),
)
_TEXTS = (
    *("text", "sentence", "document", "review", "review_text", "review_body", "content", "comment", "message", "tweet"),
    *("utterance", "body", "description", "title", "headline", "question"),
)
_LABELS = (
    *("label", "labels", "class", "category", "sentiment", "target", "gold_label", "is_duplicate", "topic", "intent"),
    *("polarity", "score", "stars", "rating", "similarity"),
)
_SCORES = ("score", "similarity", "rating", "stars", "target", "label", "labels")
_IDS = ("id", "idx", "index", "guid", "uid", "qid")
_WORDS = ("words", "tokens", "text")
_TAGS = ("tags", "labels", "ner_tags", "chunk_tags", "pos_tags", "ner", "label")
_ANSWERS = ("answers", "answer", "label")

_SAMPLE = 10_000


@dataclass(frozen=True, slots=True)
class Columns:
    texts: tuple[str, ...]
    label: str
    """Empty where there is none, as in a test set."""
    id: str
    """Empty: the number of the row."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user, or the task, says; empty where it is to be found."""

    texts: tuple[str, ...] = ()
    label: str = ""
    id: str = ""


def choose_columns(table: Table, kind: Kind, num_texts: int, wishes: Wishes, *, is_labelled: bool) -> Columns:
    """`is_labelled`: a table without a label is refused; else a column that looks like one is taken as one."""
    for name in (*wishes.texts, wishes.label, wishes.id):
        if name and name not in table.columns:
            raise UsageError(f"{table.path}: has no column {name!r}; {_suggest(name, table.columns)}")
    match kind:
        case "label":
            texts, label = _by_name(table, _WORDS), _by_name(table, _TAGS)
        case "qa":
            question, context = _by_name(table, ("question",)), _by_name(table, ("context", "passage", "paragraph"))
            texts, label = ((*question, *context) if question and context else ()), _by_name(table, _ANSWERS)
        case _:
            texts = _find_texts(table, num_texts)
            label = _by_name(table, _LABELS if kind == "classify" else _SCORES)
    texts = wishes.texts or texts
    label = (wishes.label,) if wishes.label else tuple(name for name in label if name not in texts)
    if kind in ("classify", "regress"):
        texts = texts or _longest_text(table, num_texts, label)
        if not label and is_labelled:
            label = _likeliest_label(table, kind, texts)
    if not texts:
        flags = "--data.text" if kind == "label" or num_texts == 1 else "--data.text-a and --data.text-b"
        raise UsageError(f"{table.path}: cannot tell which columns are the texts ({_known(table)}); give {flags}")
    if not label and is_labelled:
        raise UsageError(f"{table.path}: cannot tell which column is the label ({_known(table)}); give --data.label")
    row_id = (wishes.id,) if wishes.id else tuple(n for n in _by_name(table, _IDS) if n not in (*texts, *label))
    return Columns(texts, label[0] if label else "", row_id[0] if row_id else "")


def find_again(table: Table, columns: Columns) -> Columns:
    """The columns of the training table in another file; that one may lack labels, and its rows their names."""
    for name in columns.texts:
        if name not in table.columns:
            raise InputError(
                f"{table.path}: has no column {name!r}, which the training file has; {_suggest(name, table.columns)}"
            )
    label = columns.label if columns.label in table.columns else ""
    taken = (*columns.texts, label)
    row_id = [columns.id] if columns.id in table.columns else [n for n in _by_name(table, _IDS) if n not in taken]
    return Columns(columns.texts, label, row_id[0] if row_id else "")


def describe_columns(columns: Columns, kind: Kind) -> dict[str, str]:
    """{"text": "review", "label": "stars"}: what a person is shown."""
    names = {
        "classify": ("text",) if len(columns.texts) == 1 else ("text_a", "text_b"),
        "regress": ("text",) if len(columns.texts) == 1 else ("text_a", "text_b"),
        "label": ("words",),
        "qa": ("question", "context"),
    }[kind]
    parts = dict(zip(names, columns.texts, strict=True))
    parts |= {"label": columns.label} if columns.label else {}
    return parts | ({"id": columns.id} if columns.id else {})


def _suggest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    listed = ", ".join(map(repr, known[:20]))
    return f"did you mean {close[0]!r}? (it has {listed})" if close else f"it has {listed}"


def _known(table: Table) -> str:
    return "it has " + (", ".join(map(repr, table.columns[:20])) or "none")


def _by_name(table: Table, candidates: Sequence[str]) -> tuple[str, ...]:
    """The column of the first candidate's name, whatever its case; none or one."""
    lowered = {name.lower(): name for name in table.columns}
    return next(((lowered[name],) for name in candidates if name in lowered), ())


def _find_texts(table: Table, num_texts: int) -> tuple[str, ...]:
    lowered = {name.lower(): name for name in table.columns}
    pair = next(((lowered[a], lowered[b]) for a, b in _PAIRS if a in lowered and b in lowered), ())
    if num_texts == 2 or (num_texts == 0 and pair and "text" not in lowered):
        return pair
    return _by_name(table, _TEXTS)


def _sample(table: Table, column: str) -> list[Any]:
    return [row.fields.get(column) for row in table.rows[:_SAMPLE] if isinstance(row, Row)]


def _longest_text(table: Table, num_texts: int, label: tuple[str, ...]) -> tuple[str, ...]:
    """For a pair the two longest, in the order of the table."""

    def mean_length(column: str) -> float:
        values = _sample(table, column)
        lengths = [len(value) for value in values if isinstance(value, str) and not is_number(value)]
        return sum(lengths) / max(1, len(values))

    rest = [column for column in table.columns if column not in label]
    longest = sorted(rest, key=mean_length, reverse=True)[: max(1, num_texts)]
    if len(longest) < max(1, num_texts) or any(mean_length(column) == 0 for column in longest):
        return ()
    return tuple(sorted(longest, key=table.columns.index))


def _likeliest_label(table: Table, kind: Kind, texts: tuple[str, ...]) -> tuple[str, ...]:
    """The column with few different values; for a score, the only one that holds numbers."""
    rest = [column for column in table.columns if column not in texts and column.lower() not in _IDS]
    if kind == "regress":
        numeric = [column for column in rest if all(map(is_number, _sample(table, column)))]
        return tuple(numeric) if len(numeric) == 1 else ()
    counts = {column: len(set(map(str, _sample(table, column)))) for column in rest}
    few = {column: count for column, count in counts.items() if 1 < count <= max(2, len(table.rows) // 2)}
    return (min(few, key=few.__getitem__),) if few else ()


def is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
