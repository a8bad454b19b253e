"""`electra export`, `electralab.export`: a model in a form that others can use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from electralab.shell.call import Call, Parser, as_model, as_path, open_display, positive_int, settle

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.exporting.export import Format
    from electralab.records.export import ExportPlan, ExportResult

SUMMARY = "write a model for transformers or as ONNX, checked against the original"
EXAMPLE = "electra export runs/mine --format onnx-int8 --data my_texts/ --out models/mine-int8"
SETTINGS = "electralab.exporting.export:ExportConfig"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run, a model folder of ours or of Hugging Face, or hour-en")
    add("--out", required=True, metavar="DIR", help="the folder to write")
    add("--format", metavar="NAME", help="hf (for transformers), onnx or onnx-int8")
    add("--data", metavar="PATH", help="your text or prepared data, to calibrate and check with")
    add("--activations", dest=".activations", help="for onnx-int8: ranges found in each call, or once on --data")
    add("--storage", dest=".storage", help="for hf: number format of the weights")
    add("--license", metavar="NAME", help="license of the weights: apache-2.0, mit, …, or a file")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def export(
    model: str | Path,
    out: str | Path,
    *,
    format: str = "hf",
    data: str | Path | None = None,
    license: str = "",
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> ExportResult | ExportPlan:
    """A model as a folder for `transformers` or as ONNX graphs, tried against the model before it is written.

    >>> electralab.export("run", "exported", threads=1).format
    'hf'
    """
    display = open_display(display)
    from electralab.exporting.export import ExportConfig, export_model, plan_export
    from electralab.runtime import use_threads

    resolved = settle(ExportConfig, config, settings)
    asked = (as_model(model), Path(out), cast("Format", format), resolved)
    if dry_run:
        return plan_export(*asked, data=as_path(data), license=license)
    use_threads(threads)
    return display.run(lambda stop: export_model(*asked, data=as_path(data), license=license, stop=stop))


def run(call: Call) -> None:
    from electralab.reporting.format import tell

    result = call.ask(export)
    if not call.prints_plan(result):
        call.print(*tell(result))
    call.answer(result)
