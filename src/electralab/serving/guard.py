"""What stands before the application: hosts, keys, media type, the size and the pace of bodies; and it counts.

A body is read whole before anything else is done with it, and never beyond its limit, however it is sent.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from electralab.serving.api_errors import CODE_HEADER, ApiError, Header, internal_error, shutting_down
from electralab.serving.service import InferenceService

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/", "/health", "/ready", "/v1/models", "/docs", "/openapi.json")

# Names that every machine has for itself, and under which others than we may serve pages.
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
# What nginx counts a client as that has left; it is never sent.
_CLIENT_CLOSED = 499

_log = logging.getLogger(__name__)


class ClientDisconnected(Exception):
    """The client left before its request was here."""


class RequestGuard:
    def __init__(
        self, app: App, service: InferenceService, keys: Iterable[str], paths: Iterable[str], hosts: Iterable[str] = ()
    ) -> None:
        """`hosts` are the names by which it may be asked where no key is needed; none means any."""
        self._app = app
        self._service = service
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
        started = time.monotonic()
        writer = ResponseWriter(send, has_body=scope["method"] != "HEAD")
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            await self._pass(scope, receive, writer, task)
        except ApiError as error:
            await writer.refuse(error, is_body_left=True)
        except ClientDisconnected:
            writer.status = _CLIENT_CLOSED
        except asyncio.CancelledError:
            # Our own doing: the task goes on, and must not count as cancelled any more.
            task.uncancel()
            if writer.is_disconnected:
                writer.status = _CLIENT_CLOSED
            elif not writer.status:
                await writer.refuse(shutting_down(), is_body_left=True)
        except Exception:  # noqa: BLE001  whatever it was, the process goes on
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if not writer.status:
                await writer.refuse(internal_error())
        finally:
            del self._open[task]
            # A path that we do not know must not become a name that Prometheus keeps for ever.
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._service.metrics.count_request(path, writer.status, time.monotonic() - started)
            if writer.code:
                self._service.metrics.count_error(writer.code)

    async def _pass(self, scope: Scope, receive: Receive, writer: "ResponseWriter", task: asyncio.Task[Any]) -> None:
        headers = dict(scope["headers"])
        # A page of elsewhere has no key to send, so that with keys it may come by any name.
        if self._hosts and not self._keys:
            self._check_origin(headers)
        if self._keys and scope["path"] not in OPEN_PATHS:
            scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
            # Every key is compared, and in constant time: how long it takes must tell nothing.
            matches = [hmac.compare_digest(key.strip(), known) for known in self._keys]
            if scheme.lower() != b"bearer" or not any(matches):
                raise ApiError("wrong_key", "the key is missing or wrong; send 'Authorization: Bearer KEY'")
        if scope["method"] != "POST":
            # HEAD is GET whose body nobody wants.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            await self._app({**scope, "method": method}, receive, writer)
            return
        if self._service.is_stopping:
            raise shutting_down()
        limits = self._service.limits
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
        if host and _host_name(host) not in self._hosts:
            raise ApiError(
                "foreign_host", f"Host: {host[:80]!r} is no name of this server; allow it with --allow-host NAME"
            )
        place = origin.partition("://")[2]
        if origin and place.lower() != host.lower() and _host_name(place) not in self._hosts - _LOOPBACK:
            raise ApiError(
                "foreign_origin", f"Origin: {origin[:80]!r} is another page's; allow its host with --allow-host NAME"
            )


def _host_name(place: str) -> str:
    """`[::1]:8000` -> `::1`; nothing where it is no place."""
    try:
        return urlsplit(f"//{place}").hostname or ""
    except ValueError:
        return ""


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


class ResponseWriter:
    """The way back: remembers the status, and adds the headers that every answer has."""

    def __init__(self, send: Send, *, has_body: bool = True) -> None:
        self._send = send
        self._has_body = has_body
        self.is_disconnected = False
        self.status = 0
        self.code = ""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers: list[Header] = list(message.get("headers", []))
            self.code = next((value.decode() for name, value in headers if name == CODE_HEADER), self.code)
            message["headers"] = [
                *(header for header in headers if header[0] != CODE_HEADER),
                (b"x-content-type-options", b"nosniff"),
                (b"cache-control", b"no-store"),
            ]
        elif not self._has_body:
            message["body"] = b""
        await self._send(message)

    async def refuse(self, error: ApiError, *, is_body_left: bool = False) -> None:
        body = error.encode()
        headers = [(b"content-type", b"application/json"), *error.headers]
        # What is left of the body would be read as the next request of the connection.
        if is_body_left:
            headers.append((b"connection", b"close"))
        headers.append((b"content-length", str(len(body)).encode()))
        await self({"type": "http.response.start", "status": error.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})
