"""A step over processes that share no memory: ranks of torch.distributed, on one machine or many, as torchrun has them.

TrainingState, TrainingTask, slices -> RankStep on the first rank; `follow` on the others

The first rank is the run: it counts, logs, evaluates and saves. The others build the same networks, get the weights
once, and compute their slices of every step. Each rank has a block of slices, whose gradients it adds as the tree of
`workers.py` does; then ranks exchange their sums in pairs, which are the higher nodes of the same tree. x + y is y + x
to the last bit, so that every rank ends with the sum that one process would have, and updates its own copy by it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from electralab import runtime
from electralab.errors import UsageError, WorkerFailed
from electralab.stopping import StopSignal
from electralab.training.checkpoint import TrainingState
from electralab.training.loop import TrainStep, measure_norms
from electralab.training.workers import SlicedTask, StepMemory, WorkerJob, WorkerPart

# A rank that does not answer for so long is taken for lost. Between steps there is no limit: evaluation takes its time.
_PATIENCE = timedelta(seconds=30)
_FOREVER = timedelta(days=30)


class _Group:
    """The ranks as each of them sees the others."""

    def __init__(self) -> None:
        if not dist.is_initialized():
            dist.init_process_group("gloo", timeout=_PATIENCE)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        # Commands come whenever the first rank is ready for a step.
        self._commands = dist.new_group(timeout=_FOREVER)

    def command(self, *message: Any) -> tuple[Any, ...]:
        """What the first rank says, to all."""
        box = [message]
        with self._connected():
            dist.broadcast_object_list(box, src=0, group=self._commands)
        return box[0]

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, on the first rank."""
        values: list[Any] = [None] * self.size
        with self._connected():
            dist.gather_object(value, values if self.rank == 0 else None, dst=0)
        return values

    def exchange(self, ours: Tensor | None, theirs: Tensor | None, partner: int) -> None:
        """Send one to the partner and fill the other by what it sends; None where there is nothing to send."""
        with self._connected():
            sending = None if ours is None else dist.isend(ours, partner)
            if theirs is not None:
                dist.recv(theirs, partner)
            if sending is not None:
                sending.wait()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch.distributed has no narrower one for a line that broke or hangs
            reason = str(error).splitlines()[0]
            raise WorkerFailed(
                f"rank {self.rank}: another rank ended or does not answer ({reason}); the same command goes on from "
                "the last checkpoint, with any number of ranks"
            ) from None


_GROUP: list[_Group] = []
"""Of this process, once it has joined."""


def join_ranks() -> _Group:
    if not _GROUP:
        _GROUP.append(_Group())
    return _GROUP[0]


def check_ranks(num_slices: int) -> None:
    """Every rank has as many slices as the others, and their sums are nodes of one tree."""
    _, size = runtime.find_rank()
    if size & (size - 1) or size > num_slices:
        raise UsageError(
            f"batch.slices: a step of {num_slices} slices is shared out over 1, 2, 4 … ranks, not more than it has "
            f"slices, and there are {size}; give --batch.slices, a power of two, or another --nproc-per-node"
        )


class RankStep(TrainStep):
    """The steps of a run, on its first rank."""

    def __init__(self, state: TrainingState, task: SlicedTask, job: WorkerJob, *, num_slices: int) -> None:
        super().__init__(state.model, state.optimizer, task.micro_losses)
        check_ranks(num_slices)
        self._group, self._task = join_ranks(), task
        self._group.command("job", job, num_slices)
        self._part = _RankPart(state, task, num_slices, self._group)

    @property
    def description(self) -> str:
        return f"{self._group.size} ranks"

    def backward(self, step: int, scale: float) -> float:
        self._group.command("backward", step, scale)
        self._part.memory.reset_claims()
        parts = self._group.gather((self._part.backward(step, scale), self._task.part_metrics))
        losses = {number: loss for rank_losses, _ in parts for number, loss in rank_losses.items()}
        self._task.part_metrics = {number: seen for _, metrics in parts for number, seen in metrics.items()}
        return sum((losses[number] for number in sorted(losses)), 0.0)

    def norms(self, scale: float) -> dict[str, float]:
        self._group.command("norms", scale)
        return self._part.norms(scale)

    def update(self, lr_factor: float, shrink: float) -> None:
        self._group.command("update", lr_factor, shrink)
        self._part.update(lr_factor, shrink)
        self.optimizer.count_step()


