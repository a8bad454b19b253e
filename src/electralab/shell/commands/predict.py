"""`electra predict`, `electralab.predict`: a tuned model's answer for every row of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, open_display, positive_int, print_json, settle
from electralab.shell.commands.finetune import add_column_flags

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.tuned import PredictPlan, PredictResult

SUMMARY = "predict every row of a file with a fine-tuned model"
EXAMPLE = "electra predict runs/reviews new.csv --out answers.jsonl"
SETTINGS = "electralab.serving.predictor:PredictConfig"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a fine-tuning run or a tuned model folder")
    add("input", metavar="INPUT", help="a .csv, .tsv, .jsonl, .parquet or .txt file, or - for a pipe")
    add("--out", metavar="FILE", help=".jsonl, .csv or .tsv; default: JSON lines on standard output")
    add("--ensemble", action="store_true", help="average the predictions of all seeds")
    add_column_flags(parser)
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def predict(
    model: str | Path,
    source: str | Path,
    out: str | Path | None = None,
    *,
    ensemble: bool = False,
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> PredictResult | PredictPlan:
    """A tuned model's answer for every row of a file, in order; a bad row has none, and says why.

    >>> electralab.predict("tuned", "messages.csv", threads=1).bad_rows
    0
    """
    from electralab.artifacts import write_file
    from electralab.records.tuned import PredictPlan, PredictResult
    from electralab.runtime import use_threads
    from electralab.serving.model import Model
    from electralab.serving.predictor import PredictConfig, check_output_path, format_rows, merge_bad_rows
    from electralab.tasks.kind import format_bad_rows

    resolved = settle(PredictConfig, config, settings)
    # A place that cannot be written to is named before the model is loaded, not after hours of predicting.
    if out:
        check_output_path(Path(out))
    use_threads(threads)
    predictor = Model(Path(model)).make_predictor(resolved, is_ensemble=ensemble)
    split = predictor.read(str(source))
    if dry_run:
        return PredictPlan(
            model=str(model),
            task=predictor.kind.name,
            rows=split.rows,
            bad_rows=len(split.bad_rows),
            columns=dict(split.columns),
            settings=resolved.model_dump(mode="json"),
        )
    display = open_display(display, loads_torch=False)
    for text in (*split.notes, *format_bad_rows(split)):
        display.say(text, style="yellow")
    answered = display.run(lambda stop: predictor.predict_examples(split.examples, stop))
    rows = merge_bad_rows(answered, split)
    if out:
        write_file(Path(out), format_rows(rows, Path(out).suffix))
    cut = sum(bool(row.cut) for row in answered)
    return PredictResult(predictions=tuple(rows), bad_rows=len(split.bad_rows), cut=cut)


def run(call: Call) -> None:
    flags = call.flags
    call.say_loading(flags.model)
    result = call.ask(predict, source=flags.input)
    if call.prints_plan(result):
        call.answer(result)
        return
    if flags.out:
        bad = f", {result.bad_rows:,} bad rows" if result.bad_rows else ""
        call.print(f"{flags.out}: {len(result.predictions) - result.bad_rows:,} predictions{bad}")
    # Answers that are printed as they are, often into a pipe, are followed by nothing, whatever --verbose says.
    if flags.json:
        print_json(({"out": flags.out} if flags.out else {}) | result.to_json())
    elif not flags.out:
        for row in result.predictions:
            print_json(row.to_json())
