"""Verbs that hand a model on: in other forms, smaller, or taken over from elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from electralab.config import SettingsTree, config_layers, resolve
from electralab.display import Display
from electralab.stopping import handle_signals

if TYPE_CHECKING:
    from electralab.exporting.export import Format

Result = dict[str, Any]


def export(
    model: str | Path,
    out: str | Path,
    *,
    format: str = "hf",
    data: str | Path | None = None,
    license: str = "",
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """A model as a folder for `transformers` or as ONNX graphs, tried against the model before it is written."""
    display = display or Display()
    display.tell_loading()
    from electralab.exporting.export import ExportConfig, export_model, plan_export
    from electralab.runtime import use_threads

    resolved = resolve(ExportConfig, config_layers(config, settings))
    form, text = cast("Format", format), Path(data) if data else None
    if dry_run:
        return plan_export(Path(model), Path(out), form, resolved, data=text, license=license).to_json()
    use_threads(threads)
    with handle_signals() as stop:
        steps = export_model(Path(model), Path(out), form, resolved, data=text, license=license, stop=stop)
        return display.follow(steps).to_json()


def compress(
    model: str | Path,
    data: str | Path,
    out: str | Path,
    *,
    generator: str | Path | None = None,
    task: str | None = None,
    config: str | None = None,
    settings: SettingsTree | None = None,
    target_speedup: float | None = None,
    max_loss: float | None = None,
    license: str = "",
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """Smaller and faster variants of a model, and what each costs; the same call again goes on.

    With `target_speedup` or `max_loss` one of them becomes the model of `out`; "picked" is None where none fits.
    """
    display = display or Display()
    display.tell_loading()
    from electralab.compression.settings import CompressConfig
    from electralab.compression.stage import CompressRequest, plan_compress, saved_reading_config
    from electralab.compression.stage import compress as run_compress

    request = CompressRequest(
        model=Path(model),
        data=Path(data),
        out=Path(out),
        config=resolve(CompressConfig, (saved_reading_config(Path(model)), *config_layers(config, settings))),
        generator=Path(generator) if generator else None,
        task=task,
        target_speedup=target_speedup,
        max_loss=max_loss,
        license=license,
        threads=threads,
    )
    if dry_run:
        return plan_compress(request).to_json()
    with handle_signals() as stop:
        return display.follow(run_compress(request, stop)).to_json()


def import_model(old: str | Path, out: str | Path) -> Result:
    """A legacy pickled or TensorFlow checkpoint -> a model folder of safetensors."""
    from electralab.model.folders.legacy import import_legacy

    return {"models": [str(folder) for folder in import_legacy(Path(old), Path(out))]}
