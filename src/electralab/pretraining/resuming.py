"""The settings of a run that may have been begun before: what is asked for now, over what the run stored then.

layers of settings, run folder -> PretrainConfig

Presets and defaults change from version to version. A run goes on with what it began with, unless the user asks for
something else in so many words, which is then refused by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from electralab.config import ConfigLayer, differences, read_toml
from electralab.errors import UsageError
from electralab.pretraining.identity import RunIdentity, read_identity
from electralab.pretraining.settings import Preset, PretrainConfig, Stored, complete_settings, resolve_pretrain
from electralab.pretraining.start import find_max_positions

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RunSettings:
    config: PretrainConfig
    preset: str
    notes: tuple[str, ...] = ()


def settle_settings(layers: Sequence[ConfigLayer], run_dir: Path, init_from: Path | None) -> RunSettings:
    """New training also keeps as many positions as what it starts from, unless the layers say otherwise."""
    positions = find_max_positions(init_from) if init_from is not None else 0
    kept = ConfigLayer("--init-from", {"model": {"max_positions": positions}} if positions else {})
    asked = resolve_pretrain(_insert(layers, kept))
    preset = next((layer.source for layer in layers if isinstance(layer, Preset)), f"preset {asked.size}")
    stored = read_identity(run_dir)
    if stored is None or stored.preset not in ("", preset):
        return RunSettings(asked, preset)
    settings = complete_settings(stored.settings)
    changes = list(differences(settings, asked.model_dump(mode="json", exclude={"steps"})))
    try:
        resumed = resolve_pretrain(_insert(layers, _read_stored(run_dir, stored)))
    except UsageError:  # what is asked for does not go with what is stored: it is refused as another run
        return RunSettings(asked, preset)
    if not changes or resumed.model_dump(mode="json", exclude={"steps"}) != settings:
        return RunSettings(resumed, preset)
    told = ", ".join(f"{name} is {was!r} (a new run: {now!r})" for name, was, now in changes[:_SHOWN])
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return RunSettings(resumed, preset, (f"{run_dir}: goes on with the settings that it stored: {told}{more}",))


def _insert(layers: Sequence[ConfigLayer], layer: ConfigLayer) -> list[ConfigLayer]:
    """Above presets, below what the user says."""
    place = 1 + max((index for index, each in enumerate(layers) if isinstance(each, Preset)), default=-1)
    return [*layers[:place], layer, *layers[place:]]


def _read_stored(run_dir: Path, stored: RunIdentity) -> Stored:
    """The number of steps, which is a budget and no part of the identity, is in the settings file beside it."""
    path = run_dir / "config.toml"
    steps = read_toml(path).values.get("steps") if path.is_file() else None
    settings = complete_settings(stored.settings)
    return Stored(str(run_dir), settings if steps is None else settings | {"steps": steps})
