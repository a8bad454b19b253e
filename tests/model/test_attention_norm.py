"""Queries and keys of one length: what the norm promises, against the formula, and where it starts."""

import torch
import torch.nn.functional as F
from networks import exaggerate, make_pair, make_rows, tiny_config
from torch import Tensor

from electralab.model.attention import Attention, RotaryTable, rotate
from electralab.model.weights import init_weights

ROWS = make_rows()


def make_attention(seed: int = 1) -> Attention:
    attention = Attention(tiny_config("modern", qk_norm=True, init_std=0.5), 2)
    init_weights(attention, seed)
    return attention.eval()


def attend_slowly(attention: Attention, hidden: Tensor, rotary: RotaryTable) -> Tensor:
    """Head by head, token by token."""
    assert attention.query_norm is not None
    assert attention.key_norm is not None
    queries, keys, values = attention.qkv(hidden).unflatten(-1, (3, 2, 4)).unbind(2)  # (B, T, H, K)

    def normalise(vectors: Tensor, gain: Tensor) -> Tensor:
        return vectors / (vectors.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * gain

    queries = normalise(queries, attention.query_norm.weight)
    keys = normalise(keys, attention.key_norm.weight)
    queries, keys = rotate(torch.stack((queries, keys), dim=2), rotary(hidden.shape[1])).unbind(2)
    mixed = torch.empty_like(values)
    for row in range(len(hidden)):
        for head in range(2):
            scores = queries[row, :, head] @ keys[row, :, head].T / 2  # the square root of K
            mixed[row, :, head] = F.softmax(scores, dim=-1) @ values[row, :, head]
    slow: Tensor = attention.output(mixed.flatten(2))
    return slow


@torch.no_grad()
def test_attention_with_norms_is_the_formula() -> None:
    attention, rotary = make_attention(), RotaryTable(5, 4, 100.0)
    exaggerate(attention)
    hidden = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(attention(hidden, rotary(5), None), attend_slowly(attention, hidden, rotary), atol=1e-5)


@torch.no_grad()
def test_the_length_of_queries_does_not_matter() -> None:
    attention, rotary = make_attention(), RotaryTable(5, 4, 100.0)
    hidden = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(2))
    before = attention(hidden, rotary(5), None)
    attention.qkv.weight[:16] *= 100  # queries and keys; values stay
    assert torch.allclose(attention(hidden, rotary(5), None), before, atol=1e-4)


def test_gains_start_at_one_and_learn() -> None:
    pair = make_pair("tiny", qk_norm=True, num_layers=2)
    gains = [parameter for name, parameter in pair.named_parameters() if "query_norm" in name or "key_norm" in name]
    assert len(gains) == 2 * 2 * 2  # of two layers of two networks
    assert all(bool((gain == 1).all()) for gain in gains)
    pair.discriminator(*ROWS).square().sum().backward()
    gradient = pair.discriminator.get_parameter("encoder.layers.1.attention.query_norm.weight").grad
    assert gradient is not None
    assert gradient.abs().max() > 0
