"""One attention for every network: (B, T, D) -> (B, T, D), rotary or not, local or not, with biases or without."""

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.settings import EncoderConfig
from electralab.model.weights import linear

# Of the norms of queries and keys.
_NORM_EPS = 1e-6


class Rotation(NamedTuple):
    """How far each position turns each pair of a head's coordinates; coordinate i and i + K/2 are a pair."""

    cos: Tensor  # (T, 1, 1, K)
    sin: Tensor  # (T, 1, 1, K), negative in the first half


class RotaryTable(nn.Module):
    """The angles of every position up to the longest row, computed once and never saved."""

    cos: Tensor
    sin: Tensor

    def __init__(self, num_positions: int, head_size: int, theta: float) -> None:
        super().__init__()
        frequencies = 1.0 / theta ** (torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
        angles = torch.arange(num_positions, dtype=torch.float32)[:, None] * frequencies  # (T, K/2)
        cos, sin = angles.cos(), angles.sin()
        self.register_buffer("cos", torch.cat((cos, cos), dim=-1)[:, None, None], persistent=False)
        self.register_buffer("sin", torch.cat((-sin, sin), dim=-1)[:, None, None], persistent=False)

    def forward(self, length: int) -> Rotation:
        return Rotation(self.cos[:length], self.sin[:length])


def rotate(vectors: Tensor, rotation: Rotation) -> Tensor:
    """Turn (B, T, 2, H, K): the partner of each coordinate is half a head away."""
    partners = vectors.roll(vectors.shape[-1] // 2, dims=-1)
    return torch.addcmul(vectors * rotation.cos, partners, rotation.sin)


def build_attention_mask(
    length: int, window: int, is_pad: Tensor | None, is_causal: bool = False, device: torch.device | None = None
) -> Tensor | None:
    """Which keys each query sees, True where it does; None where all see all (or, causal, all that came before), which
    is the fast path.

    A window of 0 is no window; else a query sees window // 2 positions to each side, and a causal one, as in
    ModernBERT's decoder, the last window // 2 with itself among them.
    """
    reach = window // 2
    if is_causal and is_pad is None and (window == 0 or length <= reach):
        return None
    if not is_causal and (window == 0 or length <= reach + 1):
        return None if is_pad is None else ~is_pad[:, None, None, :]  # (B, 1, 1, T)
    positions = torch.arange(length, device=device if is_pad is None else is_pad.device)
    distances = positions[:, None] - positions  # (T, T)
    if is_causal:
        may_attend = (distances >= 0) & (distances < (reach if window else length))
    else:
        may_attend = distances.abs() <= reach
    return may_attend if is_pad is None else may_attend & ~is_pad[:, None, None, :]  # (B, 1, T, T)


class Attention(nn.Module):
    def __init__(self, config: EncoderConfig, num_heads: int) -> None:
        super().__init__()
        # H heads of K make up D, unless heads were taken away.
        self.num_heads, self.head_size = num_heads, config.head_size
        self.is_causal, self.dropout = config.is_causal, config.attention_dropout
        width, has_bias = num_heads * self.head_size, not config.is_modern
        self.qkv = linear(config.hidden_size, 3 * width, bias=has_bias, std=config.matrix_std(config.hidden_size))
        self.output = linear(width, config.hidden_size, bias=has_bias, std=config.output_std)
        # One gain for each coordinate of a head, the same for all heads, so that heads can be taken away.
        self.query_norm = nn.RMSNorm(self.head_size, eps=_NORM_EPS) if config.qk_norm else None
        self.key_norm = nn.RMSNorm(self.head_size, eps=_NORM_EPS) if config.qk_norm else None
        # From 0, so that the network starts as one without.
        self.discrepancy_weights = nn.Parameter(torch.zeros(num_heads)) if config.discrepancy_attention else None

    def forward(
        self,
        hidden: Tensor,
        rotation: Rotation | None,
        may_attend: Tensor | None,
        first_only: bool = False,
        is_pad: Tensor | None = None,
    ) -> Tensor:
        """With `first_only` the first position alone asks, of all: (B, T, D) -> (B, 1, D)."""
        qkv = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))  # (B, T, 3, H, K)
        if rotation is None and self.query_norm is None:
            queries, keys, values = qkv.permute(2, 0, 3, 1, 4)  # (B, H, T, K) each
        else:
            asking, values = qkv.split((2, 1), dim=2)
            if self.query_norm is not None and self.key_norm is not None:
                gains = torch.stack((self.query_norm.weight, self.key_norm.weight))[:, None]  # (2, 1, K)
                asking = F.rms_norm(asking, (self.head_size,), eps=_NORM_EPS) * gains
            if rotation is not None:
                asking = rotate(asking, rotation)
            queries, keys = asking.permute(2, 0, 3, 1, 4)
            values = values.squeeze(2).transpose(1, 2)
        scale = None
        if self.discrepancy_weights is not None:
            scale = keys.shape[-1] ** -0.5
            discrepancies = measure_discrepancies(hidden, is_pad)  # (B, T)
            # Into the scores by one more coordinate: queries hold the weight, keys the discrepancy, values nothing.
            one_each = (*queries.shape[:-1], 1)
            weights = (self.discrepancy_weights[:, None] / scale).to(queries.dtype)[..., None].expand(one_each)
            queries = torch.cat([queries, weights], dim=-1)  # (B, H, T, K + 1)
            keys = torch.cat([keys, discrepancies[:, None].to(keys.dtype)[..., None].expand(one_each)], dim=-1)
            values = F.pad(values, (0, 1))
        if first_only:
            queries = queries[:, :, :1]
            may_attend = None if may_attend is None else may_attend[..., :1, :]
        mixed = self.mix(queries, keys, values, may_attend, scale)
        if self.discrepancy_weights is not None:
            mixed = mixed[..., :-1]
        return self.conclude(mixed)

    def ask(self, hidden: Tensor, rotation: Rotation | None) -> Tensor:
        """(B, T, D) -> queries (B, H, T, K), where keys and values are those of another tensor."""
        queries = self._project(hidden, slice(self.output.in_features))
        queries = queries if self.query_norm is None else self.query_norm(queries)
        return (queries if rotation is None else rotate(queries, rotation)).squeeze(2).transpose(1, 2)

    def offer(self, hidden: Tensor, rotation: Rotation | None) -> tuple[Tensor, Tensor]:
        """(B, T, D) -> keys and values (B, H, T, K) each"""
        keys, values = self._project(hidden, slice(self.output.in_features, None)).chunk(2, dim=2)
        keys = keys if self.key_norm is None else self.key_norm(keys)
        keys = keys if rotation is None else rotate(keys, rotation)
        return keys.squeeze(2).transpose(1, 2), values.squeeze(2).transpose(1, 2)

    def mix(
        self, queries: Tensor, keys: Tensor, values: Tensor, may_attend: Tensor | None, scale: float | None = None
    ) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        # Torch takes a mask or the word, not both; a mask of a causal network is causal itself.
        is_causal = self.is_causal and may_attend is None
        attend = partial(F.scaled_dot_product_attention, dropout_p=dropout, is_causal=is_causal, scale=scale)
        if values.device.type != "cpu" or values.dtype != torch.bfloat16:
            return attend(queries, keys, values, attn_mask=may_attend)
        # In 16 bits a processor's kernel takes two and a half times as long backward as in 32, also where it has
        # products of 16 bits in hardware. Inside an autocast 32 bits have to be insisted on.
        with torch.autocast("cpu", enabled=False):
            return attend(queries.float(), keys.float(), values.float(), attn_mask=may_attend)

    def conclude(self, mixed: Tensor) -> Tensor:
        """(B, H, T, K) -> (B, T, D)"""
        attended: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return attended

    def _project(self, hidden: Tensor, part: slice) -> Tensor:
        """By a part of the matrix for queries, keys and values: (B, T, D) -> (B, T, 1 or 2, H, K)"""
        bias = None if self.qkv.bias is None else self.qkv.bias[part]
        projected = F.linear(hidden, self.qkv.weight[part], bias)
        return projected.view(*hidden.shape[:-1], -1, self.num_heads, self.head_size)


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
    # Half the time of torch's own cosine, which divides every coordinate.
    squares = [(vectors * vectors).sum(-1).clamp(min=_SMALLEST_SQUARE) for vectors in (held, others)]
    cosines = (held * others).sum(-1) * (squares[0] * squares[1]).rsqrt()
    return torch.where(has_others, 1 - cosines, 0.0)


def _sum_windows(values: Tensor) -> Tensor:
    """(B, T, ...) -> the sum over each position and WINDOW to each side, as the difference of two running totals."""
    length = values.shape[1]
    totals = values.cumsum(1)
    last = totals[:, -1:].expand_as(totals[:, :WINDOW])
    ahead = torch.cat([totals[:, WINDOW:], last], dim=1)  # a row shorter than a window is all in it
    behind = F.pad(totals, (0, 0) * (values.dim() - 2) + (WINDOW + 1, 0))[:, :length]
    return ahead - behind
