"""What the server has done, as Prometheus reads it.

counts -> text
"""

from collections import Counter as Tally
from collections.abc import Callable

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """Counted from the event loop and from the workers; prometheus_client has the locks."""

    def __init__(self) -> None:
        # In here, because reading the settings of a server must not need the libraries of one.
        from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

        # Without this every counter has a second family, its time of creation, which nobody asked for.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        # A registry of its own: several servers may live in one process, as in tests.
        self._registry = registry = CollectorRegistry()
        # Names and labels are what dashboards know; prometheus_client adds `_total` to the names of counters.
        labels = ["path", "status"]
        self._requests = Counter("electralab_requests", "Requests by path and status.", labels, registry=registry)
        meaning = "From the first byte of a request to its answer."
        self._seconds = Histogram("electralab_request_seconds", meaning, ["path"], buckets=_SECONDS, registry=registry)
        meaning = "Texts that went through a model together."
        self._batches = Histogram("electralab_batch_texts", meaning, ["ability"], buckets=_TEXTS, registry=registry)
        meaning = "Requests without an answer, by the code of the reason."
        self._refused = Counter("electralab_refused", meaning, ["code"], registry=registry)
        meaning = "Connections that the process had no descriptor for."
        self._accept_errors = Counter("electralab_accept_errors", meaning, registry=registry)

    def add_gauge(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """`value` is asked whenever the metrics are read."""
        from prometheus_client import Gauge

        Gauge(name, meaning, registry=self._registry).set_function(value)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def count_batch(self, capability: str, texts: int) -> None:
        self._batches.labels(capability).observe(texts)

    def count_error(self, code: str) -> None:
        self._refused.labels(code).inc()

    def count_accept_error(self) -> None:
        self._accept_errors.inc()

    def sum_statuses(self) -> dict[str, int]:
        statuses: Tally[str] = Tally()
        for family in self._requests.collect():
            for sample in family.samples:
                statuses[sample.labels["status"]] += int(sample.value)
        return dict(statuses)

    def render(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self._registry)
