"""The files of a run folder: what it is, where it ran, what it logged, and what came of it.

run.json, environment.json, metrics.jsonl, examples.json, state.json, progress.json, results.json <-> records

`metrics.jsonl` and `state.json` are those of every training; the other records here are of pre-training.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from electralab.errors import DamagedArtifact
from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record

METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
SNAPSHOTS = "snapshots"

BudgetKind = Literal["steps", "tokens", "flops", "minutes"]


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a run is: so many steps, tokens, FLOPs or minutes."""

    kind: BudgetKind
    amount: float

    def __str__(self) -> str:
        return f"--{self.kind} {self.amount:.15g}"


class RunFingerprint(FileRecord):
    """What a pre-training run is, written before its first step; resuming it as anything else is refused."""

    FILE: ClassVar[str] = "run.json"
    data: str
    """Hash of the tokenizer and every shard."""
    init_from: str
    settings: JsonTree
    budget: Budget
    total_steps: int
    threads: int
    generator: str = ""
    """Hash of a frozen generator's weights: its path says nothing of what lies there."""
    preset: str = ""
    """The preset that the settings came from; empty in runs that did not store it."""

    @property
    def objective(self) -> str:
        return str(self.settings.get("objective", "electra"))


class RunLength(Record):
    """How long a run is, from one of its steps on: the step after it begins where this one says that the run is.

    Settings that change along a run are laid out over the steps that were planned first. What is decided later changes
    how much of them a step is, so that a value goes on from where it is.
    """

    step: int
    """After this many steps it was decided."""
    position: float
    """How many of the planned steps these are worth."""
    planned_steps: int
    total_steps: int
    rows: int
    """Of the data, that were taken until then."""

    @classmethod
    def whole(cls, total_steps: int) -> "RunLength":
        """Of a run that is as long as planned."""
        return cls(step=0, position=0.0, planned_steps=total_steps, total_steps=total_steps, rows=0)

    def position_after(self, steps: int) -> float:
        """How many of the planned steps are done after so many.

        >>> RunLength.whole(10).position_after(4)
        4.0
        >>> RunLength(step=4, position=4, planned_steps=10, total_steps=7, rows=0).position_after(5)
        6.0
        """
        if steps >= self.total_steps:
            return float(self.planned_steps)
        return self.position + (steps - self.step) * self.slope

    @property
    def slope(self) -> float:
        """Planned steps in a step."""
        return (self.planned_steps - self.position) / (self.total_steps - self.step)


class LengthLog(FileRecord):
    """How long a run by the clock was to be, in the order of its decisions: each is written before the run obeys it, so
    that a run that is resumed repeats it. Also of one that was extended from or by a number of minutes."""

    FILE: ClassVar[str] = "lengths.json"
    minutes: float
    """0: the run has a number of steps now."""
    seconds: float
    """Since the first step, without the time in which nothing ran, and without what came before the first step."""
    lengths: list[RunLength]


class Environment(FileRecord):
    """Where and how a run was run: the machine, the versions, the command."""

    FILE: ClassVar[str] = "environment.json"
    python: str = ""
    platform: str = ""
    cpu_capability: str = ""
    cores: int = 0
    threads: int = 0
    thread_waiting: str = ""
    cuda: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    command: list[str] = Field(default_factory=list)
    data: str = ""
    """Where the data lay. It is no part of what the run is, but people know data by its path, not by its hash."""


class StepRecord(Record):
    """A line of metrics.jsonl. What is measured depends on the training, so the numbers go by their names.

    >>> record = StepRecord.model_validate({"step": 3, "loss": 0.5, "heldout_auc": 0.75})
    >>> record["loss"], record.with_prefix("heldout_"), record.to_json()
    (0.5, {'auc': 0.75}, {'step': 3, 'loss': 0.5, 'heldout_auc': 0.75})
    """

    step: int
    values: Mapping[str, float | int | None]
    """None for a number that was not finite."""
    warnings: list[str] = Field(default_factory=list)
    """What was told about this step for the first time."""

    # On disk and wire the line is flat: {"step": 3, "loss": 0.5, ..., "warnings": [...]}.
    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, line: Any) -> Any:
        if not isinstance(line, dict) or "values" in line:
            return line
        numbers = {name: value for name, value in line.items() if name not in ("step", "warnings")}
        return {name: line[name] for name in ("step", "warnings") if name in line} | {"values": numbers}

    @model_serializer(mode="wrap")
    def _to_flat(self, _: SerializerFunctionWrapHandler) -> dict[str, Any]:
        line: dict[str, Any] = {"step": self.step, **self.values}
        return line | ({"warnings": list(self.warnings)} if self.warnings else {})

    def __getitem__(self, name: str) -> Any:
        return self.values[name] if name in self.values else super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def get(self, name: str, default: Any = None) -> Any:
        """The number of that name; None where it was not finite, the default where it was not measured."""
        return self.values.get(name, default)

    def with_prefix(self, prefix: str) -> dict[str, float | int | None]:
        """The numbers whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): value for name, value in self.values.items() if name.startswith(prefix)}


def read_metrics(path: Path) -> list[StepRecord]:
    """Every whole record of a log; a line torn by a crash is not one."""
    if not path.is_file():
        return []
    records = []
    lines = path.read_bytes().split(b"\n")[:-1]  # without a final newline the last line was torn
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            records.append(StepRecord.model_validate(json.loads(line)))
        except ValueError:  # also pydantic's
            raise DamagedArtifact(
                f"{path}: line {number} is not the record of a step; remove the line or restore the file"
            ) from None
    return records


class RunProgress(Record):
    """How far a run has come."""

    step: int = 0
    tokens: int = 0
    flops: int = 0
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    seconds: float = 0.0


class StoredLossScale(Record):
    value: float
    calm_steps: int


class CheckpointState(FileRecord):
    """What a checkpoint holds beside weights and the optimizer's state."""

    FILE: ClassVar[str] = "state.json"
    progress: RunProgress
    loss_scale: StoredLossScale
    pending: StepRecord | None
    """What is still to be logged of the last step, if a stop came between the step and its log."""


