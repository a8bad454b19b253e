"""A step cut into slices, computed by as many processes as there are cores, put together in one fixed order.

TrainingState, TrainingTask, slices, workers -> SlicedStep: backward, norms, update

The rows of a step are cut into slices by the settings alone. Whoever is free computes the next slice and leaves its
gradients in the place of that slice. When all are there, they are added as a tree: slices 0 and 1, 2 and 3, then the
two sums. A floating-point sum depends on its order, and this order depends on nothing but the number of slices: one
worker and eight end with the same bits.

Weights, gradients and the optimizer's state lie in memory that all workers share, so that only the number of the step,
losses and metrics are sent. Every parameter has one owner, who adds its gradients and updates it: the optimizer's work
is shared out too. A worker is a process, not a thread: Python's lock lets one thread compute at a time.
"""

import faulthandler
import fcntl
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from electralab.errors import WorkerFailed
from electralab.records.run import RunLength
from electralab.runtime import child_environment, choose_workers
from electralab.training.checkpoint import TrainingState
from electralab.training.loop import MicroLosses, TrainStep, measure_norms
from electralab.training.optimizer import orthogonalise_flops
from electralab.training.schedule import StepPlan

# Bytes, as torch aligns what it allocates: another alignment can change the bits of a product.
_ALIGNMENT = 64
# A worker that is asked for something says every second that it lives, however long a step takes: a thread of its own
# does it while others compute. Where nothing is heard of it in so many seconds, it is stopped or lost. Seconds in which
# this process itself was stopped are not counted.
_PATIENCE = 20
# Importing torch from a disk that is slow, before a worker can say anything.
_START_PATIENCE = 300
# What a child runs. Signals to stop are for the run's own process, which ends its workers when it has saved; they may
# arrive while torch is still being imported, so they are ignored first.
_CHILD = """
import signal
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
from electralab.training.workers import serve_worker
serve_worker({connection}, {memory})
"""


class SlicedTask(Protocol):
    """The part of a training task that a worker computes."""

    part_metrics: dict[int, Any]

    @property
    def micro_losses(self) -> MicroLosses: ...


class PlannedTask(SlicedTask, Protocol):
    """A task whose steps depend on how long the run is, which may be decided on the way."""

    plan: StepPlan


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """How another process builds the state and task of this run; its weights are then those of the shared memory."""

    build: Callable[..., tuple[TrainingState, SlicedTask]]
    arguments: tuple[Any, ...]
    threads: int
    """Of each worker, inside its operations."""


def start_workers(
    state: TrainingState, task: SlicedTask, job: WorkerJob, *, num_slices: int, num_workers: int, device: torch.device
) -> TrainStep:
    """Who computes the steps: this process, or as many workers as asked for (0: as there are cores)."""
    if num_slices == 1:
        return TrainStep(state.model, state.optimizer, task.micro_losses)
    count = choose_workers(num_workers, num_slices, job.threads, device)
    return SlicedStep(state, task, job, num_slices=num_slices, num_workers=count)


