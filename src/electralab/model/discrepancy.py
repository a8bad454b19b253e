"""How much each token disagrees with its surroundings: (B, T, D) states -> (B, T)."""

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW = 8
"""How many positions to each side are a token's surroundings."""

_SMALLEST_SQUARE = 1e-16


def measure_discrepancies(states: Tensor, is_pad: Tensor | None) -> Tensor:
    """1 - cos(a state, the mean of the others in its window): 0 for a token like its surroundings, up to 2.

    Padding is in nobody's surroundings; its own discrepancy, and that of a token without neighbours, is 0.
    """
    states = states.float()
    is_token = torch.ones_like(states[..., 0]) if is_pad is None else (~is_pad).float()  # (B, T)
    held = states if is_pad is None else states.masked_fill(is_pad[..., None], 0.0)
    others = _sum_windows(held) - held  # the cosine with a mean is that with the sum
    has_others = (_sum_windows(is_token) - is_token) * is_token > 0
    return torch.where(has_others, 1 - _find_cosines(held, others), 0.0)


def _sum_windows(values: Tensor) -> Tensor:
    """(B, T, ...) -> the sum over each position and WINDOW to each side, as the difference of two running totals."""
    length = values.shape[1]
    totals = values.cumsum(1)
    last = totals[:, -1:].expand_as(totals[:, :WINDOW])
    ahead = torch.cat([totals[:, WINDOW:], last], dim=1)  # a row shorter than a window is all in it
    behind = F.pad(totals, (0, 0) * (values.dim() - 2) + (WINDOW + 1, 0))[:, :length]
    return ahead - behind


def _find_cosines(ones: Tensor, others: Tensor) -> Tensor:
    """Half the time of torch's own, which divides every coordinate."""
    squares = (ones * ones).sum(-1).clamp(min=_SMALLEST_SQUARE) * (others * others).sum(-1).clamp(min=_SMALLEST_SQUARE)
    return (ones * others).sum(-1) * squares.rsqrt()
