"""Which column of a table is the text, which the label: as given, as the task fixes it, by name, or by content.

Table -> Columns
"""

from electralab.errors import InputError, UsageError, suggest
from electralab.tasks.kind import SYMBOLS, AnyKind, is_number
from electralab.tasks.kinds import classification
from electralab.tasks.table import Columns, Table

_IDS = ("id", "idx", "index", "guid", "uid", "qid")
_SYMBOL_COLUMNS = (SYMBOLS, "events", "sequence", "tokens")
_SHOWN = 20


def choose_columns(
    table: Table, kind: AnyKind, num_texts: int, requested: Columns, *, needs_label: bool, of_symbols: bool = False
) -> Columns:
    """A table without a label is refused where one is needed; else only a column named like one is taken as one.

    `of_symbols`: texts are sequences of symbols, so columns of lists come before all others.
    """
    _check_requested(table, kind, num_texts, requested, needs_label=needs_label)
    named = kind.name_texts(table, num_texts, requested.label)
    texts = requested.texts
    if kind.is_pooled and of_symbols and not texts:
        texts = _find_lists(table, max(1, num_texts), named, requested.label)
    texts = texts or named
    if kind.is_pooled and not of_symbols:
        _refuse_lists(table, texts, requested.label)
    label = requested.label or table.find_column(kind.label_columns, texts)
    if kind.is_pooled:
        texts = texts or _longest_texts(table, max(1, num_texts), label)
        if needs_label:
            label = label or _likeliest_label(table, kind, texts)
    if not texts:
        is_single = len(kind.text_parts) == 1 or num_texts == 1
        flags = "--data.text" if is_single else "--data.text-a and --data.text-b"
        raise UsageError(f"{table.path}: cannot tell which column holds the text; {_list(table)}; give {flags}")
    if needs_label and not label:
        raise UsageError(f"{table.path}: cannot tell which column holds the label; {_list(table)}; give --data.label")
    label = label if label in table.columns else ""
    return Columns(texts, label, requested.id or table.find_column(_IDS, (*texts, label)))


def match_columns(table: Table, columns: Columns) -> Columns:
    """The columns of the training table in another file; that one may lack labels, and its rows their names."""
    for name in columns.texts:
        if name not in table.columns:
            raise InputError(f"{table.path}: has no column {name!r}, which its task needs; {_suggest(name, table)}")
    label = columns.label if columns.label in table.columns else ""
    row_id = columns.id if columns.id in table.columns else table.find_column(_IDS, (*columns.texts, label))
    return Columns(columns.texts, label, row_id)


def _check_requested(table: Table, kind: AnyKind, num_texts: int, requested: Columns, *, needs_label: bool) -> None:
    for name in requested:
        if name not in table.columns and (needs_label or name != requested.label):
            raise UsageError(f"{table.path}: has no column {name!r}; {_suggest(name, table)}")
    needed = max(num_texts, len(kind.text_parts))
    if requested.texts and needed and len(requested.texts) != needed:
        flags = "--data.text-a and --data.text-b" if needed == 2 else "--data.text alone"
        raise UsageError(f"--data: the task reads {needed} column{'s' * (needed > 1)} of text; give {flags}")


def _suggest(name: str, table: Table) -> str:
    hint = suggest(name, table.columns, "")
    return f"{hint} {_list(table)}" if hint else _list(table)


def _list(table: Table) -> str:
    return f"it has {', '.join(map(repr, table.columns[:_SHOWN])) or 'none'}"


def _holds_lists(table: Table, column: str) -> bool:
    values = [value for value in table.sample(column) if value is not None]
    return bool(values) and 2 * sum(isinstance(value, list) for value in values) > len(values)


def _find_lists(table: Table, count: int, named: tuple[str, ...], label: str) -> tuple[str, ...]:
    """So many columns of lists: those named like texts or symbols or, where there are no more than needed, all."""
    lists = [column for column in table.columns if column != label and _holds_lists(table, column)]
    if named and all(column in lists for column in named):
        return named
    known = [column for column in lists if column.lower() in _SYMBOL_COLUMNS]
    chosen = next((columns for columns in (known, lists) if len(columns) == count), [])
    if len(lists) > count and not chosen:
        flags = "--data.text" if count == 1 else "--data.text-a and --data.text-b"
        raise UsageError(
            f"{table.path}: several columns hold lists ({', '.join(map(repr, lists[:_SHOWN]))}); give {flags}"
        )
    return tuple(chosen)


def _refuse_lists(table: Table, texts: tuple[str, ...], label: str) -> None:
    """Where a text is needed, and there is a list in its place."""
    known = (*classification.KIND.label_columns, *_IDS)
    others = [name for name in table.columns if name != label and name.lower() not in known]
    lists = [column for column in texts or others if _holds_lists(table, column)]
    has_text = any(isinstance(value, str) for column in others for value in table.sample(column))
    if lists and (texts or not has_text):
        raise InputError(
            f"{table.path}: column {lists[0]!r} holds lists, which a model of text does not read; give a column of "
            "text, or a model of symbols (prepare --symbols)"
        )


def _longest_texts(table: Table, count: int, label: str) -> tuple[str, ...]:
    """In the order of the table."""

    def mean_length(column: str) -> float:
        values = table.sample(column)
        lengths = [len(value) for value in values if isinstance(value, str) and not is_number(value)]
        return sum(lengths) / max(1, len(values))

    lengths = {column: mean_length(column) for column in table.columns if column != label}
    longest = sorted(filter(lengths.get, lengths), key=lambda column: -lengths[column])[:count]
    return tuple(sorted(longest, key=table.columns.index)) if len(longest) == count else ()


def _likeliest_label(table: Table, kind: AnyKind, texts: tuple[str, ...]) -> str:
    """The column with the fewest different values; for a score, the only one of numbers."""
    rest = [column for column in table.columns if column not in texts and column.lower() not in _IDS]
    values = {column: set(map(str, table.sample(column))) for column in rest}
    if kind.has_numbers:
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
