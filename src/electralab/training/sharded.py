"""Networks of which each rank has a part only: fully sharded, or split inside their layers (tensor parallelism).

TrainingState, splits -> ShardedPart: backward, norms, update, collect

The first rank keeps the run's state whole beside its part, to evaluate, save and export it; `collect` brings it up to
date. So a checkpoint knows nothing of parts, and whatever starts from one cuts it as it needs.

Sums have the order of `workers.py`: rank r of R computes slices r, r + R, r + 2R, … The reduction of one round over
ranks is a node of the tree, and the rounds of a step are added as its upper part. Norms are taken of whole gradients by
the rank that owns them, and Muon's products are of whole matrices. So fully sharded networks learn to the last bit as
one process does; products that are split add in another order, and agree to rounding.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter  # the public name of its base is still missing
from torch.distributed.tensor import DTensor

from electralab.training.checkpoint import TrainingState, write_part
from electralab.training.group import Parallel
from electralab.training.loop import measure_norms
from electralab.training.optimizer import Muon, Optimizer, orthogonalise, orthogonalise_flops
from electralab.training.ranks import RankTask, Through


@dataclass(frozen=True, slots=True)
class Cut:
    """How a tensor is cut over ranks: along a dimension, or not at all."""

    dim: int | None
    blocks: int = 1
    """Equal parts of that dimension of which each is cut: queries, keys and values in one matrix are three."""

    def part(self, whole: Tensor, rank: int, size: int) -> Tensor:
        """What a rank has of it, as a view into it; a rank may have nothing."""
        if self.dim is None or whole.ndim == 0:
            return whole
        length = whole.shape[self.dim] // self.blocks
        step = -(-length // size)
        first, last = min(rank * step, length), min((rank + 1) * step, length)
        shape = (*whole.shape[: self.dim], self.blocks, length, *whole.shape[self.dim + 1 :])
        return whole.view(shape).narrow(self.dim + 1, first, last - first)


WHOLE = Cut(None)


class TreeReduceScatter(ReduceScatter):
    """Sums over ranks in the order of the tree, of which each rank keeps its part: half of what is left is exchanged
    with a neighbour, then a half of that with the next but one, and so on."""

    def __init__(self) -> None:
        self.count = 0
        """How many ranks have something to add, the first ones; the others take part with nothing."""

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> dist.Work | None:
        del op, async_op  # always a sum, complete on return
        rank, size = group.rank(), group.size()
        node = input_tensor.view(size, -1)  # a row for each rank
        rows = torch.arange(size)
        distance = 1
        while distance < size:
            partner = rank ^ distance
            is_kept = (rows & distance) == (rank & distance)
            sent, kept = node[~is_kept], node[is_kept]
            received = torch.empty_like(kept)
            transfers = [dist.P2POp(dist.isend, sent, partner), dist.P2POp(dist.irecv, received, partner)]
            for work in dist.batch_isend_irecv(transfers):
                work.wait()
            # A node has something in it if its first rank has.
            if partner // distance * distance < self.count:
                node = kept + received if rank // distance * distance < self.count else received
            else:
                node = kept
            rows, distance = rows[is_kept], 2 * distance
        output_tensor.copy_(node[0])
        return None


class Root(nn.Module):
    """What a whole step of several networks goes through, so that parameters outside of their units are there."""

    def __init__(self, networks: nn.Module) -> None:
        super().__init__()
        self.networks = networks

    def forward(self, compute: Callable[[], Any]) -> Any:
        return compute()


def shard_fully(
    networks: nn.Module, units: Sequence[nn.Module], mesh: DeviceMesh, reduction: TreeReduceScatter, dtype: torch.dtype
) -> Through:
    """Units are there, in `dtype`, while they compute; all else for as long as a step does, in 32 bits."""
    # Of the hazards of changing in place what a module returns, which nothing here does.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    root = Root(networks)
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for unit in units:
        fully_shard(unit, mesh=mesh, mp_policy=policy)
    sharded = fully_shard(root, mesh=mesh)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_reduce_scatter(reduction)
    # Losses are weighted by the targets of the whole step: their gradients are added, never averaged.
    sharded.set_gradient_divide_factor(1.0)
    sharded.set_force_sum_reduction_for_comms(True)

    def through(compute: Callable[[], Any]) -> Any:
        computed = root(compute)
        if not torch.is_grad_enabled():  # after a backward pass it is done: weights of now would be those of later
            sharded.reshard()
        return computed

    return through


class Owners:
    """Every cut tensor has a rank that puts it together where the whole is needed, and it moves there and back at once
    with all others."""

    def __init__(self, shapes: Mapping[str, torch.Size], splits: Mapping[str, Cut], costs: Mapping[str, float]) -> None:
        self.shapes, self._splits = shapes, splits
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        loads = [0.0] * self.size
        self.owner: dict[str, int] = {}
        for name in sorted(shapes, key=lambda name: -costs[name]):
            self.owner[name] = loads.index(min(loads))
            loads[self.owner[name]] += costs[name]

    def gather(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The whole tensors that are owned here, of parts by the same names on all ranks."""

        def goes(name: str, source: int, target: int) -> bool:
            return target == self.owner[name] and (source == target or self._splits[name] != WHOLE)

        given = self._exchange(parts, goes)
        wholes = {}
        for name, part in parts.items():
            if self.owner[name] == self.rank:
                wholes[name] = part.new_empty(self.shapes[name])
                for source in range(self.size):
                    if goes(name, source, self.rank):
                        place = self._splits[name].part(wholes[name], source, self.size)
                        place.copy_(given[name, source].view(place.shape))
        return wholes

    def scatter(self, wholes: Mapping[str, Tensor], parts: Mapping[str, Tensor]) -> None:
        """Back again, into the parts that all ranks have by the same names."""
        cut = {
            (name, target): self._splits[name].part(wholes[name], target, self.size)
            for name in parts
            if self.owner[name] == self.rank
            for target in range(self.size)
        }
        given = self._exchange(parts, lambda name, source, _: source == self.owner[name], cut)
        for name, part in parts.items():
            part.copy_(given[name, self.owner[name]].view_as(part))

    def _exchange(
        self,
        parts: Mapping[str, Tensor],
        goes: Callable[[str, int, int], bool],
        cut: Mapping[tuple[str, int], Tensor] | None = None,
    ) -> dict[tuple[str, int], Tensor]:
        """All to all, in one message between two ranks: by name and source what came here."""
        if not parts:
            return {}

        def length(name: str, source: int, target: int) -> int:
            if not goes(name, source, target):
                return 0
            # To an owner the part of the source, from an owner that of the target.
            whose = source if cut is None else target
            return self._splits[name].part(torch.empty(self.shapes[name], device="meta"), whose, self.size).numel()

        ranks, example = range(self.size), next(iter(parts.values()))
        sending = [[name for name in parts if goes(name, self.rank, target)] for target in ranks]
        pieces = [
            (parts[name] if cut is None else cut[name, target]).reshape(-1)
            for target, names in zip(ranks, sending, strict=True)
            for name in names
        ]
        outgoing = torch.cat(pieces) if pieces else example.new_empty(0)
        output_sizes = [sum(length(name, source, self.rank) for name in parts) for source in ranks]
        input_sizes = [sum(length(name, self.rank, target) for name in parts) for target in ranks]
        incoming = example.new_empty(sum(output_sizes))
        dist.all_to_all_single(incoming, outgoing, output_sizes, input_sizes)
        received, offset = {}, 0
        for source in ranks:
            for name in parts:
                if count := length(name, source, self.rank):
                    received[name, source] = incoming[offset : offset + count]
                    offset += count
                elif goes(name, source, self.rank):
                    received[name, source] = incoming[:0]
        return received


