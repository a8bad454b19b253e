"""A task and the place of its files -> labelled examples by split, and what was bad in them.

Task, folder -> TaskData
file -> Split
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field, field_validator

from electralab.artifacts import sha256_file, sha256_json
from electralab.config import Settings
from electralab.errors import InputError, UsageError
from electralab.finetuning.columns import Columns, Wishes, choose_columns, describe_columns, find_again
from electralab.finetuning.conll import complete_tags, read_conll
from electralab.finetuning.converters import convert
from electralab.finetuning.examples import Example, Question, Split, TaggedExample, TextExample
from electralab.finetuning.folders import find_files
from electralab.finetuning.rows import Row, Table, read_lines, read_suffix, read_table
from electralab.finetuning.squad_files import read_questions
from electralab.finetuning.tasks import TASKS, Kind, Task

_SHOWN = 3


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
    encoding: str = "utf-8"
    """Of text without a byte order mark."""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """How much of the training rows is held out where there is no dev file."""
    max_bad_share: float = Field(0.05, ge=0, le=1)
    """The share of unusable rows beyond which a file is refused."""

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            "".encode(name)
        except LookupError:
            raise ValueError("no such encoding; try utf-8, latin-1 or cp1252") from None
        return name

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(name for name in (self.text_a, self.text_b) if name) or ((self.text,) if self.text else ())


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


def read_task(task: Task, data_dir: Path, config: TaskDataConfig) -> TaskData:
    if not task.is_trained:
        raise UsageError(f"--task {task.name}: {task.display} has no training rows; train mnli and predict it")
    files = find_files(task, data_dir)
    whole, columns = _read_first(task, files["train"], config)
    if not whole.is_labelled:
        raise InputError(f"{whole.path}: has no labels to learn from; name their column with --data.label")
    labels = task.labels or _find_labels(whole)
    rest = {
        name: read_split(task, path, name, labels, config, columns) for name, path in files.items() if name != "train"
    }
    devs = tuple(split for name, split in rest.items() if name.startswith("dev"))
    if unlabelled := next((dev for dev in devs if not dev.is_labelled), None):
        raise InputError(f"{unlabelled.path}: has no labels to score by; add its column {columns.label!r}")
    train = whole
    notes = [f"{name}: {note}" for name, split in {"train": whole, **rest}.items() for note in split.notes]
    if not devs:
        train, dev = _hold_out(whole, config.dev_share)
        devs = (dev,)
        notes.append(
            f"no dev file: {len(dev.examples)} of the {len(whole.examples)} training examples are held out, "
            "chosen by their content"
        )
    if task.kind == "classify" and len(labels) < 2:
        raise InputError(f"{whole.path}: every row has the label {labels[0]!r}; there is nothing to tell apart")
    return TaskData(
        task=task,
        labels=labels,
        train=train,
        devs=devs,
        tests=tuple(split for name, split in rest.items() if name.startswith("test")),
        identity=_identify(task, files, columns, labels, config),
        notes=tuple(notes),
    )


def read_tests(task: Task, data_dir: Path, labels: tuple[str, ...], config: TaskDataConfig) -> tuple[Split, ...]:
    """The test splits alone: all there is of AX."""
    files = {name: path for name, path in find_files(task, data_dir).items() if name.startswith("test")}
    return tuple(read_split(task, path, name, labels, config) for name, path in files.items())


def read_split(
    task: Task,
    path: Path,
    name: str,
    labels: tuple[str, ...],
    config: TaskDataConfig,
    columns: Columns | None = None,
) -> Split:
    """One file. `labels` are those that may occur; `columns` what the training file was read by."""
    table = _read_rows(task, path, config)
    if columns is None:
        columns = _choose(table, task, config, is_labelled=False)
    return _make_split(table, task, name, find_again(table, columns), labels, config)


def read_inputs(kind: Kind, num_texts: int, path: Path, config: TaskDataConfig) -> Split:
    """What to predict for: any table, labelled or not; plain text has one text, or sentence, per line."""
    name = {"classify": "pair" if num_texts == 2 else "classify"}.get(kind, kind)
    task = replace(TASKS[name], num_texts=num_texts)
    if kind in ("classify", "regress") and num_texts == 1 and read_suffix(path) in (".txt", ".text", ""):
        rows = [Row(number, {"text": line}) for number, line in enumerate(read_lines(path, config.encoding), start=1)]
        return _make_split(Table(path, ("text",), rows), task, "input", Columns(("text",), "", ""), (), config)
    return read_split(task, path, "input", (), config)


def _read_first(task: Task, path: Path, config: TaskDataConfig) -> tuple[Split, Columns]:
    table = _read_rows(task, path, config)
    columns = _choose(table, task, config, is_labelled=True)
    return _make_split(table, task, "train", columns, task.labels, config), columns


def _read_rows(task: Task, path: Path, config: TaskDataConfig) -> Table:
    if task.kind == "qa":
        return read_questions(path, config.encoding)
    if task.kind == "label" and read_suffix(path) not in (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet"):
        return read_conll(path, config.encoding)
    return read_table(path, config.encoding, task.headless)


def _choose(table: Table, task: Task, config: TaskDataConfig, *, is_labelled: bool) -> Columns:
    wishes = Wishes(config.texts or task.texts, config.label or (task.label if is_labelled else ""), config.id)
    return choose_columns(table, task.kind, task.num_texts, wishes, is_labelled=is_labelled)


def _make_split(
    table: Table, task: Task, name: str, columns: Columns, labels: tuple[str, ...], config: TaskDataConfig
) -> Split:
    converted = convert(table, task, columns, labels)
    split = Split(
        name=name,
        path=str(table.path),
        examples=converted.examples,
        is_labelled=converted.is_labelled,
        columns=describe_columns(columns, task.kind),
        rows=len(table.rows),
        bad_rows=converted.bad_rows,
        notes=converted.notes,
    )
    _refuse_bad(split, config.max_bad_share)
    return split


def _refuse_bad(split: Split, limit: float) -> None:
    bad = len(split.bad_rows)
    first = "; ".join(f"row {row.row} {row.reason}" for row in split.bad_rows[:_SHOWN])
    more = f"; and {bad - _SHOWN} more" if bad > _SHOWN else ""
    if bad > limit * split.rows:
        raise InputError(
            f"{split.path}: {bad:,} of {split.rows:,} rows cannot be used ({first}{more}); "
            f"mend them, or raise --data.max-bad-share (now {limit:g})"
        )
    if not split.examples:
        raise InputError(
            f"{split.path}: holds no usable row{f' ({first}{more})' if bad else ''}; give a file with rows"
        )


def _find_labels(split: Split) -> tuple[str, ...]:
    """Numbers by their value, so that 10 follows 9."""
    if tags := {tag for example in split.examples if isinstance(example, TaggedExample) for tag in example.tags}:
        return complete_tags(tags)
    found = Counter(example.label for example in split.examples if isinstance(example, TextExample))
    if all(label.isdecimal() for label in found):
        return tuple(sorted(found, key=lambda label: (int(label), label)))
    return tuple(sorted(found))


def _hold_out(split: Split, share: float) -> tuple[Split, Split]:
    """The examples of the smallest hashes: the same ones wherever they stand, and equal contents together."""
    hashes = [hashlib.blake2b(_content(example).encode(), digest_size=8).digest() for example in split.examples]
    count = min(max(1, round(share * len(hashes))), len(hashes) - 1)
    bar = sorted(hashes)[count - 1] if count else b""
    held = [example for example, digest in zip(split.examples, hashes, strict=True) if digest <= bar]
    kept = [example for example, digest in zip(split.examples, hashes, strict=True) if digest > bar]
    if not held or not kept:
        raise InputError(f"{split.path}: too few different rows to hold some out; add rows, or a dev file")
    train = replace(split, examples=kept, rows=len(kept) + len(split.bad_rows))
    return train, replace(split, name="dev", examples=held, rows=len(held), bad_rows=(), notes=())


def _content(example: Example) -> str:
    """What must not stand on both sides: of questions the context, of which many share one."""
    if isinstance(example, Question):
        return example.context
    return "\0".join(example.words if isinstance(example, TaggedExample) else example.texts)


def _identify(
    task: Task, files: dict[str, Path], columns: Columns, labels: Sequence[str], config: TaskDataConfig
) -> str:
    return sha256_json(
        {
            "task": task.name,
            "files": {name: sha256_file(path) for name, path in files.items()},
            "columns": [*columns.texts, columns.label],
            "labels": list(labels),
            "encoding": config.encoding,
            "dev_share": 0 if any(name.startswith("dev") for name in files) else config.dev_share,
        }
    )
