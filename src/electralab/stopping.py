"""SIGINT, SIGTERM and SIGHUP -> a note that work looks at where it can be abandoned without loss."""

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from electralab.errors import Stopped


def stop_signals() -> Iterable[signal.Signals]:
    """Those that ask for an end; a closed terminal does not where `nohup` was told to ignore it."""
    is_heard = hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if is_heard else ()))


class StopSignal:
    """Remembers that a signal to stop arrived; work calls `check` where it may be abandoned."""

    def __init__(self) -> None:
        self.number = 0

    def check(self, *_: object) -> None:
        """Also fits as a hook of torch, whatever arguments that passes."""
        if self.number:
            raise Stopped(self.number)


# For work that nobody abandons.
NO_STOP = StopSignal()


@contextmanager
def handle_signals() -> Iterator[StopSignal]:
    """While open, signals to stop are noted, the first for good: a second must not tear the save it asked for.

    Only the main thread of a program may listen; in another (a notebook's, a server's) signals stay with their owner.
    """
    stop = StopSignal()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, _frame: FrameType | None) -> None:
        stop.number = stop.number or number

    before = {number: signal.signal(number, note) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            # None stands for a handler that was not set from Python and cannot be put back from here.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
