"""What stands before the application: connections that may not idle or be too many; hosts, keys, media type, the size
and the pace of bodies; and it counts.

bytes of a connection -> requests, a refusal, or its end

A body is read whole before anything else is done with it, and never beyond its limit, however it is sent.
"""

import asyncio
import contextlib
import errno
import hmac
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from electralab.serving.outcomes import INTERNAL, STOPPING, ApiError
from electralab.serving.service import InferenceService

OPEN_PATHS = ("/", "/health", "/ready", "/v1/models", "/docs", "/openapi.json")

# Names that every machine has for itself, and under which others than we may serve pages.
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
# What nginx counts a client as that has left; it is never sent.
_CLIENT_CLOSED = 499
# Connections beyond the limit that wait for their refusal; a still later one is cut off without a word.
_REFUSED_AT_ONCE = 16
# Seconds that a connection beyond the limit has for its first bytes, and any other to read its error.
_REFUSAL_SECONDS = 1.0
_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


class ClientDisconnected(Exception):
    """The client left before its request was here."""


@dataclass(slots=True)
class ResponseWriter:
    """The way back: remembers the status, and adds the headers that every answer has."""

    send: Send
    has_body: bool
    status: int = 0
    is_disconnected: bool = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            every = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
            message["headers"] = [*message.get("headers", []), *every]
        elif not self.has_body:
            message["body"] = b""
        await self.send(message)


