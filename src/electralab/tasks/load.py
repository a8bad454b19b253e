"""A task and the place of its files -> labelled examples by split, and what was bad in them.

    Task, folder -> {"train": path, "dev": path, ...} -> TaskData; file -> Split

Which column of a table is the text, which the label: as given, as the task fixes it, by its name, or by its content.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from electralab.artifacts import sha256_file, sha256_json
from electralab.config import Settings
from electralab.corpus.sources import Encoding
from electralab.errors import InputError, UsageError, suggest
from electralab.tasks.catalog import plain_name
from electralab.tasks.kind import SYMBOLS, AnyKind, Example, Labels, Split, Task, is_number, rows_to_examples
from electralab.tasks.kinds import classification
from electralab.tasks.table import PACKED, BadRow, Columns, LabelledTable, Row, as_plain_text, read_lines, read_suffix
from electralab.tasks.texts import require_symbols
from electralab.tokens.tokenizer import Tokenizer

_IDS = ("id", "idx", "index", "guid", "uid", "qid")
_SYMBOL_COLUMNS = (SYMBOLS, "events", "sequence", "tokens")
_SHOWN_COLUMNS = 20
_SHOWN_BAD_ROWS = 3
_PLAIN = ("", ".txt", ".text")


class TaskDataConfig(Settings):
    text: str = ""
    """The column of the text, or of the words; empty, here and below: found by its name or content."""
    text_a: str = ""
    """The column of a pair's first text, or of the question."""
    text_b: str = ""
    """The column of a pair's second text, or of the context."""
    label: str = ""
    """The column of the class, score, tags or answers."""
    id: str = ""
    """The column that names a row; without one its number does."""
    encoding: Encoding = "utf-8"
    """Of text without a byte order mark."""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """How much of the training rows is held out where there is no dev file."""
    max_bad_share: float = Field(0.05, ge=0, le=1)
    """The share of unusable rows beyond which a file is refused."""

    @model_validator(mode="after")
    def _is_one_or_a_pair(self) -> Self:
        if bool(self.text_a) != bool(self.text_b):
            raise ValueError("text_a and text_b are the columns of a pair; give both, or text alone")
        if self.text and self.text_a:
            raise ValueError("text is one column, text_a and text_b are two; give the one or the others")
        return self

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text_a, self.text_b) if self.text_a else (self.text,) if self.text else ()

    @property
    def columns(self) -> Columns:
        return Columns(self.texts, self.label, self.id)


@dataclass(frozen=True, slots=True)
class TaskData:
    task: Task
    labels: tuple[str, ...]
    """In the order of the network's outputs; none for scores and questions."""
    train: Split[Example]
    devs: tuple[Split[Example], ...]
    tests: tuple[Split[Example], ...]
    identity: str
    """The same for the same rows, read in the same way."""
    notes: tuple[str, ...]
    """What a person should know of how they were read."""


def find_files(task: Task, place: Path, needed: str = "train") -> dict[str, Path]:
    """A file is that of the needed split. In a folder, or its subfolder for the task, the names decide."""
    if place.is_file():
        return {needed: place}
    if not place.is_dir():
        raise InputError(f"{place}: no such file or folder; give the data of {task.display} with --data")
    for folder in (place, *task_folders(task, place)):
        if _match_file(task, folder, needed, []):
            files: dict[str, Path] = {}
            for split in task.files:
                # A file is taken once: what *train*.txt matches must not be the test split too.
                if path := _match_file(task, folder, split, list(files.values())):
                    files[split] = path
            return files
    held = ", ".join(path.name for path in _list_folder(place)[:20]) or "nothing"
    below = f", also in a folder {' or '.join(task.folder)}" if task.folder else ""
    raise InputError(
        f"{place}: has no {needed} file of {task.display}; looked for {', '.join(task.files[needed])} (plain or "
        f"{', '.join(PACKED)}){below}; it holds {held}"
        + ("; unpack the archives first" if ".zip" in held or ".tar" in held else "")
    )


