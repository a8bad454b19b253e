"""A weight's first value is a pure function of (seed, its name): seed -> weights.

So another sharing mode, another depth or another order of construction changes no weight that keeps its name.
Modules are built with zeros, and each matrix knows how widely it is drawn.
"""

import math
from typing import TypeVar

import torch
from torch import nn

from electralab.randomness import Rng

# Both backbones draw from a normal truncated at two standard deviations, as their originals do.
_CUTOFF = 2.0


class InitLinear(nn.Linear):
    init_std: float
    """The standard deviation of its first weights; 0 means zeros."""


class InitEmbedding(nn.Embedding):
    init_std: float


M = TypeVar("M", InitLinear, InitEmbedding)


def linear(inputs: int, outputs: int, *, bias: bool, std: float) -> InitLinear:
    return _allocate(InitLinear, std, inputs, outputs, bias=bias)


def embedding(rows: int, size: int, *, std: float) -> InitEmbedding:
    return _allocate(InitEmbedding, std, rows, size)


def _allocate(kind: type[M], std: float, *sizes: int, **options: bool) -> M:
    # skip_init would put it on the CPU whatever device the caller builds on.
    device = torch.get_default_device()
    module: M = nn.utils.skip_init(kind, *sizes, **options, device=device)  # type: ignore[no-untyped-call]
    # torch's own first values would take time and be thrown away, but no memory is left without a value: whoever
    # forgets `init_weights` computes with zeros, the same everywhere, not with what was there before.
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    module.init_std = std
    return module


def init_weights(network: nn.Module, seed: int) -> None:
    """Give every parameter its first value: matrices are drawn, the scales of norms 1, all else 0."""
    drawn: set[int] = set()
    for path, module in network.named_modules():  # a shared module comes once, under its first name
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
            drawn.update(id(parameter) for parameter in module.parameters())
        elif isinstance(module, InitLinear | InitEmbedding) and module.init_std > 0:
            # The name is a seed. It begins with a dot where the matrix belongs to the network itself.
            owner, _, name = path.rpartition(".")
            generator = torch.Generator().manual_seed(Rng(seed, 0).torch_seed(f"weights {owner}.{name}.weight", 0))
            # By the inverse of the distribution: fifteen times faster than torch's own, which draws again what it
            # rejects.
            edge = math.erf(_CUTOFF / math.sqrt(2))
            with torch.no_grad():
                uniforms = module.weight.uniform_(-edge, edge, generator=generator)
                uniforms.erfinv_().mul_(module.init_std * math.sqrt(2))
            drawn.add(id(module.weight))
        else:
            is_silent = isinstance(module, nn.Linear | nn.Embedding) and not isinstance(
                module, InitLinear | InitEmbedding
            )
            assert not is_silent, f"{path}: a matrix that does not say how widely it is drawn"
    for parameter in network.parameters():
        if id(parameter) not in drawn:
            nn.init.zeros_(parameter)