class RequestGuard:
    def __init__(
        self,
        app: ASGIApp,
        service: InferenceService,
        keys: Iterable[str],
        paths: Iterable[str],
        hosts: Iterable[str] = (),
    ) -> None:
        """`hosts` are the names by which it may be asked where no key is needed; none means any."""
        self._app = app
        self.service = service
        self._keys = [key.encode() for key in keys]
        self._hosts = frozenset(host.strip("[]").lower() for host in hosts)
        self._paths = frozenset(paths)
        self._open: dict[asyncio.Task[Any], ResponseWriter] = {}

    @property
    def open_requests(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """Whoever has no answer by now is told that the server stops."""
        for task, writer in self._open.items():
            if not writer.status:
                task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, metrics = time.monotonic(), self.service.metrics
        method, path = scope["method"], scope["path"]
        writer = ResponseWriter(send, has_body=method != "HEAD")
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        refusal, headers = None, {}
        try:
            await self._pass(scope, receive, writer, task)
        except ApiError as error:
            # What is left of the body would be read as the next request of the connection.
            refusal, headers = error, {"connection": "close"}
        except ClientDisconnected:
            writer.status = _CLIENT_CLOSED
        except asyncio.CancelledError:
            # Our own doing: the task goes on, and must not count as cancelled any more.
            task.uncancel()
            if writer.is_disconnected:
                writer.status = _CLIENT_CLOSED
            elif not writer.status:
                refusal, headers = ApiError(*STOPPING), {"connection": "close"}
        except Exception:  # noqa: BLE001  whatever it was, the process goes on
            _log.exception("%s %s failed", method, path)
            refusal = None if writer.status else ApiError(*INTERNAL)
        try:
            if refusal:
                metrics.refused.labels(refusal.code).inc()
                response = Response(refusal.body, refusal.status, refusal.headers | headers)
                await response(scope, receive, writer)
        finally:
            del self._open[task]
            # A path that we do not know must not become a name that Prometheus keeps for ever.
            path = path if path in self._paths else "other"
            metrics.requests.labels(path, str(writer.status)).inc()
            metrics.seconds.labels(path).observe(time.monotonic() - started)

    async def _pass(self, scope: Scope, receive: Receive, writer: ResponseWriter, task: asyncio.Task[Any]) -> None:
        headers, method, path = dict(scope["headers"]), scope["method"], scope["path"]
        # A page of elsewhere has no key to send, so that with keys it may come by any name.
        if self._hosts and not self._keys:
            self._check_origin(headers)
        if self._keys and path not in OPEN_PATHS:
            scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
            # Every key is compared, and in constant time: how long it takes must tell nothing.
            matches = [hmac.compare_digest(key.strip(), known) for known in self._keys]
            if scheme.lower() != b"bearer" or not any(matches):
                raise ApiError("wrong_key", "the key is missing or wrong; send 'Authorization: Bearer KEY'")
        if method != "POST":
            # HEAD is GET whose body nobody wants.
            await self._app({**scope, "method": "GET" if method == "HEAD" else method}, receive, writer)
            return
        if self.service.is_stopping:
            raise ApiError(*STOPPING)
        limits = self.service.limits
        if self.open_requests > limits.open_requests:
            raise ApiError("busy", f"{limits.open_requests} requests are open already; try again in a second", 1)
        media = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if media != b"application/json":
            got = media.decode("latin-1")[:80] or "none"
            raise ApiError("wrong_media_type", f"bodies are JSON (got {got}); send 'Content-Type: application/json'")
        body = await read_body(headers, receive, limits.body_bytes, limits.body_seconds)

        async def replay() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def watch() -> None:
            """A client that leaves before its answer has begun ends the work for it."""
            while (await receive())["type"] != "http.disconnect":
                pass
            if not writer.status:
                writer.is_disconnected = True
                task.cancel()

        watching = asyncio.ensure_future(watch())
        try:
            await self._app(scope, replay, writer)
        finally:
            watching.cancel()

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Nothing but this keeps a page of elsewhere, in the browser of whoever runs the server, from asking it.

        A name of elsewhere may lead here, so that a browser takes us for the page's own server.
        """
        host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
        place = origin.partition("://")[2]
        names = []
        for address in (host, place):
            try:
                names.append(urlsplit(f"//{address}").hostname or "")  # `[::1]:8000` -> `::1`
            except ValueError:
                names.append("")
        if host and names[0] not in self._hosts:
            reason = f"Host: {host[:80]!r} is no name of this server; allow it with --allow-host NAME"
            raise ApiError("foreign_host", reason)
        if origin and place.lower() != host.lower() and names[1] not in self._hosts - _LOOPBACK:
            reason = f"Origin: {origin[:80]!r} is another page's; allow its host with --allow-host NAME"
            raise ApiError("foreign_origin", reason)


async def read_body(headers: dict[bytes, bytes], receive: Receive, limit: int, seconds: float) -> bytes:
    too_large = ApiError("body_too_large", f"the body is larger than {limit:,} bytes; send the texts in several")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnected
                # Counted as it comes: the header may be missing, or lie.
                body += message.get("body", b"")
                if len(body) > limit:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise ApiError("body_too_slow", f"the body was not here after {seconds:g} s; send it faster") from None


class BoundedProtocol(H11Protocol):  # type: ignore[misc]  # the types of uvicorn are not read
    """A connection has a deadline whenever no request of its own is being worked on.

    uvicorn by itself closes a connection only where it is silent after an answer: one that never asks anything, or
    sends its headers byte by byte, stays as long as it likes, and so does one that does not read its answer.
    """

    def __init__(self, service: InferenceService, max_connections: int, *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._max_connections = max_connections
        self._header_seconds = service.limits.header_seconds
        self._refused = service.metrics.refused
        self._deadline: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        beyond = len(self.connections) - self._max_connections
        if beyond > _REFUSED_AT_ONCE:
            self._refused.labels("too_many_connections").inc()
            transport.abort()
            return
        # Answered when its first bytes are here: a refusal that comes before them may be lost on the way.
        self._is_refused = beyond > 0
        self._expire_in(_REFUSAL_SECONDS if self._is_refused else self._header_seconds)

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            super().data_received(data)
            self._let_server_work()
        elif not self.transport.is_closing():
            most = self._max_connections
            self._refuse(ApiError("too_many_connections", f"{most:,} connections are open already; try again soon", 1))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._let_server_work():
            self._let_client_read()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._let_client_read()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._let_server_work()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expire_in(None)
        super().connection_lost(exc)

    def _let_server_work(self) -> bool:
        """No deadline while it is the server's turn, and not the client's to ask or to read."""
        is_our_turn = self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused
        if is_our_turn:
            self._expire_in(None)
        return is_our_turn

    def _let_client_read(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._expire_in(self._header_seconds)

    def _expire_in(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        unread, seconds = self.transport.get_write_buffer_size(), self._header_seconds
        if 0 < unread < self._unread_bytes:
            # A long answer over a slow line: it may take its time as long as it goes on.
            self._let_client_read()
        elif unread or self._is_refused or self.transport.is_closing() or not self.conn.trailing_data[0]:
            self.transport.abort()
        else:
            reason = f"the headers were not here after {seconds:g} s; send them faster"
            self._refuse(ApiError("headers_too_slow", reason))

    def _refuse(self, error: ApiError) -> None:
        """Without the application, which knows of whole requests only."""
        self._refused.labels(error.code).inc()
        lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in {**error.headers, "connection": "close"}.items()]
        self.transport.write("\r\n".join([*lines, "", ""]).encode() + error.body)
        self.transport.close()
        self._is_refused = True
        self._expire_in(_REFUSAL_SECONDS)


class Listener(socket.socket):
    """A listening socket that turns a connection away where the process has no descriptor left for it.

    Without this asyncio tries thousands of times a second, and writes a traceback for each.
    """

    def __init__(self, *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self.on_accept_error: Callable[[], None] = lambda: None
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._is_logged = False

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _NO_MORE:
                raise
            reason = error.strerror
        self.on_accept_error()
        if not self._is_logged:
            self._is_logged = True
            _log.warning("connections are turned away (%s) and counted in /metrics; allow more with ulimit -n", reason)
        # The descriptor kept for this takes the connection off the queue, or it would be announced at once again.
        self._close_spare()
        try:
            connection, _ = super().accept()
            connection.close()
        except OSError:
            time.sleep(0.05)  # not ours to mend, but no reason to try as fast as the machine can
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)
        # To asyncio: nothing to take at the moment.
        raise BlockingIOError

    def _close_spare(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def close(self) -> None:
        self._close_spare()
        super().close()
