"""Why a request gets no answer: a code for programs, a sentence for people, a status for HTTP."""

import json
from typing import Any

STATUS = {
    "bad_json": 400,
    "bad_value": 400,
    "bad_text": 400,
    "text_empty": 400,
    "text_too_long": 400,
    "too_many_texts": 400,
    "model_needed": 400,
    "model_cannot": 400,
    "wrong_key": 401,
    "foreign_host": 403,
    "foreign_origin": 403,
    "unknown_model": 404,
    "unknown_path": 404,
    "wrong_method": 405,
    "headers_too_slow": 408,
    "body_too_slow": 408,
    "body_too_large": 413,
    "wrong_media_type": 415,
    "busy": 429,
    "internal": 500,
    "stopping": 503,
    "too_slow": 503,
    "too_many_connections": 503,
}
# What each status means, as /docs and /openapi.json tell it.
REASONS = {
    400: "A value, a text or the JSON itself is wrong; the message says which and why.",
    401: "The key is missing or wrong.",
    403: "A page of another origin asks, or by a name that the server does not go by.",
    404: "No such path or model.",
    405: "No such method on this path.",
    408: "The headers or the body took too long to arrive.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    429: "Too much is waiting; Retry-After says when to come back.",
    500: "The server failed; it goes on.",
    503: "The server is shutting down, has too many connections, or took too long; see Retry-After.",
}
assert set(REASONS) == set(STATUS.values())

CODE_HEADER = b"x-electralab-code"
"""How errors inside the application tell their code to the guard, which counts it and sends it no further."""

Header = tuple[bytes, bytes]


class ApiError(Exception):
    """`retry_after` says in how many seconds it is worth trying again; 0 where it never is."""

    def __init__(self, code: str, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        return STATUS[self.code]

    @property
    def headers(self) -> list[Header]:
        headers = [(CODE_HEADER, self.code.encode())]
        if self.retry_after:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return headers

    def encode(self) -> bytes:
        return encode_json({"error": {"code": self.code, "message": self.message}})


def shutting_down() -> ApiError:
    return ApiError("stopping", "the server is shutting down; ask another, or later", 60)


def internal_error() -> ApiError:
    """Our bug. The guard writes it to the log."""
    return ApiError("internal", "the server failed on this request, and has noted how")


def encode_json(value: Any) -> bytes:
    """Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")
