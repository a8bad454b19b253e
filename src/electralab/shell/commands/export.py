"""`electra export`, `electralab.export`: a model in a form that others can use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from electralab.shell.call import Call, as_path, open_display, settle
from electralab.shell.parser import Parser, positive_int

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.exporting.export import Format
    from electralab.records.export import ExportPlan, ExportResult

SUMMARY = "write a model in a form that others can use, tried against the model first"
EXAMPLE = "electra export runs/mine --format onnx-int8 --data my_texts/ --out models/mine-int8"
SETTINGS = "electralab.exporting.export:ExportConfig"

# As the sentences of the printed form end.
_FORMATS = {"hf": "for transformers", "onnx": "as ONNX graphs", "onnx-int8": "as ONNX graphs in 8 bits"}


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    add("--out", required=True, metavar="DIR", help="the folder to write")
    add("--format", metavar="NAME", help="for transformers hf, else onnx or onnx-int8")
    add("--data", metavar="PATH", help="your text, or prepared data, to calibrate with and to try it on")
    add("--activations", dest=".activations", help="of onnx-int8: ranges found in each call, or on --data")
    add("--storage", dest=".storage", help="of hf: what the weights are stored in")
    add("--license", metavar="NAME", help="of the weights: apache-2.0, mit, …, or a file")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


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
    asked = (Path(model), Path(out), cast("Format", format), resolved)
    if dry_run:
        return plan_export(*asked, data=as_path(data), license=license)
    use_threads(threads)
    return display.run(lambda stop: export_model(*asked, data=as_path(data), license=license, stop=stop))


def run(call: Call) -> None:
    from electralab.records.export import ExportPlan, ProbabilityFidelity
    from electralab.reporting.format import format_bytes, format_number_of

    flags = call.flags
    result = export(
        flags.model,
        flags.out,
        format=flags.format,
        data=flags.data,
        license=flags.license,
        threads=flags.threads,
        **call.common,
    )
    form = _FORMATS[result.format]
    if isinstance(result, ExportPlan):
        networks = ", ".join(f"{role} from {source.origin}" for role, source in result.networks.items())
        text = "on a few sentences of our own" if result.data == "samples" else f"on {result.data}"
        written = f"would write {result.out} {form}: {networks}"
        call.print_plan(written, f"tried {text}; licence: {result.license or 'none'}")
    else:
        call.print(f"{result.out}: {format_number_of(len(result.networks), 'network')} {form}")
        for role, network in result.networks.items():
            # How far the answers are from the model's.
            fidelity = network.fidelity
            tried = f"{format_number_of(fidelity.answers, 'answer')} tried"
            if isinstance(fidelity, ProbabilityFidelity):
                distance = f"of {tried}, {100 * fidelity.agreement:.2f} % are the model's own"
            elif fidelity.share_of_spread is not None:
                spread = f"{100 * fidelity.share_of_spread:.2g} % of their standard deviation"
                distance = f"in {tried}, off by {spread} on average"
            else:
                distance = f"in {tried}, off by {fidelity.mean_difference:.2g} on average"
            call.print(f"{role}: {format_bytes(network.bytes)}; {distance}")
    call.answer(result)
