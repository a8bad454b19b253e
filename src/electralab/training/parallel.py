"""Networks spread over ranks: what of ours is a unit to shard, and how attention and feed-forward are split.

networks, mesh -> what computes with them, how their parameters were cut
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from electralab.errors import UsageError
from electralab.model.attention import Attention
from electralab.model.electra import TwoStream
from electralab.model.encoder import FeedForward
from electralab.runtime import Precision
from electralab.training.group import Parallel
from electralab.training.ranks import Through, compute_here
from electralab.training.sharded import Cut, TreeReduceScatter, shard_fully


def distribute(
    networks: nn.Module, parallel: Parallel, precision: Precision, mesh: DeviceMesh, reduction: TreeReduceScatter
) -> tuple[Through, Mapping[str, Cut]]:
    """Leave a part of the networks here: what computes with them, and how their parameters were cut, where not as
    usual."""
    if parallel == "tensor":
        return compute_here, split_layers(networks, mesh)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    return shard_fully(networks, find_units(networks), mesh, reduction, dtype), {}


def find_units(networks: nn.Module) -> list[nn.Module]:
    """What is gathered for its own forward and backward pass only: every attention and every feed-forward.

    Not those of a network that reads their parts from outside, nor those that stand in several places: they are
    gathered for the whole step.
    """
    outside = {
        id(module) for network in networks.modules() if isinstance(network, TwoStream) for module in network.modules()
    }
    names: dict[int, int] = {}
    for _, module in networks.named_modules(remove_duplicate=False):
        names[id(module)] = names.get(id(module), 0) + 1
    return [
        module
        for module in networks.modules()
        if isinstance(module, Attention | FeedForward) and id(module) not in outside and names[id(module)] == 1
    ]


def split_layers(networks: nn.Module, mesh: DeviceMesh) -> dict[str, Cut]:
    """Leave each rank its heads and its columns of the feed-forward; all else is on every rank."""
    count = mesh.size()
    _check_layers(networks, count)
    plans = {
        Attention: {"qkv": ColwiseParallel(), "output": RowwiseParallel()},
        FeedForward: {"up": ColwiseParallel(), "down": RowwiseParallel()},
    }
    splits: dict[str, Cut] = {}
    for name, module in networks.named_modules():
        if isinstance(module, Attention):
            into, back, blocks = "qkv", "output", 3
        elif isinstance(module, FeedForward):
            into, back, blocks = "up", "down", 2 if module.is_gated else 1
        else:
            continue
        splits |= {f"{name}.{into}.{kind}": Cut(0, blocks) for kind in ("weight", "bias")}
        splits[f"{name}.{back}.weight"] = Cut(1)
        parallelize_module(module, mesh, plans[type(module)])
        if isinstance(module, Attention):
            _split_attention(module, mesh)
        elif module.dropout:
            # Drawn whole on every rank, so that it is that of one process, and the ranks stay at the same draw.
            hook = partial(_drop_columns, share=module.dropout, rank=mesh.get_rank(), count=count)
            module.down.register_forward_pre_hook(hook, prepend=True)
            module.dropout = 0.0
    return splits


def _check_layers(networks: nn.Module, count: int) -> None:
    for name, module in networks.named_modules():
        if isinstance(module, TwoStream) or (isinstance(module, Attention) and module.discrepancy_weights is not None):
            kind = "two streams of attention" if isinstance(module, TwoStream) else "discrepancy attention"
            raise UsageError(f"--parallel tensor: {name or 'the network'} has {kind}, which cannot be split; try fsdp")
        heads = module.num_heads if isinstance(module, Attention) else 0
        columns = module.down.in_features if isinstance(module, FeedForward) else 0
        if heads % count or columns % count:
            what = f"{heads} heads" if heads else f"a feed-forward of {columns}"
            raise UsageError(
                f"--parallel tensor: {name} has {what}, which {count} ranks cannot share equally; give a number of "
                "ranks that divides it, or --parallel fsdp"
            )


def _split_attention(attention: Attention, mesh: DeviceMesh) -> None:
    attention.num_heads //= mesh.size()
    if attention.dropout:
        attention.mix = partial(_mix_heads, attention, mesh.get_rank(), mesh.size())  # type: ignore[method-assign]
    for norm in (attention.query_norm, attention.key_norm):
        if norm is not None:  # whose gains all heads share: each rank knows the gradient of its own
            norm.weight.register_hook(_add_up)  # type: ignore[no-untyped-call]


def _add_up(gradient: Tensor) -> Tensor:
    gradient = gradient.contiguous()
    dist.all_reduce(gradient)
    return gradient


def _drop_columns(module: nn.Module, inputs: tuple[Any, ...], *, share: float, rank: int, count: int) -> tuple[Tensor]:
    (expanded,) = inputs
    if not module.training:
        return (expanded,)
    kept = F.dropout(expanded.new_ones(*expanded.shape[:-1], expanded.shape[-1] * count), share)
    return (expanded * kept.chunk(count, dim=-1)[rank],)


def _mix_heads(
    attention: Attention,
    rank: int,
    count: int,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    may_attend: Tensor | None,
    scale: float | None = None,
) -> Tensor:
    """Attention with a dropout that is drawn for the heads of all ranks; torch's own draws for those it is given."""
    if not attention.training:
        return Attention.mix(attention, queries, keys, values, may_attend, scale)
    with torch.autocast(values.device.type, enabled=False):
        scores = queries.float() @ keys.float().transpose(-2, -1) * (scale or queries.shape[-1] ** -0.5)
        if attention.is_causal and may_attend is None:
            may_attend = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if may_attend is not None:
            scores = scores.masked_fill(~may_attend, float("-inf"))
        rows, heads, *lengths = scores.shape
        kept = F.dropout(scores.new_ones(rows, heads * count, *lengths), attention.dropout)
        return (scores.softmax(-1) * kept.chunk(count, dim=1)[rank]) @ values.float()
