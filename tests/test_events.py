"""A stage's result is its last event."""

from collections.abc import Iterator

import pytest

from electralab.events import Note, Progress, Result, run_to_end


def count_to(number: int) -> Iterator[Progress | Note | Result[int]]:
    for done in range(number):
        yield Progress("counting", done, number)
    yield Note("done", "good")
    yield Result(number)


def test_the_result_of_work_that_nobody_watches() -> None:
    assert run_to_end(count_to(3)) == 3


def test_a_stage_without_result_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="ends with its result"):
        run_to_end([Progress("counting", 0, 1)])
