"""The settings of a pre-training run, composed of those of its components, and the presets they start from.

preset, file, flags -> PretrainConfig
"""

import difflib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from electralab.config import Layer, Settings, Tree, read_toml, resolve
from electralab.errors import UsageError
from electralab.model.settings import SIZES
from electralab.objective.settings import ObjectiveConfig, implied_settings
from electralab.runtime import RuntimeConfig
from electralab.training.optimizer import OptimizerConfig
from electralab.training.schedule import ScheduleConfig


class BatchConfig(Settings):
    size: int = Field(32, ge=1)
    micro_size: int = Field(0, ge=0)
    """Rows that go through the networks at once; gradients of a step's micro-batches add up. 0 means all."""


class EvaluationConfig(Settings):
    rows: int = Field(256, ge=1)
    times: int = Field(10, ge=0)
    """How often in a run the held-out rows are judged, the end included."""


class PretrainConfig(ObjectiveConfig):
    size: Literal["tiny", "small", "base", "large"] = "tiny"
    steps: int = Field(10_000, ge=1)
    """The budget where no other is given."""
    seed: int = Field(0, ge=0, lt=2**31)
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    batch: BatchConfig = BatchConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    runtime: RuntimeConfig = RuntimeConfig()

    @model_validator(mode="after")
    def _micro_batch_fits(self) -> "PretrainConfig":
        if self.batch.micro_size > self.batch.size:
            raise ValueError(f"batch.micro_size {self.batch.micro_size} is larger than batch.size {self.batch.size}")
        if self.loss.sequence_weight > 0 and 1 in (self.batch.micro_size, self.batch.size):
            raise ValueError(
                "loss.sequence_weight tells rows apart that go through the networks together, of which there is one "
                "only; raise batch.micro_size and batch.size to 2 or more, or set it to 0"
            )
        return self


def complete_settings(stored: Tree) -> Tree:
    """Stored settings with the defaults of those that came later; as they are where they are no longer valid."""
    try:
        return PretrainConfig.model_validate(stored).model_dump(mode="json", exclude={"steps"})
    except (ValidationError, UsageError):
        return stored


class Preset(Layer):
    """A layer that comes with the package."""


def preset_names() -> list[str]:
    folder = resources.files("electralab") / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_settings(name: str) -> Layer:
    """A preset by name, or a TOML file by path."""
    if name in preset_names():
        with resources.as_file(resources.files("electralab") / "presets" / f"{name}.toml") as path:
            return Preset(f"preset {name}", read_toml(path).values)
    if Path(name).suffix != ".toml" and not Path(name).exists():
        close = difflib.get_close_matches(name, preset_names(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"presets are {', '.join(preset_names())}"
        raise UsageError(f"--config: no preset or file named {name!r}; {hint}")
    return read_toml(Path(name))


def resolve_pretrain(layers: Sequence[Layer]) -> PretrainConfig:
    """Later layers win; below them lies the last size that any of them names, and its preset unless one is given."""
    size = next((layer.values["size"] for layer in reversed(layers) if "size" in layer.values), "tiny")
    if not isinstance(size, str) or size not in SIZES:
        return resolve(PretrainConfig, layers)  # which says what is wrong with it
    has_preset = any(isinstance(layer, Preset) for layer in layers)
    stack = [Layer(f"size {size}", SIZES[size]), *([] if has_preset else [read_settings(size)]), *layers]
    backbones = [layer.values["model"]["backbone"] for layer in stack if "backbone" in _section(layer, "model")]
    return resolve(
        PretrainConfig,
        _imply([_fit(layer, size, backbones[-1]) for layer in stack], SIZES[size]["generator"]["width_share"]),
    )


def _imply(stack: list[Layer], usual_width: float) -> list[Layer]:
    """With what the named objective, procedure and generator bring along, above presets and below the user's own."""
    merged = {key: value for layer in stack for key, value in layer.values.items()}
    kinds = [value for layer in stack if (value := _section(layer, "generator").get("kind"))]
    options = [_section(layer, "procedure_options") for layer in stack]
    inits = [section["init_from_generator"] for section in options if "init_from_generator" in section]
    names = [
        merged.get("objective", "electra"),
        merged.get("procedure", "joint"),
        kinds[-1] if kinds else "transformer",
    ]
    implied = implied_settings(
        *map(str, names), init_from_generator=not inits or inits[-1] is not False, usual_width=usual_width
    )
    place = max(index for index, layer in enumerate(stack) if index == 0 or isinstance(layer, Preset)) + 1
    named = ", ".join(dict.fromkeys(map(str, names)))
    return [*stack[:place], Layer(f"what {named} implies", implied), *stack[place:]]


def _section(layer: Layer, name: str) -> Tree:
    section = layer.values.get(name, {})
    return section if isinstance(section, dict) else {}


def _fit(layer: Layer, size: str, backbone: str) -> Layer:
    """What a preset says of the networks was chosen for its own size and backbone; for others only the rest holds."""
    if not isinstance(layer, Preset):
        return layer
    own = layer.values["size"]
    if own == size and SIZES[own]["model"]["backbone"] == backbone:
        return layer
    return Preset(
        layer.source, {key: value for key, value in layer.values.items() if key not in ("model", "generator")}
    )
