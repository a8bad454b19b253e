"""What a fine-tuning run writes down: its identity, each seed, all seeds together, baselines, its plan.

run folder <-> TunedRun, TunedResults, Baselines; seed folder <-> SeedResults

On disk the scores of a split lie under the name of the split: {"seed": 0, "dev": {"accuracy": …}}. In Python
they are the field `scores`, by split and metric; `results["dev"]` works as on disk.
"""

import math
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, JsonValue, SerializerFunctionWrapHandler, model_serializer, model_validator

from electralab.records.record import FileRecord, Record

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
    settings: dict[str, JsonValue]
    threads: int


class BadRowRecord(Record):
    """A line of bad-rows.jsonl."""

    split: str
    path: str
    row: int
    reason: str


class FinetunePlan(Record):
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
    settings: dict[str, JsonValue]
