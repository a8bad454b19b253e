"""`electra export`: a model in a form that others can use."""

from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.parser import Parser, positive_int

if TYPE_CHECKING:
    from electralab.records.export import ExportPlan, ExportResult, Fidelity
    from electralab.shell.call import Call

SUMMARY = "write a model in a form that others can use, tried against the model first"
EXAMPLE = "electra export runs/mine --format onnx-int8 --data my_texts/ --out models/mine-int8"
FUNCTION = api.export
SETTINGS = "electralab.exporting.export:ExportConfig"
CONFIG_HELP = "a TOML file of settings"

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


def run(call: "Call") -> "ExportResult | ExportPlan":
    from electralab.records.export import ExportPlan
    from electralab.reporting.format import format_bytes, format_number_of

    flags = call.flags
    result = api.export(
        flags.model,
        flags.out,
        format=flags.format,
        data=flags.data,
        license=flags.license,
        config=flags.config,
        settings=call.settings,
        threads=flags.threads,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, ExportPlan):
        networks = ", ".join(f"{role} from {source.origin}" for role, source in result.networks.items())
        text = "on a few sentences of our own" if result.data == "samples" else f"on {result.data}"
        written = f"would write {result.out} {_FORMATS[result.format]}: {networks}"
        call.print_plan([written, f"tried {text}; licence: {result.license or 'none'}"])
        return result
    call.print_lines([f"{result.out}: {format_number_of(len(result.networks), 'network')} {_FORMATS[result.format]}"])
    call.print_lines(
        f"{role}: {format_bytes(network.bytes)}; {format_fidelity(network.fidelity)}"
        for role, network in result.networks.items()
    )
    return result


def format_fidelity(fidelity: "Fidelity") -> str:
    """How far the answers are from the model's."""
    from electralab.records.export import ProbabilityFidelity
    from electralab.reporting.format import format_number_of

    tried = f"{format_number_of(fidelity.answers, 'answer')} tried"
    if isinstance(fidelity, ProbabilityFidelity):
        return f"of {tried}, {100 * fidelity.agreement:.2f} % are the model's own"
    if fidelity.share_of_spread is not None:
        return f"in {tried}, off by {100 * fidelity.share_of_spread:.2g} % of their standard deviation on average"
    return f"in {tried}, off by {fidelity.mean_difference:.2g} on average"
