"""What is asked of a trade-off: which variants there are, how they are made and how they are measured.

CompressConfig -> ModelVariant...
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from electralab.config import Alias, Settings
from electralab.corpus.readers import ReadingConfig
from electralab.model.folders.folder import Storage
from electralab.tasks.load import TaskDataConfig
from electralab.training.schedule import ScheduleConfig

Share = Annotated[float, Field(gt=0, lt=1)]
Graph = Literal["onnx", "onnx-dynamic-int8", "onnx-static-int8"]

BASELINE = "fp32"
"""The variant that the others are compared with: the model as it is."""


class ImportanceConfig(Settings):
    rows: int = Field(1024, ge=1)
    """Training rows that say which heads and neurons matter, spread over all of them."""
    batch_size: int = Field(32, ge=1)


class RecoveryConfig(Settings):
    """Training of what pruning left."""

    steps: int = Field(1000, ge=0)
    """0: no recovery."""
    batch_size: int = Field(32, ge=1)
    learning_rate: float = Field(0.0, ge=0)
    """0: the rate at which a model of this size is fine-tuned."""
    distillation: float = Field(0.5, ge=0, le=1)
    """How much of the loss is about what the unpruned model says; the rest is about the truth."""
    temperature: float = Field(1.0, gt=0)
    """Softens what both say in that part."""
    schedule: ScheduleConfig = ScheduleConfig(warmup_share=0.1)


class VerdictConfig(Settings):
    """Of a model that is not tuned: the text that it is made and scored on."""

    limit: int = Field(1024, ge=0)
    """The most rows to score on; 0 means all there are."""
    mask_share: float = Field(0.15, gt=0, lt=1)
    temperature: float = Field(1.0, gt=0)


class MeasureConfig(Settings):
    rounds: int = Field(50, ge=1)
    """How often every variant is timed, in turn; the fastest tenth counts."""
    bootstrap: int = Field(100, ge=2)
    """How often the examples are drawn again for the standard deviation of the score."""
    speedup_batch: Literal[1, 32] = 1
    """The batch whose latency makes the speed-up."""


class CompressConfig(Settings):
    seed: int = Field(0, ge=0, lt=2**31)
    storage: tuple[Storage, ...] = ("fp16", "bf16")
    prune: tuple[Share, ...] = (0.3,)
    """Shares of the heads, and of the neurons, to take away; each is a variant, without and with recovery."""
    drop_layers: int = Field(0, ge=0)
    """The least important layers, to leave out of every pruned variant."""
    graphs: tuple[Graph, ...] = ()
    """Forms of ONNX to try, of the model as it is and of the pruned variants."""
    calibration_rows: int = Field(128, ge=1)
    """Training rows on which a static graph finds the ranges of its activations."""
    importance: ImportanceConfig = ImportanceConfig()
    recovery: RecoveryConfig = RecoveryConfig()
    measure: MeasureConfig = MeasureConfig()
    verdicts: Annotated[VerdictConfig, Alias("rtd")] = VerdictConfig()
    reading: ReadingConfig = ReadingConfig()
    data: TaskDataConfig = TaskDataConfig()
    """Of a tuned model: how the tables of its task are read."""
    device: str = "cpu"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.drop_layers and not self.prune:
            raise ValueError("drop_layers is about the pruned variants, and there are none; set prune")
        return self


@dataclass(frozen=True, slots=True)
class ModelVariant:
    """A form of the model that is tried."""

    name: str
    share: float = 0.0
    drop_layers: int = 0
    is_recovered: bool = False
    storage: Storage = "fp32"
    graph: Graph | None = None
    origin: str = BASELINE
    """Of a graph or a recovered variant: the variant that it is made from."""


def list_variants(config: CompressConfig) -> list[ModelVariant]:
    """The model as it is first; what another is made from before it; none twice."""
    variants = [ModelVariant(BASELINE)]
    variants += [ModelVariant(storage, storage=storage) for storage in config.storage if storage != BASELINE]
    variants += [ModelVariant(graph, graph=graph) for graph in config.graphs]
    for share in config.prune:
        name = f"pruned-{100 * share:g}" + (f"-drop-{config.drop_layers}" if config.drop_layers else "")
        pruned = ModelVariant(name, share, config.drop_layers)
        variants.append(pruned)
        if config.recovery.steps:
            pruned = replace(pruned, name=f"{name}-recovered", is_recovered=True, origin=name)
            variants.append(pruned)
        # Graphs of the best that pruning gives.
        variants += [
            ModelVariant(f"{pruned.name}-{graph}", share, config.drop_layers, graph=graph, origin=pruned.name)
            for graph in config.graphs
        ]
    return list(dict.fromkeys(variants))


@dataclass(frozen=True, slots=True)
class CompressRequest:
    model: Path
    data: Path
    out: Path
    config: CompressConfig
    generator: Path | None
    task: str | None
    target_speedup: float | None
    max_loss: float | None
    threads: int
    """0 means: as before, or as many as there are cores."""
    license: str = ""
    """Of the weights; without one, what the model's folder states."""
