"""Requests that arrive at about the same time go through a model together, and each gets its own answers.

QueuedRequest... -> batches -> answers

A queued request is what one HTTP request asks: inputs for one capability of one model. A worker takes the oldest one,
waits until the window after its arrival is over, and takes whatever else has come for the same handler, as much as
fits. Between two runs of a network it looks whether anybody still waits for the answers, and whether small requests
wait behind a large one.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.serving.outcomes import STOPPING, ApiError, ServerMetrics
from electralab.stopping import StopSignal

# Characters per second, before anything was measured.
_FIRST_SPEED = 100_000.0
_LONGEST_WAIT = 60
# Seconds in which a worker that is told to stop should have come out of its network.
_ONE_RUN = 1.0


class BatchingConfig(Settings):
    window_ms: float = Field(2.0, ge=0)
    """How long the first text of a batch waits for others; whoever comes while the worker is busy waits anyway."""
    batch_characters: int = Field(32_768, ge=1)
    """The most that go through a model together, more only for a single request."""
    queue_texts: int = Field(512, ge=1)
    queue_characters: int = Field(2_000_000, ge=1)
    """What may wait; beyond it a request is told to come back later."""
    workers: int = Field(1, ge=1)


class BatchHandler(Protocol):
    """One capability of one model. What it parses to is its own affair."""

    def parse(self, given: Any, /, *_: Any, **options: Any) -> Any:
        """What is needed to answer, or an InputError about this input alone."""

    def answer(self, parsed: Sequence[Any], stop: StopSignal, /) -> Sequence[Any]:
        """An answer for each, in order; `stop` is looked at before every run of a network."""


# Compared by identity: two requests that ask the same are two.
@dataclass(slots=True, eq=False)
class QueuedRequest:
    capability: str
    handler: BatchHandler
    inputs: Sequence[Any]
    options: Mapping[str, object]
    """What the handler is told with every input."""
    cost: int
    """In characters."""
    seconds: float
    """Until nobody waits for the answers any more."""
    arrived: float = field(default_factory=time.monotonic)
    is_given_up: bool = False
    """Whether whoever asked has left already."""
    answers: "Future[Sequence[Any]]" = field(default_factory=Future)

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self.arrived + self.seconds


class BadText(Exception):
    """One input of a request cannot be answered; its arguments are the input's index and the reason."""


