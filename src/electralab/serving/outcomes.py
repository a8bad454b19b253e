"""How requests end: with an answer, or with a code for programs, a sentence for people and a status for HTTP; and how
often they ended so, as Prometheus reads it.
"""

import json
from typing import Any

# What each status means, as /docs and /openapi.json tell it, and the codes that have it.
_OUTCOMES = {
    400: (
        "A value, a text or the JSON itself is wrong; the message says which and why.",
        "bad_json bad_value bad_text text_empty text_too_long too_many_texts model_needed model_cannot",
    ),
    401: ("The key is missing or wrong.", "wrong_key"),
    403: ("A page of another origin asks, or by a name that the server does not go by.", "foreign_host foreign_origin"),
    404: ("No such path or model.", "unknown_model unknown_path"),
    405: ("No such method on this path.", "wrong_method"),
    408: ("The headers or the body took too long to arrive.", "headers_too_slow body_too_slow"),
    413: ("The body is too large.", "body_too_large"),
    415: ("The body is not said to be JSON.", "wrong_media_type"),
    429: ("Too much is waiting; Retry-After says when to come back.", "busy"),
    500: ("The server failed; it goes on.", "internal"),
    503: (
        "The server is shutting down, has too many connections, or took too long; see Retry-After.",
        "stopping too_slow too_many_connections",
    ),
}
REASONS = {status: reason for status, (reason, _) in _OUTCOMES.items()}
_STATUS = {code: status for status, (_, codes) in _OUTCOMES.items() for code in codes.split()}

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ApiError(Exception):
    """`retry_after` says in how many seconds it is worth trying again; 0 where it never is."""

    def __init__(self, code: str, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.status = _STATUS[code]
        self.body = encode_json({"error": {"code": code, "message": message}})
        self.headers = {"content-type": "application/json", "content-length": str(len(self.body))}
        if retry_after:
            self.headers["retry-after"] = str(retry_after)
        if self.status == 401:
            self.headers["www-authenticate"] = "Bearer"


# What an ApiError is made of where the server is told to stop, and where it is at fault, which the guard logs.
STOPPING = ("stopping", "the server is shutting down; ask another, or later", 60)
INTERNAL = ("internal", "the server failed on this request, and has noted how")


def encode_json(value: Any) -> bytes:
    """Half of a surrogate pair, which UTF-8 cannot hold, becomes the very escape that JSON has for it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


class ServerMetrics:
    """Counted from the event loop and from the workers; prometheus_client has the locks."""

    def __init__(self) -> None:
        # In here, because reading the settings of a server must not need the libraries of one.
        from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

        # Without this every counter has a second family, its time of creation, which nobody asked for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        # A registry of its own: several servers may live in one process, as in tests.
        self.registry = registry = CollectorRegistry()
        # Names and labels are what dashboards know; prometheus_client adds `_total` to the names of counters.
        labels = ["path", "status"]
        self.requests = Counter("electralab_requests", "Requests by path and status.", labels, registry=registry)
        meaning = "From the first byte of a request to its answer."
        self.seconds = Histogram("electralab_request_seconds", meaning, ["path"], buckets=_SECONDS, registry=registry)
        meaning = "Texts that went through a model together."
        self.batches = Histogram("electralab_batch_texts", meaning, ["ability"], buckets=_TEXTS, registry=registry)
        meaning = "Requests without an answer, by the code of the reason."
        self.refused = Counter("electralab_refused", meaning, ["code"], registry=registry)
        meaning = "Connections that the process had no descriptor for."
        self.accept_errors = Counter("electralab_accept_errors", meaning, registry=registry)
