"""A task and the place of its files -> labelled examples by split, and what was bad in them.

Task, folder -> TaskData
file -> Split
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Self

from pydantic import Field, model_validator

from electralab.artifacts import sha256_file, sha256_json
from electralab.config import Settings
from electralab.corpus.streams import Encoding
from electralab.errors import InputError, UsageError
from electralab.finetuning.columns import SYMBOLS, Columns, choose_columns, describe_columns, find_again, is_number
from electralab.finetuning.conll import complete_tags, is_conll, read_conll
from electralab.finetuning.converters import convert
from electralab.finetuning.examples import BadRow, Example, Question, Split, TaggedExample, TextExample
from electralab.finetuning.folders import find_files
from electralab.finetuning.rows import UNDECODABLE, Row, Table, is_damaged, read_lines, read_suffix, read_table
from electralab.finetuning.squad_files import IMPOSSIBLE, read_questions
from electralab.finetuning.symbols import require_symbols
from electralab.finetuning.tasks import TASKS, Kind, Task
from electralab.tokens.tokenizer import Tokenizer

_SHOWN = 3
_MANY = 100  # classes
_PLAIN = ("", ".txt", ".text")
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")


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
    whole, columns = _read_first(task, files["train"], config)
    if not whole.is_labelled:
        raise InputError(f"{whole.path}: has no labels to learn from; name their column with --data.label")
    found = _find_labels(whole)
    if task.kind in ("classify", "label") and len(found) < 2:
        raise InputError(f"{whole.path}: every row has the label {found[0]!r}; there is nothing to tell apart")
    labels = task.labels or found
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
        train, dev = _hold_out(whole, config.dev_share)
        devs = (dev, *devs)
        notes.append(
            f"no dev file: {len(dev.examples)} of the {len(whole.examples)} training examples are held out, "
            "chosen by their content"
        )
    if 0 < train_rows < len(train.examples):
        notes.append(f"{train_rows} of the {len(train.examples)} training examples are learned from (train_rows)")
        train = _take_rows(train, train_rows)
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
    columns = find_again(table, columns) if columns else _choose(table, task, config, needs_label=False)
    return _make_split(table, task, name, columns, labels, config)


def read_inputs(
    kind: Kind, num_texts: int, path: Path, config: TaskDataConfig, tokenizer: Tokenizer | None = None
) -> Split:
    """What to predict for: any table, or plain text with one text, or sentence, per line. Labels are not needed:
    where one of them cannot be used the file counts as unlabelled, and the row keeps its place."""
    split = _read_inputs(kind, num_texts, path, config, of_symbols=tokenizer is not None and tokenizer.is_symbols)
    if tokenizer is not None:
        require_symbols([split], tokenizer)
    return split


def _read_inputs(kind: Kind, num_texts: int, path: Path, config: TaskDataConfig, *, of_symbols: bool) -> Split:
    task = TASKS["pair" if kind == "classify" and num_texts == 2 else kind]
    task = replace(task, num_texts=num_texts, of_symbols=of_symbols)
    if plain_text := _read_plain_text(kind, num_texts, path, config):
        return _make_split(plain_text, task, "input", Columns(("text",)), (), config)
    table = _read_rows(task, path, config)
    columns = _choose(table, task, config, needs_label=False)
    plain = _make_split(_without_answers(table, columns), task, "input", replace(columns, label=""), (), config)
    if not columns.label:
        return plain
    labelled = _convert(table, task, "input", columns, ())
    return labelled if len(labelled.bad_rows) == len(plain.bad_rows) else plain


def _read_plain_text(kind: Kind, num_texts: int, path: Path, config: TaskDataConfig) -> Table | None:
    """None where a file is a table, or CoNLL's columns, as a .txt may be too."""
    if kind == "qa" or num_texts == 2 or config.texts or read_suffix(path) not in _PLAIN:
        return None
    lines = read_lines(path, config.encoding)
    if is_conll(lines) if kind == "label" else "\t" in "".join(lines[:1]):
        return None
    rows = [
        BadRow(number, UNDECODABLE) if is_damaged(line) else Row(number, {"text": line})
        for number, line in enumerate(lines, start=1)
    ]
    return Table(path, ("text",), rows)


def _without_answers(table: Table, columns: Columns) -> Table:
    hidden = {columns.label, IMPOSSIBLE} - set(columns.texts)
    rows = [
        row if isinstance(row, BadRow) else Row(row.number, {k: v for k, v in row.fields.items() if k not in hidden})
        for row in table.rows
    ]
    return Table(table.path, table.columns, rows)


def _read_first(task: Task, path: Path, config: TaskDataConfig) -> tuple[Split, Columns]:
    table = _read_rows(task, path, config)
    columns = _choose(table, task, config, needs_label=True)
    return _make_split(table, task, "train", columns, task.labels, config), columns


