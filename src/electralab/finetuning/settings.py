"""The settings of a fine-tuning run: the paper's for the task and the size of the model, unless others are given.

    task, encoder, file, flags -> FinetuneConfig; run folder -> TunedRun

They are written down before the first step; going on with a run as anything else is refused.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator

from electralab.artifacts import read_json
from electralab.config import Alias, ConfigLayer, GivenSettings, Settings, SettingsTree, resolve
from electralab.errors import DamagedArtifact, IdentityMismatch, UsageError
from electralab.model.settings import EncoderConfig, Probability
from electralab.model.task_model import HeadStyle
from electralab.records.tuned import TunedRun
from electralab.runtime import RuntimeConfig
from electralab.tasks.features import SpanConfig
from electralab.tasks.kind import Task
from electralab.tasks.load import TaskDataConfig
from electralab.training.fingerprints import ANOTHER, check_same_settings, check_same_threads
from electralab.training.optimizer import OptimizerConfig
from electralab.training.schedule import ScheduleConfig


class TaskHeadConfig(Settings):
    style: HeadStyle = "released"
    """The released code's dropout and linear map, or the head of Hugging Face's class for the task."""
    dropout: Probability = 0.1
    pooling: Literal["first", "mean"] = "first"
    """For one answer a row: from the first token's state (the last one's of a causal encoder), or the mean of all."""


class TaskBatchConfig(Settings):
    size: int = Field(32, ge=1)
    micro_size: int = Field(0, ge=0)
    """Rows that go through the network at once; gradients of a step's micro-batches add up. 0 means all."""
    slices: int = Field(1, ge=1)
    """Into how many parts a step is cut for the workers that compute it, a power of two. Its sums depend on it, and on
    no number of workers. 1: a step is computed whole, by threads."""

    @property
    def rows_at_once(self) -> int:
        """The most that go through the network together."""
        return self.micro_size or -(-self.size // self.slices)

    @model_validator(mode="after")
    def _slices_fit(self) -> "TaskBatchConfig":
        complaints = {
            f"slices {self.slices} is no power of two up to size {self.size}: the sums of a step are added in pairs": (
                self.slices & (self.slices - 1) != 0 or self.slices > self.size
            ),
            "micro_size goes with slices 1: slices are the micro-batches; leave it at 0": (
                self.slices > 1 and self.micro_size > 0
            ),
        }
        for sentence, is_wrong in complaints.items():
            if is_wrong:
                raise ValueError(sentence)
        return self


class TaskEvaluationConfig(Settings):
    times: Annotated[int, Alias("num_evaluations")] = Field(3, ge=0)
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
    min_steps: int = Field(0, ge=0)
    """The fewest steps, where the epochs of few rows would have less; 0: no more than the epochs have."""
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


class SizeDefaults(NamedTuple):
    up_to: float
    """The largest hidden size."""
    learning_rate: float
    layer_decay: float
    min_steps: int
    """Three epochs of a few hundred rows end before anything is learned; none where epochs or steps are given."""


# Encoders that were trained for minutes or hours have more to learn than to keep: a high rate, the same in all layers.
_SMALL_ENCODER = SizeDefaults(256, 1e-3, 1.0, 300)
# Rates and decays are the paper's for 256, 768 and 1024.
_BY_HIDDEN_SIZE = (
    SizeDefaults(512, 3e-4, 0.8, 300),
    SizeDefaults(896, 1e-4, 0.8, 300),
    SizeDefaults(float("inf"), 5e-5, 0.9, 300),
)


# Of a step of 32 rows. Processor time against an uncut step, 25 to 60 tokens a row: `tiny` and 6×192 take .9 to 1.04
# in 2 slices, 1.03 to 1.14 in 4, 1.13 to 1.36 in 8; four cores gain more than that.
_SLICES = 4


def default_settings(task: Task, encoder: EncoderConfig, layers: Sequence[ConfigLayer] = ()) -> ConfigLayer:
    """Those of the task and the size, beside what the layers above say."""
    size = next(size for size in _BY_HIDDEN_SIZE if encoder.hidden_size <= size.up_to)
    # The released small model is as narrow but twelve layers deep, and was trained for a million steps.
    if encoder.hidden_size <= _SMALL_ENCODER.up_to and encoder.num_layers < 12:
        size = _SMALL_ENCODER
    from_scratch = any(layer.values.get("from_scratch") is True for layer in layers)
    is_length_given = any(layer.values.get(name) for layer in layers for name in ("epochs", "steps"))
    batch: SettingsTree = {}
    for layer in layers:
        given = layer.values.get("batch")
        batch |= given if isinstance(given, dict) else {}
    rows = batch.get("size", TaskBatchConfig().size)
    # Who names micro-batches, 0 too, means a step that is not cut.
    slices = 1 if "micro_size" in batch or not isinstance(rows, int) or rows < 2 else min(_SLICES, rows)
    # The first token is never replaced, so that a discriminator learns little for it; released classes read it anyway.
    pools_mean = encoder.is_modern and not encoder.is_causal and task.kind.is_pooled
    values: SettingsTree = {
        "epochs": task.epochs,
        "head": {"pooling": "mean" if pools_mean else "first"},
        "min_steps": 0 if is_length_given else size.min_steps,
        "sequence_length": min(task.sequence_length, encoder.sequence_length),
        "double_pairs": task.doubles_pairs,
        "batch": {"slices": 1 << (slices.bit_length() - 1)},
        "optimizer": {
            "learning_rate": size.learning_rate,
            # Lower layers that know nothing have as much to learn as the upper ones.
            "layer_decay": 1.0 if from_scratch else size.layer_decay,
            "weight_decay": 0.0,
            "beta2": 0.999,
        },
    }
    return ConfigLayer(f"defaults of {task.display}", values)


def resolve_finetune(
    task: Task, encoder: EncoderConfig, layers: Sequence[ConfigLayer], begun: GivenSettings | None = None
) -> FinetuneConfig:
    """Later layers win; a text longer than the encoder's rows is cut to them.

    `begun`: the settings of the run that is gone on with, where there is one. It keeps the defaults of its size that it
    began with, whatever they have become.
    """
    defaults = [default_settings(task, encoder, layers)]
    if begun is not None:
        optimizer = begun.get("optimizer")
        given = optimizer if isinstance(optimizer, dict) else {}
        kept = {name: given[name] for name in ("learning_rate", "layer_decay") if name in given}
        head = begun.get("head")
        # Runs from before there was a choice read the first token.
        pooling = head.get("pooling", "first") if isinstance(head, dict) else "first"
        values: SettingsTree = {"min_steps": begun.get("min_steps", 0), "head": {"pooling": pooling}, "optimizer": kept}
        defaults.append(ConfigLayer("the run as it began", values))
        batch = begun.get("batch")
        slices = batch.get("slices", 1) if isinstance(batch, dict) else 1
        as_begun = [*defaults, ConfigLayer("the run as it began", {"batch": {"slices": slices}})]
        # Another batch, which they may not fit, is another run, and refused as such.
        with suppress(UsageError):
            resolve(FinetuneConfig, [*as_begun, *layers])
            defaults = as_begun
    config = resolve(FinetuneConfig, [*defaults, *layers])
    length = min(config.sequence_length, encoder.sequence_length)
    shape = product_shape(config.batch, length, encoder)
    return config.model_copy(update={"sequence_length": length, "runtime": config.runtime.settle(begun, shape)})


def product_shape(batch: TaskBatchConfig, length: int, encoder: EncoderConfig) -> tuple[int, int, int]:
    """Of a large product of a step: rows, inputs, outputs."""
    return batch.rows_at_once * length, encoder.hidden_size, encoder.feedforward_size


def read_identity(run_dir: Path) -> TunedRun | None:
    """What the fine-tuning run in a folder is; None where none was begun."""
    path = run_dir / TunedRun.FILE
    if not path.exists():
        return None
    value = read_json(path)
    if not isinstance(value, dict) or value.get("kind") != "finetune":
        raise DamagedArtifact(
            f"{path}: not the identity of a fine-tuning run; restore the file or choose another --out"
        )
    return TunedRun.parse(value, path)


def find_run(folder: Path) -> Path | None:
    """The fine-tuning run that a model folder was exported by, where it still lies there."""
    run_dir = folder.parent.parent
    path = run_dir / TunedRun.FILE
    if folder.parent.name != "export" or not path.is_file():
        return None
    stored = read_json(path)
    return run_dir if isinstance(stored, dict) and stored.get("kind") == "finetune" else None


def check_resumable(run_dir: Path, stored: TunedRun, asked: TunedRun, *, allow_inexact: bool) -> None:
    """Refuse to go on with another run's command, naming the first difference and what to do."""
    if stored.task != asked.task:
        raise IdentityMismatch(f"{run_dir}: was a run of {stored.task}, now {asked.task}; {ANOTHER}")
    for what, was, now in (("data", stored.data, asked.data), ("model", stored.model, asked.model)):
        if was != now:
            raise IdentityMismatch(
                f"{run_dir}: began with another {what} ({was[:8]}…, now {now[:8]}…); give the same or {ANOTHER}"
            )
    trees: list[SettingsTree] = []
    for settings in (stored.settings, asked.settings):
        # A run that began before a setting existed did what is now its default; what is not valid stays as it is.
        try:
            trees.append(FinetuneConfig.model_validate(settings).model_dump(mode="json"))
        except ValidationError:
            trees.append(dict(settings))
    check_same_settings(run_dir, *trees)
    if not allow_inexact:
        check_same_threads(run_dir, stored.threads, asked.threads)