class Batcher:
    def __init__(self, config: BatchingConfig, metrics: ServerMetrics) -> None:
        self.config = config
        self.waiting_texts = 0
        self._metrics = metrics
        self._waiting: deque[QueuedRequest] = deque()
        self._changed = threading.Condition()
        # Characters that wait, and characters that are worked on.
        self._characters = self._running = 0
        self._speed = _FIRST_SPEED
        self._is_closed = self._is_over = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(config.workers)]
        for worker in self._workers:
            worker.start()

    @property
    def is_full(self) -> bool:
        return self.waiting_texts >= self.config.queue_texts or self._characters >= self.config.queue_characters

    def submit(self, request: QueuedRequest) -> None:
        """Answers come in the request's future, or an ApiError."""
        with self._changed:
            if self._is_closed:
                raise ApiError(*STOPPING)
            texts, characters = self.waiting_texts + len(request.inputs), self._characters + request.cost
            is_over = texts > self.config.queue_texts or characters > self.config.queue_characters
            # Into an empty queue even a request that is too large for it is taken, or it could never be answered.
            if self._waiting and is_over:
                raise self.retry_later("busy", f"{self.waiting_texts} texts are waiting already")
            self._waiting.append(request)
            self.waiting_texts, self._characters = texts, characters
            self._changed.notify()

    def give_up(self, request: QueuedRequest) -> None:
        """Nobody waits for its answers: it leaves the queue, or the worker at the next chance."""
        with self._changed:
            request.is_given_up = True
            if request.answers.cancel() and request in self._waiting:
                self._remove(request)

    def estimate_wait(self) -> int:
        """Whole seconds until what is worked on and what waits now is done."""
        return min(_LONGEST_WAIT, max(1, math.ceil((self._running + self._characters) / self._speed)))

    def retry_later(self, code: str, reason: str) -> ApiError:
        wait = self.estimate_wait()
        return ApiError(code, f"{reason}; try again in {wait} s", wait)

    def close(self, seconds: float) -> bool:
        """Nothing new is taken; what waits is answered, as far as the time allows, and refused then.

        Returns whether the workers have ended: one inside a network cannot be reached.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._join(seconds)
        with self._changed:
            self._is_over = True
            left = list(self._waiting)
            for request in left:
                self._remove(request)
        for request in left:
            if request.answers.set_running_or_notify_cancel():
                request.answers.set_exception(ApiError(*STOPPING))
        # A thread that is torn out of a network when the process ends aborts it: whoever calls must know of one.
        self._join(_ONE_RUN)
        return not any(worker.is_alive() for worker in self._workers)

    def _join(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while True:
            with self._changed:
                self._drop_late()
                if not self._waiting:
                    if self._is_closed:
                        return
                    self._changed.wait()
                    continue
                # Requests that came while the worker was busy have waited their window already, and go at once.
                left = self._waiting[0].arrived + self.config.window_ms / 1000 - time.monotonic()
                if left > 0 and not self._is_closed and self._characters < self.config.batch_characters:
                    self._changed.wait(left)
                    continue
                requests = self._take(self._waiting[0])
            if requests:
                self._run(requests)

    def _drop_late(self) -> None:
        """Whoever has given up, or must by now, is not worked for."""
        for request in list(self._waiting):
            if request.answers.cancelled() or request.is_late:
                self._remove(request)
                if request.answers.set_running_or_notify_cancel():
                    request.answers.set_exception(self.retry_later("too_slow", "not begun in time"))

    def _take(self, first: QueuedRequest) -> list[QueuedRequest]:
        """This request, and of those for the same handler as many as fit, in the order in which they came."""
        taken = [first]
        room = self.config.batch_characters - first.cost
        for request in self._waiting:
            if request is not first and request.handler is first.handler and request.cost <= room:
                taken.append(request)
                room -= request.cost
        for request in taken:
            self._remove(request)
        begun = [request for request in taken if request.answers.set_running_or_notify_cancel()]
        self._running += sum(request.cost for request in begun)
        return begun

    def _remove(self, request: QueuedRequest) -> None:
        self._waiting.remove(request)
        self.waiting_texts -= len(request.inputs)
        self._characters -= request.cost

    def _run(self, requests: Sequence[QueuedRequest]) -> None:
        """All requests of one handler at once; whatever is wrong with one of them is that one's affair."""
        cost = sum(request.cost for request in requests)
        # Before the answers are given out: whoever has one finds its batch counted.
        texts = sum(len(request.inputs) for request in requests)
        self._metrics.batches.labels(requests[0].capability).observe(texts)
        started, stop = time.monotonic(), _BatchStop(self, requests, cost)
        parsed: list[tuple[QueuedRequest, list[Any]]] = []
        for request in requests:
            try:
                inputs = []
                for index, given in enumerate(request.inputs):
                    stop.check()
                    try:
                        inputs.append(request.handler.parse(given, **request.options))
                    except InputError as error:
                        raise BadText(index, str(error)) from None
                parsed.append((request, inputs))
            except Exception as error:  # noqa: BLE001  whoever asked is told, and the worker must go on
                request.answers.set_exception(error)
        if parsed:
            _answer(parsed, stop)
        with self._changed:
            self._running -= cost
            # A batch that was broken off says nothing about the speed.
            if not any(isinstance(request.answers.exception(), ApiError) for request in requests):
                self._speed += 0.2 * (cost / max(time.monotonic() - started, 1e-6) - self._speed)


class _BatchStop(StopSignal):
    """What a handler looks at before every run of its network: is it still for anybody?"""

    def __init__(self, batcher: Batcher, requests: Sequence[QueuedRequest], cost: int) -> None:
        super().__init__()
        self.batcher, self.requests, self.cost = batcher, requests, cost

    def check(self, *_: object) -> None:
        batcher = self.batcher
        if batcher._is_over:
            raise ApiError(*STOPPING)
        if all(request.is_given_up or request.is_late for request in self.requests):
            raise batcher.retry_later("too_slow", "not done in time")
        most = batcher.config.batch_characters
        if self.cost <= most:
            return
        # Whoever asks little need not wait for a request that is more than a batch by itself.
        with batcher._changed:
            batcher._drop_late()
            first = next((request for request in batcher._waiting if request.cost <= most), None)
            others = [] if first is None else batcher._take(first)
        if others:
            batcher._run(others)


def _answer(parsed: Sequence[tuple[QueuedRequest, list[Any]]], stop: StopSignal) -> None:
    try:
        handler = parsed[0][0].handler
        answers = iter(handler.answer([given for _, inputs in parsed for given in inputs], stop))
        by_request = [[next(answers) for _ in inputs] for _, inputs in parsed]
    except Exception as error:  # noqa: BLE001  as above
        if isinstance(error, ApiError) or len(parsed) == 1:
            for request, _ in parsed:
                request.answers.set_exception(error)
        else:
            # One of them broke the batch: each by itself, so that only that one fails.
            for pair in parsed:
                _answer([pair], stop)
        return
    for (request, _), own in zip(parsed, by_request, strict=True):
        request.answers.set_result(own)
