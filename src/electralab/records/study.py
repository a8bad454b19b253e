"""The files of a study's folder, and the plan that `--dry-run` prints.

results.json, environment.json, cells/ARM/seed-S/NAME.json <-> records
"""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from electralab.artifacts import read_json, write_json
from electralab.errors import DamagedArtifact
from electralab.records.evaluation import GroupScores, Scores
from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record
from electralab.records.run import Environment, RunProgress

AVERAGE = "average"
"""The name of the mean of all scores that every arm has, in tables and curves."""
HEADLINE = "headline"
"""The name of the mean of the scores that a study is about, where it names them; it stands instead of the average."""

Amount = Literal["flops", "tokens"]


class StepResult(Record):
    """What one command of a cell answered, and what it was the answer to; NAME.json in the folder of the cell."""

    identity: JsonTree
    seconds: float
    result: JsonTree
    """As the command's `--json` printed it."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """None where the step is not finished."""
        if not path.is_file():
            return None
        try:
            return cls.model_validate(read_json(path, "delete it to run the step again"))
        except ValueError:  # pydantic's
            raise DamagedArtifact(f"{path}: not the result of a step; delete it to run the step again") from None

    def write(self, path: Path) -> None:
        write_json(path, self.to_json())


class ScoreAnswer(Record):
    """What a study reads of the answer of `finetune` or `evaluate`."""

    metric: str = ""
    """Of fine-tuning: the one that ranks seeds."""
    dev: Scores | None = None
    scores: Scores | None = None
    groups: GroupScores = Field(default_factory=dict)
    identity: str = ""
    notes: tuple[str, ...] = ()
    model: str = ""


class PretrainAnswer(RunProgress):
    """What a study reads of the answer of `pretrain`."""

    snapshots: tuple[RunProgress, ...] = ()


class TuningTrial(Record):
    settings: dict[str, str | float]
    scores: dict[str, float]
    """By the score whose held-out training rows were answered."""
    mean: float


class TuningChoice(FileRecord):
    """The settings of fine-tuning that an arm is scored with, and how it was chosen; cells/ARM/tuning.json."""

    FILE: ClassVar[str] = "tuning.json"
    settings: dict[str, str | float]
    """By dotted name, as flags of `finetune` have them."""
    trials: tuple[TuningTrial, ...] = ()


class StudyCorpus(Record):
    path: str
    sha256: str


class StudyEnvironment(Environment):
    """The command that made a study, what it was given, and the machine."""

    command: str = ""  # type: ignore[assignment]
    """As it is typed into a shell; given again the study goes on."""
    corpus: StudyCorpus | None = None


class SharedBudget(Record):
    """The same for every arm: one of the three."""

    flops: float | None = None
    tokens: float | None = None
    steps: int | None = None

    @property
    def kind(self) -> Literal["flops", "tokens", "steps"]:
        return "flops" if self.flops is not None else "tokens" if self.tokens is not None else "steps"

    @property
    def amount(self) -> float:
        return next(float(amount) for amount in (self.flops, self.tokens, self.steps) if amount is not None)


class PlannedArm(Record):
    start: str = "pretrained"
    objective: str
    steps: int
    tokens: int
    flops: int
    parameters: int
    estimated_minutes: float


class StudyPlan(PlanRecord):
    """What a study would run, about how long it would take, and what is missing for it."""

    study: str
    baseline: str
    budget: SharedBudget
    seeds: tuple[int, ...]
    scores: dict[str, str]
    """Score -> where its data is."""
    missing: tuple[str, ...]
    refusal: str
    """Why the study cannot be run; empty where everything is there."""
    arms: dict[str, PlannedArm]
    jobs: int
    cells_left: int
    steps_left: int
    estimated_minutes: float


class SeedMean(Record):
    """The mean over seeds; a single seed has no spread and no interval."""

    n: int
    mean: float
    sd: float | None = None
    """Of the sample (n - 1)."""
    low: float | None = None
    high: float | None = None
    """The 95 % interval by Student's t."""