def _read_rows(task: Task, path: Path, config: TaskDataConfig) -> Table:
    if task.kind == "qa":
        table = read_questions(path, config.encoding)
    elif task.kind == "label" and read_suffix(path) not in _TABLES:
        table = read_conll(path, config.encoding)
    else:
        table = read_table(path, config.encoding, task.headless, SYMBOLS if task.of_symbols else "")
    if not table.good_rows:
        _refuse(path, table.rows)
    return table


def _choose(table: Table, task: Task, config: TaskDataConfig, *, needs_label: bool) -> Columns:
    """What the settings name comes first, then what the task fixes, then what is found."""
    wish = Columns(config.texts, config.label, config.id)
    if task.texts and not config.texts:
        fixed = find_again(table, Columns(task.texts, task.label))
        wish = Columns(fixed.texts, wish.label or fixed.label, wish.id)
    return choose_columns(table, task.kind, task.num_texts, wish, needs_label=needs_label, of_symbols=task.of_symbols)


def _make_split(
    table: Table, task: Task, name: str, columns: Columns, labels: tuple[str, ...], config: TaskDataConfig
) -> Split:
    split = _convert(table, task, name, columns, labels)
    if len(split.bad_rows) > config.max_bad_share * split.rows:
        raise InputError(
            f"{split.path}: {len(split.bad_rows):,} of {split.rows:,} rows cannot be used "
            f"({_name_first(split.bad_rows)}); mend them, or raise --data.max-bad-share (now {config.max_bad_share:g})"
        )
    if not split.examples:
        _refuse(table.path, split.bad_rows)
    return split


def _convert(table: Table, task: Task, name: str, columns: Columns, labels: tuple[str, ...]) -> Split:
    converted = convert(table, task, columns, labels)
    bad = {row.row for row in converted.bad_rows}
    return Split(
        name=name,
        path=str(table.path),
        examples=converted.examples,
        is_labelled=converted.is_labelled,
        columns=describe_columns(columns, task.kind),
        rows=len(table.rows),
        bad_rows=converted.bad_rows,
        notes=converted.notes,
        row_numbers=tuple(row.number for row in table.good_rows if row.number not in bad),
    )


def _refuse(path: Path, rows: Sequence[Row | BadRow]) -> NoReturn:
    bad = [row for row in rows if isinstance(row, BadRow)]
    raise InputError(f"{path}: holds no row that can be used{f' ({_name_first(bad)})' if bad else ''}; add rows")


def _name_first(bad_rows: Sequence[BadRow]) -> str:
    first = "; ".join(f"row {bad.row} {bad.reason}" for bad in bad_rows[:_SHOWN])
    return first + (f"; and {len(bad_rows) - _SHOWN:,} more" if len(bad_rows) > _SHOWN else "")


def _find_labels(split: Split) -> tuple[str, ...]:
    """Numbers by their value, so that 10 follows 9."""
    if tags := {tag for example in split.examples if isinstance(example, TaggedExample) for tag in example.tags}:
        return complete_tags(tags)
    found = {example.label for example in split.examples if isinstance(example, TextExample)}
    are_fractions = all(map(is_number, found)) and not all(float(label).is_integer() for label in found)
    if len(found) > len(split.examples) // 2 and (len(found) > _MANY or are_fractions):
        raise InputError(
            f"{split.path}: column {split.columns['label']!r} has {len(found):,} different values in "
            f"{len(split.examples):,} rows, which are no classes; give --data.label, or --task regress for numbers"
        )
    return tuple(sorted(found, key=(lambda label: (float(label), label)) if all(map(is_number, found)) else None))


def _hold_out(split: Split, share: float) -> tuple[Split, Split]:
    """The examples of the smallest hashes: the same ones wherever they stand, and equal contents together."""
    hashes = [_hash(example) for example in split.examples]
    count = min(max(1, round(share * len(hashes))), len(hashes) - 1)
    bar = sorted(hashes)[count - 1] if count else b""
    held = [example for example, digest in zip(split.examples, hashes, strict=True) if digest <= bar]
    kept = [example for example, digest in zip(split.examples, hashes, strict=True) if digest > bar]
    if not held or not kept:
        raise InputError(f"{split.path}: too few different rows to hold some out; add rows, or a dev file")
    train = replace(split, examples=kept, rows=len(kept) + len(split.bad_rows), row_numbers=())
    return train, replace(split, name="dev", examples=held, rows=len(held), bad_rows=(), notes=(), row_numbers=())


def _take_rows(split: Split, count: int) -> Split:
    """The examples of the smallest hashes, in their order: what more of them are learned from has these among them."""
    hashes = [_hash(example) for example in split.examples]
    taken = sorted(sorted(range(len(hashes)), key=lambda place: (hashes[place], place))[:count])
    return replace(split, examples=[split.examples[place] for place in taken], row_numbers=())


def _hash(example: Example) -> bytes:
    return hashlib.blake2b(_content(example).encode(), digest_size=8).digest()


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
            "dev_share": 0 if "dev" in files else config.dev_share,
        }
    )
