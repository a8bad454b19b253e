"""A step over processes that share no memory: ranks of torch.distributed, on one machine or many, as torchrun has them.

TrainingState, TrainingTask, slices -> RankStep on the first rank; `follow` on the others

The first rank is the run: it counts, logs and saves. The others build the same networks, get the weights once, and
compute their slices of every step and their part of what is evaluated. Each rank has a block of slices, whose gradients
it adds as the tree of `workers.py` does; then ranks exchange their sums in pairs, which are the higher nodes of the
same tree. x + y is y + x to the last bit, so that every rank ends with the sum that one process would have, and updates
its own copy by it.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from electralab import runtime
from electralab.errors import UsageError, WorkerFailed
from electralab.events import Event, Result
from electralab.records.run import RunLength
from electralab.stopping import StopSignal
from electralab.training.checkpoint import TrainingState, write_part
from electralab.training.group import Parallel, RankGroup, join_ranks
from electralab.training.loop import TrainStep, measure_norms
from electralab.training.trainer import StepStats
from electralab.training.workers import PlannedTask, SlicedTask, StepMemory, WorkerJob, WorkerPart

if TYPE_CHECKING:  # whose parts of torch take a second to import
    from electralab.training.sharded import ShardedPart

R = TypeVar("R")


Through = Callable[[Callable[[], Any]], Any]


def compute_here(compute: Callable[[], R]) -> R:
    return compute()


class RankTask(SlicedTask, Protocol):
    """A training task whose networks can be spread over ranks, each of which does a part of steps and evaluations."""

    stats: StepStats
    through: Through
    """What computes with the networks: `compute_here`, or a module that has their parts come together."""

    @property
    def config(self) -> "RankConfig": ...

    @property
    def evaluate_part(self) -> Callable[..., dict[int, Any]]:
        """Rank, number of ranks, what -> the answers of this rank, by number; every rank computes equally many."""
        ...


class RankConfig(Protocol):
    @property
    def runtime(self) -> runtime.RuntimeConfig: ...


def check_ranks(num_slices: int, parallel: Parallel) -> None:
    """Every rank has as many slices as the others, and their sums are nodes of one tree."""
    _, size = runtime.find_rank()
    if parallel != "ddp" and not runtime.is_launched():
        raise UsageError(f"--parallel {parallel}: spreads networks over ranks, and there is one; use torchrun")
    if size & (size - 1) or size > num_slices:
        raise UsageError(
            f"batch.slices: a step of {num_slices} slices is shared out over 1, 2, 4 … ranks, not more than it has "
            f"slices, and there are {size}; give --batch.slices, a power of two, or another --nproc-per-node"
        )


class RankStep(TrainStep):
    """The steps of a run, on its first rank: every part of a step is one of all ranks."""

    def __init__(
        self,
        state: TrainingState,
        task: RankTask,
        job: WorkerJob,
        *,
        num_slices: int,
        device: torch.device,
        parallel: Parallel = "ddp",
        sharded_checkpoints: bool = False,
    ) -> None:
        super().__init__(state.model, state.optimizer, task.micro_losses)
        check_ranks(num_slices, parallel)
        if sharded_checkpoints:
            self.write_moments = self._write_moments
        self._group, self._task, self._parallel = join_ranks(device), task, parallel
        # Layers that are gathered in 16 bits cannot answer as whole networks do, in 32.
        self._is_shared = parallel != "fsdp" or task.config.runtime.precision == "fp32"
        self._group.command("job", job, num_slices, parallel)
        with self._group.connected():
            self._part = _make_part(job, num_slices, parallel, self._group, state, task)

    @property
    def description(self) -> str:
        return f"{self._group.size} ranks ({self._parallel})"

    def backward(self, step: int, scale: float) -> float:
        self._group.command("backward", step, scale)
        with self._group.connected():
            ours = self._part.backward(step, scale), self._part.task.part_metrics
        parts = self._group.gather(ours)
        losses = {number: loss for rank_losses, _ in parts for number, loss in rank_losses.items()}
        self._task.part_metrics = {number: seen for _, metrics in parts for number, seen in metrics.items()}
        return sum((losses[number] for number in sorted(losses)), 0.0)

    def norms(self, scale: float) -> dict[str, float]:
        self._group.command("norms", scale)
        with self._group.connected():
            return self._part.norms(scale)

    def update(self, lr_factor: float, shrink: float) -> None:
        self._group.command("update", lr_factor, shrink)
        with self._group.connected():
            self._part.update(lr_factor, shrink)

    def tell(self, length: RunLength) -> None:
        self._group.command("length", length)
        cast("PlannedTask", self._part.task).plan.add(length)

    def evaluate(self, *what: str) -> dict[int, Any]:
        """The answers of all ranks to an evaluation, with the weights that the first has now."""
        if not self._is_shared:
            return self._task.evaluate_part(0, 1, *what)
        is_averaged = self.optimizer.is_averaged
        self._group.command("evaluate", is_averaged, *what)
        own: dict[int, Any] = {}
        try:
            with self._group.connected():
                own = self._part.evaluate(is_averaged, *what)
        finally:  # stopped inside it, too: the others wait here before they hear the next command
            parts = self._group.gather(own, is_patient=True)
        return {number: answer for part in parts for number, answer in part.items()}

    def collect(self) -> None:
        has_moments = self.write_moments is None
        self._group.command("collect", has_moments)
        with self._group.connected():
            self._part.collect(has_moments)

    def _write_moments(self, folder: Path) -> None:
        self._group.command("write", folder)
        with self._group.connected():
            self._part.write_moments(folder)
        self._group.gather(None)  # all have written


def _make_part(
    job: WorkerJob,
    num_slices: int,
    parallel: Parallel,
    group: RankGroup,
    state: TrainingState | None = None,
    task: RankTask | None = None,
) -> "_RankPart | ShardedPart":
    """What this rank has of the networks. `state`, `task`: those of the run, which the first rank has."""
    if parallel == "ddp" and state is not None and task is not None:
        return _RankPart(state, task, num_slices, group)
    own_state, own_task = job.build(*job.arguments)
    rank_task = cast("RankTask", own_task)
    if parallel == "ddp":
        return _RankPart(own_state, rank_task, num_slices, group)
    from electralab.training.sharded import ShardedPart

    return ShardedPart(own_state, rank_task, num_slices, parallel, group.mesh(), state, task)


def follow(stop: StopSignal, device: torch.device) -> Any:
    """The life of every other rank: what the first one ends with."""
    group = join_ranks(device)
    part: _RankPart | ShardedPart | None = None
    while True:
        try:
            message = group.command()
            with group.connected():
                match message:
                    case "end", result:
                        group.close()
                        return result
                    case "job", job, num_slices, parallel:
                        torch.set_num_threads(job.threads)
                        part = _make_part(job, num_slices, parallel, group)
                        continue
                assert part is not None, "there is a job before its first step"
                match message:
                    case "backward", step, scale:
                        group.gather((part.backward(step, scale), part.task.part_metrics))
                    case "norms", scale:
                        part.norms(scale)
                    case "update", lr_factor, shrink:
                        part.update(lr_factor, shrink)
                    case "length", length:
                        cast("PlannedTask", part.task).plan.add(length)
                    case "evaluate", is_averaged, *what:
                        group.gather(part.evaluate(is_averaged, *what), is_patient=True)
                    case "collect", has_moments:
                        part.collect(has_moments)
                    case "write", folder:
                        part.write_moments(folder)
                        group.gather(None)
        except WorkerFailed:
            stop.check()  # all were told to stop, and the first one has saved
            raise


def share_run(events: Iterator[Event[R]], stop: StopSignal, device: torch.device) -> Iterator[Event[R]]:
    """A run as it is, or, started by torchrun, on all ranks: the first is the run, the others only compute for it and
    end with the same result when all is written."""
    rank, num_ranks = runtime.find_rank()
    if num_ranks == 1:
        yield from events
        return
    group = join_ranks(device)  # at once: the first may read for minutes before its first step
    if rank > 0:
        yield Result(follow(stop, device))
        return
    for event in events:
        if isinstance(event, Result):
            group.command("end", event.value)
            group.close()
        yield event


class _RankPart(WorkerPart):
    """What a rank computes in a step, and how its sum becomes everybody's."""

    def __init__(self, state: TrainingState, task: RankTask, num_slices: int, group: RankGroup) -> None:
        super().__init__(state, task, num_slices, None, number=0, num_workers=1)
        self.state, self.task, self._group = state, task, group
        self._width = num_slices // group.size
        self.memory = _BlockMemory(state, num_slices, first=group.rank * self._width, width=self._width)
        tensors = [*state.model.parameters(), *state.model.buffers(), *state.optimizer.tensors().values()]
        with torch.no_grad():
            for tensor in tensors:  # those of the first rank: whatever it started from or resumed
                dist.broadcast(tensor.detach(), src=0)

    def backward(self, step: int, scale: float) -> dict[int, float]:
        self.memory.reset_claims()
        return super().backward(step, scale)

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
            received = counts.new_empty(_numel(own[0]) + len(counts)) if has_partner else None
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

    def update(self, lr_factor: float, shrink: float) -> None:
        super().update(lr_factor, shrink)
        self.state.optimizer.count_step()

    def evaluate(self, is_averaged: bool, *what: str) -> dict[int, Any]:
        optimizer = self.state.optimizer  # that of the run, on the first rank, whose averages are in place
        with optimizer.averaged() if is_averaged and not optimizer.is_averaged else nullcontext():
            return self.task.evaluate_part(self._group.rank, self._group.size, *what)

    def collect(self, has_moments: bool) -> None:
        """Every rank has all."""

    def write_moments(self, folder: Path) -> None:
        """Every rank has all, and writes a share of it."""
        rank, size = self._group.rank, self._group.size
        tensors = dict(list(self.state.optimizer.tensors().items())[rank::size])
        write_part(folder, tensors, rank, size)


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
