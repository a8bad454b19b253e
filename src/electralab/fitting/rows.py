"""The rows that `fit` learns from, and who answers which of them: parts for cross-validation, or rows held out.

labelled table -> FitRows -> files of each part, as fine-tuning reads them
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import write_file
from electralab.errors import UsageError
from electralab.records.tuned import to_json_lines
from electralab.runtime import name_command
from electralab.tasks.blending import PooledExample, pooled_examples, read_truth
from electralab.tasks.catalog import TASKS, find_task
from electralab.tasks.kind import OWN_FILES, Example, Split, Task, is_number
from electralab.tasks.load import TaskData, TaskDataConfig, choose_columns, find_files, hash_examples, read_task

FEW_ROWS, MANY_ROWS = 200, 4000
"""Up to the first, rows are answered in five parts: each row counts. Beyond the second some are held out: they say
enough, and several tunings would take long."""
HELDOUT_SHARE = 0.15
# A whole number with more values than this counts something; fewer are classes, such as stars.
_MOST_STARS = 20


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
    """As the files were read."""
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
    task, notes = find_fit_task(source, task_name, config)
    data = read_task(task, source, config)
    train, dev = pooled_examples(data.train.examples), pooled_examples(data.devs[0].examples)
    texts = ("text",) if len(train[0].texts) == 1 else ("text_a", "text_b")
    own = replace(
        task, files=OWN_FILES, labels=data.labels, num_texts=len(texts), texts=texts, label="label", headless=()
    )
    rows = [*train, *dev]
    if "dev" in find_files(task, source):
        if folds > 1:
            raise UsageError(f"--folds: {source} brings dev rows, which decide; leave --folds out, or give one file")
        parts, judged, judged_by = [FitPart(train, np.arange(len(dev)))], dev, "the dev rows"
        return FitRows(own, data, train, judged, judged_by, parts, notes)
    folds = folds or (5 if len(rows) <= FEW_ROWS else 3 if len(rows) <= MANY_ROWS else 1)
    if folds > len(rows) // 2:
        raise UsageError(f"--folds: {folds} parts of {len(rows)} rows are too many; give at most {len(rows) // 2}")
    numbers = _assign_parts(own, rows, folds if folds > 1 else round(1 / HELDOUT_SHARE))
    if folds == 1:
        learned = [row for row, number in zip(rows, numbers, strict=True) if number]
        judged = [row for row, number in zip(rows, numbers, strict=True) if not number]
        return FitRows(own, data, learned, judged, "held-out rows", [FitPart(learned, np.arange(len(judged)))], notes)
    parts = []
    for fold in range(folds):
        train = [row for row, number in zip(rows, numbers, strict=True) if number != fold]
        parts.append(FitPart(train, np.flatnonzero(numbers == fold)))
    return FitRows(own, data, rows, rows, f"{folds}-fold cross-validation", parts, notes)


def find_fit_task(source: Path, name: str, config: TaskDataConfig) -> tuple[Task, tuple[str, ...]]:
    """The task by its name, or by what the label column holds: classes or numbers."""
    if name:
        task = find_task(name)
        if not task.kind.is_pooled:
            raise UsageError(
                f"--task {name}: fit gives a text one answer, a class or a number, and {task.display} asks for more; "
                f"use '{name_command()} finetune MODEL --task {task.name} --data {source} --out RUN'"
            )
        return task, ()
    task = TASKS["classify"]
    table = task.kind.read_table(find_files(task, source)["train"], config.encoding, task)
    label = choose_columns(table, task, config.columns, needs_label=True).label
    values = {str(value) for value in table.sample(label) if value is not None}
    if values and all(map(is_number, values)):
        are_whole = all(float(value).is_integer() for value in values)
        if not are_whole or len(values) > _MOST_STARS:
            return TASKS["regress"], (f"column {label!r} holds numbers, which are learned as such (--task regress)",)
    return task, ()


def _assign_parts(task: Task, rows: Sequence[PooledExample], count: int) -> NDArray[np.int64]:
    """The part of each row, by its content: rows of one content stay together, each class is spread over all parts."""
    hashes = hash_examples(task.kind, rows)
    by_class: dict[str, dict[bytes, None]] = defaultdict(dict)
    for digest, row in sorted(zip(hashes, rows, strict=True), key=lambda pair: pair[0]):
        by_class["" if task.kind.has_numbers else str(read_truth(row))][digest] = None
    parts: dict[bytes, int] = {}
    for name in sorted(by_class):
        for digest in by_class[name]:
            # Where the last class ended the next goes on, so that the parts are of like size.
            parts.setdefault(digest, len(parts) % count)
    return np.array([parts[digest] for digest in hashes])


def write_part(folder: Path, rows: FitRows, part: FitPart) -> None:
    """Two files with the columns that the task of `rows` names."""
    for name, examples in (("train", part.train), ("dev", [rows.judged[place] for place in part.places])):
        lines: list[dict[str, object]] = [
            {"id": row.id, **dict(zip(rows.task.texts, row.texts, strict=True)), "label": read_truth(row)}
            for row in examples
        ]
        write_file(folder / f"{name}.jsonl", to_json_lines(lines))