class CellSummary(Record):
    """One arm with one seed."""

    arm: str
    seed: int
    status: Literal["finished", "unfinished", "failed"]
    error: str
    scores: dict[str, float]
    """`NAME`, or `NAME@share` of a snapshot."""
    steps: int | None
    tokens: int | None
    flops: int | None
    parameters: int
    pretraining_seconds: float | None
    seconds: float
    """Of all its commands."""


class ArmRow(Record):
    """What an arm took in the mean over its seeds, and its scores; None where nothing is measured yet."""

    line: str = ""
    arm: str
    steps: float | None
    tokens: float | None
    flops: float | None
    parameters: int
    pretraining_seconds: float | None
    scores: dict[str, SeedMean | None]


class Comparison(SeedMean):
    """An arm minus the one it is compared with, by one score; `mean` and its interval are of the difference."""

    arm: str
    versus: str
    score: str
    test: Literal["paired t", "paired bootstrap"]
    over: Literal["seeds", "paradigms"]
    p: float | None
    family: str = ""
    """The tests that Holm's correction is over: `seeds`, `paradigms`, `average` or `headline`."""
    p_holm: float | None

    @property
    def is_significant(self) -> bool:
        """At 5 %, after Holm."""
        return self.p_holm is not None and self.p_holm < 0.05


class CurvePoint(SeedMean):
    """A score at one amount of compute, in the mean over the seeds."""

    arm: str
    share: float
    """Of the run: 1 at its end, less at a snapshot."""
    flops: float
    tokens: float
    values: tuple[float, ...]
    """Seed by seed."""


class ReachedTarget(Record):
    """Where a line reaches the final score of the baseline; None where it does not."""

    flops: float | None = None
    tokens: float | None = None
    share: float | None
    """Of what the baseline spent."""
    is_upper_bound: bool
    """Its first point is above the score already: what is known is "at most this"."""


class ComputeToTarget(Record):
    """The final score of the baseline, what it spent for it, and what each line needs; empty before it is known."""

    target: float | None = None
    flops: float | None = None
    tokens: float | None = None
    lines: dict[str, ReachedTarget] = Field(default_factory=dict)


class StudyResults(FileRecord):
    """All that a study found: cells, the table of arms, comparisons with the baseline, curves over compute."""

    FILE: ClassVar[str] = "results.json"
    name: str
    title: str
    baseline: str
    budget: SharedBudget
    seeds: tuple[int, ...]
    x: Amount
    """What the curves go along."""
    provenance: StudyEnvironment
    scores: dict[str, str]
    """Score -> its metric; empty where arms were measured by different ones."""
    averaged: tuple[str, ...] | None = None
    headline: tuple[str, ...] = ()
    """The scores that the headline is the mean of; empty where the study names none."""
    tuning: dict[str, TuningChoice] = Field(default_factory=dict)
    """Arm -> the settings of fine-tuning that were chosen for it."""
    arms: dict[str, JsonTree]
    """The settings of pre-training, resolved."""
    cells: tuple[CellSummary, ...]
    table: tuple[ArmRow, ...]
    comparisons: tuple[Comparison, ...]
    curves: dict[str, dict[str, tuple[CurvePoint, ...]]]
    """Score -> line -> points, from little compute to much."""
    reach: dict[str, ComputeToTarget]
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The name of the one number that arms are ranked by."""
        return HEADLINE if self.headline else AVERAGE

    @property
    def averaged_scores(self) -> tuple[str, ...]:
        """The scores that the summary is of: all, in results from before arms could have scores of their own."""
        return self.headline or (tuple(self.scores) if self.averaged is None else self.averaged)

    @property
    def score_names(self) -> list[str]:
        """The columns of every table: the headline first; or, where there are several scores, their average last."""
        if self.headline:
            return [HEADLINE, *self.scores]
        return [*self.scores, *([AVERAGE] if len(self.averaged_scores) > 1 else [])]

    @property
    def baseline_line(self) -> str:
        """The line that the baseline is on, which may have another name."""
        return next(row.line for row in self.table if row.arm == self.baseline)