def has_files(task: Task, place: Path) -> bool:
    """Whether its training file lies in a folder of its own: a train.tsv elsewhere could be any task's."""
    return any(_match_file(task, folder, "train", []) for folder in task_folders(task, place))


def task_folders(task: Task, place: Path) -> list[Path]:
    """Those below a place that are named as the task's folder is in the official download."""
    wanted = {plain_name(name) for name in task.folder}
    return [path for path in _list_folder(place) if path.is_dir() and plain_name(path.name) in wanted]


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror}); change its permissions") from None


def _match_file(task: Task, folder: Path, split: str, taken: list[Path]) -> Path | None:
    names = {
        path: (path.stem if path.suffix.lower() in PACKED else path.name).lower()
        for path in _list_folder(folder)
        if path.is_file() and path not in taken and read_suffix(path) in task.kind.suffixes
    }
    for pattern in task.files[split]:
        matches = [path for path, name in names.items() if fnmatchcase(name, pattern.lower())]
        if len(matches) > 1:
            several = ", ".join(path.name for path in matches)
            raise InputError(f"{folder}: several files may be its {split} split ({several}); keep one of them")
        if matches:
            return matches[0]
    return None


def read_task(
    task: Task, data_dir: Path, config: TaskDataConfig, train_rows: int = 0, tokenizer: Tokenizer | None = None
) -> TaskData:
    """`train_rows`: at most so many examples to learn from, chosen by their content; 0 means all.

    `tokenizer`: of the model that they are for. One of symbols reads lists, and without one they are texts.
    """
    task = replace(task, of_symbols=tokenizer is not None and tokenizer.is_symbols)
    if not task.is_trained:
        raise UsageError(
            f"--task {task.name}: {task.display} has no training rows; tune mnli from its folder, which predicts it"
        )
    files = find_files(task, data_dir)
    table = _read_rows(task, files["train"], config)
    columns = choose_columns(table, task, config.columns, needs_label=True)
    train = _make_split(table, task, "train", columns, task.labels, config)
    if not train.is_labelled:
        raise InputError(f"{train.path}: has no labels to learn from; name their column with --data.label")
    found_labels = task.kind.find_labels(train)
    if task.kind.has_classes and len(found_labels) < 2:
        raise InputError(f"{train.path}: every row has the label {found_labels[0]!r}; there is nothing to tell apart")
    labels = task.labels or found_labels
    # The labels come from the training file alone: one that stands only in dev could never be learned.
    splits = {"train": train} | {
        name: read_split(task, path, name, labels, config, columns) for name, path in files.items() if name != "train"
    }
    require_symbols(splits.values(), tokenizer)
    devs = tuple(split for name, split in splits.items() if name.startswith("dev"))
    if unlabelled := next((dev for dev in devs if not dev.is_labelled), None):
        raise InputError(f"{unlabelled.path}: has no labels to score by; add its column {columns.label!r}")
    notes = [f"{name}: {note}" for name, split in splits.items() for note in split.notes]
    if "dev" not in splits:
        # The examples of the smallest hashes: the same ones wherever they stand.
        examples, hashes = train.examples, hash_examples(task.kind, train.examples)
        count = min(max(1, round(config.dev_share * len(hashes))), len(hashes) - 1)
        # A bound and not a number of rows: equal contents have equal hashes, and stay together.
        threshold = sorted(hashes)[count - 1] if count else b""
        held = [example for example, digest in zip(examples, hashes, strict=True) if digest <= threshold]
        kept = [example for example, digest in zip(examples, hashes, strict=True) if digest > threshold]
        if not held or not kept:
            raise InputError(f"{train.path}: too few different rows to hold some out; add rows, or a dev file")
        dev = replace(train, name="dev", examples=held, rows=len(held), bad_rows=(), notes=(), row_numbers=())
        train = replace(train, examples=kept, rows=len(kept) + len(train.bad_rows), row_numbers=())
        devs = (dev, *devs)
        notes.append(
            f"no dev file: {len(held)} of the {len(examples)} training examples are held out, chosen by their content"
        )
    if 0 < train_rows < len(train.examples):
        notes.append(f"{train_rows} of the {len(train.examples)} training examples are learned from (train_rows)")
        hashes = hash_examples(task.kind, train.examples)
        # Those of the smallest hashes, in their order: what more of them are learned from has these among them.
        taken = sorted(sorted(range(len(hashes)), key=lambda index: (hashes[index], index))[:train_rows])
        train = replace(train, examples=[train.examples[index] for index in taken], row_numbers=())
    # What changes the examples, and nothing else: a higher max_bad_share leaves them as they are.
    identity = {
        "task": task.name,
        "files": {name: sha256_file(path) for name, path in files.items()},
        "columns": [*columns.texts, columns.label],
        "labels": list(labels),
        "encoding": config.encoding,
        "dev_share": 0 if "dev" in files else config.dev_share,
    }
    tests = tuple(split for name, split in splits.items() if name.startswith("test"))
    return TaskData(task, labels, train, devs, tests, sha256_json(identity), tuple(notes))


