"""Who asks gets the answers to what was asked, in order; a bad text is its own affair; nothing is lost at the end."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from electralab.errors import InputError
from electralab.serving.batching import BadText, Batcher, BatchingConfig, QueuedRequest
from electralab.serving.outcomes import ApiError, ServerMetrics
from electralab.stopping import StopSignal


class Doubler:
    """Doubles what it is given, and remembers what came together. Thirteen it cannot read, 99 it chokes on.

    Like a network it works in runs, as many as there are numbers, and looks up before each.
    """

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.runs = 0
        self.may_go = threading.Event()
        self.may_go.set()
        self.is_busy = threading.Event()

    def parse(self, asked: int) -> int:
        if asked == 13:
            raise InputError("is unlucky")
        return asked

    def answer(self, parsed: Sequence[int], stop: StopSignal) -> list[int]:
        for _ in parsed:
            stop.check()
            self.is_busy.set()
            assert self.may_go.wait(10)
            self.runs += 1
        self.batches.append(list(parsed))
        if 99 in parsed:
            raise ZeroDivisionError
        return [2 * one for one in parsed]


OPENED: list[Batcher] = []


@pytest.fixture(autouse=True)
def _close_at_the_end() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close(0)


def make_batcher(**config: Any) -> Batcher:
    OPENED.append(Batcher(BatchingConfig.model_validate({"window_ms": 0, **config}), ServerMetrics()))
    return OPENED[-1]


def ask(batcher: Batcher, handler: Doubler, *asked: int, cost: int = 1, seconds: float = 10) -> QueuedRequest:
    request = QueuedRequest("detect", handler, asked, {}, cost, seconds)
    batcher.submit(request)
    return request


def hold(batcher: Batcher, handler: Doubler, *asked: int, **more: Any) -> QueuedRequest:
    """A first ticket that keeps the worker until `may_go` is set."""
    handler.may_go.clear()
    ticket = ask(batcher, handler, *(asked or (0,)), **more)
    assert handler.is_busy.wait(10)
    return ticket


requests = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(1, 40)), max_size=30
)


@given(requests, st.integers(1, 60), st.integers(1, 3), st.booleans())
@settings(max_examples=60)
def test_every_answer_goes_to_its_asker_in_order_and_none_is_lost(
    asked: list[tuple[int, list[int], int]], room: int, workers: int, is_held: bool
) -> None:
    batcher = make_batcher(batch_characters=room, workers=workers, queue_texts=1000)
    handlers = [Doubler() for _ in range(3)]
    if is_held and workers == 1:
        hold(batcher, handlers[0])
    tickets = [ask(batcher, handlers[at], *numbers, cost=cost) for at, numbers, cost in asked]
    handlers[0].may_go.set()
    batcher.close(10)
    for (_, numbers, _), ticket in zip(asked, tickets, strict=True):
        assert ticket.answers.result(0) == [2 * number for number in numbers]
    done = sorted(number for handler in handlers for batch in handler.batches for number in batch)
    held = [0] if is_held and workers == 1 else []
    assert done == sorted([*held, *(number for _, numbers, _ in asked for number in numbers)])
    assert batcher.waiting_texts == 0


def test_what_waits_for_one_station_goes_together_as_far_as_it_fits() -> None:
    batcher, one, other = make_batcher(batch_characters=10), Doubler(), Doubler()
    hold(batcher, one)
    tickets = [ask(batcher, handler, number, cost=4) for number, handler in enumerate([one, other, one, one, other], 1)]
    one.may_go.set()
    for ticket in tickets:
        ticket.answers.result(10)
    assert one.batches == [[0], [1, 3], [4]]
    assert other.batches == [[2, 5]]


def test_a_bad_text_is_told_by_its_place_and_spoils_nobody_elses_answer() -> None:
    batcher, handler = make_batcher(), Doubler()
    hold(batcher, handler)
    good, bad, other = ask(batcher, handler, 1), ask(batcher, handler, 2, 13, 3), ask(batcher, handler, 4)
    handler.may_go.set()
    assert (good.answers.result(10), other.answers.result(10)) == ([2], [8])
    with pytest.raises(BadText, match="is unlucky") as caught:
        bad.answers.result(10)
    assert caught.value.args[0] == 1
    assert handler.batches == [[0], [1, 4]]


def test_where_a_batch_fails_each_request_is_tried_alone_and_the_worker_goes_on() -> None:
    batcher, handler = make_batcher(), Doubler()
    hold(batcher, handler)
    good, bad = ask(batcher, handler, 1), ask(batcher, handler, 99)
    handler.may_go.set()
    assert good.answers.result(10) == [2]
    with pytest.raises(ZeroDivisionError):
        bad.answers.result(10)
    assert ask(batcher, handler, 5).answers.result(10) == [10]


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    batcher, handler = make_batcher(queue_texts=2, queue_characters=100), Doubler()
    hold(batcher, handler)
    ask(batcher, handler, 1, cost=60)
    for numbers, cost in (((2, 3), 1), ((2,), 50)):
        with pytest.raises(ApiError, match="1 texts are waiting already; try again in 1 s") as caught:
            ask(batcher, handler, *numbers, cost=cost)
        assert (caught.value.status, caught.value.headers["retry-after"]) == (429, "1")
    assert not batcher.is_full
    ask(batcher, handler, 2, cost=1)
    assert batcher.is_full
    handler.may_go.set()
    batcher.close(10)


def test_a_request_larger_than_the_queue_is_taken_when_nothing_else_waits() -> None:
    batcher, handler = make_batcher(queue_texts=1, queue_characters=1, batch_characters=1), Doubler()
    assert ask(batcher, handler, 1, 2, 3, cost=500).answers.result(10) == [2, 4, 6]


def test_what_is_late_or_given_up_is_not_worked_for() -> None:
    batcher, handler = make_batcher(), Doubler()
    hold(batcher, handler)
    late, given_up = ask(batcher, handler, 1, seconds=0.0), ask(batcher, handler, 2)
    assert given_up.answers.cancel()
    last = ask(batcher, handler, 3)
    handler.may_go.set()
    assert last.answers.result(10) == [6]
    with pytest.raises(ApiError, match="not begun in time"):
        late.answers.result(10)
    with pytest.raises(CancelledError):
        given_up.answers.result(10)
    assert handler.batches == [[0], [3]]
    assert batcher.waiting_texts == 0


def test_who_gives_up_leaves_the_queue_at_once() -> None:
    batcher, handler = make_batcher(queue_texts=1), Doubler()
    hold(batcher, handler)
    given_up = ask(batcher, handler, 1)
    assert batcher.is_full
    batcher.give_up(given_up)
    assert (batcher.waiting_texts, batcher.is_full) == (0, False)
    next_one = ask(batcher, handler, 2)
    handler.may_go.set()
    assert next_one.answers.result(10) == [4]
    batcher.give_up(next_one)
    assert next_one.answers.result(10) == [4]
    assert handler.batches == [[0], [2]]


@pytest.mark.parametrize("reason", ["given up", "late"])
def test_work_that_nobody_waits_for_any_more_ends_before_the_next_run_of_the_network(reason: str) -> None:
    batcher, handler = make_batcher(), Doubler()
    left = hold(batcher, handler, 1, 2, 3, seconds=0.2 if reason == "late" else 10)
    if reason == "late":
        time.sleep(0.25)
    else:
        batcher.give_up(left)
    other = ask(batcher, handler, 4)
    handler.may_go.set()
    assert other.answers.result(10) == [8]
    with pytest.raises(ApiError, match="not done in time; try again in 1 s"):
        left.answers.result(10)
    assert (handler.batches, handler.runs) == ([[4]], 2)


def test_a_batch_goes_on_while_one_of_its_askers_waits() -> None:
    batcher, handler = make_batcher(window_ms=150), Doubler()
    handler.may_go.clear()
    left, kept = ask(batcher, handler, 1), ask(batcher, handler, 2)
    assert handler.is_busy.wait(10)
    batcher.give_up(left)
    handler.may_go.set()
    assert kept.answers.result(10) == [4]
    assert handler.batches == [[1, 2]]


def test_whoever_asks_little_goes_between_the_runs_of_a_request_that_is_more_than_a_batch() -> None:
    batcher, handler = make_batcher(batch_characters=10), Doubler()
    large = hold(batcher, handler, 1, 2, 3, cost=30)
    other, also_large, same = (
        ask(batcher, Doubler(), 4, cost=5),
        ask(batcher, handler, 5, cost=11),
        ask(batcher, handler, 6, cost=5),
    )
    handler.may_go.set()
    assert other.answers.result(10) == [8]
    assert (same.answers.result(10), large.answers.result(10), also_large.answers.result(10)) == ([12], [2, 4, 6], [10])
    assert handler.batches == [[6], [1, 2, 3], [5]]


def test_the_time_to_come_back_counts_what_is_being_worked_on() -> None:
    batcher, handler = make_batcher(), Doubler()
    hold(batcher, handler, cost=300_000)
    # At the speed that is assumed at first, 100,000 characters a second.
    assert batcher.estimate_wait() == 3
    ask(batcher, handler, 1, cost=150_000)
    assert batcher.estimate_wait() == 5
    handler.may_go.set()
    batcher.close(10)
    assert batcher.estimate_wait() == 1


def test_the_first_of_a_batch_waits_for_others_as_long_as_the_window() -> None:
    batcher, handler = make_batcher(window_ms=150), Doubler()
    first = ask(batcher, handler, 1)
    time.sleep(0.02)
    second = ask(batcher, handler, 2)
    assert (first.answers.result(10), second.answers.result(10)) == ([2], [4])
    assert handler.batches == [[1, 2]]


def test_at_the_end_what_cannot_be_done_in_time_is_refused_and_nothing_new_is_taken() -> None:
    batcher, handler = make_batcher(), Doubler()
    running = hold(batcher, handler)
    waiting = ask(batcher, handler, 1)
    assert not batcher.close(0.05)
    assert batcher.waiting_texts == 0
    with pytest.raises(ApiError, match="shutting down"):
        waiting.answers.result(10)
    with pytest.raises(ApiError, match="shutting down") as caught:
        ask(batcher, handler, 2)
    assert caught.value.status == 503
    handler.may_go.set()
    assert running.answers.result(10) == [0]
    assert batcher.close(1)


def test_at_the_end_a_long_batch_is_left_before_the_next_run_of_its_network() -> None:
    batcher, handler = make_batcher(), Doubler()
    running = hold(batcher, handler, 1, 2, 3)
    threading.Timer(0.3, handler.may_go.set).start()
    assert batcher.close(0.05)
    with pytest.raises(ApiError, match="shutting down"):
        running.answers.result(10)
    assert handler.runs == 1


def test_everything_that_happened_is_in_the_text_that_prometheus_reads() -> None:
    """Names and labels are what dashboards know; two servers of a process count for themselves."""
    metrics = ServerMetrics()
    for status, seconds in ((200, 0.004), (200, 0.004), (429, 0.0001)):
        metrics.requests.labels("/v1/detect", str(status)).inc()
        metrics.seconds.labels("/v1/detect").observe(seconds)
    metrics.refused.labels("busy").inc()
    metrics.batches.labels("detect").observe(2)
    metrics.accept_errors.inc()
    lines = generate_latest(metrics.registry).decode().splitlines()
    for line in (
        'electralab_requests_total{path="/v1/detect",status="200"} 2.0',
        'electralab_requests_total{path="/v1/detect",status="429"} 1.0',
        'electralab_request_seconds_bucket{le="0.0025",path="/v1/detect"} 1.0',
        'electralab_request_seconds_bucket{le="0.005",path="/v1/detect"} 3.0',
        'electralab_batch_texts_bucket{ability="detect",le="2.0"} 1.0',
        'electralab_refused_total{code="busy"} 1.0',
        "electralab_accept_errors_total 1.0",
    ):
        assert line in lines
    names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
    families = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in names} == families
    assert b"busy" not in generate_latest(ServerMetrics().registry)
