"""Requests that arrive at about the same time go through a model together, and each gets its own answers.

tickets -> batches -> answers

A ticket is what one request asks: texts for one ability of one model. A worker takes the oldest ticket, waits until the
window after its arrival is over, and takes whatever else has come for the same place, as much as fits.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.serving.metrics import Metrics
from electralab.serving.refusals import Refusal

# How fast the workers are before anything was measured.
_FIRST_GUESS = 100_000.0
_LONGEST_WAIT = 60


class BatchingConfig(Settings):
    window_ms: float = Field(2.0, ge=0)
    """How long the first text of a batch waits for others; whoever comes while the worker is busy waits anyway."""
    batch_characters: int = Field(32_768, ge=1)
    """The most that go through a model together, more only for a single request."""
    queue_texts: int = Field(512, ge=1)
    queue_characters: int = Field(2_000_000, ge=1)
    """What may wait; beyond it a request is told to come back later."""
    workers: int = Field(1, ge=1)


class Station(Protocol):
    """One ability of one model."""

    def parse(self, asked: Any, /) -> Any:
        """What is needed to answer, or an InputError about this text alone."""

    def answer(self, parsed: Sequence[Any], /) -> Sequence[Any]:
        """An answer for each, in order."""


@dataclass(slots=True, eq=False)
class Ticket:
    ability: str
    station: Station
    asked: Sequence[Any]
    cost: int
    """In characters."""
    deadline: float
    arrived: float = field(default_factory=time.monotonic)
    answers: "Future[Sequence[Any]]" = field(default_factory=Future)


class Batcher:
    def __init__(self, config: BatchingConfig, metrics: Metrics) -> None:
        self.config = config
        self._metrics = metrics
        self._waiting: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._texts = self._characters = 0
        self._speed = _FIRST_GUESS
        self._is_closed = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(config.workers)]
        for worker in self._workers:
            worker.start()

    @property
    def waiting_texts(self) -> int:
        return self._texts

    @property
    def is_full(self) -> bool:
        return self._texts >= self.config.queue_texts or self._characters >= self.config.queue_characters

    def submit(self, ability: str, station: Station, asked: Sequence[Any], *, cost: int, seconds: float) -> Ticket:
        """Answers come in the ticket's future, or a Refusal; a ticket cancelled before its turn costs nothing."""
        ticket = Ticket(ability, station, asked, cost, time.monotonic() + seconds)
        with self._changed:
            if self._is_closed:
                raise Refusal("stopping", "the server is shutting down; ask another, or later", _LONGEST_WAIT)
            is_over = (
                self._texts + len(asked) > self.config.queue_texts
                or self._characters + cost > self.config.queue_characters
            )
            if self._waiting and is_over:
                wait = self.estimate_wait()
                raise Refusal("busy", f"{self._texts} texts are waiting already; try again in {wait} s", wait)
            self._waiting.append(ticket)
            self._texts += len(asked)
            self._characters += cost
            self._changed.notify()
        return ticket

    def estimate_wait(self) -> int:
        """Seconds, whole ones, until what waits now is done."""
        return min(_LONGEST_WAIT, max(1, math.ceil(self._characters / self._speed)))

    def close(self, seconds: float) -> None:
        """Nothing new is taken; what waits is answered, as far as the time allows, and refused then."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        end = time.monotonic() + seconds
        for worker in self._workers:
            worker.join(max(0.0, end - time.monotonic()))
        with self._changed:
            left, self._waiting = self._waiting, deque()
        for ticket in left:
            if ticket.answers.set_running_or_notify_cancel():
                ticket.answers.set_exception(
                    Refusal("stopping", "the server is shutting down; ask another", _LONGEST_WAIT)
                )

    def _work(self) -> None:
        while tickets := self._gather():
            started = time.monotonic()
            run_batch(tickets)
            cost, texts = sum(ticket.cost for ticket in tickets), sum(len(ticket.asked) for ticket in tickets)
            self._speed += 0.2 * (cost / max(time.monotonic() - started, 1e-6) - self._speed)
            self._metrics.count_batch(tickets[0].ability, texts)

    def _gather(self) -> list[Ticket]:
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
                    if tickets := self._take():
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
                ticket.answers.set_exception(Refusal("too_slow", f"not begun in time; try again in {wait} s", wait))

    def _take(self) -> list[Ticket]:
        """The oldest ticket, and of those for the same station as many as fit, in the order in which they came."""
        first, *others = self._waiting
        taken = [first]
        room = self.config.batch_characters - first.cost
        for ticket in others:
            if ticket.station is first.station and ticket.cost <= room:
                taken.append(ticket)
                room -= ticket.cost
        for ticket in taken:
            self._remove(ticket)
        return [ticket for ticket in taken if ticket.answers.set_running_or_notify_cancel()]

    def _remove(self, ticket: Ticket) -> None:
        self._waiting.remove(ticket)
        self._texts -= len(ticket.asked)
        self._characters -= ticket.cost


def run_batch(tickets: Sequence[Ticket]) -> None:
    """All tickets of one station at once; whatever is wrong with one of them is that one's affair."""
    station = tickets[0].station
    parsed: list[tuple[Ticket, list[Any]]] = []
    for ticket in tickets:
        try:
            parsed.append((ticket, [_parse(station, place, one) for place, one in enumerate(ticket.asked)]))
        except Exception as error:  # noqa: BLE001  whoever asked is told, and the worker must go on
            ticket.answers.set_exception(error)
    if parsed:
        _answer(station, parsed)


def _answer(station: Station, parsed: Sequence[tuple[Ticket, list[Any]]]) -> None:
    try:
        answers = iter(station.answer([one for _, ones in parsed for one in ones]))
        found = [[next(answers) for _ in ones] for _, ones in parsed]
    except Exception as error:  # noqa: BLE001  as above
        if len(parsed) == 1:
            parsed[0][0].answers.set_exception(error)
        else:
            for one in parsed:
                _answer(station, [one])
        return
    for (ticket, _), own in zip(parsed, found, strict=True):
        ticket.answers.set_result(own)


def _parse(station: Station, place: int, asked: Any) -> Any:
    try:
        return station.parse(asked)
    except InputError as error:
        raise BadText(place, str(error)) from None


class BadText(Exception):
    """One text of a request cannot be answered."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason
