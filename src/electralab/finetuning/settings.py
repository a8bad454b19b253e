"""The settings of a fine-tuning run: the paper's for the task and the size of the model, unless others are given.

task, encoder, file, flags -> FinetuneConfig
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from electralab.config import Layer, Settings, Tree, resolve
from electralab.finetuning.questions import SpanConfig
from electralab.finetuning.reading import TaskDataConfig
from electralab.finetuning.tasks import Task
from electralab.model.encoder import EncoderConfig, Probability
from electralab.model.tuned import HeadStyle
from electralab.runtime import RuntimeConfig
from electralab.training.optimizer import OptimizerConfig
from electralab.training.schedule import ScheduleConfig


class TaskHeadConfig(Settings):
    style: HeadStyle = "released"
    """The released code's dropout and linear map, or the head of Hugging Face's class for the task."""
    dropout: Probability = 0.1


class TaskBatchConfig(Settings):
    size: int = Field(32, ge=1)
    micro_size: int = Field(0, ge=0)
    """Rows that go through the network at once; gradients of a step's micro-batches add up. 0 means all."""


class TaskEvaluationConfig(Settings):
    times: int = Field(3, ge=0)
    """How often in a run the dev examples are scored, the end included."""
    rows: int = Field(1000, ge=1)
    """At most so many of them along the way; at the end all."""
    batch_tokens: int = Field(8192, ge=1)


class FinetuneConfig(Settings):
    epochs: Annotated[float, Field(gt=0)]
    steps: int = Field(0, ge=0)
    """Instead of epochs, where it is not 0."""
    train_rows: int = Field(0, ge=0)
    """At most so many training rows, chosen by their content; 0 means all."""
    sequence_length: int = Field(ge=8)
    seed: int = Field(0, ge=0, lt=2**31)
    from_scratch: bool = False
    """Begin with random weights in the shape of the encoder: what pre-training is measured against."""
    double_pairs: bool = False
    """Learn from every pair in both orders."""
    encoder_dropout: Probability | None = None
    """Unset: as the encoder was pre-trained with."""
    head: TaskHeadConfig = TaskHeadConfig()
    data: TaskDataConfig = TaskDataConfig()
    spans: SpanConfig = SpanConfig()
    batch: TaskBatchConfig = TaskBatchConfig()
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = ScheduleConfig(warmup_share=0.1)
    evaluation: TaskEvaluationConfig = TaskEvaluationConfig()
    runtime: RuntimeConfig = RuntimeConfig()


# Settings that a run begun before there were any does not have, and what it did.
LATER_SETTINGS: Tree = {"train_rows": 0}

# Up to this hidden size: learning rate and layer-wise decay, the paper's for 256, 768 and 1024; below them our own.
_BY_HIDDEN_SIZE: tuple[tuple[float, float, float], ...] = (
    (192, 5e-4, 0.9),
    (512, 3e-4, 0.8),
    (896, 1e-4, 0.8),
    (float("inf"), 5e-5, 0.9),
)


def default_settings(task: Task, encoder: EncoderConfig, *, from_scratch: bool = False) -> Layer:
    rate, decay = next((rate, decay) for size, rate, decay in _BY_HIDDEN_SIZE if encoder.hidden_size <= size)
    if from_scratch:
        decay = 1.0  # lower layers that know nothing have as much to learn as the upper ones
    values: Tree = {
        "epochs": task.epochs,
        "sequence_length": min(task.sequence_length, encoder.sequence_length),
        "double_pairs": task.doubles_pairs,
        "optimizer": {"learning_rate": rate, "layer_decay": decay, "weight_decay": 0.0, "beta2": 0.999},
    }
    return Layer(f"defaults of {task.display}", values)


def resolve_finetune(task: Task, encoder: EncoderConfig, layers: Sequence[Layer]) -> FinetuneConfig:
    """Later layers win; a text longer than the encoder's rows is cut to them."""
    from_scratch = any(layer.values.get("from_scratch") is True for layer in layers)
    config = resolve(FinetuneConfig, [default_settings(task, encoder, from_scratch=from_scratch), *layers])
    longest = encoder.sequence_length
    return config if config.sequence_length <= longest else config.model_copy(update={"sequence_length": longest})
