"""Muon: momentum whose matrices are orthogonalised before they are applied; Newton–Schulz in float32.

Float32 because bfloat16 without hardware support is many times slower than the precision it saves.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# The quintic whose iteration drives singular values into a band around 1 in few steps (Jordan, 2024).
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrix: Tensor, iterations: int) -> Tensor:
    """U Vᵀ of the matrix's singular value decomposition, approximately."""
    a, b, c = _COEFFICIENTS
    is_tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if is_tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if is_tall else x


def orthogonalise_flops(rows: int, columns: int, iterations: int) -> int:
    """Two products of the Gram matrix with itself and one with the matrix, each iteration."""
    short, long = sorted((rows, columns))
    return iterations * (2 * (2 * short * short * long) + 2 * short**3)


class Muon(torch.optim.Optimizer):
    """For hidden matrices only; `lr`, `weight_decay` and the momentum buffers are set by their owner."""

    def __init__(self, params: list[dict[str, Any]], *, momentum: float, iterations: int) -> None:
        super().__init__(params, {"momentum": momentum, "iterations": iterations})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                buffer = self.state[parameter]["momentum"]
                buffer.lerp_(parameter.grad, 1 - group["momentum"])
                nesterov = parameter.grad.lerp(buffer, group["momentum"])
                update = orthogonalise(nesterov, group["iterations"])
                # Tall matrices take larger steps so that the change of the output has the same size (per RMS).
                scale = max(1.0, parameter.shape[0] / parameter.shape[1]) ** 0.5
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-group["lr"] * scale)