def follow(stop: StopSignal) -> Any:
    """The life of every other rank: what the first one ends with."""
    group = join_ranks()
    part: _RankPart | None = None
    while True:
        try:
            message = group.command()
            if message[0] == "job":
                _, job, num_slices = message
                torch.set_num_threads(job.threads)
                state, task = job.build(*job.arguments)
                part = _RankPart(state, task, num_slices, group)
                continue
            if message[0] == "end":
                dist.destroy_process_group()
                return message[1]
            assert part is not None, "there is a job before its first step"
            match message:
                case "backward", step, scale:
                    part.memory.reset_claims()
                    group.gather((part.backward(step, scale), part.task.part_metrics))
                case "norms", scale:
                    part.norms(scale)
                case "update", lr_factor, shrink:
                    part.update(lr_factor, shrink)
                    part.state.optimizer.count_step()
        except WorkerFailed:
            stop.check()  # all were told to stop, and the first one has saved
            raise


def end_ranks(result: Any) -> None:
    """On the first rank, when all is written: the others end with the same result."""
    join_ranks().command("end", result)
    dist.destroy_process_group()


class _RankPart(WorkerPart):
    """What a rank computes in a step, and how its sum becomes everybody's."""

    def __init__(self, state: TrainingState, task: SlicedTask, num_slices: int, group: _Group) -> None:
        super().__init__(state, task, num_slices, None, number=0, num_workers=1)
        self.state, self.task, self._group = state, task, group
        self._width = num_slices // group.size
        self.memory = _BlockMemory(state, num_slices, first=group.rank * self._width, width=self._width)
        tensors = [*state.model.parameters(), *state.model.buffers(), *state.optimizer.tensors().values()]
        with torch.no_grad():
            for tensor in tensors:  # those of the first rank: whatever it started from or resumed
                dist.broadcast(tensor.detach(), src=0)
        self._sums = [torch.zeros_like(parameter) for parameter in state.optimizer.parameters]

    @torch.no_grad()
    def norms(self, scale: float) -> dict[str, float]:
        rank, size, width, count = self._group.rank, self._group.size, self._width, self.memory.count
        own = self.memory.slots
        here = min(max(count - rank * width, 0), width)
        stride = 1
        while stride < here:
            for left in range(0, here - stride, 2 * stride):
                torch._foreach_add_(own[left], own[left + stride])
            stride *= 2
        # One message: all sums, and for each parameter how many slices had a gradient of it.
        counts = self.memory.has_gradient[:here].sum(dim=0, dtype=torch.float32)
        node = torch.cat([*(tensor.flatten() for tensor in own[0]), counts]) if here else None
        distance = 1
        while distance < size:
            partner = rank ^ distance
            # A node has something in it if its first slice is there; that of a rank begins at its lowest neighbour's.
            has_partner = (partner // distance * distance) * width < count
            received = torch.empty(_numel(own[0]) + len(counts)) if has_partner else None
            self._group.exchange(node, received, partner)
            if node is None or received is None:
                node = received if node is None else node
            else:
                node = node + received
            distance *= 2
        assert node is not None, "a step has a slice at least"
        offset, gradients = 0, {}
        for name, parameter, count in zip(self._names, self._parameters, node[-len(counts) :].tolist(), strict=True):
            part = node[offset : offset + parameter.numel()].view_as(parameter)
            offset += parameter.numel()
            parameter.grad = part if count else None
            if count:
                gradients[name] = part
        return measure_norms(gradients, scale)


def _numel(tensors: list[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


class _BlockMemory(StepMemory):
    """Places for the slices of one rank."""

    def __init__(self, state: TrainingState, num_slices: int, *, first: int, width: int) -> None:
        super().__init__(state, width, None, is_first=True)
        self._first, self._all = first, num_slices

    def claim_slices(self, count: int) -> Iterator[int]:
        assert count <= self._all
        self.count = count
        for number in range(self._first, min(self._first + len(self.slots), count)):
            self.claimed = number
            yield number

    def keep_gradients(self, gradients: list[Tensor | None]) -> None:
        number, self.claimed = self.claimed, self.claimed - self._first
        super().keep_gradients(gradients)
        self.claimed = number