class SlicedStep(TrainStep):
    """The steps of a run on one worker or several; the first of them is the process that the run belongs to."""

    def __init__(
        self, state: TrainingState, task: SlicedTask, job: WorkerJob, *, num_slices: int, num_workers: int
    ) -> None:
        super().__init__(state.model, state.optimizer, task.micro_losses)
        self._task, self._job = task, job
        self._num_workers = max(1, min(num_workers, num_slices))
        self._file = file = None if self._num_workers == 1 else _open_memory()
        self._part = WorkerPart(state, task, num_slices, file, number=0, num_workers=self._num_workers)
        # All are started before any is waited for: each imports torch and builds its networks, which takes seconds.
        self._others: list[_WorkerProcess] = []
        try:
            for number in range(1, self._num_workers):
                self._others.append(_WorkerProcess(number, self._num_workers, num_slices, job, file or 0))
            self._collect()
        except BaseException:
            self.close()
            raise

    @property
    def description(self) -> str:
        workers = f"{self._num_workers} worker{'s' if self._num_workers > 1 else ''}"
        return workers if self._job.threads == 1 else f"{workers} of {self._job.threads} threads"

    def backward(self, step: int, scale: float) -> float:
        self._part.memory.reset_claims()
        self._ask("backward", step, scale)
        losses = self._part.backward(step, scale)
        metrics = dict(self._task.part_metrics)
        for other_losses, other_metrics in self._collect():
            losses |= other_losses
            metrics |= other_metrics
        self._task.part_metrics = metrics
        # In the order of the slices, whoever computed them.
        return sum((losses[number] for number in sorted(losses)), 0.0)

    def norms(self, scale: float) -> dict[str, float]:
        self._ask("norms", scale)
        norms = self._part.norms(scale)
        for other_norms in self._collect():
            norms |= other_norms
        return {name: norms[name] for name in self.optimizer.names if name in norms}

    def update(self, lr_factor: float, shrink: float) -> None:
        self._ask("update", lr_factor, shrink)
        self._part.update(lr_factor, shrink)
        self._collect()
        self.optimizer.count_step()

    def tell(self, length: RunLength) -> None:
        self._ask("length", length)
        self._collect()

    def close(self) -> None:
        """End the workers. They hold nothing that is not in the shared memory, and no step is left half updated."""
        for worker in self._others:
            worker.close()
        self._others = []
        if self._file is not None:  # the memory stays for as long as weights lie in it
            os.close(self._file)
            self._file = None

    def _ask(self, *message: Any) -> None:
        for worker in self._others:
            worker.send(message)

    def _collect(self) -> list[Any]:
        """The answer of every worker, in their order; one that dies or is not heard of ends the run."""
        waiting, answers = {worker.connection: worker for worker in self._others}, {}
        while waiting:
            before = time.monotonic()
            ready = wait(list(waiting), timeout=1)
            passed = min(time.monotonic() - before, 2.0)  # without the time in which this process was stopped itself
            for connection, worker in list(waiting.items()):
                if connection in ready:
                    worker.silence = 0.0
                    if (answer := worker.receive()) is not _ALIVE:
                        answers[worker.number] = answer
                        del waiting[connection]
                else:
                    worker.silence += passed
                    if worker.silence > (_PATIENCE if worker.has_started else _START_PATIENCE):
                        self._show_stacks()
                        raise worker.lost()
        return [answers[worker.number] for worker in self._others]

    def _show_stacks(self) -> None:
        """What all processes are doing, on standard error; one that was stopped goes on for it."""
        faulthandler.dump_traceback(file=2)
        for worker in self._others:
            worker.show_stack()
        time.sleep(1)  # they are ended after this


class WorkerPart:
    """What one worker does in a step, in whichever process."""

    def __init__(
        self,
        state: TrainingState,
        task: SlicedTask,
        num_slices: int,
        file: int | None,
        *,
        number: int,
        num_workers: int,
    ) -> None:
        self._state, self._task = state, task
        self.memory = StepMemory(state, num_slices, file, is_first=number == 0)
        self._names, self._parameters = state.optimizer.names, state.optimizer.parameters
        # Each parameter to the owner with the least to do so far, the dearest first.
        costs = [_update_cost(name, state) for name in self._names]
        loads, self._owned = [0.0] * num_workers, []
        for place in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
            owner = loads.index(min(loads))
            loads[owner] += costs[place]
            if owner == number:
                self._owned.append(place)
        self._owned.sort()
        state.optimizer.owned = frozenset(self._names[place] for place in self._owned)

    def backward(self, step: int, scale: float) -> dict[int, float]:
        """The slices that nobody else takes: their gradients into their places, their losses to the caller."""
        self._state.model.train()
        losses: dict[int, float] = {}
        self._state.optimizer.clear_gradients()
        for loss_part in self._task.micro_losses(step, self.memory.claim_slices):
            (loss_part * scale if scale != 1.0 else loss_part).backward()  # type: ignore[no-untyped-call]
            losses[self.memory.claimed] = loss_part.item()
            self.memory.keep_gradients([parameter.grad for parameter in self._parameters])
            self._state.optimizer.clear_gradients()
        return losses

    @torch.no_grad()
    def norms(self, scale: float) -> dict[str, float]:
        """Add the slices of the parameters that are owned; the sums become their gradients."""
        slots, count = self.memory.slots, self.memory.count
        stride = 1
        while stride < count:
            for left in range(0, count - stride, 2 * stride):
                targets = [slots[left][place] for place in self._owned]
                torch._foreach_add_(targets, [slots[left + stride][place] for place in self._owned])
            stride *= 2
        has_gradient = self.memory.has_gradient[:count].any(dim=0).tolist()
        for place in self._owned:
            self._parameters[place].grad = slots[0][place] if has_gradient[place] else None
        owned = {self._names[place]: slots[0][place] for place in self._owned if has_gradient[place]}
        return measure_norms(owned, scale)

    @torch.no_grad()
    def update(self, lr_factor: float, shrink: float) -> None:
        """Only parameters that are owned have a gradient now, and those without are not stepped."""
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if shrink != 1.0 and gradients:
            torch._foreach_mul_(gradients, shrink)
        self._state.optimizer.set_rates(lr_factor)
        self._state.optimizer.update_owned()


