"""`electra analyze`, `electralab.analyze`: what models learned, measured side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, as_model, names, open_display, positive_int, settle
from electralab.shell.commands.pretrain import format_folder

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.findings import Analysis, AnalysisPlan

SUMMARY = "measure what models learned, side by side; the same command resumes"
EXAMPLE = "electra analyze runs/mine --data data/mine --out analysis"
SETTINGS = "electralab.analysis.data:AnalysisSettings"

_PAIRS = "a table of sentences (source) and changed ones (target), instead of ours"
_ANALOGIES = "a table of a, b, c, d: a is to b as c to d, instead of ours"
_UNTRAINED = "leave out the untrained controls"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="runs, model folders of ours or of Hugging Face, hour-en")
    add("--data", required=True, metavar="PATH", help="prepared text, whose held-out rows are read, or text")
    add("--out", required=True, metavar="DIR", help="the folder to write")
    add("--only", type=names, metavar="M30,M33", help="measure only these claims")
    add_measure_flags(parser)
    add("--domains", dest=".domains", type=names, metavar="FILE,FILE", help="texts of other domains, to compare")
    add("--runs", dest=".runs", metavar="DIR", help="runs of several sizes, to fit a scaling law")
    add("--tradeoff", dest=".tradeoff", metavar="DIR", help="what 'electra compress' wrote, for size and speed")
    add("--examples", dest=".examples", metavar="DIR", help="task data of a tuned model, to test on damaged input")
    add(
        "--classes", dest=".classes", metavar="FILE", help="a table of text and label, to test if classes are separated"
    )
    # store_const and not store_false: what is not given is left to the settings file.
    add("--no-untrained", dest=".untrained", action="store_const", const=False, help=_UNTRAINED)
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed of rows, states and intervals")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def add_measure_flags(parser: Parser) -> None:
    """What models are asked about, and how closely; `claims` has the same."""
    add = parser.add_argument
    add("--tagged", dest=".tagged", metavar="FILE", help="CoNLL: words with tags, instead of our English ones")
    add("--pairs", dest=".pairs", metavar="FILE", help=_PAIRS)
    add("--analogies", dest=".analogies", metavar="FILE", help=_ANALOGIES)
    add("--senses", dest=".senses", metavar="FILE", help="a table of word, sense and sentence, instead of ours")
    add("--rows", dest=".rows", type=positive_int, metavar="N", help="maximum number of text rows")
    add("--vectors", dest=".vectors", type=positive_int, metavar="N", help="maximum number of states in one figure")
    add("--points", dest=".points", type=positive_int, metavar="N", help="maximum number of points in a picture")
    add("--times", dest=".times", type=positive_int, metavar="N", help="resamples for each interval")


def analyze(
    models: Sequence[str | Path],
    data: str | Path,
    out: str | Path,
    *,
    only: Sequence[str] = (),
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Analysis | AnalysisPlan:
    """What models learned, each beside an untrained control: information, geometry, context, invariance and more.

    What cannot be measured says why under `missing`; the same call again goes on where the last one stopped.

    >>> electralab.analyze(["run"], "data", "analysis", dry_run=True).models
    {'run': 'run'}
    """
    display = open_display(display)
    from electralab.analysis import stage
    from electralab.analysis.data import AnalysisSettings
    from electralab.runtime import use_threads

    resolved = settle(AnalysisSettings, config, settings)
    request = stage.AnalysisRequest(tuple(map(as_model, models)), Path(data), Path(out), resolved, tuple(only))
    if dry_run:
        return stage.plan_analysis(request)
    use_threads(threads)
    return display.run(lambda stop: stage.analyze(request, stop))


def run(call: Call) -> None:
    from electralab.reporting.analysis_page import last_layer_tables

    result, out = call.ask(analyze), call.flags.out
    if not call.prints_plan(result):
        call.print(*last_layer_tables(result), *format_folder(out), f"tables and pictures  {out}/README.md")
    call.answer(result, out=out)
