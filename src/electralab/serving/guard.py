"""What stands before the application: keys, media type, the size and the pace of bodies, and the count of it all.

A body is read whole before anything else is done with it, and never beyond its limit, however it is sent.
"""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from electralab.serving.api_errors import ApiError, shutting_down
from electralab.serving.service import InferenceService

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

OPEN_PATHS = ("/", "/health", "/ready", "/v1/models", "/docs", "/openapi.json")

# Names that every machine has for itself, and under which others than we may serve pages.
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
# What nginx counts a client as that has left; it is never sent.
_GONE = 499

_log = logging.getLogger(__name__)


class RequestGuard:
    def __init__(
        self, app: App, service: InferenceService, keys: Iterable[str], paths: Iterable[str], hosts: Iterable[str] = ()
    ) -> None:
        """`hosts` are the names by which it may be asked where no key is needed; none means any."""
        self._app = app
        self._desk = service
        self._keys = [key.encode() for key in keys]
        self._hosts = frozenset(host.strip("[]").lower() for host in hosts)
        self._paths = frozenset(paths)
        self._open: dict[asyncio.Task[Any], ResponseWriter] = {}

    @property
    def open_requests(self) -> int:
        return len(self._open)

    def stop(self) -> None:
        """Whoever has no answer by now gets the word that the server stops."""
        for task, writer in self._open.items():
            if not writer.status:
                task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        writer = ResponseWriter(send, has_body=scope["method"] != "HEAD")
        task = _current_task()
        self._open[task] = writer
        try:
            await self._pass(scope, receive, writer)
        except ApiError as refusal:
            await writer.refuse(refusal, is_body_left=True)
        except ClientDisconnected:
            writer.status = _GONE
        except asyncio.CancelledError:
            task.uncancel()
            if writer.is_gone:
                writer.status = _GONE
            elif not writer.status:
                await writer.refuse(shutting_down(), is_body_left=True)
        except Exception:  # noqa: BLE001  whatever it was, the process goes on
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if not writer.status:
                await writer.refuse(ApiError("internal", "the server failed on this request, and has noted how"))
        finally:
            del self._open[task]
            # A path that we do not know must not become a name that Prometheus keeps for ever.
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._desk.metrics.count_request(path, writer.status, time.monotonic() - started)
            if writer.code:
                self._desk.metrics.count_refusal(writer.code)

    async def _pass(self, scope: Scope, receive: Receive, writer: "ResponseWriter") -> None:
        headers = dict(scope["headers"])
        if self._hosts and not self._keys:
            self._check_origin(headers)
        if self._keys and scope["path"] not in OPEN_PATHS and not self._is_known(headers.get(b"authorization", b"")):
            raise ApiError("wrong_key", "the key is missing or wrong; send 'Authorization: Bearer KEY'")
        if scope["method"] != "POST":
            # To ask without wanting the body is to ask all the same.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            await self._app({**scope, "method": method}, receive, writer)
            return
        if self._desk.is_stopping:
            raise shutting_down()
        limits = self._desk.limits
        if self.open_requests > limits.open_requests:
            raise ApiError("busy", f"{limits.open_requests} requests are open already; try again in a second", 1)
        media = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if media != b"application/json":
            got = media.decode("latin-1")[:80] or "none"
            raise ApiError("wrong_media_type", f"bodies are JSON (got {got}); send 'Content-Type: application/json'")
        body = await read_body(headers, receive, limits.body_bytes, limits.body_seconds)
        leaving = asyncio.ensure_future(_watch(receive, writer, _current_task()))
        try:
            await self._app(scope, _replay(body), writer)
        finally:
            leaving.cancel()

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Nothing but this keeps a page of elsewhere, in the browser of whoever runs the server, from asking it.

        A name of elsewhere may lead here, so that a browser takes us for the page's own server.
        """
        host, origin = (headers.get(name, b"").decode("latin-1") for name in (b"host", b"origin"))
        if host and _find_host(host) not in self._hosts:
            raise ApiError(
                "foreign_host", f"Host: {host[:80]!r} is no name of this server; allow it with --allow-host NAME"
            )
        place = origin.partition("://")[2]
        if origin and place.lower() != host.lower() and _find_host(place) not in self._hosts - _LOOPBACK:
            raise ApiError(
                "foreign_origin", f"Origin: {origin[:80]!r} is another page's; allow its host with --allow-host NAME"
            )

    def _is_known(self, given: bytes) -> bool:
        scheme, _, key = given.partition(b" ")
        # Every key is compared, and in constant time: how long it takes must tell nothing.
        matches = [hmac.compare_digest(key.strip(), known) for known in self._keys]
        return scheme.lower() == b"bearer" and any(matches)


def _find_host(place: str) -> str:
    """`[::1]:8000` -> `::1`; nothing where it is no place."""
    try:
        return urlsplit(f"//{place}").hostname or ""
    except ValueError:
        return ""


class ClientDisconnected(Exception):
    """The client left before its request was here."""


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def _watch(receive: Receive, writer: "ResponseWriter", task: asyncio.Task[Any]) -> None:
    """A client that leaves before its answer has begun ends the work for it."""
    while (await receive())["type"] != "http.disconnect":
        pass
    if not writer.status:
        writer.is_gone = True
        task.cancel()


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
                body += message.get("body", b"")
                if len(body) > limit:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise ApiError("body_too_slow", f"the body was not here after {seconds:g} s; send it faster") from None


def _replay(body: bytes) -> Receive:
    async def again() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class ResponseWriter:
    """The way back: remembers the status, and adds the headers that every answer has."""

    def __init__(self, send: Send, *, has_body: bool = True) -> None:
        self._send = send
        self._has_body = has_body
        self.is_gone = False
        self.status = 0
        self.code = ""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own: list[Header] = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
            headers: list[Header] = list(message.get("headers", []))
            # The refusals of routes inside are told by a header, which goes no further.
            self.code = next((value.decode() for name, value in headers if name == CODE), self.code)
            message["headers"] = [*(header for header in headers if header[0] != CODE), *own]
        elif not self._has_body:
            message["body"] = b""
        await self._send(message)

    async def refuse(self, refusal: ApiError, *, is_body_left: bool = False) -> None:
        headers = [(b"content-type", b"application/json"), *error_headers(refusal)]
        if is_body_left:
            headers.append((b"connection", b"close"))
        body = encode_error(refusal)
        headers.append((b"content-length", str(len(body)).encode()))
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


CODE = b"x-electralab-code"


def error_headers(refusal: ApiError) -> list[Header]:
    headers = [(CODE, refusal.code.encode())]
    if refusal.retry_after:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


def encode_error(refusal: ApiError) -> bytes:
    return encode({"error": {"code": refusal.code, "message": refusal.message}})


def encode(answer: Any) -> bytes:
    """Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")