class StepMemory:
    """Weights, buffers, the optimizer's state and a place for the gradients of each slice, in one memory for all.

    Every process lays it out by the same code, so that what lies where needs no names. A run with one worker leaves
    its weights where they are.
    """

    def __init__(self, state: TrainingState, num_slices: int, file: int | None, *, is_first: bool) -> None:
        trained = state.optimizer.parameters
        self._file = file
        self._num_slices = num_slices
        self.count = 0
        """How many slices the step has: fewer than there may be where it has fewer rows."""
        self.claimed = -1
        """The slice that is computed here."""
        if file is None:
            self._claims = torch.zeros(1, dtype=torch.int64)
            self.has_gradient = torch.zeros(num_slices, len(trained), dtype=torch.bool)
            self.slots = [[torch.zeros_like(parameter) for parameter in trained] for _ in range(num_slices)]
            return
        shared = [*state.model.parameters(), *state.model.buffers()]  # tied ones are given once
        moments = state.optimizer.tensors()
        self._claims = torch.zeros(1, dtype=torch.int64)
        self.has_gradient = torch.zeros(num_slices, len(trained), dtype=torch.bool)
        layout = [self._claims, self.has_gradient, *shared, *moments.values(), *(num_slices * trained)]
        size = sum(_aligned_bytes(tensor) for tensor in layout)
        if is_first:
            _reserve(file, size)
        memory = torch.frombuffer(mmap.mmap(file, size), dtype=torch.uint8)
        places, offset = [], 0
        for tensor in layout:
            used = tensor.numel() * tensor.element_size()
            places.append(memory[offset : offset + used].view(tensor.dtype).view(tensor.shape))
            offset += _aligned_bytes(tensor)
        values = places[2 : 2 + len(shared) + len(moments)]
        if is_first:
            with torch.no_grad():
                for place, tensor in zip(values, [*shared, *moments.values()], strict=True):
                    place.copy_(tensor)
        for place, tensor in zip(values, shared, strict=False):
            tensor.data = place
        state.optimizer.relocate(dict(zip(moments, values[len(shared) :], strict=True)))
        self._claims, self.has_gradient = places[0], places[1]
        slots = places[2 + len(values) :]
        self.slots = [slots[number * len(trained) : (number + 1) * len(trained)] for number in range(num_slices)]

    def reset_claims(self) -> None:
        """Before a step is begun anywhere."""
        self._claims.zero_()

    def claim_slices(self, count: int) -> Iterator[int]:
        """The numbers of slices that nobody has taken, each as this worker gets to it."""
        assert count <= self._num_slices, f"{count} micro-batches of a step that has {self._num_slices} slices"
        self.count = count
        while True:
            if self._file is not None:  # a lock of the file system's: it ends with the process that holds it
                fcntl.lockf(self._file, fcntl.LOCK_EX)
            self.claimed = int(self._claims)
            self._claims += 1
            if self._file is not None:
                fcntl.lockf(self._file, fcntl.LOCK_UN)
            if self.claimed >= count:
                return
            yield self.claimed

    @torch.no_grad()
    def keep_gradients(self, gradients: list[Tensor | None]) -> None:
        """Those of the claimed slice; where a parameter has none, zero, so that the sum is the same tree everywhere."""
        slot, has_gradient = self.slots[self.claimed], self.has_gradient[self.claimed]
        pairs = [(place, gradient) for place, gradient in zip(slot, gradients, strict=True) if gradient is not None]
        has_gradient.copy_(torch.tensor([gradient is not None for gradient in gradients]))
        torch._foreach_copy_([place for place, _ in pairs], [gradient for _, gradient in pairs])
        for place, gradient in zip(slot, gradients, strict=True):
            if gradient is None:
                place.zero_()


