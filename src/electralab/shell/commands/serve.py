"""`electra serve`: answers over HTTP, with a page to try it."""

import os
import sys
from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.parser import Parser, count, number, positive_int

if TYPE_CHECKING:
    from electralab.records.answers import ServePlan
    from electralab.shell.call import Call

SUMMARY = "answer over HTTP, with a page to try it; SIGTERM lets it finish what it has begun"
EXAMPLE = "electra serve runs/quickstart reviews=runs/reviews --port 8000"
FUNCTION = api.serve
SETTINGS = "electralab.serving.server:ServeConfig"
CONFIG_HELP = "a TOML file of settings"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="run or model folders, or NAME=FOLDER")
    add("--host", dest=".host", metavar="ADDRESS", help="to listen on; any other than this machine's own needs a key")
    add("--port", dest=".port", type=count, metavar="N", help="to listen on; 0 for any that is free")
    add(
        "--allow-host",
        dest=".allow_hosts",
        action="append",
        metavar="NAME",
        help="a further name by which it may be asked without a key, as behind a proxy; can be repeated",
    )
    add("--key-file", dest=".key_file", metavar="FILE", help="keys, one a line, of which each request must bring one")
    add(
        "--drain-seconds",
        dest=".drain_seconds",
        type=number,
        metavar="S",
        help="to finish in what was begun when told to stop",
    )
    add("--runtime", dest=".runtime", help="what runs the networks")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


def run(call: "Call") -> "ServePlan":
    from electralab.records.answers import ServePlan
    from electralab.shell.call import print_json

    flags = call.flags
    # With --json standard output is for the result, which comes at the end.
    ready = sys.stderr if flags.json else sys.stdout
    call.say_loading(*flags.models)
    result = api.serve(
        flags.models,
        config=flags.config,
        settings=call.settings,
        threads=flags.threads,
        dry_run=flags.dry_run,
        on_ready=lambda address: print(address, file=ready, flush=True),
    )
    if isinstance(result, ServePlan):
        call.print_plan(format_plan(result))
        return result
    if flags.json:
        print_json(result)
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: Python's own way out takes its time, and would tear a thread out of its network, which aborts.
    os._exit(0)


def format_plan(plan: "ServePlan") -> list[str]:
    from electralab.reporting.format import format_names, format_number_of

    keys = f"with one of {format_number_of(plan.keys, 'key')}" if plan.keys else "without a key"
    lines = [f"would answer on http://{plan.settings['host']}:{plan.settings['port']}, {keys}"]
    for model in plan.models:
        labels = f"; {format_names(model.labels, 8)}" if model.labels else ""
        length = f"rows of up to {model.sequence_length:,} tokens"
        lines.append(f"{model.name}: {', '.join(model.can)}; run by {model.runtime}, {length}{labels}")
    return lines