def read_tests(task: Task, data_dir: Path, labels: Labels, config: TaskDataConfig) -> tuple[Split[Example], ...]:
    """The test splits alone: all there is of AX."""
    files = {name: path for name, path in find_files(task, data_dir, needed="test").items() if name.startswith("test")}
    return tuple(read_split(task, path, name, labels, config) for name, path in files.items())


def read_split(
    task: Task, path: Path, name: str, labels: Labels, config: TaskDataConfig, columns: Columns | None = None
) -> Split[Example]:
    """One file, labelled or not. `labels` may occur, none: any; `columns` are those of the training file."""
    table = _read_rows(task, path, config)
    if columns is None:
        columns = choose_columns(table, task, config.columns, needs_label=False)
    else:
        columns = match_columns(table, columns)
    return _make_split(table, task, name, columns, labels, config)


def read_inputs(
    kind: AnyKind, num_texts: int, path: Path, config: TaskDataConfig, tokenizer: Tokenizer | None = None
) -> Split[Example]:
    """What to predict for: any table, or plain text with one text, or sentence, per line. Labels are not needed:
    where one of them cannot be used the file counts as unlabelled, and the row keeps its place."""
    of_symbols = tokenizer is not None and tokenizer.is_symbols
    task = replace(kind.own_tasks()[0], num_texts=num_texts, of_symbols=of_symbols)
    # A .txt may also be a table, or hold CoNLL's columns.
    is_plain = num_texts != 2 and not config.texts and read_suffix(path) in _PLAIN
    lines = read_lines(path, config.encoding) if is_plain else []
    if is_plain and kind.is_plain_text(lines):
        split = _make_split(as_plain_text(path, lines), task, "input", Columns(("text",)), (), config)
    else:
        table = _read_rows(task, path, config)
        columns = choose_columns(table, task, config.columns, needs_label=False)
        answers = {columns.label, *kind.answer_columns} - set(columns.texts)
        rows = [
            replace(row, fields={name: value for name, value in row.fields.items() if name not in answers})
            if isinstance(row, Row)
            else row
            for row in table.rows
        ]
        # First without labels, so that a bad label costs no prediction; then with them, where all can be used.
        split = _make_split(replace(table, rows=rows), task, "input", replace(columns, label=""), (), config)
        if columns.label:
            labelled = rows_to_examples(table, task, "input", columns, ())
            split = labelled if len(labelled.bad_rows) == len(split.bad_rows) else split
    require_symbols([split], tokenizer)
    return split


