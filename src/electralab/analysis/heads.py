"""Where each attention head looks: how widely, how far, and at which of the places that a rule could name.

encoder, rows -> attention weights -> HeadLooks -> summary of each head
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.analysis.finding import (
    TIMES,
    Estimate,
    bootstrap_estimate,
    require,
    require_finite,
)
from electralab.model.attention import Rotation, find_visible
from electralab.model.discrepancy import measure_discrepancies
from electralab.model.encoder import Encoder, Layer, Trace

LOOKS = ("entropy", "distance", "self", "previous", "next", "first", "separator", "same")
"""Entropy in nats, distance in tokens, the others shares of the weight: on the token itself, its neighbours, the first
of the row, any [SEP], and the same token elsewhere in the row."""


@dataclass(frozen=True, slots=True)
class HeadLooks:
    """Means over the tokens of each row, of every head of every layer."""

    values: NDArray[np.float64]  # (N, heads, len(LOOKS))
    layers: tuple[int, ...]  # of each head
    names: tuple[str, ...]
    """Such as "2.0": the first head of layer 2, counted from 0."""


def weigh_attention(
    encoder: Encoder, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None
) -> Iterator[tuple[Layer, Tensor, Tensor]]:
    """Every layer, what its attention reads (B, T, D), and what each query gives each key (B, H, T, T)."""
    length, config = input_ids.shape[1], encoder.config
    trace = Trace()
    encoder(input_ids, segment_ids, is_pad, trace)
    for index, layer in enumerate(encoder.layers):
        assert isinstance(layer, Layer)
        rotary = encoder.local_rotary if layer.is_local else encoder.global_rotary
        window = config.local_attention if layer.is_local else 0
        is_visible = find_visible(length, window, is_pad, config.is_causal, input_ids.device)
        if is_visible is None and config.is_causal:
            is_visible = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
        read = layer.prepare(trace["embeddings" if index == 0 else f"layers.{index - 1}"])
        yield layer, read, _weigh(layer, read, None if rotary is None else rotary(length), is_visible, is_pad)


def _weigh(
    layer: Layer, read: Tensor, rotation: Rotation | None, is_visible: Tensor | None, is_pad: Tensor | None
) -> Tensor:
    attention = layer.attention
    queries, (keys, _) = attention.ask(read, rotation), attention.offer(read, rotation)
    scores: Tensor = queries @ keys.mT * keys.shape[-1] ** -0.5  # (B, H, T, T)
    if attention.discrepancy_weights is not None:
        discrepancies = measure_discrepancies(read, is_pad)[:, None, None, :]
        scores = scores + attention.discrepancy_weights[:, None, None] * discrepancies
    if is_visible is not None:
        scores = scores.masked_fill(~is_visible, -torch.inf)
    # A query that sees nothing, far inside padding, looks nowhere.
    return scores.softmax(dim=-1).nan_to_num(0.0)


@torch.inference_mode()
def look_at_heads(
    encoder: Encoder, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor, separator_id: int
) -> HeadLooks:
    """Padding neither looks nor is looked at."""
    is_token = ~is_pad
    places = _mark_places(input_ids, is_pad, separator_id)  # (B or 1, L - 1, T, T)
    values, names, layers = [], [], []
    for index, (_, _, weights) in enumerate(weigh_attention(encoder, input_ids, segment_ids, is_pad)):
        entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)  # (B, H, T)
        placed = torch.einsum("bhqk,blqk->bhql", weights, places.expand(len(weights), -1, -1, -1))
        looks = torch.cat([entropy[..., None], placed], dim=-1)  # (B, H, T, L)
        kept = looks * is_token[:, None, :, None]
        values.append(kept.double().sum(dim=2) / is_token.sum(dim=1)[:, None, None])  # (B, H, L)
        names += [f"{index}.{head}" for head in range(weights.shape[1])]
        layers += [index] * weights.shape[1]
    return HeadLooks(torch.cat(values, dim=1).cpu().numpy(), tuple(layers), tuple(names))


def _mark_places(input_ids: Tensor, is_pad: Tensor, separator_id: int) -> Tensor:
    """(B, L - 1, T, T) how far each key is from each query, and 1 where it is what a look is named for."""
    batch, length = input_ids.shape
    steps = torch.arange(length, device=input_ids.device)
    steps = steps - steps[:, None]  # (T, T) key less query
    is_same = (input_ids[:, None, :] == input_ids[:, :, None]) & (steps != 0) & ~is_pad[:, None, :]  # (B, T, T)
    is_first = (torch.arange(length, device=input_ids.device) == 0).expand(length, -1)
    is_separator = (input_ids == separator_id)[:, None, :].expand_as(is_same)
    fixed = [steps.abs(), steps == 0, steps == -1, steps == 1, is_first]
    marked = [mark.expand(batch, -1, -1) for mark in fixed] + [is_separator, is_same]
    return torch.stack([mark.float() for mark in marked], dim=1)


def join_looks(parts: Sequence[HeadLooks]) -> HeadLooks:
    """Of one batch after the other."""
    return HeadLooks(np.concatenate([part.values for part in parts]), parts[0].layers, parts[0].names)


def average_looks(looks: HeadLooks) -> NDArray[np.float64]:
    """(heads, len(LOOKS)) the mean over rows: the table and the picture."""
    return np.asarray(looks.values.mean(axis=0))


def measure_look(looks: HeadLooks, name: str, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """The mean over all heads."""
    found = _select(looks, name).mean(axis=1)
    return bootstrap_estimate(lambda places: float(found[places].mean()), len(found), times, rng)


def measure_keenest(looks: HeadLooks, name: str, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """Of the head that does it most, chosen anew in every draw: the highest of many is high by luck too."""
    found = _select(looks, name)
    return bootstrap_estimate(
        lambda places: float(found[places].mean(axis=0).max()), len(found), times, rng, centred=True
    )


def _select(looks: HeadLooks, name: str) -> NDArray[np.float64]:
    """(N, heads)"""
    require("attention heads", len(looks.values), 2, "rows")
    require_finite("attention heads", looks.values)
    return looks.values[..., LOOKS.index(name)]


def select_layer(looks: HeadLooks, layer: int) -> HeadLooks:
    kept = [place for place, own in enumerate(looks.layers) if own == layer]
    names = tuple(looks.names[place] for place in kept)
    return HeadLooks(looks.values[:, kept], (layer,) * len(kept), names)
