"""`electra calibrate`, `electralab.calibrate`: how likely a word is wrong, fitted on damage planted in your texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, as_model, open_display, positive_int, settle

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.calibration import Calibration, CalibrationScores, SequenceCalibration
    from electralab.records.series import SeriesCalibration
    from electralab.reporting.blocks import Table

SUMMARY = "fit on planted errors how likely a word is wrong, for detect, proofread and serve"
EXAMPLE = "electra calibrate runs/mine my_texts/"
SETTINGS = "electralab.detection.calibration:CalibrationConfig"

# A third of the sequences is kept from counting, half of these measure.
_SEQUENCES_PER_MEASURED = 6
_FALSE_ALARMS = "of symbols: the share of normal sequences that may be named"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or pair")
    add(
        "inputs",
        nargs="+",
        metavar="TEXT",
        help="files or folders of text, best those that it was trained on; of time series, normal ones; or words with "
        "labels c and i, for a calibrated model",
    )
    add("--error-rate", dest=".error_rate", type=float, metavar="P", help="the share of words that are wrong")
    add("--false-alarms", dest=".false_alarms", type=float, metavar="P", help=_FALSE_ALARMS)
    add("--words", dest=".words", type=positive_int, metavar="N", help="maximum number of words to plant errors in")
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed of the planted errors and of prepare")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def calibrate(
    model: str | Path,
    inputs: Sequence[str | Path],
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
    display: Display | None = None,
) -> Calibration | SequenceCalibration | SeriesCalibration:
    """Texts -> how the discriminator's, the generator's and counted evidence about a word make one probability.

    Files of words with labels c and i, as in `electralab.measure`, fit a calibrated model anew. It is stored beside the
    model's networks; from then on detections have `p_wrong`. A model of symbols takes normal
    sequences: JSON lines of lists, or the folder of a prepared log.

    >>> electralab.calibrate("run", ["speeches.txt"], threads=1).error_rate
    0.05
    """
    display = open_display(display)
    from electralab.detection.calibration import CalibrationConfig
    from electralab.measuring.inputs.text import calibrate_labelled, has_labels
    from electralab.runtime import use_threads
    from electralab.serving.calibrate import calibrate_model, calibrate_series
    from electralab.shell.commands.detect import reads_series
    from electralab.tasks.table import read_suffix

    resolved = settle(CalibrationConfig, config, settings)
    use_threads(threads)
    names, path = [str(name) for name in inputs], as_model(model)
    if reads_series(path):
        return display.run(lambda stop: calibrate_series(path, names, resolved, stop))
    files = [Path(name) for name in names]
    if all(read_suffix(file) == ".tsv" and file.is_file() and has_labels(file) for file in files):
        return display.run(lambda stop: calibrate_labelled(path, files, resolved, stop))
    return display.run(lambda stop: calibrate_model(path, names, resolved, stop))


def run(call: Call) -> None:
    from electralab.records.calibration import Calibration
    from electralab.records.series import SeriesCalibration
    from electralab.reporting.blocks import Table

    if call.flags.dry_run:
        call.print_plan(f"would calibrate {call.flags.model} on {', '.join(call.flags.inputs)}")
        call.answer(model=call.flags.model, inputs=call.flags.inputs)
        return
    call.say_loading(call.flags.model)
    result = call.ask(calibrate)
    if isinstance(result, SeriesCalibration):
        ways = ("statistics", "networks", "all")
        series_rows = [[kind, *(f"{part.auc[way]:.3f}" for way in ways)] for kind, part in result.planted.items()]
        call.print(Table("stretches planted in normal points, AUC by evidence", ["planted", *ways], series_rows))
        call.print(f"detect uses {result.evidence}; --evidence chooses otherwise")
    elif isinstance(result, Calibration):
        by_labels = "labels" in result.scores
        call.print(_tabulate("words", result.scores, last=f"AUC, {'before' if by_labels else 'kind left out'}"))
        call.print(f"calibration error {result.calibration_error:.3f} at {result.error_rate:.0%} wrong words")
    else:
        call.print(_tabulate("events", result.events.scores), _tabulate("sequences", result.rows.scores))
        call.print(
            f"calibration error {result.events.calibration_error:.3f} of events, {result.rows.calibration_error:.3f} "
            f"of sequences, at {result.error_rate:.0%} wrong"
        )
        assert result.false_alarms_high is not None
        call.print(
            f"threshold for {result.false_alarms:.1%} false alarms from {result.normal_rows:,} normal sequences: with "
            f"95 % certainty no more than {result.false_alarms_high:.1%}"
        )
        if result.normal_rows * result.false_alarms < 1:
            enough = math.ceil(_SEQUENCES_PER_MEASURED / result.false_alarms)
            call.print(
                f"so few cannot show {result.false_alarms:.1%}: the threshold is above the most suspicious of them; "
                f"give at least {enough:,} normal sequences"
            )
    call.answer(result)


def _tabulate(unit: str, by_kind: Mapping[str, CalibrationScores], last: str = "") -> Table:
    from electralab.reporting.blocks import Table

    head = ["planted", unit, "wrong", "AUC", "average precision", "precision at recall .5", *([last] if last else [])]
    rows = []
    for kind, scores in by_kind.items():
        shares = [scores.auc, scores.average_precision, scores.precision_at_half]
        shares += [scores.without_kind_auc or 0.0] * bool(last)
        rows.append([kind, f"{scores.words:,}", f"{scores.damaged:,}", *(f"{share:.3f}" for share in shares)])
    return Table(f"{unit} that were not fitted on", head, rows)