def _read_rows(task: Task, path: Path, config: TaskDataConfig) -> LabelledTable:
    table = task.kind.read_table(path, config.encoding, task)
    if not table.good_rows:
        raise InputError(_no_rows(path, [row for row in table.rows if isinstance(row, BadRow)]))
    return table


def _make_split(
    table: LabelledTable, task: Task, name: str, columns: Columns, labels: Labels, config: TaskDataConfig
) -> Split[Example]:
    split = rows_to_examples(table, task, name, columns, labels)
    if len(split.bad_rows) > config.max_bad_share * split.rows:
        raise InputError(
            f"{split.path}: {len(split.bad_rows):,} of {split.rows:,} rows cannot be used "
            f"({_name_first(split.bad_rows)}); correct them, "
            f"or raise --data.max-bad-share (now {config.max_bad_share:g})"
        )
    if not split.examples:
        raise InputError(_no_rows(table.path, split.bad_rows))
    return split


def _no_rows(path: Path, bad_rows: Sequence[BadRow]) -> str:
    why = f" ({_name_first(bad_rows)})" if bad_rows else ""
    return f"{path}: holds no row that can be used{why}; add rows"


def _name_first(bad_rows: Sequence[BadRow]) -> str:
    first = "; ".join(f"row {bad.row} {bad.reason}" for bad in bad_rows[:_SHOWN_BAD_ROWS])
    more = len(bad_rows) - _SHOWN_BAD_ROWS
    return first + (f"; and {more:,} more" if more > 0 else "")


def hash_examples(kind: AnyKind, examples: Sequence[Example]) -> list[bytes]:
    """By content: the same wherever an example stands, and equal contents together."""
    return [hashlib.blake2b(kind.content(example).encode(), digest_size=8).digest() for example in examples]


def choose_columns(table: LabelledTable, task: Task, requested: Columns, *, needs_label: bool) -> Columns:
    """What is requested comes first, then what the task fixes, then what is found.

    A table without a label is refused where one is needed; else only a column named like one is taken as one.
    """
    kind, num_texts = task.kind, task.num_texts
    if task.texts and not requested.texts:
        fixed = match_columns(table, Columns(task.texts, task.label))
        requested = Columns(fixed.texts, requested.label or fixed.label, requested.id)
    for name in filter(None, (*requested.texts, requested.label, requested.id)):
        if name not in table.columns and (needs_label or name != requested.label):
            raise UsageError(f"{table.path}: has no column {name!r}; {_list_columns(table, name)}")
    if requested.label and requested.label in requested.texts:
        raise UsageError(
            f"{table.path}: column {requested.label!r} is given as text and as label, and would tell its own label; "
            "name another for one of them"
        )
    needed = max(num_texts, len(kind.text_parts))
    if requested.texts and needed and len(requested.texts) != needed:
        flags = "--data.text-a and --data.text-b" if needed == 2 else "--data.text alone"
        raise UsageError(f"--data: the task reads {needed} column{'s' * (needed > 1)} of text; give {flags}")
    texts, named = requested.texts, kind.name_texts(table, num_texts, requested.label)
    if kind.is_pooled and task.of_symbols and not texts:
        # Columns of lists: those named like texts or symbols or, where there are no more than needed, all.
        count = max(1, num_texts)
        lists = [column for column in table.columns if column != requested.label and _holds_lists(table, column)]
        known = [column for column in lists if column.lower() in _SYMBOL_COLUMNS]
        texts = tuple(next((columns for columns in (known, lists) if len(columns) == count), []))
        if named and all(column in lists for column in named):
            texts = named
        elif len(lists) > count and not texts:
            flags = "--data.text" if count == 1 else "--data.text-a and --data.text-b"
            several = ", ".join(map(repr, lists[:_SHOWN_COLUMNS]))
            raise UsageError(f"{table.path}: several columns hold lists ({several}); give {flags}")
    texts = texts or named
    if kind.is_pooled and not task.of_symbols:
        # Where a text is needed, and there is a list in its place.
        taken = (*classification.KIND.label_columns, *_IDS)
        others = [name for name in table.columns if name != requested.label and name.lower() not in taken]
        lists = [column for column in texts or others if _holds_lists(table, column)]
        has_text = any(isinstance(value, str) for column in others for value in table.sample(column))
        if lists and (texts or not has_text):
            raise InputError(
                f"{table.path}: column {lists[0]!r} holds lists, which a model of text does not read; give a column of "
                "text, or a model of symbols (prepare --symbols)"
            )
    label = requested.label or table.find_column(kind.label_columns, texts)
    if kind.is_pooled:
        texts = texts or _longest_texts(table, max(1, num_texts), label)
        if needs_label:
            label = label or _likeliest_label(table, kind, texts)
    if not texts:
        is_single = len(kind.text_parts) == 1 or num_texts == 1
        flags = "--data.text" if is_single else "--data.text-a and --data.text-b"
        raise UsageError(f"{table.path}: cannot tell which column holds the text; {_list_columns(table)}; give {flags}")
    if needs_label and not label:
        held = _list_columns(table)
        raise UsageError(f"{table.path}: cannot tell which column holds the label; {held}; give --data.label")
    label = label if label in table.columns else ""
    return Columns(texts, label, requested.id or table.find_column(_IDS, (*texts, label)))


