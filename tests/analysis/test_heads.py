"""Weights that give each layer's own output, and heads that look where they were told to."""

import numpy as np
import pytest
import torch
from little_analysis import draws
from little_models import TOKENIZER
from planted_networks import LENGTH, build_networks, judge_of, mask_some
from torch import nn

from electralab.analysis.measures import heads
from electralab.model.attention import build_attention_mask
from electralab.model.encoder import Encoder
from electralab.model.weights import init_weights

RNG = np.random.default_rng
SEP = TOKENIZER.special.sep
SHAPES = {
    "modern": {"backbone": "modern"},
    "electra": {"backbone": "electra"},
    "local": {"backbone": "modern", "local_attention": 4, "global_every": 2},
    "causal": {"backbone": "modern", "is_causal": True},
    "causal local": {"backbone": "modern", "is_causal": True, "local_attention": 6, "global_every": 2},
    "discrepancy": {"backbone": "modern", "discrepancy_attention": True},
}


def build_encoder(**changes: object) -> Encoder:
    config = judge_of(build_networks()).config
    encoder = Encoder(type(config).model_validate(config.model_dump() | changes))
    init_weights(encoder, 1)
    for layer in encoder.layers:
        if layer.attention.discrepancy_weights is not None:  # type: ignore[union-attr]
            nn.init.ones_(layer.attention.discrepancy_weights)  # type: ignore[union-attr, arg-type]
    return encoder.eval()


def build_even(**changes: object) -> Encoder:
    """Heads that ask nothing."""
    encoder = build_encoder(**changes)
    for layer in encoder.layers:
        nn.init.zeros_(layer.attention.qkv.weight)  # type: ignore[union-attr, arg-type]
    return encoder


def look(encoder: Encoder, rows: int = 4, lengths: tuple[int, ...] = ()) -> heads.HeadPatterns:
    batch = mask_some(rows, lengths=lengths).batch
    return heads.attention_patterns(encoder, batch.original_ids, batch.segment_ids, batch.is_pad, SEP)


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@torch.inference_mode()
def test_the_weights_give_the_output_of_every_layer(shape: dict[str, object], is_padded: bool) -> None:
    encoder = build_encoder(**shape)
    batch = mask_some(3, lengths=(20, 9) if is_padded else ()).batch
    is_pad = batch.attention_pad
    config = encoder.config
    for layer, read, weights in heads.attention_weights(encoder, batch.original_ids, batch.segment_ids, is_pad):
        rotary = encoder.local_rotary if layer.is_local else encoder.global_rotary
        rotation = None if rotary is None else rotary(LENGTH)
        window = config.local_attention if layer.is_local else 0
        is_visible = build_attention_mask(LENGTH, window, is_pad, config.is_causal)
        _, values = layer.attention.offer(read, rotation)
        expected = layer.attention(read, rotation, is_visible, is_pad=is_pad)
        found = layer.attention.conclude(weights @ values)
        is_token = ~batch.is_pad
        assert torch.allclose(found[is_token], expected[is_token], atol=1e-5)
        assert torch.allclose(weights.sum(dim=-1).transpose(1, 2)[is_token], torch.ones(()), atol=1e-5)


@pytest.mark.parametrize("backbone", ["modern", "electra"])
def test_heads_that_ask_nothing_look_everywhere_alike(backbone: str) -> None:
    encoder = build_even(backbone=backbone)
    found = dict(zip(heads.PATTERNS, look(encoder).values.mean(axis=0).T, strict=True))
    assert found["entropy"] == pytest.approx(np.full(4, np.log(LENGTH)))
    for name in ("self", "first", "separator"):
        assert found[name] == pytest.approx(np.full(4, 1 / LENGTH))
    # The first token has none before it, the last none after it.
    for name in ("previous", "next"):
        assert found[name] == pytest.approx(np.full(4, (LENGTH - 1) / LENGTH**2))
    # The mean distance of two of n places is (n^2 - 1) / 3n.
    assert found["distance"] == pytest.approx(np.full(4, (LENGTH**2 - 1) / (3 * LENGTH)))


def test_padding_neither_looks_nor_is_looked_at() -> None:
    encoder = build_even()
    found = look(encoder, lengths=(9, 5))
    assert np.exp(found.values[:, 0, heads.PATTERNS.index("entropy")]) == pytest.approx(
        [9, 5, LENGTH, LENGTH], rel=1e-5
    )


def test_a_window_of_one_neighbour_keeps_heads_near() -> None:
    found = look(build_encoder(backbone="modern", local_attention=2, global_every=2))
    by_name = dict(zip(heads.PATTERNS, found.values.mean(axis=0).T, strict=True))
    local = np.array(found.layers) == 1
    near = by_name["self"] + by_name["previous"] + by_name["next"]
    assert near[local] == pytest.approx([1, 1])
    assert (near[~local] < 0.9).all()
    assert found.names == ("0.0", "0.1", "1.0", "1.1")


def test_the_same_token_elsewhere_is_seen() -> None:
    encoder = build_even()
    ids = torch.tensor([[2, 7, 8, 7, 9, 7, 3, 11]])
    found = heads.attention_patterns(encoder, ids, ids * 0, torch.zeros_like(ids, dtype=torch.bool), SEP)
    # Each of the three has two others, of eight that are looked at alike.
    assert found.values[0, :, heads.PATTERNS.index("same")] == pytest.approx(np.full(4, 3 * 2 / 8 / 8))


def test_the_keenest_head_is_the_highest_and_the_mean_is_of_all() -> None:
    values = np.zeros((10, 3, len(heads.PATTERNS)))
    values[:, 1, heads.PATTERNS.index("previous")] = 0.9
    looks = heads.HeadPatterns(values, (0, 0, 1), ("0.0", "0.1", "1.0"))
    assert heads.max_over_heads(looks, "previous", draws(0)).value == pytest.approx(0.9)
    assert heads.mean_over_heads(looks, "previous", draws(0)).value == pytest.approx(0.3)
