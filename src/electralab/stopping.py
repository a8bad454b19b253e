"""SIGINT and SIGTERM -> a note that work looks at where it can be abandoned without loss."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from electralab.errors import Stopped


class StopSignal:
    """Remembers that SIGINT or SIGTERM arrived; work calls `check` where it may be abandoned."""

    def __init__(self) -> None:
        self.number = 0

    def check(self, *_: object) -> None:
        """Also fits as a hook of torch, whatever arguments that passes."""
        if self.number:
            raise Stopped(self.number)


@contextmanager
def listen_for_stop() -> Iterator[StopSignal]:
    """While open, SIGINT and SIGTERM are noted, the first for good: a second must not tear the save it asked for."""
    stop = StopSignal()

    def note(number: int, _frame: FrameType | None) -> None:
        stop.number = stop.number or number

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