class _WorkerProcess:
    """Another process that computes slices, as this one sees it."""

    def __init__(self, number: int, num_workers: int, num_slices: int, job: WorkerJob, file: int) -> None:
        self.number = number
        self.silence = 0.0
        """Seconds in which nothing was heard of it, while it was waited for."""
        self.has_started = False
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _CHILD.format(connection=theirs.fileno(), memory=file)],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), file),
                env=child_environment(job.threads),
            )
        self.connection = Connection(ours.detach())
        self.send((job, number, num_workers, num_slices))

    def send(self, message: tuple[Any, ...]) -> None:
        try:
            self.connection.send(message)
        except OSError:
            raise self._died() from None

    def receive(self) -> Any:
        """An answer, or _ALIVE."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if isinstance(answer, _Failure):
            raise WorkerFailed(
                f"worker {self.number} failed: {answer.sentence}; nothing of this step was kept, and the same command "
                "goes on from the last checkpoint"
            )
        self.has_started = True
        return answer

    def show_stack(self) -> None:
        if self.has_started:  # before, the signal would only end it
            self._process.send_signal(signal.SIGUSR1)
            self._process.send_signal(signal.SIGCONT)

    def lost(self) -> WorkerFailed:
        return WorkerFailed(
            f"worker {self.number} gave no sign of life for {self.silence:.0f} seconds (is it stopped, or the machine "
            "out of memory?), and was ended; nothing of this step was kept, and the same command goes on from the last "
            "checkpoint, with any number of --workers"
        )

    def _died(self) -> WorkerFailed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        status = self._process.returncode
        how = f"was ended by signal {-status}" if status and status < 0 else f"ended with status {status}"
        memory = " (out of memory?)" if status == -signal.SIGKILL else ""
        return WorkerFailed(
            f"worker {self.number} {how}{memory}; nothing of this step was kept, and the same command goes on from "
            "the last checkpoint, with any number of --workers"
        )

    def close(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True, slots=True)
class _Failure:
    sentence: str


class _Life(Enum):
    SIGN = 1


_ALIVE = _Life.SIGN
"""What a worker says while it is at work; an enumeration is itself in every process."""


class _RunEnded(Exception):
    """There is nobody left to compute for: the run is over, or was killed."""


class _RunLine:
    """The run's process as a worker sees it: told every second that the worker is alive, until it has the answer."""

    def __init__(self, file: int) -> None:
        self._connection, self._lock, self._is_asked = Connection(file), threading.Lock(), threading.Event()
        self._is_asked.set()  # to start
        threading.Thread(target=self._live, daemon=True).start()

    def receive(self) -> Any:
        with self._until_the_run_ends():
            message = self._connection.recv()
        self._is_asked.set()
        return message

    def answer(self, value: Any) -> None:
        with self._lock, self._until_the_run_ends():
            self._is_asked.clear()
            self._connection.send(value)

    @contextmanager
    def _until_the_run_ends(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError):  # in the middle of a message, too
            raise _RunEnded from None

    def _live(self) -> None:
        with suppress(OSError):  # the run has ended
            while self._is_asked.wait():
                with self._lock:
                    if self._is_asked.is_set():
                        self._connection.send(_ALIVE)
                time.sleep(1)


def serve_worker(connection_file: int, memory_file: int) -> None:
    """The life of a worker: build what the run has, then do as the run's process says until it closes the line."""
    faulthandler.register(signal.SIGUSR1)
    line = _RunLine(connection_file)
    try:
        job, number, num_workers, num_slices = line.receive()
        torch.set_num_threads(job.threads)
        state, task = job.build(*job.arguments)
        part = WorkerPart(state, task, num_slices, memory_file, number=number, num_workers=num_workers)
        line.answer("ready")
        while True:
            match line.receive():
                case "backward", step, scale:
                    losses = part.backward(step, scale)
                    line.answer((losses, task.part_metrics))
                case "norms", scale:
                    line.answer(part.norms(scale))
                case "update", lr_factor, shrink:
                    part.update(lr_factor, shrink)
                    line.answer(None)
                case "length", length:
                    cast("PlannedTask", task).plan.add(length)
                    line.answer(None)
    except _RunEnded:
        return
    except Exception as error:  # noqa: BLE001  whatever it was, the run has to hear of it
        traceback.print_exc()
        with suppress(_RunEnded):
            line.answer(_Failure(f"{type(error).__name__}: {error}"))


def _open_memory() -> int:
    """A file that is only memory. /dev/shm is small in many containers, so it is not used where memfd is there."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("electralab-workers")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _reserve(file: int, size: int) -> None:
    """All of it at once: memory that is missing is an error here, not a crash in the middle of a step."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.ftruncate(file, size)


def _aligned_bytes(tensor: Tensor) -> int:
    return -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT


def _update_cost(name: str, state: TrainingState) -> float:
    """Nanoseconds, about: sums and AdamW by the element, Muon by its products."""
    parameter = state.model.get_parameter(name)
    if f"momentum/{name}" not in state.optimizer.tensors():
        return 4.0 * parameter.numel()
    rows, columns = parameter.shape
    return 4.0 * parameter.numel() + orthogonalise_flops(rows, columns, iterations=5) / 60
