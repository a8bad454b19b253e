"""Which column of a table is the text, which the label: as given, as the task fixes it, by name, or by content.

Table -> Columns
"""

import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from electralab.errors import InputError, UsageError
from electralab.finetuning.rows import Row, Table
from electralab.finetuning.tasks import Kind

SYMBOLS = "symbols"
"""The column of lists that have no name, as prepare --symbols calls it."""

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
_SYMBOLS = (SYMBOLS, "events", "sequence", "tokens")
_WORDS = ("words", "tokens", "text")
_TAGS = ("tags", "labels", "ner_tags", "chunk_tags", "pos_tags", "ner", "label")
_ANSWERS = ("answers", "answer", "label")
_CONTEXTS = ("context", "passage", "paragraph", "document", "text")

_LABELS_OF: dict[Kind, tuple[str, ...]] = {"classify": _LABELS, "regress": _SCORES, "label": _TAGS, "qa": _ANSWERS}

_SAMPLE = 10_000
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Columns:
    """What to read from where; as a wish, what is empty is to be found."""

    texts: tuple[str, ...] = ()
    """For labels the words; for answers the question and the context."""
    label: str = ""
    """Empty where there is none, as in a test set."""
    id: str = ""
    """Empty: the number of the row."""

    def __iter__(self) -> Iterator[str]:
        return iter(name for name in (*self.texts, self.label, self.id) if name)


def choose_columns(
    table: Table, kind: Kind, num_texts: int, wish: Columns, *, needs_label: bool, of_symbols: bool = False
) -> Columns:
    """A table without a label is refused where one is needed; else only a column named like one is taken as one.

    `of_symbols`: texts are sequences of symbols, so columns of lists come before all others.
    """
    _check_wish(table, kind, num_texts, wish, needs_label=needs_label)
    named = _name_texts(table, kind, num_texts, wish.label)
    is_pooled = kind in ("classify", "regress")
    texts = wish.texts or (_find_lists(table, max(1, num_texts), named, wish.label) if of_symbols and is_pooled else ())
    texts = texts or named
    if is_pooled and not of_symbols:
        _refuse_lists(table, texts, wish.label)
    label = wish.label or _find(table, _LABELS_OF[kind], texts)
    if is_pooled:
        texts = texts or _longest_texts(table, max(1, num_texts), label)
        if needs_label:
            label = label or _likeliest_label(table, kind, texts)
    if not texts:
        flags = "--data.text" if kind == "label" or num_texts == 1 else "--data.text-a and --data.text-b"
        raise UsageError(f"{table.path}: cannot tell which column holds the text; {_list(table)}; give {flags}")
    if needs_label and not label:
        raise UsageError(f"{table.path}: cannot tell which column holds the label; {_list(table)}; give --data.label")
    label = label if label in table.columns else ""
    return Columns(texts, label, wish.id or _find(table, _IDS, (*texts, label)))


def find_again(table: Table, columns: Columns) -> Columns:
    """The columns of the training table in another file; that one may lack labels, and its rows their names."""
    for name in columns.texts:
        if name not in table.columns:
            raise InputError(f"{table.path}: has no column {name!r}, which its task needs; {_suggest(name, table)}")
    label = columns.label if columns.label in table.columns else ""
    row_id = columns.id if columns.id in table.columns else _find(table, _IDS, (*columns.texts, label))
    return Columns(columns.texts, label, row_id)


def describe_columns(columns: Columns, kind: Kind) -> dict[str, str]:
    """{"text": "review", "label": "stars"}: what a person is shown."""
    single, pair = ("text",), ("text_a", "text_b")
    names = {"label": ("words",), "qa": ("question", "context")}.get(kind, single if len(columns.texts) == 1 else pair)
    parts = dict(zip((*names, "label", "id"), (*columns.texts, columns.label, columns.id), strict=True))
    return {part: name for part, name in parts.items() if name}


def _check_wish(table: Table, kind: Kind, num_texts: int, wish: Columns, *, needs_label: bool) -> None:
    for name in wish:
        if name not in table.columns and (needs_label or name != wish.label):
            raise UsageError(f"{table.path}: has no column {name!r}; {_suggest(name, table)}")
    needed = 2 if kind == "qa" else num_texts
    if wish.texts and needed and len(wish.texts) != needed:
        flags = "--data.text-a and --data.text-b" if needed == 2 else "--data.text alone"
        raise UsageError(f"--data: the task reads {needed} column{'s' * (needed > 1)} of text; give {flags}")


