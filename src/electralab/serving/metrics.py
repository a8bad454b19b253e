"""What the server has done, as Prometheus reads it.

counts -> text
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Labels = tuple[tuple[str, str], ...]


class Histogram:
    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        reached = 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            reached += count
            yield _line(f"{name}_bucket", (*labels, ("le", bound)), reached)
        yield _line(f"{name}_sum", labels, self.total)
        yield _line(f"{name}_count", labels, reached)


class Metrics:
    """Counted from the event loop and from the workers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._batches: dict[str, Histogram] = {}
        self._refused: Counter[str] = Counter()
        self._turned_away = 0

    def count_request(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[path, status] += 1
            self._seconds.setdefault(path, Histogram(_SECONDS)).add(seconds)

    def count_batch(self, ability: str, texts: int) -> None:
        with self._lock:
            self._batches.setdefault(ability, Histogram(_TEXTS)).add(texts)

    def count_refusal(self, code: str) -> None:
        with self._lock:
            self._refused[code] += 1

    def count_turned_away(self) -> None:
        with self._lock:
            self._turned_away += 1

    def sum_statuses(self) -> dict[str, int]:
        with self._lock:
            found: Counter[str] = Counter()
            for (_, status), count in self._requests.items():
                found[str(status)] += count
            return dict(found)

    def render(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """`gauges` are name -> (what it says, how much now)."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines(gauges))

    def _lines(self, gauges: Mapping[str, tuple[str, float]]) -> Iterator[str]:
        yield from _head("electralab_requests_total", "counter", "Requests by path and status.")
        for (path, status), count in sorted(self._requests.items()):
            yield _line("electralab_requests_total", (("path", path), ("status", str(status))), count)
        yield from _head("electralab_request_seconds", "histogram", "From the first byte of a request to its answer.")
        for path, seconds in sorted(self._seconds.items()):
            yield from seconds.lines("electralab_request_seconds", (("path", path),))
        yield from _head("electralab_batch_texts", "histogram", "Texts that went through a model together.")
        for ability, texts in sorted(self._batches.items()):
            yield from texts.lines("electralab_batch_texts", (("ability", ability),))
        yield from _head(
            "electralab_refused_total", "counter", "Requests without an answer, by the code of the reason."
        )
        for code, count in sorted(self._refused.items()):
            yield _line("electralab_refused_total", (("code", code),), count)
        yield from _head(
            "electralab_accept_errors_total", "counter", "Connections that the process had no descriptor for."
        )
        yield _line("electralab_accept_errors_total", (), self._turned_away)
        for name, (says, value) in gauges.items():
            yield from _head(name, "gauge", says)
            yield _line(name, (), value)


def _head(name: str, kind: str, says: str) -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Labels, value: float) -> str:
    """The labels are ours: paths of the API, abilities, codes; none of them needs escaping."""
    inside = ",".join(f'{label}="{text}"' for label, text in labels)
    return f"{name}{{{inside}}} {value}" if labels else f"{name} {value}"
