"""`electra predict`: a tuned model's answer for every row of a file."""

from typing import TYPE_CHECKING, Any

from electralab import api
from electralab.shell.commands.finetune import add_column_flags
from electralab.shell.parser import Parser, positive_int

if TYPE_CHECKING:
    from electralab.records.tuned import PredictPlan, PredictResult
    from electralab.shell.call import Call

SUMMARY = "answer for every row of a file with a tuned model"
EXAMPLE = "electra predict runs/reviews new.csv --out answers.jsonl"
FUNCTION = api.predict
SETTINGS = "electralab.serving.predictor:PredictConfig"
CONFIG_HELP = "a TOML file of settings"
IS_PRINTED_WHOLE = True


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a fine-tuning run or a tuned model folder")
    add("input", metavar="INPUT", help="a .csv, .tsv, .jsonl, .parquet or .txt file, or - for a pipe")
    add("--out", metavar="FILE", help=".jsonl, .csv or .tsv; default: JSON lines on standard output")
    add("--ensemble", action="store_true", help="average over all seeds of the run")
    add_column_flags(parser)
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


def run(call: "Call") -> "PredictResult | PredictPlan | dict[str, Any]":
    from electralab.records.tuned import PredictPlan
    from electralab.reporting.format import format_number_of
    from electralab.shell.call import print_json

    flags = call.flags
    call.say_loading(flags.model)
    result = api.predict(
        flags.model,
        flags.input,
        flags.out,
        ensemble=flags.ensemble,
        config=flags.config,
        settings=call.settings,
        threads=flags.threads,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, PredictPlan):
        columns = ", ".join(f"{part} from '{column}'" for part, column in result.columns.items())
        bad = f"; {result.bad_rows:,} of them cannot be used" if result.bad_rows else ""
        rows = format_number_of(result.rows, "row")
        answer = f"would answer {rows} of {flags.input} with {result.model} ({result.task}){bad}"
        call.print_plan([answer, *([f"columns: {columns}"] if columns else [])])
    elif flags.out:
        bad = f", {result.bad_rows:,} bad rows" if result.bad_rows else ""
        call.print_lines([f"{flags.out}: {len(result.predictions) - result.bad_rows:,} predictions{bad}"])
        return {"out": flags.out, **result.to_json()}
    elif not flags.json:
        for row in result.predictions:
            print_json(row)
    return result
