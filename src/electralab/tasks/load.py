"""A task and the place of its files -> labelled examples by split, and what was bad in them.

Task, folder -> {"train": path, "dev": path, ...} -> TaskData
file -> Split
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn, Self

from pydantic import Field, model_validator

from electralab.artifacts import sha256_file, sha256_json
from electralab.config import Settings
from electralab.corpus.sources import Encoding
from electralab.errors import InputError, UsageError
from electralab.tasks.catalog import plain_name
from electralab.tasks.columns import choose_columns, match_columns
from electralab.tasks.kind import AnyKind, Split, Task, rows_to_examples
from electralab.tasks.table import (
    PACKED,
    UNDECODABLE,
    BadRow,
    Columns,
    Row,
    Table,
    is_damaged,
    read_lines,
    read_suffix,
)
from electralab.tasks.texts import require_symbols
from electralab.tokens.tokenizer import Tokenizer

_SHOWN = 3
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


@dataclass(frozen=True, slots=True)
class TaskData:
    task: Task
    labels: tuple[str, ...]
    """In the order of the network's outputs; none for scores and questions."""
    train: Split
    devs: tuple[Split, ...]
    tests: tuple[Split, ...]
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
    for folder in (place, *_find_inner(task, place)):
        if _match(task, folder, needed, []):
            files: dict[str, Path] = {}
            for split in task.files:
                if path := _match(task, folder, split, list(files.values())):
                    files[split] = path
            return files
    held = ", ".join(path.name for path in _list(place)[:20]) or "nothing"
    below = f", also in a folder {' or '.join(task.folder)}" if task.folder else ""
    raise InputError(
        f"{place}: has no {needed} file of {task.display}; looked for {', '.join(task.files[needed])} (plain or "
        f"{', '.join(PACKED)}){below}; it holds {held}"
        + ("; unpack the archives first" if ".zip" in held or ".tar" in held else "")
    )


def has_files(task: Task, place: Path) -> bool:
    """Whether its training file lies in a folder of its own: a train.tsv elsewhere could be any task's."""
    return any(_match(task, folder, "train", []) for folder in _find_inner(task, place))


def _search(task: Task, place: Path, needed: str) -> dict[str, Path]:
    for folder in (place, *_find_inner(task, place)):
        if _match(task, folder, needed, []):
            files: dict[str, Path] = {}
            for split in task.files:
                if path := _match(task, folder, split, list(files.values())):
                    files[split] = path
            return files
    return {}


def has_folder(task: Task, place: Path) -> bool:
    """Whether the official download lies there: a train.tsv in the folder itself could be any task's."""
    return bool(_find_inner(task, place))


def _find_inner(task: Task, place: Path) -> list[Path]:
    wanted = {plain_name(name) for name in task.folder}
    return [path for path in _list(place) if path.is_dir() and plain_name(path.name) in wanted]


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror}); change its permissions") from None


