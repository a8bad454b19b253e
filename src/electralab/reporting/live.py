"""The page served on this machine while training goes on, its files read anew for each request.

RUN... -> HTTP
"""

import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from electralab.errors import InputError, Stopped, UsageError
from electralab.reporting.artifact import Artifact, find_report_kind
from electralab.reporting.html import write_policy
from electralab.reporting.page import Advice, advise_nothing, compose_page, compose_update, read_artifacts
from electralab.runtime import count_descriptors
from electralab.stopping import StopSignal

SECONDS_BETWEEN_NEWS = 3.0
# Until a connection must have sent its request, and as long again to read the answer.
REQUEST_SECONDS = 10.0
# A browser has a handful; a thread is started for each.
MOST_CONNECTIONS = 64

_TOO_MANY = b"""HTTP/1.0 503 Service Unavailable\r
Content-Type: text/plain; charset=utf-8\r
Retry-After: 1\r
\r
too many connections are open; try again soon
"""


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
        find_report_kind(path)
    handler = partial(PageHandler, lambda: read_artifacts(paths), advise, seconds)
    try:
        server = PageServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise InputError(f"127.0.0.1:{port}: cannot be listened on ({error.strerror}); give another --port") from None
    except OverflowError:
        raise UsageError(f"--port: {port} is no port; give 0 to 65535") from None
    # In a thread of its own, since signals reach the main one.
    Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    on_ready(f"http://127.0.0.1:{server.server_address[1]}")
    try:
        while True:
            # The signal only sets a number, so that whoever waits has to look.
            if stop.number:
                raise Stopped(stop.number, "the page is no longer served")
            time.sleep(0.1)
    finally:
        server.shutdown()
        server.server_close()


class PageServer(ThreadingHTTPServer):
    """A thread for each connection, of which there are only so many, and each only for so long."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: Callable[..., BaseHTTPRequestHandler],
        most: int = MOST_CONNECTIONS,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        super().__init__(address, handler)
        self.most = min(most, count_descriptors())
        self.seconds = seconds
        self.accept_errors = 0
        self._deadlines: dict[socket.socket, float] = {}
        """When each open connection must have sent its request; infinite once it has."""
        self._lock = Lock()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            # Without a pause a lack of descriptors would be tried again as fast as the machine can.
            self.accept_errors += 1
            time.sleep(0.2)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            is_room = len(self._deadlines) < self.most
            if is_room:
                self._deadlines[request] = time.monotonic() + self.seconds
        if is_room:
            super().process_request(request, client_address)
        else:
            with contextlib.suppress(OSError):
                request.settimeout(0)
                request.send(_TOO_MANY)
                request.recv(65536)  # what is left unread would take the answer back
            self.shutdown_request(request)

    def note_request(self, request: socket.socket) -> None:
        """Its headers are here; the socket's own time limit holds for the answer."""
        with self._lock:
            self._deadlines[request] = float("inf")

    def service_actions(self) -> None:
        """Between two looks for new connections: whoever is late is cut off, and its thread ends by itself."""
        now = time.monotonic()
        with self._lock:
            late = [request for request, deadline in self._deadlines.items() if deadline < now]
            for request in late:
                self._deadlines[request] = float("inf")
        for request in late:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that leaves in the middle is nothing to write a traceback about.
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class PageHandler(BaseHTTPRequestHandler):
    """Reads the files anew for each request: they grow while it watches."""

    server: PageServer

    def __init__(self, read: Callable[[], list[Artifact]], advise: Advice, seconds: float, *rest: Any) -> None:
        self._read, self._advise, self._seconds = read, advise, seconds
        super().__init__(*rest)

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.seconds)

    def do_GET(self) -> None:
        self.server.note_request(self.connection)
        # A page of another site could reach 127.0.0.1 under a name of its own and read what is answered.
        if _find_host(self.headers.get("Host", "")) not in ("127.0.0.1", "localhost"):
            self._answer(403, "text/plain", "ask for 127.0.0.1\n")
        elif self.path == "/":
            self._answer(200, "text/html", compose_page(self._read(), self._advise, live_seconds=self._seconds))
        elif self.path == "/news.json":
            self._answer(200, "application/json", json.dumps(compose_update(self._read(), self._advise)))
        else:
            self._answer(404, "text/plain", "not here\n")

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        # The page has it in its head too; only here can it say that no other page may show it in a frame.
        policy = write_policy(is_live=True)
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Standard error is for what a person must know."""


def _find_host(place: str) -> str:
    """`127.0.0.1:8010` -> `127.0.0.1`; nothing where it is no place."""
    try:
        return urlsplit(f"//{place}").hostname or ""
    except ValueError:
        return ""
