"""How long a connection may stay without a request, how many there may be, and what happens when no more can be taken.

bytes of a connection -> requests, a refusal, or its end
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from electralab.serving.api_errors import CODE_HEADER, ApiError
from electralab.serving.metrics import ServerMetrics

# Connections beyond the limit that wait for their refusal; a still later one is cut off without a word.
_REFUSED_AT_ONCE = 16
# Seconds that a connection beyond the limit has for its first bytes, and any other to read its error.
_REFUSAL_SECONDS = 1.0
_PHRASES = {408: "Request Timeout", 503: "Service Unavailable"}
_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    max_connections: int
    """Connections at once."""
    header_seconds: float
    metrics: ServerMetrics


class BoundedProtocol(H11Protocol):  # type: ignore[misc]  # the types of uvicorn are not read
    """A connection has a deadline whenever no request of its own is being worked on.

    uvicorn by itself closes a connection only where it is silent after an answer: one that never asks anything, or
    sends its headers byte by byte, stays as long as it likes, and so does one that does not read its answer.
    """

    def __init__(self, limits: ConnectionLimits, *rest: Any, **named: Any) -> None:
        super().__init__(*rest, **named)
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        beyond = len(self.connections) - self._limits.max_connections
        if beyond > _REFUSED_AT_ONCE:
            self._limits.metrics.count_error("too_many_connections")
            transport.abort()
        elif beyond > 0:
            # Answered when its first bytes are here: a refusal that comes before them may be lost on the way.
            self._is_refused = True
            self._expire_in(_REFUSAL_SECONDS)
        else:
            self._expire_in(self._limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            super().data_received(data)
            if self._is_being_answered:
                self._forget_deadline()
        elif not self.transport.is_closing():
            most = self._limits.max_connections
            self._refuse(ApiError("too_many_connections", f"{most:,} connections are open already; try again soon", 1))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_being_answered:
            self._unread_bytes = self.transport.get_write_buffer_size()
            self._expire_in(self._limits.header_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._expire_in(self._limits.header_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_being_answered:
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    @property
    def _is_being_answered(self) -> bool:
        """Whether it is the server's turn, and not the client's to ask or to read."""
        return self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused

    def _expire_in(self, seconds: float) -> None:
        self._forget_deadline()
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if 0 < unread < self._unread_bytes:
            # A long answer over a slow line: it may take its time as long as it goes on.
            self._unread_bytes = unread
            self._expire_in(self._limits.header_seconds)
        elif unread or self._is_refused or self.transport.is_closing() or not self.conn.trailing_data[0]:
            self.transport.abort()
        else:
            seconds = self._limits.header_seconds
            self._refuse(
                ApiError("headers_too_slow", f"the headers were not here after {seconds:g} s; send them faster")
            )

    def _refuse(self, error: ApiError) -> None:
        """Without the application, which knows of whole requests only."""
        self._limits.metrics.count_error(error.code)
        body = error.encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *(header for header in error.headers if header[0] != CODE_HEADER),
        ]
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        self.transport.write(b"HTTP/1.1 %d %s\r\n%s\r\n" % (error.status, _PHRASES[error.status].encode(), head))
        self.transport.write(body)
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
            self._turn_away(error)
            # To asyncio: nothing to take at the moment.
            raise BlockingIOError from None

    def _turn_away(self, error: OSError) -> None:
        self.on_accept_error()
        if not self._is_logged:
            self._is_logged = True
            _log.warning(
                "connections are turned away (%s) and counted in /metrics; allow more with ulimit -n", error.strerror
            )
        # The descriptor kept for this takes the connection off the queue, or it would be announced at once again.
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        try:
            connection, _ = super().accept()
            connection.close()
        except OSError:
            time.sleep(0.05)  # not ours to mend, but no reason to try as fast as the machine can
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()
