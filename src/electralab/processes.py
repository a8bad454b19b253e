"""Work that several processes of this machine share: whoever is free takes the next task, results come back in order.

tasks -> results

A worker is a program of its own, not a fork: it has neither the threads of the process that starts it nor its open
files, so that locks are free when that process dies, and its end of the line closes, which ends the worker too.
"""

import signal
import socket
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from electralab import errors
from electralab.errors import ElectraError, WorkerFailed
from electralab.runtime import child_environment
from electralab.stopping import StopSignal

Task = TypeVar("Task")
Answer = TypeVar("Answer")

# Signals to stop are for the process that started the worker, which ends it; they may arrive during the imports.
_CHILD = """
import signal
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
from electralab.processes import serve
serve({file})
"""
_POLL_SECONDS = 0.2
# Tasks that are ready, under way or answered before their turn, for each worker: what bounds the memory.
_AHEAD = 4


def map_in_order(
    make: Callable[..., Callable[[Task], Answer]],
    arguments: tuple[Any, ...],
    tasks: Iterable[Task],
    stop: StopSignal,
    *,
    workers: int,
) -> Iterator[Answer]:
    """The answers of `make(*arguments)` to the tasks, in their order; one worker is this process itself.

    Each worker makes the function once. `make` and all that is sent must be importable by name in a new process.
    """
    if workers <= 1:
        answer_task = make(*arguments)
        for task in tasks:
            stop.check()
            yield answer_task(task)
        return
    remaining = enumerate(tasks)
    is_exhausted, turn = False, 0
    ready: deque[tuple[int, Task]] = deque()
    answers: dict[int, Answer] = {}
    busy: dict[Connection, tuple[_Worker, int]] = {}
    started: list[_Worker] = []
    try:
        for number in range(1, workers + 1):
            started.append(_Worker(number))
            started[-1].send((make, arguments))
        idle = list(started)
        while True:
            stop.check()
            while idle and ready:
                worker, (place, task) = idle.pop(), ready.popleft()
                worker.send(task)
                busy[worker.connection] = (worker, place)
            if turn in answers:
                yield answers.pop(turn)
                turn += 1
                continue
            # The next task is read while all workers are busy, so that none waits for it.
            under_way = len(ready) + len(busy) + len(answers)
            may_read = not is_exhausted and len(ready) < workers and under_way < _AHEAD * workers
            if may_read:
                following = next(remaining, None)
                is_exhausted = following is None
                ready += [following] if following else []
            elif not under_way:
                return
            for connection in wait(list(busy), 0 if may_read else _POLL_SECONDS):
                assert isinstance(connection, Connection)
                worker, place = busy.pop(connection)
                answers[place] = worker.receive()
                idle.append(worker)
    finally:
        for worker in started:
            worker.close()


class _Worker:
    """Another process, as this one sees it."""

    def __init__(self, number: int) -> None:
        self._number = number
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD.format(file=theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=child_environment(1),
            )
        self.connection = Connection(ours.detach())

    def send(self, message: Any) -> None:
        try:
            self.connection.send(message)
        except OSError:
            raise self._died() from None

    def receive(self) -> Any:
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if isinstance(answer, _TaskFailure):
            raise getattr(errors, answer.kind)(answer.sentence)
        return answer

    def _died(self) -> WorkerFailed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        status = self._process.returncode
        how = f"was ended by signal {-status}" if status and status < 0 else f"ended with status {status}"
        memory = " (out of memory? try fewer --workers)" if status == -signal.SIGKILL else ""
        return WorkerFailed(f"worker {self._number} {how}{memory}; run the same command again, it goes on from here")

    def close(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True, slots=True)
class _TaskFailure:
    kind: str
    """A class of `errors`."""
    sentence: str


def serve(file: int) -> None:
    """The life of a worker: make the function, then answer one task after the other until the line closes."""
    connection = Connection(file)
    try:
        make, arguments = connection.recv()
        answer_task = make(*arguments)
        while True:
            connection.send(answer_task(connection.recv()))
    except (EOFError, ConnectionError):
        return  # the work has ended, or was killed: there is nobody left to tell
    except ElectraError as error:
        kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
        failure = _TaskFailure(kind, str(error))
    except Exception as error:  # noqa: BLE001  whatever it was, it has to be heard of
        traceback.print_exc()
        failure = _TaskFailure(WorkerFailed.__name__, f"a worker failed: {type(error).__name__}: {error}")
    with suppress(OSError):
        connection.send(failure)
