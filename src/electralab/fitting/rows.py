"""The rows that `fit` learns from, and who answers which of them: parts for cross-validation, or rows held out.

labelled table -> FitRows -> files of each part, as fine-tuning reads them
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import write_file
from electralab.errors import InputError, UsageError
from electralab.records.tuned import to_json_lines
from electralab.reporting.format import format_number_of
from electralab.runtime import name_command
from electralab.tasks.blending import PooledExample, pooled_examples, read_truth
from electralab.tasks.catalog import TASKS, find_task
from electralab.tasks.kind import OWN_FILES, Example, Split, Task, is_missing, is_number
from electralab.tasks.load import TaskData, TaskDataConfig, choose_columns, find_files, hash_examples, read_task

FEW_ROWS, MANY_ROWS = 200, 4000
"""Up to the first, rows are answered in five parts: each row counts. Beyond the second some are held out: they say
enough, and several tunings would take long."""
HELDOUT_SHARE = 0.15
_HELDOUT_PARTS = round(1 / HELDOUT_SHARE)
# A whole number with more values than this counts something; fewer are classes, such as stars.
_MOST_STARS = 20
_SHOWN_CLASSES = 5


@dataclass(frozen=True, slots=True)
class FitPart:
    """What one tuning learns from, and the rows that it answers, by their places among all that are judged."""

    train: Sequence[PooledExample]
    places: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FitRows:
    task: Task
    """As fine-tuning is to read the files of a part."""
    data: TaskData
    """As the files were read, but that nothing of train is held out for dev."""
    learned: Sequence[PooledExample]
    """All that the parts learn from."""
    judged: Sequence[PooledExample]
    """Rows that entries are judged by: none of them is answered by a model that has learned from it."""
    judged_by: str
    parts: Sequence[FitPart]
    notes: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """None for numbers."""
        return self.data.labels

    @property
    def num_texts(self) -> int:
        return len(self.learned[0].texts)

    @property
    def test(self) -> Split[Example] | None:
        """Rows with labels that nothing is chosen by."""
        return next((split for split in self.data.tests if split.is_labelled), None)


def read_fit_rows(source: Path, task_name: str, config: TaskDataConfig, folds: int) -> FitRows:
    """`folds`: how many parts there are to be; 0: by the number of rows, 1: rows are held out."""
    if not source.exists():
        raise InputError(f"{source}: no such file or folder; give a labelled table, or a folder with train.*")
    task, config, task_notes = find_fit_task(source, task_name, config)
    data, notes = read_task(task, source, config), list(task_notes)
    has_dev = "dev" in find_files(task, source)
    if not has_dev:
        # What was held out to tune by is learned from and judged like all others.
        dev, *more = data.devs
        examples = [*data.train.examples, *dev.examples]
        train = replace(data.train, examples=examples, rows=data.train.rows + dev.rows)
        data = replace(data, train=train, devs=tuple(more))
    rows = pooled_examples(data.train.examples)
    texts = ("text",) if len(rows[0].texts) == 1 else ("text_a", "text_b")
    own = replace(
        task, files=OWN_FILES, labels=data.labels, num_texts=len(texts), texts=texts, label="label", headless=()
    )
    rows, dropped = _drop_copies(source, data, rows)
    notes += dropped
    if has_dev:
        if folds > 1:
            raise UsageError(f"--folds: {source} brings dev rows, which decide; leave --folds out, or give one file")
        judged = pooled_examples(data.devs[0].examples)
        parts = [FitPart(rows, np.arange(len(judged)))]
        _require_parts(source, own, parts)
        return FitRows(own, data, rows, judged, "the dev rows", parts, tuple(notes))
    wanted = folds or (5 if len(rows) <= FEW_ROWS else 3 if len(rows) <= MANY_ROWS else 1)
    groups = _group_rows(rows, wanted if wanted > 1 else _HELDOUT_PARTS)
    by_class = _list_groups(own, rows, groups)
    # A part has to be judged by something, and the others have to know each class.
    free = len({group for members in by_class.values() if len(members) > 1 for group in members})
    if not free:
        raise InputError(f"{source}: no class has two different texts, one to learn from and one to judge by; add rows")
    most = max(2, free // 2)
    if folds > most:
        raise UsageError(f"--folds: {folds} parts of {free} different texts are too many; give at most {most}")
    folds = min(wanted, most)
    numbers, alone = _assign_parts(by_class, groups, folds if folds > 1 else _HELDOUT_PARTS)
    if alone:
        several = ", ".join(map(repr, alone[:_SHOWN_CLASSES])) + (", …" if len(alone) > _SHOWN_CLASSES else "")
        notes.append(f"of {several} there is one text alone, which is learned from and judges nothing; add rows")
    if folds == 1:
        learned = [row for row, number in zip(rows, numbers, strict=True) if number]
        judged = [row for row, number in zip(rows, numbers, strict=True) if not number]
        parts, judged_by = [FitPart(learned, np.arange(len(judged)))], "held-out rows"
    else:
        learned, judged = rows, [row for row, number in zip(rows, numbers, strict=True) if number >= 0]
        of_judged, parts = numbers[numbers >= 0], []
        for fold in range(folds):
            others = [row for row, number in zip(rows, numbers, strict=True) if number != fold]
            parts.append(FitPart(others, np.flatnonzero(of_judged == fold)))
        judged_by = f"{folds}-fold cross-validation"
    _require_parts(source, own, parts)
    return FitRows(own, data, learned, judged, judged_by, parts, tuple(notes))


def find_fit_task(source: Path, name: str, config: TaskDataConfig) -> tuple[Task, TaskDataConfig, tuple[str, ...]]:
    """The task by its name, or by what the label column holds: classes or numbers; that column is named in what comes
    back, since another task would look for another."""
    if name:
        task = find_task(name)
        if not task.kind.is_pooled:
            raise UsageError(
                f"--task {name}: fit gives a text one answer, a class or a number, and {task.display} asks for more; "
                f"use '{name_command()} finetune MODEL --task {task.name} --data {source} --out RUN'"
            )
        return task, config, ()
    task = TASKS["classify"]
    table = task.kind.read_table(find_files(task, source)["train"], config.encoding, task)
    label = choose_columns(table, task, config.columns, needs_label=True).label
    config = config.model_copy(update={"label": label})
    values = {str(value).strip() for value in table.sample(label) if not is_missing(value)} - {"", "nan", "NaN"}
    if values and all(map(is_number, values)):
        are_whole = all(float(value).is_integer() for value in values)
        if not are_whole or len(values) > _MOST_STARS:
            note = f"column {label!r} holds numbers, which are learned as such (--task regress)"
            return TASKS["regress"], config, (note,)
    return task, config, ()


def _drop_copies(source: Path, data: TaskData, rows: list[PooledExample]) -> tuple[list[PooledExample], list[str]]:
    """Without those that stand in the dev rows or in labelled test rows, which are to be new to what they judge."""
    notes = []
    for split in (*data.devs[:1], *[split for split in data.tests if split.is_labelled][:1]):
        known = {_normalise(row) for row in pooled_examples(split.examples)}
        kept = [row for row in rows if _normalise(row) not in known]
        if not kept:
            raise InputError(f"{source}: every training row stands in {split.name}, too; take them out of one of both")
        if len(kept) < len(rows):
            left_out = format_number_of(len(rows) - len(kept), "training row")
            notes.append(f"{left_out} left out of what is learned from, because {split.name} has the same text")
        rows = kept
    return rows, notes


def _normalise(row: PooledExample) -> tuple[str, ...]:
    """Its texts but for case and white space: who knows one of two such copies knows the other."""
    return tuple(" ".join(text.casefold().split()) for text in row.texts)


def _group_rows(rows: Sequence[PooledExample], count: int) -> list[int]:
    """Rows that are to stay in one of `count` parts, by a number that they share: copies, and pairs that have a text in
    common, since its label could be learned by heart. Where too few groups would be left, by one of the two texts."""
    texts = [_normalise(row) for row in rows]
    ways: list[Sequence[Hashable]] = []
    if len(texts[0]) == 2:
        columns = sorted(zip(*texts, strict=True), key=lambda column: len(set(column)))
        ways = [_connect(texts), *columns]
    for keys in ways:
        sizes = Counter(keys)
        if len(sizes) >= 2 * count and max(sizes.values()) <= len(rows) / count:
            break
    else:
        keys = texts
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return [numbers[key] for key in keys]


def _connect(pairs: Sequence[tuple[str, ...]]) -> list[str]:
    """Of each pair a text that stands for all that are connected with it, by pairs."""
    parents: dict[str, str] = {}

    def find(text: str) -> str:
        while (parent := parents.setdefault(text, text)) != text:
            parents[text] = parents[parent]
            text = parent
        return text

    for first, second in pairs:
        parents[find(first)] = find(second)
    return [find(first) for first, _ in pairs]


def _list_groups(task: Task, rows: Sequence[PooledExample], groups: Sequence[int]) -> dict[str, list[int]]:
    """The groups of each class, by their content and not by their place; numbers are one class."""
    by_class: dict[str, dict[int, None]] = defaultdict(dict)
    hashes = hash_examples(task.kind, rows)
    for _, row, group in sorted(zip(hashes, rows, groups, strict=True), key=lambda item: item[0]):
        by_class["" if task.kind.has_numbers else str(read_truth(row))][group] = None
    return {name: list(by_class[name]) for name in sorted(by_class)}


def _assign_parts(
    by_class: Mapping[str, Sequence[int]], groups: Sequence[int], count: int
) -> tuple[NDArray[np.int64], list[str]]:
    """The part of each row, so that each class is spread over all parts; -1: a row that all learn from, because its
    class would be unknown without it. Beside it these classes."""
    parts = {members[0]: -1 for members in by_class.values() if len(members) == 1}
    alone, turn = [], 0
    for name, members in by_class.items():
        for group in members:
            if group not in parts:
                # Where the last class ended the next goes on, so that the parts are of like size.
                parts[group], turn = turn % count, turn + 1
        if len({parts[group] for group in members}) == 1:
            # Also two groups in one part, where another class that they hold, too, has put them.
            parts[members[0]] = -1
            alone.append(name)
    return np.array([parts[group] for group in groups]), alone


def _require_parts(source: Path, task: Task, parts: Sequence[FitPart]) -> None:
    """Before anything is tuned: each part learns from two classes, and judges something."""
    for part in parts:
        if task.kind.has_classes and len({read_truth(row) for row in part.train}) < 2:
            only = read_truth(part.train[0])
            raise InputError(f"{source}: only rows of {only!r} are left to learn from; add different rows")
        if not len(part.places):
            raise InputError(f"{source}: too few different rows to judge {len(parts)} parts by; add rows")


def write_part(folder: Path, rows: FitRows, part: FitPart) -> None:
    """Two files with the columns that the task of `rows` names."""
    for name, examples in (("train", part.train), ("dev", [rows.judged[place] for place in part.places])):
        lines: list[dict[str, object]] = [
            {"id": row.id, **dict(zip(rows.task.texts, row.texts, strict=True)), "label": read_truth(row)}
            for row in examples
        ]
        write_file(folder / f"{name}.jsonl", to_json_lines(lines))