def _match(task: Task, folder: Path, split: str, taken: list[Path]) -> Path | None:
    known = task.kind.suffixes
    files = [path for path in _list(folder) if path.is_file() and path not in taken and read_suffix(path) in known]
    for pattern in task.files[split]:
        matches = [
            path
            for path in files
            if fnmatchcase((path.stem if path.suffix.lower() in PACKED else path.name).lower(), pattern.lower())
        ]
        if len(matches) > 1:
            names = ", ".join(path.name for path in matches)
            raise InputError(f"{folder}: several files may be its {split} split ({names}); keep one of them")
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
    columns = _choose(table, task, config, needs_label=True)
    whole = _make_split(table, task, "train", columns, task.labels, config)
    if not whole.is_labelled:
        raise InputError(f"{whole.path}: has no labels to learn from; name their column with --data.label")
    found_labels = task.kind.find_labels(whole)
    if task.kind.has_classes and len(found_labels) < 2:
        raise InputError(f"{whole.path}: every row has the label {found_labels[0]!r}; there is nothing to tell apart")
    labels = task.labels or found_labels
    rest = {
        name: read_split(task, path, name, labels, config, columns) for name, path in files.items() if name != "train"
    }
    if tokenizer is not None:
        require_symbols((whole, *rest.values()), tokenizer)
    devs = tuple(split for name, split in rest.items() if name.startswith("dev"))
    if unlabelled := next((dev for dev in devs if not dev.is_labelled), None):
        raise InputError(f"{unlabelled.path}: has no labels to score by; add its column {columns.label!r}")
    train = whole
    notes = [f"{name}: {note}" for name, split in {"train": whole, **rest}.items() for note in split.notes]
    if "dev" not in rest:
        train, dev = _hold_out(task.kind, whole, config.dev_share)
        devs = (dev, *devs)
        notes.append(
            f"no dev file: {len(dev.examples)} of the {len(whole.examples)} training examples are held out, "
            "chosen by their content"
        )
    if 0 < train_rows < len(train.examples):
        notes.append(f"{train_rows} of the {len(train.examples)} training examples are learned from (train_rows)")
        hashes = _hash_examples(task.kind, train)
        # Those of the smallest hashes, in their order: what more of them are learned from has these among them.
        taken = sorted(sorted(range(len(hashes)), key=lambda index: (hashes[index], index))[:train_rows])
        train = replace(train, examples=[train.examples[index] for index in taken], row_numbers=())
    return TaskData(
        task=task,
        labels=labels,
        train=train,
        devs=devs,
        tests=tuple(split for name, split in rest.items() if name.startswith("test")),
        identity=sha256_json(
            {
                "task": task.name,
                "files": {name: sha256_file(path) for name, path in files.items()},
                "columns": [*columns.texts, columns.label],
                "labels": list(labels),
                "encoding": config.encoding,
                "dev_share": 0 if "dev" in files else config.dev_share,
            }
        ),
        notes=tuple(notes),
    )


def read_tests(task: Task, data_dir: Path, labels: tuple[str, ...], config: TaskDataConfig) -> tuple[Split, ...]:
    """The test splits alone: all there is of AX."""
    files = find_files(task, data_dir, needed="test")
    return tuple(
        read_split(task, path, name, labels, config) for name, path in files.items() if name.startswith("test")
    )


def read_split(
    task: Task,
    path: Path,
    name: str,
    labels: tuple[str, ...],
    config: TaskDataConfig,
    columns: Columns | None = None,
) -> Split:
    """One file, labelled or not. `labels` may occur, none: any; `columns` are those of the training file."""
    table = _read_rows(task, path, config)
    columns = match_columns(table, columns) if columns else _choose(table, task, config, needs_label=False)
    return _make_split(table, task, name, columns, labels, config)


def read_inputs(
    kind: AnyKind, num_texts: int, path: Path, config: TaskDataConfig, tokenizer: Tokenizer | None = None
) -> Split:
    """What to predict for: any table, or plain text with one text, or sentence, per line. Labels are not needed:
    where one of them cannot be used the file counts as unlabelled, and the row keeps its place."""
    of_symbols = tokenizer is not None and tokenizer.is_symbols
    task = replace(kind.own_tasks()[0], num_texts=num_texts, of_symbols=of_symbols)
    if plain_text := _read_plain_text(kind, num_texts, path, config):
        split = _make_split(plain_text, task, "input", Columns(("text",)), (), config)
    else:
        table = _read_rows(task, path, config)
        columns = _choose(table, task, config, needs_label=False)
        unlabelled = _without_answers(kind, table, columns)
        split = _make_split(unlabelled, task, "input", replace(columns, label=""), (), config)
        if columns.label:
            labelled = rows_to_examples(table, task, "input", columns, ())
            split = labelled if len(labelled.bad_rows) == len(split.bad_rows) else split
    if tokenizer is not None:
        require_symbols([split], tokenizer)
    return split