class ShardedMuon(Muon):
    """Each matrix is put together by its owner, who computes its direction and hands out the parts."""

    owners: Owners
    names: Mapping[int, str]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        moving = [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        directions = {
            self.names[id(parameter)]: self.advance(parameter, group["momentum"]) for parameter, group in moving
        }
        wholes = self.owners.gather(directions)
        iterations = {self.names[id(parameter)]: group["iterations"] for parameter, group in moving}
        turned = {
            name: orthogonalise(whole, iterations[name], self._dtype).to(whole.dtype) for name, whole in wholes.items()
        }
        self.owners.scatter(turned, directions)
        for parameter, group in moving:
            name = self.names[id(parameter)]
            self.move(parameter, group["lr"], group["weight_decay"], directions[name], self.owners.shapes[name])


class TreeSum:
    """Adds lists of tensors as they come, in the order of the tree, and holds as few sums as its height."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, list[Tensor]]] = []

    def add(self, tensors: list[Tensor]) -> None:
        self._nodes.append((1, tensors))
        while len(self._nodes) > 1 and self._nodes[-1][0] == self._nodes[-2][0]:
            self._join()

    def _join(self) -> None:
        (width, left), (other_width, right) = self._nodes[-2:]
        torch._foreach_add_(left, right)
        self._nodes[-2:] = [(width + other_width, left)]

    def take(self) -> list[Tensor]:
        while len(self._nodes) > 1:
            self._join()
        return self._nodes.pop()[1]


class ShardedPart:
    """What a rank computes of a step with its part of the networks."""

    def __init__(
        self,
        state: TrainingState,
        task: RankTask,
        num_slices: int,
        parallel: Parallel,
        mesh: DeviceMesh,
        whole: TrainingState | None,
        whole_task: RankTask | None,
    ) -> None:
        """`state` and `task` become this rank's part. `whole`, `whole_task`: the run's own, on the first rank."""
        from electralab.training.parallel import distribute  # which cuts networks by what is defined here

        self.task, self._whole, self._whole_task = task, whole, whole_task
        self._is_fsdp, self._num_slices = parallel == "fsdp", num_slices
        self._rank, self._size = mesh.get_rank(), mesh.size()
        self._reduction = TreeReduceScatter()
        shapes = {name: parameter.shape for name, parameter in state.model.named_parameters()}
        whole_names = list(state.optimizer.tensors())
        task.through, splits = distribute(state.model, parallel, task.config.runtime.precision, mesh, self._reduction)
        # Vectors are updated whole on every rank: the last few elements of an array are rounded differently by the
        # kernel of AdamW, and must be those that are last in one process. Matrices are cut where that changes nothing.
        whole_vectors = [name for name, shape in shapes.items() if self._is_fsdp and len(shape) == 1]
        cut = Cut(0) if self._is_fsdp else WHOLE
        self._splits = {name: splits.get(name, cut) for name in shapes} | dict.fromkeys(whole_vectors, WHOLE)
        # The optimizer's parameters lie where the networks' parts lie, vectors beside them.
        self._networks = dict(state.model.named_parameters())
        self._vectors = {name: _local(self._networks[name]).new_empty(shapes[name]) for name in whole_vectors}
        local = {
            name: nn.Parameter(self._vectors.get(name, _local(parameter))) for name, parameter in self._networks.items()
        }
        self.optimizer: Optimizer = state.optimizer.rebuild(local, ShardedMuon)
        self.model = state.model
        trained = {name: shapes[name] for name in self.optimizer.names}
        costs = {name: _owner_cost(shape, f"momentum/{name}" in whole_names) for name, shape in trained.items()}
        self._owners = Owners(trained, self._splits, costs)
        if isinstance(muon := self.optimizer.muon, ShardedMuon):
            muon.owners = self._owners
            muon.names = {id(parameter): name for name, parameter in local.items()}
        self._shapes = shapes
        self._local = local
        self._spread()

    def _tensors(self, state: TrainingState | None) -> Iterator[tuple[str, torch.Size, Tensor | None, Tensor]]:
        """Every tensor of the state: its parameter's split, its whole shape, the whole (first rank), the part here."""
        whole_weights = {} if state is None else dict(state.model.named_parameters())
        whole_moments = {} if state is None else state.optimizer.tensors()
        for name, parameter in self._local.items():
            yield name, self._shapes[name], whole_weights.get(name), parameter.detach()
        for key, part in self.optimizer.tensors().items():
            name = key.partition("/")[2]
            shape = self._shapes[name] if part.ndim else part.shape
            yield name, shape, whole_moments.get(key), part

    @torch.no_grad()
    def _spread(self) -> None:
        """What the first rank started from or resumed, to all."""
        for name, shape, whole, part in self._tensors(self._whole):
            value = part.new_empty(shape) if whole is None else whole.detach().to(part.device, copy=True)
            dist.broadcast(value, src=0)
            piece = self._split(name).part(value, self._rank, self._size)
            part.copy_(piece.reshape(part.shape))
        self._cut_vectors()

    def _cut_vectors(self) -> None:
        for name in self._vectors:
            piece = _local(self._networks[name])
            piece.copy_(Cut(0).part(self._local[name].detach(), self._rank, self._size).view_as(piece))

    def _join_vectors(self, pieces: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of the parts of vectors on all ranks the whole, on every rank, in one message."""
        steps = {name: -(-self._shapes[name][0] // self._size) for name in pieces}
        padded = torch.cat([F.pad(piece, (0, steps[name] - len(piece))) for name, piece in pieces.items()])
        everybody = [torch.empty_like(padded) for _ in range(self._size)]
        dist.all_gather(everybody, padded)
        columns = torch.split(torch.stack(everybody), list(steps.values()), dim=1)
        # Contiguous, which a column of one element for each rank is not: the kernel of AdamW reads past strides.
        wholes = (column.flatten().contiguous() for column in columns)
        return {name: whole[: self._shapes[name][0]] for name, whole in zip(steps, wholes, strict=True)}

    def _split(self, name: str) -> Cut:
        return self._splits.get(name, WHOLE)

    @torch.no_grad()
    def write_moments(self, folder: Path) -> None:
        """Every rank writes the tensors that it owns, whole: a checkpoint does not know how they were cut."""
        owned: dict[str, Tensor] = {}
        by_kind: dict[str, dict[str, Tensor]] = {}
        for key, part in self.optimizer.tensors().items():
            kind, _, name = key.partition("/")
            if part.ndim:
                by_kind.setdefault(kind, {})[name] = part
            elif self._rank == 0:  # counts of steps
                owned[key] = part
        for kind, parts in by_kind.items():
            owned |= {f"{kind}/{name}": whole for name, whole in self._owners.gather(parts).items()}
        write_part(folder, owned, self._rank, self._size)

    @torch.no_grad()
    def collect(self, has_moments: bool) -> None:
        """All parts into the whole state of the first rank; without the optimizer's state, weights alone."""
        tensors = list(self._tensors(self._whole))
        if not has_moments:
            tensors = tensors[: len(self._local)]
        if self._whole is None:
            dist.send(torch.cat([part.reshape(-1) for *_, part in tensors]), 0)
            return
        for source in range(self._size):
            if source == 0:
                values = torch.cat([part.reshape(-1) for *_, part in tensors])
            else:
                count = 0
                for name, shape, _, _ in tensors:
                    count += self._split(name).part(torch.empty(shape, device="meta"), source, self._size).numel()
                values = tensors[0][-1].new_empty(count)
                dist.recv(values, source)
            offset = 0
            for name, _, whole, _ in tensors:
                assert whole is not None
                place = self._split(name).part(whole.detach(), source, self._size)
                place.copy_(values[offset : offset + place.numel()].view(place.shape))
                offset += place.numel()

    def backward(self, step: int, scale: float) -> dict[int, float]:
        """Losses by slice, of those that this rank answers for."""
        self.model.train()
        losses: dict[int, float] = {}
        sums, self._has_gradient = TreeSum(), dict.fromkeys(self.optimizer.names, False)
        self._clear()
        for loss_part in self.task.micro_losses(step, self._choose):
            (loss_part * scale if scale != 1.0 else loss_part).backward()  # type: ignore[no-untyped-call]
            if self._claimed is not None:
                losses[self._claimed] = loss_part.item()
            gradients = []
            for name in self.optimizer.names:
                gradient = self._networks[name].grad
                self._has_gradient[name] |= gradient is not None
                gradients.append(_local(torch.zeros_like(self._networks[name]) if gradient is None else gradient))
            sums.add(gradients)
            self._clear()
        self._sums = sums.take()
        if self._whole_task is not None:
            self._whole_task.stats = self.task.stats
        return losses

    def evaluate(self, is_averaged: bool, *what: str) -> dict[int, Any]:
        """A share of the answers, sharded; all of them where layers are split, which takes all ranks for each."""
        rank, size = (self._rank, self._size) if self._is_fsdp else (0, 1)
        with torch.no_grad(), self.optimizer.averaged() if is_averaged else nullcontext():
            self._cut_vectors()
            answers: dict[int, Any] = self.task.through(lambda: self.task.evaluate_part(rank, size, *what))
        self._cut_vectors()
        return answers if self._is_fsdp or self._rank == 0 else {}

    def _choose(self, count: int) -> Iterator[int]:
        """The slices to compute here; all ranks compute at the same time, so some may compute one for nothing."""
        ranks = self._size if self._is_fsdp else 1
        for first in range(0, count, ranks):
            number = first + (self._rank if self._is_fsdp else 0)
            self._reduction.count = min(ranks, count - first)
            is_needed = number < count and (self._is_fsdp or self._rank == 0)
            self._claimed = number if is_needed else None
            yield number if number < count else first
        if self._claimed is None and not self._is_fsdp:
            self.task.part_metrics = {}

    def _clear(self) -> None:
        for parameter in self._networks.values():
            parameter.grad = None

    @torch.no_grad()
    def norms(self, scale: float) -> dict[str, float]:
        """True norms of whole gradients, freed of the scale: each by its owner, then told to all."""
        if scale != 1.0:
            torch._foreach_mul_(self._sums, 1.0 / scale)
        gradients = {
            name: gradient
            for name, gradient in zip(self.optimizer.names, self._sums, strict=True)
            if self._has_gradient[name]
        }
        if vectors := {name: piece for name, piece in gradients.items() if name in self._vectors}:
            gradients |= self._join_vectors(vectors)
        for name, parameter in self._local.items():
            parameter.grad = gradients.get(name)
        owned = measure_norms(self._owners.gather(gradients), 1.0)
        everybody: list[dict[str, float]] = [{} for _ in range(self._size)]
        dist.all_gather_object(everybody, owned)
        norms = {name: norm for share in everybody for name, norm in share.items()}
        return {name: norms[name] for name in gradients}

    @torch.no_grad()
    def update(self, lr_factor: float, shrink: float) -> None:
        gradients = [parameter.grad for parameter in self._local.values() if parameter.grad is not None]
        if shrink != 1.0:
            torch._foreach_mul_(gradients, shrink)
        self.optimizer.set_rates(lr_factor)
        self.optimizer.step()
        self._cut_vectors()


def _local(tensor: Tensor) -> Tensor:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def _owner_cost(shape: torch.Size, is_orthogonalised: bool) -> float:
    cost = float(math.prod(shape))
    return cost + orthogonalise_flops(shape[0], shape[1], iterations=5) / 60 if is_orthogonalised else cost
