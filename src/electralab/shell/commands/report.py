"""`electra report`: one page about a run, or about several side by side."""

import sys
from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.parser import Parser, count

if TYPE_CHECKING:
    from electralab.reporting.page import ReportPlan, ReportWritten
    from electralab.shell.call import Call

SUMMARY = "write one page about a run, or about several side by side"
EXAMPLE = "electra report runs/mine --out report.html"
FUNCTION = api.report


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="folders of runs, studies, trade-offs or analyses")
    add("--out", metavar="FILE", help="the page to write")
    add("--data", metavar="DIR", help="prepared text: show the first run at work on a few of its rows")
    add("--watch", action="store_true", help="serve the page on this machine while training goes on")
    add("--port", type=count, metavar="N", help="of --watch; 0 for any free one")


def run(call: "Call") -> "ReportWritten | ReportPlan":
    from electralab.reporting.page import ReportPlan

    flags = call.flags
    # With --json standard output is for the result.
    ready = sys.stderr if flags.json else sys.stdout
    result = api.report(
        flags.runs,
        flags.out,
        data=flags.data,
        watch=flags.watch,
        port=flags.port,
        dry_run=flags.dry_run,
        on_ready=lambda address: print(address, file=ready, flush=True),
    )
    if isinstance(result, ReportPlan):
        subjects = ", ".join(f"{path} ({kind})" for path, kind in result.subjects.items())
        page = f"write {result.out}" if result.out else "serve a page"
        call.print_plan([f"would {page} about {subjects}"])
        return result
    for text in result.warnings:
        call.console.print(f"warning: {text}", style="yellow")
    call.print_lines([f"page  {result.out}"])
    return result