def match_columns(table: LabelledTable, columns: Columns) -> Columns:
    """The columns of the training table in another file; that one may lack labels, and its rows their names."""
    for name in columns.texts:
        if name not in table.columns:
            held = _list_columns(table, name)
            raise InputError(f"{table.path}: has no column {name!r}, which its task needs; {held}")
    label = columns.label if columns.label in table.columns else ""
    row_id = columns.id if columns.id in table.columns else table.find_column(_IDS, (*columns.texts, label))
    return Columns(columns.texts, label, row_id)


def _list_columns(table: LabelledTable, wanted: str = "") -> str:
    hint = suggest(wanted, table.columns, "") if wanted else ""
    held = ", ".join(map(repr, table.columns[:_SHOWN_COLUMNS])) or "none"
    return f"{hint} it has {held}".lstrip()


def _holds_lists(table: LabelledTable, column: str) -> bool:
    values = [value for value in table.sample(column) if value is not None]
    return bool(values) and 2 * sum(isinstance(value, list) for value in values) > len(values)


def _longest_texts(table: LabelledTable, count: int, label: str) -> tuple[str, ...]:
    """In the order of the table."""
    lengths = {}  # on average, numbers apart
    for column in table.columns:
        values = table.sample(column)
        texts = [value for value in values if isinstance(value, str) and not is_number(value)]
        if texts and column != label:
            lengths[column] = sum(map(len, texts)) / len(values)
    longest = sorted(filter(lengths.get, lengths), key=lambda column: -lengths[column])[:count]
    return tuple(sorted(longest, key=table.columns.index)) if len(longest) == count else ()


def _likeliest_label(table: LabelledTable, kind: AnyKind, texts: tuple[str, ...]) -> str:
    """The column with the fewest different values; for a score, the only one of numbers."""
    rest = [column for column in table.columns if column not in texts and column.lower() not in _IDS]
    values = {column: set(map(str, table.sample(column))) for column in rest}
    if kind.has_numbers:
        numeric = [column for column in rest if all(map(is_number, values[column]))]
        return numeric[0] if len(numeric) == 1 else ""
    # A constant column tells nothing apart, and one in which most values differ is no label.
    few = [column for column in rest if 1 < len(values[column]) <= max(2, len(table.rows) // 2)]
    label = min(few, key=lambda column: len(values[column]), default="")
    if label in values.get(label, ()):
        raise UsageError(
            f"{table.path}: its first line seems to be a row, not names of columns ({label!r} is also a value below); "
            "add a line with names such as label and text"
        )
    return label
