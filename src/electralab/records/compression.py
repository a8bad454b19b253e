"""The files of a folder of compressed variants: what they are of, what each keeps, saves and costs.

compress.json, importance.json, scores/VARIANT.json, tradeoff.json <-> records
"""

from typing import ClassVar

from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record


class CompressionFingerprint(FileRecord):
    """What was compressed, how; going on with anything else is refused."""

    FILE: ClassVar[str] = "compress.json"
    kind: str = "compress"
    model: str
    """Hash of the networks."""
    data: str
    """Hash of the rows."""
    settings: JsonTree
    threads: int


class ImportanceRecord(FileRecord):
    """How much the loss depends on each head and each neuron, layer by layer."""

    FILE: ClassVar[str] = "importance.json"
    heads: list[list[float]]
    neurons: list[list[float]]


class VariantScore(FileRecord):
    value: float
    """A fraction, the more the better."""
    deviation: float | None
    """The standard deviation of the value over examples drawn again."""
    count: int
    """Examples that it is a score of."""
    draws: int
    """How often they were drawn again; 0: not at all, and the deviation is not known."""


class KeptParts(Record):
    """What a variant has of the model's parts, in all its layers together."""

    layers: int
    heads: int
    neurons: int


class NoiseFloor(Record):
    """A smaller difference of two scores is chance."""

    points: float
    origin: str
    """What it is the standard deviation of."""


class VariantMeasurement(Record):
    """One variant: its size, latency and score."""

    name: str
    bytes: int
    parameters: int
    milliseconds: dict[str, float]
    """The latency that a tenth of the calls stay below, by the rows in a batch."""
    score: float
    kept: KeptParts


class TradeoffPoint(VariantMeasurement):
    """Beside the baseline's."""

    speedups: dict[str, float]
    speedup: float
    """That of the batch that was asked for."""
    loss: float
    """In points; below 0 where the variant is better."""
    is_floored: bool
    efficiency: float
    is_best: bool
    """Whether no other is both faster and better: the Pareto front."""


class RequestedTradeoff(Record):
    target_speedup: float | None
    max_loss: float | None


class Tradeoff(FileRecord):
    """The answer of `compress`: every variant that could be made, measured side by side."""

    FILE: ClassVar[str] = "tradeoff.json"
    model: str
    data: str
    metric: str
    baseline: str
    """The name of the variant that the others are compared with."""
    examples: int
    speedup_batch: int
    tokens: dict[str, int]
    """Of the rows that variants were timed on, by the rows in a batch."""
    threads: int
    floor: NoiseFloor
    failed: dict[str, str]
    """Variants that could not be made, and why."""
    variants: tuple[TradeoffPoint, ...]
    picked: str | None
    asked: RequestedTradeoff
    notes: tuple[str, ...]

    @property
    def metric_name(self) -> str:
        return "the AUC of replaced-token detection" if self.metric == "auc" else self.metric.replace("_", " ")

    @property
    def speedup_rows(self) -> str:
        """The rows whose latency makes the speed-up."""
        size = self.speedup_batch
        return f"{size} row{'s' if size > 1 else ''} of {self.tokens[str(size)]} tokens"


class CompressPlan(PlanRecord):
    """`compress --dry-run`: what would be made, of what."""

    model: str
    parameters: int
    metric: str
    training_rows: int
    variants: tuple[str, ...]
    recovery_steps: int
    settings: JsonTree
