"""`electra report`, `electralab.report`: one page about a run, or about several side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, count

if TYPE_CHECKING:
    from electralab.reporting.page import ReportPlan, ReportWritten

SUMMARY = "write one HTML page about a run, or about several"
EXAMPLE = "electra report runs/mine --out report.html"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="folders of runs, studies, trade-offs or analyses")
    add("--out", metavar="FILE", help="the page to write")
    add("--data", metavar="DIR", help="prepared text: show what the first run makes of a few rows")
    add("--watch", action="store_true", help="serve the page on this machine while training goes on")
    add("--port", type=count, metavar="N", help="port of --watch; 0 for any free one")


def report(
    runs: Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    data: str | Path | None = None,
    watch: bool = False,
    port: int = 8010,
    dry_run: bool = False,
    on_ready: Callable[[str], None] = print,
) -> ReportWritten | ReportPlan:
    """One page about a run, study, trade-off or analysis, or about several side by side; or served while it trains.

    With `data`, the folder of prepared text, the first run is shown at work on a few of its held-out rows.

    >>> electralab.report(["run"], "page.html").out
    'page.html'
    """
    from electralab.inspection import example_rows
    from electralab.reporting.live import watch_report
    from electralab.reporting.page import plan_report, write_report
    from electralab.stopping import handle_signals

    paths = [Path(run) for run in runs]
    if dry_run:
        return plan_report(paths, None if watch else Path(out))
    from electralab.pretraining.balance import advise

    if watch:
        # It does not return: a signal to stop is raised through it.
        with handle_signals() as stop:
            watch_report(paths, port, stop, on_ready, advise)
    examples = example_rows(Path(data), paths[0]) if data else []
    return write_report(paths, Path(out), advise, examples)


def run(call: Call) -> None:
    # With --json standard output is for the result.
    ready = sys.stderr if call.flags.json else sys.stdout
    result = call.ask(report, on_ready=lambda address: print(address, file=ready, flush=True))
    if not call.prints_plan(result):
        for text in result.warnings:
            call.console.print(f"warning: {text}", style="yellow")
        call.print(f"page  {result.out}")
    call.answer(result)
