"""How much each token disagrees with its surroundings: (B, T, D) states -> (B, T)."""

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW = 8
"""How many positions to each side are a token's surroundings."""


def measure_discrepancies(states: Tensor, is_pad: Tensor | None) -> Tensor:
    """1 - cos(a state, the mean of the others in its window): 0 for a token like its surroundings, up to 2.

    Padding is in nobody's surroundings; its own discrepancy, and that of a token without neighbours, is 0.
    """
    is_token = torch.ones_like(states[..., 0]) if is_pad is None else (~is_pad).float()  # (B, T)
    held = states.float() * is_token[..., None]
    others = _sum_windows(held) - held  # the cosine with a mean is that with the sum
    has_others = (_sum_windows(is_token) - is_token) * is_token > 0
    return torch.where(has_others, 1 - F.cosine_similarity(held, others, dim=-1), 0.0)


def _sum_windows(values: Tensor) -> Tensor:
    """(B, T, ...) -> the sum over each position and WINDOW to each side, as the difference of two running totals."""
    length = values.shape[1]
    columns = torch.arange(length, device=values.device)
    totals = torch.cat([torch.zeros_like(values[:, :1]), values.cumsum(1)], dim=1)  # (B, T + 1, ...)
    return totals[:, (columns + WINDOW + 1).clamp(max=length)] - totals[:, (columns - WINDOW).clamp(min=0)]
