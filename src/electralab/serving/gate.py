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

from electralab.serving.desk import Desk
from electralab.serving.refusals import Refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

OPEN_PATHS = ("/", "/health", "/ready", "/v1/models", "/docs", "/openapi.json")

_log = logging.getLogger(__name__)


class Gate:
    def __init__(self, app: App, desk: Desk, keys: Iterable[str], paths: Iterable[str]) -> None:
        self._app = app
        self._desk = desk
        self._keys = [key.encode() for key in keys]
        self._paths = frozenset(paths)
        self.open_requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        reply = Reply(send)
        self.open_requests += 1
        try:
            await self._pass(scope, receive, reply)
        except Refusal as refusal:
            await reply.refuse(refusal, is_body_left=True)
        except Gone:
            reply.status = 499
        except Exception:  # noqa: BLE001  whatever it was, the process goes on
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if not reply.status:
                await reply.refuse(Refusal("internal", "the server failed on this request, and has noted how"))
        finally:
            self.open_requests -= 1
            # A path that we do not know must not become a name that Prometheus keeps for ever.
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._desk.metrics.count_request(path, reply.status, time.monotonic() - started)
            if reply.code:
                self._desk.metrics.count_refusal(reply.code)

    async def _pass(self, scope: Scope, receive: Receive, reply: "Reply") -> None:
        headers = dict(scope["headers"])
        if self._keys and scope["path"] not in OPEN_PATHS and not self._is_known(headers.get(b"authorization", b"")):
            raise Refusal("wrong_key", "the key is missing or wrong; send 'Authorization: Bearer KEY'")
        if scope["method"] != "POST":
            await self._app(scope, receive, reply)
            return
        limits = self._desk.limits
        if self.open_requests > limits.open_requests:
            raise Refusal("busy", f"{limits.open_requests} requests are open already; try again in a second", 1)
        media = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
        if media != b"application/json":
            got = media.decode("latin-1")[:80] or "none"
            raise Refusal("wrong_media_type", f"bodies are JSON (got {got}); send 'Content-Type: application/json'")
        body = await read_body(headers, receive, limits.body_bytes, limits.body_seconds)
        await self._app(scope, _replay(body, receive), reply)

    def _is_known(self, given: bytes) -> bool:
        scheme, _, key = given.partition(b" ")
        # Every key is compared, and in constant time: how long it takes must tell nothing.
        matches = [hmac.compare_digest(key.strip(), known) for known in self._keys]
        return scheme.lower() == b"bearer" and any(matches)


class Gone(Exception):
    """The client left before its request was here."""


async def read_body(headers: dict[bytes, bytes], receive: Receive, limit: int, seconds: float) -> bytes:
    too_large = Refusal("body_too_large", f"the body is larger than {limit:,} bytes; send the texts in several")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                body += message.get("body", b"")
                if len(body) > limit:
                    raise too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refusal("body_too_slow", f"the body was not here after {seconds:g} s; send it faster") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class Reply:
    """The way back: remembers the status, and adds the headers that every answer has."""

    def __init__(self, send: Send) -> None:
        self._send = send
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
        await self._send(message)

    async def refuse(self, refusal: Refusal, *, is_body_left: bool = False) -> None:
        headers = [(b"content-type", b"application/json"), *refusal_headers(refusal)]
        if is_body_left:
            headers.append((b"connection", b"close"))
        body = encode_refusal(refusal)
        headers.append((b"content-length", str(len(body)).encode()))
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


CODE = b"x-electralab-code"


def refusal_headers(refusal: Refusal) -> list[Header]:
    headers = [(CODE, refusal.code.encode())]
    if refusal.retry_after:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers


def encode_refusal(refusal: Refusal) -> bytes:
    return encode({"error": {"code": refusal.code, "message": refusal.message}})


def encode(answer: Any) -> bytes:
    """Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")
