"""A weight's first value is a pure function of (seed, its name): seed -> weights.

So another sharing mode, another depth or another order of construction changes no weight that keeps its name.
Modules are built with zeros and say in `init_stds` how widely each of their matrices is drawn.
"""

import math
from typing import TypeVar

import torch
from torch import Tensor, nn

from electralab.randomness import Rng

# Both backbones draw from a normal truncated at two standard deviations, as their originals do.
_CUTOFF = 2.0

M = TypeVar("M", bound=nn.Module)


class InitModule(nn.Module):
    """A module that owns matrices."""

    def init_stds(self) -> dict[str, float]:
        """The standard deviation of each own matrix by its name below the module; 0 means zeros."""
        raise NotImplementedError


def linear(inputs: int, outputs: int, *, bias: bool) -> nn.Linear:
    return _allocate(nn.Linear, inputs, outputs, bias=bias)


def embedding(rows: int, size: int) -> nn.Embedding:
    return _allocate(nn.Embedding, rows, size)


def _allocate(kind: type[M], *sizes: int, **options: bool) -> M:
    # skip_init would put it on the CPU whatever device the caller builds on.
    device = torch.get_default_device()
    module: M = nn.utils.skip_init(kind, *sizes, **options, device=device)  # type: ignore[no-untyped-call]
    # torch's own first values would take time and be thrown away, but no memory is left without a value: whoever
    # forgets `init_weights` computes with zeros, the same everywhere, not with what was there before.
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return module


def init_weights(network: nn.Module, seed: int) -> None:
    """Give every parameter its first value: matrices are drawn, biases 0, the scales of norms 1."""
    drawn: set[int] = set()
    for prefix, module in network.named_modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            module.reset_parameters()
            drawn.update(id(parameter) for parameter in module.parameters())
        elif isinstance(module, InitModule):
            for name, std in module.init_stds().items():
                matrix = module.get_parameter(name)
                if id(matrix) not in drawn:  # a shared one is drawn under its first name
                    _draw(matrix, std, seed, f"{prefix}.{name}")
                    drawn.add(id(matrix))
    for name, parameter in network.named_parameters():
        if id(parameter) not in drawn:
            assert parameter.dim() == 1, f"{name}: no module says how to draw it"
            nn.init.zeros_(parameter)


def _draw(matrix: Tensor, std: float, seed: int, name: str) -> None:
    if std == 0:
        nn.init.zeros_(matrix)
        return
    generator = torch.Generator().manual_seed(Rng(seed, 0).torch_seed(f"weights {name}", 0))
    # By the inverse of the distribution: fifteen times faster than torch's own, which draws again what it rejects.
    edge = math.erf(_CUTOFF / math.sqrt(2))
    with torch.no_grad():
        matrix.uniform_(-edge, edge, generator=generator).erfinv_().mul_(std * math.sqrt(2))
