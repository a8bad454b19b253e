"""The settings of a pre-training run, composed of those of its components, and the presets they start from.

preset, file, flags, run folder -> PretrainConfig

Presets and defaults change from version to version. A run goes on with the settings that it began with, unless the user
asks for something else in so many words, which is then refused by name.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from electralab.config import (
    Alias,
    ConfigLayer,
    GivenSettings,
    Settings,
    SettingsTree,
    canonical_names,
    differences,
    find_bundled,
    read_toml,
    resolve,
)
from electralab.errors import UsageError, suggest
from electralab.model.settings import SIZES
from electralab.objective.settings import (
    PUBLISHED,
    ObjectiveChoice,
    ObjectiveConfig,
    ObjectiveName,
    objective_defaults,
    unused_settings,
)
from electralab.records.record import JsonTree
from electralab.records.run import RunFingerprint, RunLength
from electralab.runtime import RuntimeConfig
from electralab.training.optimizer import OptimizerConfig
from electralab.training.schedule import ScheduleConfig

# Settings to name where a resumed run keeps others than a new one would have.
_SHOWN_CHANGES = 3
# Of a preset's step with more rows than the preset has: each keeps the gradients of all weights.
_MOST_SLICES = 8


class BatchConfig(Settings):
    size: int = Field(32, ge=1)
    micro_size: int = Field(0, ge=0)
    """Rows that go through the networks at once; gradients of a step's micro-batches add up. 0 means all."""
    slices: int = Field(1, ge=1)
    """Into how many parts a step is cut for the workers that compute it, a power of two. Its sums depend on it, and on
    no number of workers. 1: a step is computed whole, by threads."""
    first_size: int = Field(0, ge=0)
    """Rows of the first step, from where they grow to `size`; 0 means that all steps are alike."""
    ramp_share: float = Field(0.5, gt=0, le=1)
    """The first part of the run, in which the rows of a step grow."""
    halved_share: float = Field(0.0, ge=0, le=1)
    """The first part of the run, in which every row is read as two of half its length."""

    @property
    def rows_at_once(self) -> int:
        """The most that go through the networks together."""
        return self.micro_size or -(-self.size // self.slices)

    def rows_at(self, begin: float, total_steps: int) -> int:
        """How many rows of the data a step takes, before which so many of the planned ones are done."""
        ramp_steps = math.ceil(self.ramp_share * total_steps)
        if not self.first_size or begin >= ramp_steps:
            return self.size
        return self.first_size + int((self.size - self.first_size) * begin // ramp_steps)

    def rows_before(self, step: int, length: RunLength) -> int:
        """How many rows all earlier steps took, counted from 1: where in the order of rows a step begins."""
        inside = step - 1 - length.step
        return length.rows + (int(_rows_taken(self, length)[inside]) if self.first_size else inside * self.size)

    def is_halved(self, begin: float, total_steps: int) -> bool:
        return begin + 1 <= self.halved_share * total_steps

    @property
    def mean_rows(self) -> float:
        """Of a step, over a run."""
        growing = self.ramp_share if self.first_size else 0.0
        return (1 - growing) * self.size + growing * (self.first_size + self.size) / 2


@lru_cache(maxsize=4)
def _rows_taken(batch: BatchConfig, length: RunLength) -> NDArray[np.int64]:
    """How many rows the first 0, 1, 2, … steps of this length take."""
    ramp_steps = math.ceil(batch.ramp_share * length.planned_steps)
    begins = length.position + np.arange(length.total_steps - length.step) * length.slope
    growing = batch.first_size + (batch.size - batch.first_size) * begins // ramp_steps
    sizes = np.where(begins >= ramp_steps, batch.size, growing).astype(np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


class PretrainScheduleConfig(ScheduleConfig):
    warmup_reference_steps: int = Field(0, ge=0)
    """The length of run that warmup_steps was chosen for: in a shorter one the warm-up is shorter in proportion.
    0: warmup_steps holds at any length."""

    def at_length(self, total_steps: int) -> ScheduleConfig:
        """With the warm-up that a run of so many steps has."""
        if total_steps >= self.warmup_reference_steps:
            return self
        warmup_steps = round(self.warmup_steps * total_steps / self.warmup_reference_steps)
        return self.model_copy(update={"warmup_steps": max(1, warmup_steps)})


class EvaluationConfig(Settings):
    rows: int = Field(256, ge=1)
    times: Annotated[int, Alias("num_evaluations")] = Field(10, ge=0)
    """How often in a run the held-out rows are judged, the end included."""


class PretrainConfig(ObjectiveConfig):
    size: Literal["tiny", "small", "base", "large"] = "tiny"
    steps: int = Field(10_000, ge=1)
    """The budget where no other is given."""
    seed: int = Field(0, ge=0, lt=2**31)
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: PretrainScheduleConfig = PretrainScheduleConfig()
    batch: BatchConfig = BatchConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    runtime: RuntimeConfig = RuntimeConfig()

    @model_validator(mode="after")
    def _batch_fits(self) -> "PretrainConfig":
        batch, size = self.batch, self.batch.size
        complaints = {
            **{
                f"batch.{name} {rows} is larger than batch.size {size}": rows > size
                for name, rows in (("micro_size", batch.micro_size), ("first_size", batch.first_size))
            },
            f"batch.slices {batch.slices} is no power of two up to batch.size {size}: the sums of a step are added in "
            "pairs": batch.slices & (batch.slices - 1) != 0 or batch.slices > size,
            "batch.micro_size goes with batch.slices 1: slices are the micro-batches; leave it at 0": (
                batch.slices > 1 and batch.micro_size > 0
            ),
            f"batch.halved_share cuts rows in two, sentence_task {self.sentence_task!r} needs them whole; set one of "
            "them to 0 or 'none'": batch.halved_share > 0 and self.sentence_task != "none",
            "loss.sequence_weight tells rows apart that go through the networks together, of which there is one only; "
            "raise batch.micro_size and batch.size to 2 or more, or set it to 0": (
                self.loss.sequence_weight > 0 and batch.rows_at_once == 1
            ),
            "sentence_task 'next-sentence' takes wrong pairs from another row of the step, of which there is one only; "
            "raise batch.size to 2 or more, or set sentence_task to 'sentence-order' or 'none'": (
                self.sentence_task == "next-sentence" and size == 1
            ),
        }
        for sentence, is_wrong in complaints.items():
            if is_wrong:
                raise ValueError(sentence)
        return self


def parse_stored(stored: GivenSettings) -> PretrainConfig | None:
    """Settings that a run stored, with the defaults of those that came later; None where they are no longer valid."""
    try:
        return PretrainConfig.model_validate(stored)
    except (ValidationError, UsageError):
        return None


def complete_settings(stored: JsonTree) -> JsonTree:
    """Stored settings with the defaults of those that came later; as they are where they are no longer valid."""
    config = parse_stored(stored)
    return stored if config is None else config.model_dump(mode="json", exclude={"steps"})


class Preset(ConfigLayer):
    """A layer that comes with the package."""


class Stored(ConfigLayer):
    """The whole settings of a run that was begun before."""


class Common(ConfigLayer):
    """What several runs have in common: what has no effect in one of them is meant for the others."""


def read_settings(name: str) -> ConfigLayer:
    """A preset by name, or a TOML file by path."""
    values = find_bundled("presets", name, "--config: no preset")
    return read_toml(Path(name)) if values is None else Preset(f"preset {name}", values)


@dataclass(frozen=True, slots=True)
class RunSettings:
    config: PretrainConfig
    preset: str
    notes: tuple[str, ...] = ()


def settle_settings(layers: Sequence[ConfigLayer], run_dir: Path, max_positions: int) -> RunSettings:
    """The settings of a run that may have been begun before: what is asked for now, over what the run stored then.

    New training also keeps as many positions as what it starts from (0: as the layers say), unless they say otherwise.
    """
    # Both go above presets and below what the user says.
    index = 1 + max((index for index, layer in enumerate(layers) if isinstance(layer, Preset)), default=-1)
    start = {"model": {"max_positions": max_positions}} if max_positions else {}
    requested = resolve_pretrain([*layers[:index], ConfigLayer("--init-from", start), *layers[index:]])
    preset = layers[index - 1].source if index else f"preset {requested.size}"
    stored = RunFingerprint.find(run_dir)
    if stored is None or stored.preset not in ("", preset):
        return RunSettings(requested, preset)
    settings = complete_settings(stored.settings)
    # The number of steps, which is a budget and no part of the fingerprint, is in the settings file beside it.
    path = run_dir / "config.toml"
    steps = read_toml(path).values.get("steps") if path.is_file() else None
    stored_layer = Stored(str(run_dir), settings if steps is None else settings | {"steps": steps})
    try:
        resumed = resolve_pretrain([*layers[:index], stored_layer, *layers[index:]])
    except UsageError:  # what is asked for does not go with what is stored: it is refused as another run
        return RunSettings(requested, preset)
    changes = list(differences(settings, requested.model_dump(mode="json", exclude={"steps"})))
    if not changes or resumed.model_dump(mode="json", exclude={"steps"}) != settings:
        return RunSettings(resumed, preset)
    shown = ", ".join(f"{name} is {was!r} (a new run: {now!r})" for name, was, now in changes[:_SHOWN_CHANGES])
    more = f" and {len(changes) - _SHOWN_CHANGES} more" if len(changes) > _SHOWN_CHANGES else ""
    return RunSettings(resumed, preset, (f"{run_dir}: goes on with the settings that it stored: {shown}{more}",))


def resolve_pretrain(layers: Sequence[ConfigLayer]) -> PretrainConfig:
    """Later layers win; below them lies the last size that any of them names, and its preset unless one is given.

    >>> resolve_pretrain([ConfigLayer("command line", {"size": "small", "batch": {"size": 8}})]).batch.size
    8
    """
    layers = [canonical_names(PretrainConfig, layer) for layer in layers]
    size = _last(layers, "size", "tiny")
    if not isinstance(size, str) or size not in SIZES:
        return resolve(PretrainConfig, layers)  # which says what is wrong with it
    published = _find_published(layers)
    # By its own name, which is what a run stores: `albert` is `mlm` with settings that are implied.
    named = [
        replace(layer, values={**layer.values, "objective": PUBLISHED[name]})
        if isinstance(name := layer.values.get("objective"), str) and name in PUBLISHED
        else layer
        for layer in layers
    ]
    has_preset = any(isinstance(layer, Preset) for layer in layers)
    stack = [ConfigLayer(f"size {size}", SIZES[size]), *([] if has_preset else [read_settings(size)]), *named]
    backbone, usual_backbone = _last(stack, "model.backbone", ""), _last(stack[:1], "model.backbone", "")
    for index, layer in enumerate(stack):
        # What a preset says of the networks was chosen for its own size and backbone; for others only the rest holds.
        if isinstance(layer, Preset) and (layer.values.get("size", size) != size or usual_backbone != backbone):
            rest = {key: value for key, value in layer.values.items() if key not in ("model", "generator")}
            stack[index] = Preset(layer.source, rest)
    # A warm-up of the user's own holds at any length; the length that a preset names is that of its own warm-up.
    index = max((i for i, layer in enumerate(stack) if _says(layer, "schedule.warmup_steps")), default=-1)
    has_length = any(_says(layer, "schedule.warmup_reference_steps") for layer in stack[index:])
    if index >= 0 and not isinstance(stack[index], Preset) and not has_length:
        literal = ConfigLayer(stack[index].source, {"schedule": {"warmup_reference_steps": 0}})
        stack.insert(index + 1, literal)
    if cut := _cut_step(stack):
        stack.append(ConfigLayer("command line", {"batch": cut}))
    # What the named objective, procedure and generator bring along lies above presets and below the user's own.
    index = 1 + max(index for index, layer in enumerate(stack) if index == 0 or isinstance(layer, Preset))
    hidden_size = _last(stack, "model.hidden_size", 0)
    choice = ObjectiveChoice(
        objective=str(_last(stack, "objective", "electra")),
        published=published,
        hidden_size=hidden_size if isinstance(hidden_size, int) else 0,
        procedure=str(_last(stack, "procedure", "joint")),
        kind=str(_last(stack, "generator.kind", "transformer")),
        init_from_generator=_last(stack, "procedure_options.init_from_generator", True) is not False,
        sharing=str(_last(stack[index:], "model.sharing", "")),
    )
    names = ", ".join(dict.fromkeys((published or choice.objective, choice.procedure, choice.kind)))
    usual_width = _last(stack[:1], "generator.width_share", 0.0)
    assert isinstance(usual_width, float | int), "every size has a width of its generator"
    stack.insert(index, ConfigLayer(f"what {names} implies", objective_defaults(choice, usual_width)))
    config = resolve(PretrainConfig, stack)
    for layer in named:
        # What the user asks for in vain; a file that has every setting was written by a run, and asks for nothing.
        if isinstance(layer, Preset | Stored | Common) or layer.values.keys() >= PretrainConfig.model_fields.keys():
            continue
        for complaint in unused_settings(config, _dotted_names(layer.values)):
            raise UsageError(f"{layer.source}: {complaint}")
    return config


def _cut_step(stack: Sequence[ConfigLayer]) -> SettingsTree:
    """How a step is cut where the user does not say: what a preset says of it was chosen for the rows of its step."""
    presets = [layer for layer in stack if isinstance(layer, Preset)]
    own = [layer for layer in stack if not isinstance(layer, Preset)]

    def last(name: str, layers: Sequence[ConfigLayer] = stack) -> int:
        value = _last(layers, name, 0)
        return value if isinstance(value, int) else 0  # what is no number is refused by its name

    rows, micro_rows, slices = last("batch.size"), last("batch.micro_size"), last("batch.slices")
    is_own_micro = any(_says(layer, "batch.micro_size") for layer in own)
    changes: SettingsTree = {}
    if slices > 1 and not any(_says(layer, "batch.slices") for layer in own):
        # A slice has as many rows as in the preset. Who names micro-batches, 0 too, means a step that is not cut, as do
        # files of runs that were begun before there were slices. A contrast between rows is one of all of them.
        is_whole = is_own_micro or _last(stack, "loss.sequence_weight", 0)
        count = min(max(rows * slices // last("batch.size", presets), 2), _MOST_SLICES)
        changes["slices"] = slices = 1 if is_whole or rows < 2 else 1 << (min(count, rows).bit_length() - 1)
    if not is_own_micro:
        changes["micro_size"] = 0 if slices > 1 else min(micro_rows, rows)
    return {name: value for name, value in changes.items() if value != last(f"batch.{name}")}


def _find_published(layers: Sequence[ConfigLayer]) -> str:
    """The published model that the last layer to speak of an objective names, "" where it names an objective itself."""
    layer = next((layer for layer in reversed(layers) if "objective" in layer.values), None)
    if layer is None:
        return ""
    name = layer.values["objective"]
    known = (*get_args(ObjectiveName), *PUBLISHED)
    if not isinstance(name, str) or name not in known:
        *others, last = map(repr, known)
        raise UsageError(
            f"{layer.source}: objective: input should be {', '.join(others)} or {last} (got {name!r}); "
            f"{suggest(str(name), known, 'correct this setting')}"
        )
    return name if name in PUBLISHED else ""


def _dotted_names(values: GivenSettings, prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _dotted_names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


_NOTHING = object()


def _says(layer: ConfigLayer, name: str) -> bool:
    return _last([layer], name, _NOTHING) is not _NOTHING


def _last(stack: Sequence[ConfigLayer], name: str, otherwise: object) -> object:
    """What the last layer that speaks of a setting, by its dotted name, says of it."""
    section, _, key = name.rpartition(".")
    for layer in reversed(stack):
        values = layer.values.get(section, {}) if section else layer.values
        if isinstance(values, dict) and key in values:
            return values[key]
    return otherwise
