"""Folders -> a page, as a file or served while training goes on.

RUN... -> report.html
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from electralab.artifacts import write_file
from electralab.errors import InputError, Stopped, UsageError
from electralab.reporting.composing import Advice, advise_nothing, compose_page, news
from electralab.reporting.subjects import Subject, Tree, find_kind, name_subjects, read_subject
from electralab.stopping import StopSignal

SECONDS_BETWEEN_NEWS = 3.0


def read_subjects(paths: Sequence[Path], examples: Sequence[Tree] = ()) -> list[Subject]:
    """`examples` are those of the first, in place of what its folder holds."""
    subjects = [read_subject(path, name) for path, name in zip(paths, name_subjects(paths), strict=True)]
    return [replace(subjects[0], examples=list(examples)), *subjects[1:]] if examples else subjects


def write_report(
    paths: Sequence[Path], out: Path, advise: Advice = advise_nothing, examples: Sequence[Tree] = ()
) -> dict[str, Any]:
    """The page of one folder or the comparison of several; returns what it is about and what could not be read."""
    subjects = read_subjects(paths, examples)
    page = compose_page(subjects, advise)
    write_file(out, page)
    return {
        "out": str(out),
        "bytes": len(page.encode()),
        "subjects": [{"name": one.name, "kind": one.kind, "path": str(one.path)} for one in subjects],
        "warnings": [text for one in subjects for text in (*advise(one), *one.troubles)],
    }


def plan_report(paths: Sequence[Path], out: Path | None) -> dict[str, Any]:
    kinds = {str(path): find_kind(path) for path in paths}
    return {"subjects": kinds, "out": None if out is None else str(out)}


def watch_report(
    paths: Sequence[Path],
    port: int,
    stop: StopSignal,
    on_ready: Callable[[str], None],
    advise: Advice = advise_nothing,
    seconds: float = SECONDS_BETWEEN_NEWS,
) -> None:
    """Serve the page on this machine alone until a signal to stop, which it raises."""
    for path in paths:
        find_kind(path)
    handler = partial(_Handler, lambda: read_subjects(paths), advise, seconds)
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise InputError(f"127.0.0.1:{port}: cannot be listened on ({error.strerror}); give another --port") from None
    except OverflowError:
        raise UsageError(f"--port: {port} is no port; give 0 to 65535") from None
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    on_ready(f"http://127.0.0.1:{server.server_address[1]}")
    try:
        while True:
            if stop.number:
                raise Stopped(stop.number, "the page is no longer served")
            time.sleep(0.1)
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Reads the files anew for each request: they grow while it watches."""

    def __init__(self, read: Callable[[], list[Subject]], advise: Advice, seconds: float, *rest: Any) -> None:
        self._read, self._advise, self._seconds = read, advise, seconds
        super().__init__(*rest)

    def do_GET(self) -> None:
        # A page of another site could reach 127.0.0.1 under a name of its own and read what is answered.
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            self._answer(403, "text/plain", "ask for 127.0.0.1\n")
        elif self.path == "/":
            self._answer(200, "text/html", compose_page(self._read(), self._advise, live_seconds=self._seconds))
        elif self.path == "/news.json":
            self._answer(200, "application/json", json.dumps(news(self._read(), self._advise)))
        else:
            self._answer(404, "text/plain", "not here\n")

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Standard error is for what a person must know."""