def _read_plain_text(kind: AnyKind, num_texts: int, path: Path, config: TaskDataConfig) -> Table | None:
    """None where a file is a table, or CoNLL's columns, as a .txt may be too."""
    if num_texts == 2 or config.texts or read_suffix(path) not in _PLAIN:
        return None
    lines = read_lines(path, config.encoding)
    if not kind.is_plain_text(lines):
        return None
    rows = [
        BadRow(number, UNDECODABLE) if is_damaged(line) else Row(number, {"text": line})
        for number, line in enumerate(lines, start=1)
    ]
    return Table(path, ("text",), rows)


def _without_answers(kind: AnyKind, table: Table, columns: Columns) -> Table:
    hidden = {columns.label, *kind.answer_columns} - set(columns.texts)
    rows = [
        row if isinstance(row, BadRow) else Row(row.number, {k: v for k, v in row.fields.items() if k not in hidden})
        for row in table.rows
    ]
    return Table(table.path, table.columns, rows)


def _read_rows(task: Task, path: Path, config: TaskDataConfig) -> Table:
    table = task.kind.read_table(path, config.encoding, task)
    if not table.good_rows:
        _refuse(path, table.rows)
    return table


def _choose(table: Table, task: Task, config: TaskDataConfig, *, needs_label: bool) -> Columns:
    """What the settings name comes first, then what the task fixes, then what is found."""
    requested = Columns(config.texts, config.label, config.id)
    if task.texts and not config.texts:
        fixed = match_columns(table, Columns(task.texts, task.label))
        requested = Columns(fixed.texts, requested.label or fixed.label, requested.id)
    return choose_columns(
        table, task.kind, task.num_texts, requested, needs_label=needs_label, of_symbols=task.of_symbols
    )


def _make_split(
    table: Table, task: Task, name: str, columns: Columns, labels: tuple[str, ...], config: TaskDataConfig
) -> Split:
    split = rows_to_examples(table, task, name, columns, labels)
    if len(split.bad_rows) > config.max_bad_share * split.rows:
        raise InputError(
            f"{split.path}: {len(split.bad_rows):,} of {split.rows:,} rows cannot be used "
            f"({_name_first(split.bad_rows)}); mend them, or raise --data.max-bad-share (now {config.max_bad_share:g})"
        )
    if not split.examples:
        _refuse(table.path, split.bad_rows)
    return split


def _refuse(path: Path, rows: Sequence[Row | BadRow]) -> NoReturn:
    bad = [row for row in rows if isinstance(row, BadRow)]
    raise InputError(f"{path}: holds no row that can be used{f' ({_name_first(bad)})' if bad else ''}; add rows")


def _name_first(bad_rows: Sequence[BadRow]) -> str:
    first = "; ".join(f"row {bad.row} {bad.reason}" for bad in bad_rows[:_SHOWN])
    return first + (f"; and {len(bad_rows) - _SHOWN:,} more" if len(bad_rows) > _SHOWN else "")


def _hold_out(kind: AnyKind, split: Split, fraction: float) -> tuple[Split, Split]:
    """The examples of the smallest hashes: the same ones wherever they stand, and equal contents together."""
    hashes = _hash_examples(kind, split)
    count = min(max(1, round(fraction * len(hashes))), len(hashes) - 1)
    threshold = sorted(hashes)[count - 1] if count else b""
    held = [example for example, digest in zip(split.examples, hashes, strict=True) if digest <= threshold]
    kept = [example for example, digest in zip(split.examples, hashes, strict=True) if digest > threshold]
    if not held or not kept:
        raise InputError(f"{split.path}: too few different rows to hold some out; add rows, or a dev file")
    train = replace(split, examples=kept, rows=len(kept) + len(split.bad_rows), row_numbers=())
    return train, replace(split, name="dev", examples=held, rows=len(held), bad_rows=(), notes=(), row_numbers=())


def _hash_examples(kind: AnyKind, split: Split) -> list[bytes]:
    """By content: the same wherever an example stands, and equal contents together."""
    return [hashlib.blake2b(kind.content(example).encode(), digest_size=8).digest() for example in split.examples]
