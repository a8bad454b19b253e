"""`electra serve`, `electralab.serve`: answers over HTTP, with a page to try it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, print_json, settle
from electralab.shell.parser import Parser, count, number, positive_int

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.records.answers import ServePlan, ServeResult

SUMMARY = "answer over HTTP, with a page to try it; SIGTERM lets it finish what it has begun"
EXAMPLE = "electra serve runs/quickstart reviews=runs/reviews --port 8000"
SETTINGS = "electralab.serving.server:ServeConfig"

_ALLOW = "a further name by which it may be asked without a key, as behind a proxy; can be repeated"
_DRAIN = "to finish in what was begun when told to stop"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="run or model folders, or NAME=FOLDER")
    add("--host", dest=".host", metavar="ADDRESS", help="to listen on; any other than this machine's own needs a key")
    add("--port", dest=".port", type=count, metavar="N", help="to listen on; 0 for any that is free")
    add("--allow-host", dest=".allow_hosts", action="append", metavar="NAME", help=_ALLOW)
    add("--key-file", dest=".key_file", metavar="FILE", help="keys, one a line, of which each request must bring one")
    add("--drain-seconds", dest=".drain_seconds", type=number, metavar="S", help=_DRAIN)
    add("--runtime", dest=".runtime", help="what runs the networks")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


def serve(
    models: Sequence[str | Path],
    *,
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
    dry_run: bool = False,
    on_ready: Callable[[str], None] = print,
) -> ServeResult | ServePlan:
    """Answers over HTTP until a signal to stop; `on_ready` is told the address. A model is a path or NAME=PATH.

    >>> electralab.serve(["run"], dry_run=True).models[0].name
    'run'
    """
    from electralab.runtime import use_threads
    from electralab.serving import server

    resolved = settle(server.ServeConfig, config, settings)
    # A model may be NAME=FOLDER, so it is a word and no path yet.
    words = [str(model) for model in models]
    if dry_run:
        return server.plan_serve(words, resolved)
    use_threads(threads)
    return server.serve(words, resolved, on_ready)


def run(call: Call) -> None:
    from electralab.records.answers import ServePlan
    from electralab.reporting.format import format_names, format_number_of

    flags = call.flags
    # With --json standard output is for the result, which comes at the end.
    ready = sys.stderr if flags.json else sys.stdout
    call.say_loading(*flags.models)
    result = serve(
        flags.models,
        config=flags.config,
        settings=call.settings,
        threads=flags.threads,
        dry_run=flags.dry_run,
        on_ready=lambda address: print(address, file=ready, flush=True),
    )
    if isinstance(result, ServePlan):
        keys = f"with one of {format_number_of(result.keys, 'key')}" if result.keys else "without a key"
        lines = [f"would answer on http://{result.settings['host']}:{result.settings['port']}, {keys}"]
        for model in result.models:
            labels = f"; {format_names(model.labels, 8)}" if model.labels else ""
            length = f"rows of up to {model.sequence_length:,} tokens"
            lines.append(f"{model.name}: {', '.join(model.can)}; run by {model.runtime}, {length}{labels}")
        call.print_plan(*lines)
        call.answer(result)
        return
    if flags.json:
        print_json(result.to_json())
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: Python's own way out takes its time, and would tear a thread out of its network, which aborts.
    os._exit(0)