class Snapshot(FileRecord, RunProgress):
    """Where a run was when its networks were copied. Written last: a snapshot without it is not whole."""

    FILE: ClassVar[str] = "progress.json"

    @classmethod
    def read_all(cls, run_dir: Path) -> list["Snapshot"]:
        """Every whole snapshot of a run, in the order of their steps."""
        snapshots = [cls.read(path.parent) for path in (run_dir / SNAPSHOTS).glob(f"step-*/{cls.FILE}")]
        return sorted(snapshots, key=lambda snapshot: snapshot.step)


def snapshot_folder(run_dir: Path, step: int) -> Path:
    """Laid out like `export`, so that it is a model wherever one is asked for."""
    return run_dir / SNAPSHOTS / f"step-{step}"


def snapshot_step(fraction: float, total_steps: int) -> int:
    """The step after which this fraction of a run is done."""
    return max(1, round(fraction * total_steps))


class GuessedToken(Record):
    text: str
    p: float
    continues_word: bool
    """Whether it goes on with the word before, without a space."""


class ExampleRow(Record):
    """The beginning of a held-out row, token by token: all lists are of one length."""

    pieces: list[str]
    is_masked: list[bool]
    guesses: list[list[GuessedToken]] = Field(default_factory=list)
    """The likeliest tokens for what was masked; empty elsewhere."""
    corrupted: list[str] | None = None
    """The row as the discriminator saw it; None of an objective that replaces nothing."""
    is_replaced: list[bool] | None = None
    p_replaced: list[float | None] | None = None
    """None of an objective without a discriminator, and of a token that it was not asked about."""


class RunExamples(FileRecord):
    """A few held-out rows as the networks of a run saw them at its last evaluation."""

    FILE: ClassVar[str] = "examples.json"
    objective: str
    step: int
    rows: list[ExampleRow]


class RunUsefulness(Record):
    """What a finished run is good for, in words."""

    is_useful: bool
    text: str


class RunWarning(Record):
    step: int
    """0: before the first step."""
    text: str


class PretrainResults(FileRecord):
    """What came of a pre-training run: how long it was, and how its networks score on held-out rows."""

    FILE: ClassVar[str] = "results.json"
    objective: str
    step: int
    tokens: int
    flops: int
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    seconds: float
    heldout: dict[str, float | None]
    baselines: dict[str, float | None] = Field(default_factory=dict)
    """What knowing only frequencies achieves."""
    verdict: RunUsefulness | None = None
    warnings: list[RunWarning] = Field(default_factory=list)
    snapshots: list[Snapshot] = Field(default_factory=list)


class QuickstartResult(PretrainResults):
    """What `quickstart` answers: the run, and in how many sentences it suspects the swapped word first."""

    run: str
    data: str
    swaps: int
    hits: int
    hit_interval: tuple[float, float] | None = None
    """95 %, of the share of the sentences; None where there was none to try."""
    by_chance: float | None = None
    """The share that choosing a token at random would find."""
    is_useful: bool


class QuickstartPlan(PlanRecord):
    """`quickstart --dry-run`."""

    text: tuple[str, ...]
    data: str
    run: str
    minutes: float


class PretrainPlan(PlanRecord):
    """`pretrain --dry-run`: what the run would be, take and need."""

    settings: JsonTree
    steps: int
    resumes_at: int
    rows: int
    epochs: float
    tokens: int
    parameters: int
    flops: int
    estimated_minutes: float
    estimated_memory_mb: int
    expected: str = ""
    """What a run of the same preset had after as many tokens; empty where none was recorded."""
    notes: list[str] = Field(default_factory=list)
    """What the run would say before its first step."""

    @property
    def batch_size(self) -> int:
        match self.settings:
            case {"batch": {"size": int(size)}}:
                return size
        return 0


class CostEstimate(Record):
    """`flops`: what a run would cost, from its settings alone."""

    objective: str
    vocab_size: int
    sequence_length: int
    batch_size: int
    parameters: dict[str, dict[str, int]]
    """Of each network by part; what two share is counted once, with the first."""
    forward: dict[str, dict[str, int]]
    """FLOPs of each network for a token of its row, by what they are spent on."""
    other: int
    """FLOPs for a token, forward and backward, of what is asked beside the networks' own tasks; 0 where that differs
    from step to step."""
    step_flops: int
    """Forward and backward of all networks, in the mean over the run."""
    paper_step_flops: int | None
    """In the paper's convention, which is defined for `electra` and `mlm` only."""
    steps: int
    tokens: int
    flops: int
    paper_flops: int | None
    memory_bytes: int
    total_parameters: int
    estimated_minutes: float


class PaperRun(Record):
    """A run of the paper, counted by us beside what its authors' script prints."""

    parameters: int
    steps: int
    paper_flops: int
    published_flops: float
    ratio: float
    flops: int


class PaperTable(Record):
    """`flops --table`: the paper's runs by the names of their models."""

    runs: dict[str, PaperRun]

    def to_json(self) -> JsonTree:
        return {model: run.to_json() for model, run in self.runs.items()}

    def __getitem__(self, name: str) -> Any:
        return self.runs[name]


class FlopsPlan(PlanRecord):
    """`flops --dry-run`."""

    settings: JsonTree
    budget: str
