"""What a fine-tuning run writes down: its identity, each seed, all seeds together, baselines, its plan.

run folder <-> TunedRun, TunedResults, Baselines; seed folder <-> SeedResults

On disk the scores of a split lie under the name of the split: {"seed": 0, "dev": {"accuracy": …}}. In Python
they are the field `scores`, by split and metric; `results["dev"]` works as on disk.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record

# JSON has no NaN: a score that is not finite is null on disk.
Score = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
Scores = dict[str, Score]
"""By metric; fractions of one."""


def choose_split(names: Iterable[str]) -> str:
    """The labelled split that says most: a test, which nothing was chosen by, before dev."""
    return next((name for name in names if name.startswith("test")), "dev")


class ClassScores(Record):
    """What was found of one class, or of one type of entity."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int
    """How many there are in truth."""


class ClassReport(Record):
    """By class; nothing for kinds of task without classes."""

    classes: tuple[ClassScores, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    """Rows are true classes, columns predicted ones; not for tags."""


class Spread(Record):
    """One metric over the seeds."""

    n: int
    median: Score
    mean: Score
    sd: Score
    """Of the sample (n - 1); 0 for a single seed."""
    best: Score


class Baseline(Record):
    """What a simple method reaches on the same examples."""

    name: str
    what: str
    """The method in words."""
    rows: int
    """Training rows that it has seen."""
    scores: dict[str, Scores]
    """By split."""


class Improvement(Record):
    """A run that ended while it still became better."""

    epochs: float
    """That it had."""
    suggested_epochs: int
    before: float
    """The dev score before the last part of the run, and at its end."""
    after: float


class SplitSummary(Record):
    """What was read of one file."""

    path: str
    examples: int
    bad_rows: int
    columns: dict[str, str]


class _WithScores(Record):
    """A record whose scores lie under the names of their splits on disk."""

    scores: dict[str, Scores] = Field({})

    @property
    def dev(self) -> Scores:
        return self.scores["dev"]

    @model_validator(mode="before")
    @classmethod
    def _collect(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "scores" in value:
            return value
        splits = {name: part for name, part in value.items() if name not in cls.model_fields and isinstance(part, dict)}
        return {name: part for name, part in value.items() if name not in splits} | {"scores": splits}

    def __getitem__(self, name: str) -> Any:
        return self.scores[name] if name in self.scores else super().__getitem__(name)

    @model_serializer(mode="wrap")
    def _flatten(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        value: dict[str, Any] = serialise(self)
        value.update(value.pop("scores", {}))
        return value


class SeedScores(_WithScores):
    seed: int


class SeedResults(_WithScores, FileRecord):
    """Written last of all files of a seed: it says that the seed is finished."""

    FILE: ClassVar[str] = "results.json"
    seed: int
    step: int
    tokens: int
    flops: int
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    seconds: float
    report: ClassReport
    """Of dev."""
    reports: dict[str, ClassReport] = Field({})
    """Of each labelled split; a seed that was finished before there were others has that of dev alone."""


class TunedResults(_WithScores, FileRecord):
    """The seeds of a run side by side. `scores` are medians over the seeds."""

    FILE: ClassVar[str] = "results.json"
    task: str
    metric: str
    """The one that ranks seeds."""
    spread: dict[str, dict[str, Spread]]
    """By split and metric."""
    best_seed: int
    report: ClassReport
    reports: dict[str, ClassReport] = Field({})
    seeds: tuple[SeedScores, ...]
    steps: int
    """Of a seed."""
    tokens_per_seed: int
    seconds: float
    """Of all seeds."""
    data: dict[str, SplitSummary] = Field({})
    notes: tuple[str, ...] = ()
    improvement: Improvement | None = None
    baselines: dict[str, Baseline] | None = None
    """By name; None where they were not asked for."""
    ensemble: Scores = Field({})
    """On dev, where there are several seeds."""

    @property
    def report_split(self) -> str:
        """The labelled split whose report says most."""
        return choose_split(self.reports or {"dev": self.report})

    @property
    def class_report(self) -> ClassReport:
        return self.reports[self.report_split] if self.reports else self.report


class Baselines(FileRecord):
    FILE: ClassVar[str] = "baselines.json"
    baselines: tuple[Baseline, ...]


class TunedRun(FileRecord):
    """What a fine-tuning run is, written before its first step. The number of seeds is no part of it: more of them can
    be added later."""

    FILE: ClassVar[str] = "run.json"
    kind: str
    """Always "finetune"."""
    task: str
    data: str
    """The hash of the rows and how they are read."""
    model: str
    """The hash of weights and tokenizer."""
    settings: JsonTree
    threads: int


class BadRowRecord(Record):
    """A line of bad-rows.jsonl."""

    split: str
    path: str
    row: int
    reason: str


class FinetunePlan(PlanRecord):
    """What `finetune --dry-run` says."""

    task: str
    out: str
    labels: tuple[str, ...]
    examples: dict[str, int]
    bad_rows: dict[str, int]
    columns: dict[str, str]
    notes: tuple[str, ...]
    rows: int
    tokens_per_row: float
    too_long: int
    steps_per_seed: int
    seeds: int
    parameters: int
    flops: int
    estimated_minutes: float
    estimated_memory_mb: int
    settings: JsonTree


# JSON lets these stand in a string, but str.splitlines() would cut the row there.
_LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})

Value = str | float | tuple[str, ...] | None


class AnswerSpan(Record):
    """A slice of the context, in characters."""

    text: str
    start: int
    end: int
    score: float | None


class PredictionRow(Record):
    row: int = 0
    """The row of the input file that it answers, where there is one; its line in an editor."""
    id: str = ""
    texts: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    question: str = ""
    truth: Value = None
    """A question has a list of answers; an empty one says that there is none."""
    prediction: Value
    """None for a row that could not be read, and for a number that is not finite."""
    probabilities: dict[str, float | None] | tuple[float | None, ...] = ()
    """By class, or of each tag."""
    answer: AnswerSpan | None = None
    no_answer_score: float | None = None
    alternatives: tuple[AnswerSpan, ...] = ()
    cut: bool = False
    """The text did not fit the model's rows, and its end was not read."""
    error: str = ""
    """Why there is no prediction."""

    @property
    def has_truth(self) -> bool:
        return "truth" in self.model_fields_set

    def with_truth(self, truth: Value) -> Self:
        return self.model_copy(update={"truth": truth})

    def to_json(self) -> JsonTree:
        # Without the way through JSON text, in which there is no half of a surrogate pair.
        return self.model_dump(mode="json", exclude_unset=True)


class PredictResult(Record):
    """What `predict` answers: a row for every row of the file, bad ones included."""

    predictions: tuple[PredictionRow, ...]
    bad_rows: int
    cut: int
    """Texts that were longer than the model's rows."""


class PredictPlan(PlanRecord):
    """`predict --dry-run`: what would be answered, and from which columns."""

    model: str
    task: str
    rows: int
    bad_rows: int
    columns: dict[str, str]
    settings: JsonTree


def read_rows(path: Path) -> Iterator[PredictionRow]:
    """The rows of a file, in order; a line that is none is left out."""
    with path.open("rb") as file:
        for line in file:
            try:
                yield PredictionRow.model_validate(json.loads(line))
            except (ValueError, RecursionError, ValidationError):
                continue


def to_json_lines(rows: Iterable[Record | Mapping[str, object]]) -> bytes:
    values = (row.to_json() if isinstance(row, Record) else row for row in rows)
    lines = "".join(json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS) + "\n" for value in values)
    # Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it.
    return lines.encode("utf-8", "backslashreplace")


class GlueTask(Spread):
    """The first metric of a task, over the seeds."""

    metric: str


class GlueAverage(Record):
    """Over the tasks but WNLI; None where no task counts, or no seed is common to all of them."""

    median: Score | None
    """The mean of the tasks' medians."""
    mean: Score | None
    sd: Score | None
    n: int | None
    """Seeds that all tasks have."""
    paper: float | None


class SubmissionZip(Record):
    file: str
    holds: tuple[str, ...]
    missing: tuple[str, ...]
    """Of the eleven files that the server wants all at once."""


class GlueResults(FileRecord):
    FILE: ClassVar[str] = "results.json"
    suite: str
    """Always "glue"."""
    tasks: dict[str, GlueTask]
    average: GlueAverage
    paper: dict[str, float | None]
    """Dev scores of the released ELECTRA-Small."""
    diagnostics: dict[str, GlueTask] = Field({})
    submissions: dict[str, SubmissionZip] = Field({})
    """By what predicted: best_seed, ensemble."""


class GluePlan(PlanRecord):
    tasks: dict[str, FinetunePlan]
