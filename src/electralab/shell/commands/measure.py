"""`electra measure`, `electralab.measure`: does a model find what is wrong better than counting does?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, as_model, count, open_display, positive_int, settle

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.findings import EstimateRecord
    from electralab.records.measurement import MeasurePlan, MeasuringResult
    from electralab.reporting.blocks import Block

SUMMARY = "measure how well a model finds what is wrong, beside simple counting"
EXAMPLE = "electra measure runs/mine essays.tsv"
SETTINGS = "electralab.measuring.items:MeasuringConfig"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or pair, or hour-en")
    add("files", nargs="+", metavar="FILE", help="words with labels c and i, or plain text to plant errors in")
    add("--reference", nargs="+", metavar="FILE", help="what counting is done in, such as the training text")
    add("--kind", metavar="KIND", help="the kind of input, where the files do not say it")
    add("--error-rate", dest=".error_rate", type=float, metavar="P", help="the share of words that are wrong")
    add("--threshold", dest=".threshold", type=float, metavar="P", help="what p_wrong and p_replaced must pass")
    add("--words", dest=".words", type=positive_int, metavar="N", help="maximum number of words to plant errors in")
    add("--resamples", dest=".resamples", type=count, metavar="N", help="draws of the bootstrap, 0 for no intervals")
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed of the planted errors and the bootstrap")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def measure(
    model: str | Path,
    files: Sequence[str | Path],
    *,
    reference: Sequence[str | Path] = (),
    kind: str = "",
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> MeasuringResult | MeasurePlan:
    """AUC, average precision and F of the model's scores and of simple counts, and which of them to use.

    >>> electralab.measure("run", ["speeches.txt"], threads=1).measurements[0].source
    'typo'
    """
    from electralab.errors import InputError
    from electralab.records.measurement import MeasurePlan

    paths, references = [[Path(path) for path in group] for group in (files, reference or ())]
    for path in (*paths, *references):
        if not path.is_file():
            raise InputError(f"{path}: no such file; give files to measure on")
    if dry_run:
        return MeasurePlan(model=str(model), files=tuple(map(str, paths)), reference=tuple(map(str, references)))
    display = open_display(display)
    from electralab.measuring.items import MeasuringConfig
    from electralab.measuring.stage import measure_files
    from electralab.runtime import use_threads

    resolved = settle(MeasuringConfig, config, settings)
    use_threads(threads)
    return display.run(lambda stop: measure_files(as_model(model), paths, references, kind or "", resolved, stop))


def run(call: Call) -> None:
    result = call.ask(measure)
    if not call.prints_plan(result):
        print_measures(call, result)
    call.answer(result)


def print_measures(call: Call, result: MeasuringResult) -> None:
    """A sentence and a table for each measurement, whose F, precision and recall are those at the stated threshold;
    `proofread --measure` prints the same."""
    from electralab.reporting.blocks import Table
    from electralab.reporting.format import format_estimate, format_value, tell

    def cell(estimate: EstimateRecord | None) -> str:
        return format_estimate(estimate.value, estimate.low, estimate.high) if estimate else ""

    blocks: list[Block | str] = []
    for measurement in result.measurements:
        extra = list(measurement.detectors[0].more)
        f = f"F{measurement.beta:g}"
        head = ["", "AUC", "average precision", f"best {f}", f, "precision", "recall", *extra]
        rows = []
        for scores in measurement.detectors:
            named = f"{scores.name}" + (f" > {scores.threshold:g}" if scores.threshold is not None else "")
            auc, best, *at = (
                "" if value is None else f"{value:.3f}"
                for value in (scores.auc.value, scores.best_f.value, scores.precision, scores.recall)
            )
            row = [named, auc, cell(scores.average_precision), best, cell(scores.f), *at]
            rows.append([*row, *(format_value(scores.more.get(name)) for name in extra)])
        blocks += [*tell(measurement), Table(measurement.source, head, rows)]
    call.print(*blocks)
