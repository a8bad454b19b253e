"""Requests that arrive at about the same time go through a model together, and each gets its own answers.

tickets -> batches -> answers

A ticket is what one request asks: texts for one ability of one model. A worker takes the oldest ticket, waits until the
window after its arrival is over, and takes whatever else has come for the same place, as much as fits. Between two runs
of a network it looks whether anybody still waits for what it does, and whether others wait behind a request of many.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.serving.api_errors import ApiError, shutting_down
from electralab.serving.metrics import Metrics
from electralab.stopping import StopSignal

# How fast the workers are before anything was measured.
_FIRST_GUESS = 100_000.0
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
    """One ability of one model."""

    def parse(self, asked: Any, /) -> Any:
        """What is needed to answer, or an InputError about this text alone."""

    def answer(self, parsed: Sequence[Any], stop: StopSignal, /) -> Sequence[Any]:
        """An answer for each, in order; `stop` is looked at before every run of a network."""


@dataclass(slots=True, eq=False)
class QueuedRequest:
    ability: str
    handler: BatchHandler
    asked: Sequence[Any]
    cost: int
    """In characters."""
    deadline: float
    arrived: float = field(default_factory=time.monotonic)
    is_given_up: bool = False
    """Whether nobody waits for the answers any more."""
    answers: "Future[Sequence[Any]]" = field(default_factory=Future)


class Batcher:
    def __init__(self, config: BatchingConfig, metrics: Metrics) -> None:
        self.config = config
        self._metrics = metrics
        self._waiting: deque[QueuedRequest] = deque()
        self._changed = threading.Condition()
        self._texts = self._characters = self._running = 0
        self._speed = _FIRST_GUESS
        self._is_closed = self._is_over = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(config.workers)]
        for worker in self._workers:
            worker.start()

    @property
    def waiting_texts(self) -> int:
        return self._texts

    @property
    def is_full(self) -> bool:
        return self._texts >= self.config.queue_texts or self._characters >= self.config.queue_characters

    def submit(
        self, ability: str, handler: BatchHandler, asked: Sequence[Any], *, cost: int, seconds: float
    ) -> QueuedRequest:
        """Answers come in the ticket's future, or a ApiError."""
        ticket = QueuedRequest(ability, handler, asked, cost, time.monotonic() + seconds)
        with self._changed:
            if self._is_closed:
                raise shutting_down()
            is_over = (
                self._texts + len(asked) > self.config.queue_texts
                or self._characters + cost > self.config.queue_characters
            )
            if self._waiting and is_over:
                wait = self.estimate_wait()
                raise ApiError("busy", f"{self._texts} texts are waiting already; try again in {wait} s", wait)
            self._waiting.append(ticket)
            self._texts += len(asked)
            self._characters += cost
            self._changed.notify()
        return ticket

    def give_up(self, ticket: QueuedRequest) -> None:
        """Nobody waits for its answers: it leaves the queue, or the worker at the next chance."""
        with self._changed:
            ticket.is_given_up = True
            if ticket.answers.cancel() and ticket in self._waiting:
                self._remove(ticket)

    def estimate_wait(self) -> int:
        """Seconds, whole ones, until what is worked on and what waits now is done."""
        return min(_LONGEST_WAIT, max(1, math.ceil((self._running + self._characters) / self._speed)))

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
            for ticket in left:
                self._remove(ticket)
        for ticket in left:
            if ticket.answers.set_running_or_notify_cancel():
                ticket.answers.set_exception(shutting_down())
        self._join(_ONE_RUN)
        return not any(worker.is_alive() for worker in self._workers)

    def _join(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while tickets := self._gather():
            self._run(tickets)

    def _run(self, tickets: Sequence[QueuedRequest]) -> None:
        cost, texts = sum(ticket.cost for ticket in tickets), sum(len(ticket.asked) for ticket in tickets)
        started = time.monotonic()
        run_batch(tickets, DeadlineCheck(lambda: self._check(tickets, cost)))
        with self._changed:
            self._running -= cost
            if not any(isinstance(ticket.answers.exception(), ApiError) for ticket in tickets):
                self._speed += 0.2 * (cost / max(time.monotonic() - started, 1e-6) - self._speed)
        self._metrics.count_batch(tickets[0].ability, texts)

    def _check(self, tickets: Sequence[QueuedRequest], cost: int) -> None:
        """Before every run of a network: is it still for anybody?"""
        if self._is_over:
            raise shutting_down()
        now = time.monotonic()
        if all(ticket.is_given_up or ticket.deadline <= now for ticket in tickets):
            wait = self.estimate_wait()
            raise ApiError("too_slow", f"not done in time; try again in {wait} s", wait)
        if cost > self.config.batch_characters and (others := self._take_small()):
            self._run(others)

    def _take_small(self) -> list[QueuedRequest]:
        """Whoever asks little need not wait for a request that is more than a batch by itself."""
        with self._changed:
            self._drop_late()
            small = (ticket for ticket in self._waiting if ticket.cost <= self.config.batch_characters)
            first = next(small, None)
            return [] if first is None else self._take(first)

    def _gather(self) -> list[QueuedRequest]:
        """The tickets of the next batch; none means that the work is over."""
        with self._changed:
            while True:
                self._drop_late()
                if not self._waiting:
                    if self._is_closed:
                        return []
                    self._changed.wait()
                    continue
                left = self._waiting[0].arrived + self.config.window_ms / 1000 - time.monotonic()
                if left <= 0 or self._is_closed or self._characters >= self.config.batch_characters:
                    if tickets := self._take(self._waiting[0]):
                        return tickets
                else:
                    self._changed.wait(left)

    def _drop_late(self) -> None:
        """Whoever has given up, or must by now, is not worked for."""
        now = time.monotonic()
        late = [ticket for ticket in self._waiting if ticket.answers.cancelled() or ticket.deadline <= now]
        for ticket in late:
            self._remove(ticket)
            if ticket.answers.set_running_or_notify_cancel():
                wait = self.estimate_wait()
                ticket.answers.set_exception(ApiError("too_slow", f"not begun in time; try again in {wait} s", wait))

    def _take(self, first: QueuedRequest) -> list[QueuedRequest]:
        """This ticket, and of those for the same handler as many as fit, in the order in which they came."""
        taken = [first]
        room = self.config.batch_characters - first.cost
        for ticket in self._waiting:
            if ticket is not first and ticket.handler is first.handler and ticket.cost <= room:
                taken.append(ticket)
                room -= ticket.cost
        for ticket in taken:
            self._remove(ticket)
        begun = [ticket for ticket in taken if ticket.answers.set_running_or_notify_cancel()]
        self._running += sum(ticket.cost for ticket in begun)
        return begun

    def _remove(self, ticket: QueuedRequest) -> None:
        self._waiting.remove(ticket)
        self._texts -= len(ticket.asked)
        self._characters -= ticket.cost


class DeadlineCheck(StopSignal):
    """What a handler looks at before every run of its network."""

    def __init__(self, check: Callable[[], None]) -> None:
        super().__init__()
        self._check = check

    def check(self, *_: object) -> None:
        self._check()


def run_batch(tickets: Sequence[QueuedRequest], stop: StopSignal) -> None:
    """All tickets of one handler at once; whatever is wrong with one of them is that one's affair."""
    handler = tickets[0].handler
    parsed: list[tuple[QueuedRequest, list[Any]]] = []
    for ticket in tickets:
        try:
            parsed.append((ticket, [_parse(handler, place, one, stop) for place, one in enumerate(ticket.asked)]))
        except Exception as error:  # noqa: BLE001  whoever asked is told, and the worker must go on
            ticket.answers.set_exception(error)
    if parsed:
        _answer(handler, parsed, stop)


def _answer(handler: BatchHandler, parsed: Sequence[tuple[QueuedRequest, list[Any]]], stop: StopSignal) -> None:
    try:
        answers = iter(handler.answer([one for _, ones in parsed for one in ones], stop))
        found = [[next(answers) for _ in ones] for _, ones in parsed]
    except ApiError as refusal:
        for ticket, _ in parsed:
            ticket.answers.set_exception(refusal)
        return
    except Exception as error:  # noqa: BLE001  as above
        if len(parsed) == 1:
            parsed[0][0].answers.set_exception(error)
        else:
            for one in parsed:
                _answer(handler, [one], stop)
        return
    for (ticket, _), own in zip(parsed, found, strict=True):
        ticket.answers.set_result(own)


def _parse(handler: BatchHandler, place: int, asked: Any, stop: StopSignal) -> Any:
    stop.check()
    try:
        return handler.parse(asked)
    except InputError as error:
        raise BadText(place, str(error)) from None


class BadText(Exception):
    """One text of a request cannot be answered."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason
