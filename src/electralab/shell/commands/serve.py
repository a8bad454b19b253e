"""`electra serve`, `electralab.serve`: answers over HTTP, with a page to try it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, count, number, positive_int, print_json, settle

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.records.answers import ServePlan, ServeResult

SUMMARY = "serve models over HTTP, with a web page to try them"
EXAMPLE = "electra serve runs/quickstart reviews=runs/reviews --port 8000"
SETTINGS = "electralab.serving.server:ServeConfig"

_ALLOW = "accept this host name too, as behind a proxy; can be repeated"
_DRAIN = "time to finish open requests at the end"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("models", nargs="+", metavar="MODEL", help="run or model folders, hour-en, or NAME=FOLDER")
    add("--host", dest=".host", metavar="ADDRESS", help="address to listen on; others than 127.0.0.1 need a key")
    add("--port", dest=".port", type=count, metavar="N", help="port to listen on; 0 for any free one")
    add("--allow-host", dest=".allow_hosts", action="append", metavar="NAME", help=_ALLOW)
    add(
        "--key-file", dest=".key_file", metavar="FILE", help="a file with one key on each line; every request needs one"
    )
    add("--drain-seconds", dest=".drain_seconds", type=number, metavar="S", help=_DRAIN)
    add("--runtime", dest=".runtime", help="what runs the networks")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


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
    flags = call.flags
    # With --json standard output is for the result, which comes at the end.
    ready = sys.stderr if flags.json else sys.stdout
    call.say_loading(*flags.models)
    result = call.ask(serve, on_ready=lambda address: print(address, file=ready, flush=True))
    if call.prints_plan(result):
        call.answer(result)
        return
    if flags.json:
        print_json(result.to_json())
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: Python's own way out takes its time, and would tear a thread out of its network, which aborts.
    os._exit(0)