def _suggest(name: str, table: Table) -> str:
    close = difflib.get_close_matches(name, table.columns, n=1, cutoff=0.5)
    return (f"did you mean {close[0]!r}? " if close else "") + _list(table)


def _list(table: Table) -> str:
    return f"it has {', '.join(map(repr, table.columns[:_SHOWN])) or 'none'}"


def _find(table: Table, names: Sequence[str], taken: Sequence[str] = ()) -> str:
    """The first of the names that a column has, whatever its case; empty if none."""
    lowered = {column.lower(): column for column in table.columns if column not in taken}
    return next((lowered[name] for name in names if name in lowered), "")


def _name_texts(table: Table, kind: Kind, num_texts: int, label: str) -> tuple[str, ...]:
    def find(*names: str) -> str:
        return _find(table, names, (label,))

    if kind == "label":
        return tuple(filter(None, [find(*_WORDS)]))
    if kind == "qa":
        found = (find("question", "query"), find(*_CONTEXTS))
        return found if all(found) else ()
    pairs = ((find(first), find(second)) for first, second in _PAIRS)
    pair = next((pair for pair in pairs if all(pair)), ())
    if num_texts == 2 or (num_texts == 0 and pair and not find("text")):
        return pair
    return tuple(filter(None, [find(*_TEXTS)]))


def _holds_lists(table: Table, column: str) -> bool:
    values = [value for value in _sample(table, column) if value is not None]
    return bool(values) and 2 * sum(isinstance(value, list) for value in values) > len(values)


def _find_lists(table: Table, count: int, named: tuple[str, ...], label: str) -> tuple[str, ...]:
    """So many columns of lists: those named like texts or symbols or, where there are no more than needed, all."""
    lists = [column for column in table.columns if column != label and _holds_lists(table, column)]
    if named and all(column in lists for column in named):
        return named
    known = [column for column in lists if column.lower() in _SYMBOLS]
    chosen = next((found for found in (known, lists) if len(found) == count), [])
    if len(lists) > count and not chosen:
        flags = "--data.text" if count == 1 else "--data.text-a and --data.text-b"
        raise UsageError(
            f"{table.path}: several columns hold lists ({', '.join(map(repr, lists[:_SHOWN]))}); give {flags}"
        )
    return tuple(chosen)


def _refuse_lists(table: Table, texts: tuple[str, ...], label: str) -> None:
    """Where a text is needed, and there is a list in its place."""
    others = [name for name in table.columns if name != label and name.lower() not in (*_LABELS, *_IDS)]
    lists = [column for column in texts or others if _holds_lists(table, column)]
    has_text = any(isinstance(value, str) for column in others for value in _sample(table, column))
    if lists and (texts or not has_text):
        raise InputError(
            f"{table.path}: column {lists[0]!r} holds lists, which a model of text does not read; give a column of "
            "text, or a model of symbols (prepare --symbols)"
        )


def _sample(table: Table, column: str) -> list[Any]:
    return [row.fields.get(column) for row in table.rows[:_SAMPLE] if isinstance(row, Row)]


def _longest_texts(table: Table, count: int, label: str) -> tuple[str, ...]:
    """In the order of the table."""

    def mean_length(column: str) -> float:
        values = _sample(table, column)
        lengths = [len(value) for value in values if isinstance(value, str) and not is_number(value)]
        return sum(lengths) / max(1, len(values))

    lengths = {column: mean_length(column) for column in table.columns if column != label}
    longest = sorted(filter(lengths.get, lengths), key=lambda column: -lengths[column])[:count]
    return tuple(sorted(longest, key=table.columns.index)) if len(longest) == count else ()


def _likeliest_label(table: Table, kind: Kind, texts: tuple[str, ...]) -> str:
    """The column with the fewest different values; for a score, the only one of numbers."""
    rest = [column for column in table.columns if column not in texts and column.lower() not in _IDS]
    values = {column: set(map(str, _sample(table, column))) for column in rest}
    if kind == "regress":
        numeric = [column for column in rest if all(map(is_number, values[column]))]
        return numeric[0] if len(numeric) == 1 else ""
    few = [column for column in rest if 1 < len(values[column]) <= max(2, len(table.rows) // 2)]
    label = min(few, key=lambda column: len(values[column]), default="")
    if label in values.get(label, ()):
        raise UsageError(
            f"{table.path}: its first line seems to be a row, not names of columns ({label!r} is also a value below); "
            "add a line with names such as label and text"
        )
    return label


def is_number(value: Any) -> bool:
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
