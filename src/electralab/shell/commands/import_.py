"""`electra import`: a legacy checkpoint -> a safe model folder."""

from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.parser import Parser

if TYPE_CHECKING:
    from electralab.shell.call import Call

SUMMARY = "convert a legacy pickled or TensorFlow checkpoint into a safe model folder"
EXAMPLE = "electra import old/ --out models/new"
FUNCTION = api.import_model


def add_flags(parser: Parser) -> None:
    parser.add_argument("old", metavar="OLD", help="a folder with pytorch_model.bin or a TensorFlow checkpoint")
    parser.add_argument("--out", required=True, metavar="NEW", help="the folder to write")


def run(call: "Call") -> dict[str, str] | dict[str, list[str]]:
    flags = call.flags
    if flags.dry_run:
        call.print_plan([f"would convert {flags.old} into {flags.out}"])
        return {"old": flags.old, "out": flags.out}
    result = api.import_model(flags.old, flags.out)
    call.print_lines(f"{folder}: converted, weights as safetensors" for folder in result["models"])
    return result
