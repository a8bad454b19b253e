"""`electra import`, `electralab.import_model`: a legacy checkpoint -> a safe model folder."""

from pathlib import Path

from electralab.shell.call import Call, Parser

SUMMARY = "convert a legacy pickled or TensorFlow checkpoint into a safe model folder"
EXAMPLE = "electra import old/ --out models/new"


def add_flags(parser: Parser) -> None:
    parser.add_argument("old", metavar="OLD", help="a folder with pytorch_model.bin or a TensorFlow checkpoint")
    parser.add_argument("--out", required=True, metavar="NEW", help="the folder to write")


def import_model(old: str | Path, out: str | Path) -> dict[str, list[str]]:
    """A legacy pickled or TensorFlow checkpoint -> a model folder of safetensors.

    >>> electralab.import_model("old", "new")
    {'models': ['new']}
    """
    from electralab.model.folders.legacy import import_legacy

    return {"models": [str(folder) for folder in import_legacy(Path(old), Path(out))]}


def run(call: Call) -> None:
    flags = call.flags
    if flags.dry_run:
        call.print_plan(f"would convert {flags.old} into {flags.out}")
        call.answer(old=flags.old, out=flags.out)
        return
    (models,) = call.ask(import_model).values()
    call.print(*(f"{folder}: converted, weights as safetensors" for folder in models))
    call.answer(models=[*models])
