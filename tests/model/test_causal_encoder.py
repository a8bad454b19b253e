"""A causal network sees what came before: nothing later changes a state, and everything earlier may."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import exaggerate, make_pair
from torch import Tensor

from electralab.model.attention import build_attention_mask
from electralab.model.electra import Generator
from electralab.model.encoder import Encoder
from electralab.model.settings import EncoderConfig
from electralab.model.weights import init_weights

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("electra", {}),
    ("modern", {}),
    ("modern", {"local_attention": 6, "global_every": 2}),
]


def make_causal(backbone: str, **changes: Any) -> EncoderConfig:
    values = make_pair("tiny", backbone=backbone, num_layers=3, **changes).discriminator.config.model_dump()
    return EncoderConfig(**values | {"is_causal": True})


def make_encoder(config: EncoderConfig) -> Encoder:
    encoder = Encoder(config)
    init_weights(encoder, 1)
    exaggerate(encoder)
    return encoder.eval()


def encode(encoder: Encoder, input_ids: Tensor, is_pad: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        states: Tensor = encoder(input_ids, torch.zeros_like(input_ids), is_pad)
    return states


ENCODERS = [make_encoder(make_causal(backbone, **changes)) for backbone, changes in KINDS]


@pytest.mark.parametrize("encoder", ENCODERS, ids=["electra", "modern", "modern, local"])
@given(row=st.lists(st.integers(1, 99), min_size=2, max_size=16), place=st.integers(0, 15), padding=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_token_changes_its_own_state_and_no_earlier_one(
    encoder: Encoder, row: list[int], place: int, padding: int
) -> None:
    place %= len(row)
    first = torch.tensor([row + padding * [0]])
    is_pad = torch.arange(first.shape[1])[None] >= len(row) if padding else None
    second = first.clone()
    second[0, place] = 1 + row[place] % 99
    before, after = encode(encoder, first, is_pad), encode(encoder, second, is_pad)
    assert torch.allclose(before[:, :place], after[:, :place], atol=1e-5)
    assert not torch.allclose(before[:, place], after[:, place], atol=1e-3)


@pytest.mark.parametrize("encoder", ENCODERS, ids=["electra", "modern", "modern, local"])
def test_a_prefix_alone_has_the_states_it_has_in_its_row(encoder: Encoder) -> None:
    row = torch.arange(1, 13)[None]
    for length in (1, 2, 5, 12):
        assert torch.allclose(encode(encoder, row[:, :length]), encode(encoder, row)[:, :length], atol=1e-4)


@pytest.mark.parametrize("encoder", ENCODERS, ids=["electra", "modern", "modern, local"])
def test_padding_at_the_end_changes_nothing(encoder: Encoder) -> None:
    row = torch.arange(1, 9)[None]
    padded = torch.cat([row, torch.zeros(1, 4, dtype=torch.long)], dim=1)
    assert torch.allclose(encode(encoder, padded, padded == 0)[:, :8], encode(encoder, row), atol=1e-4)


def test_a_causal_window_is_the_last_half_window_with_the_position_itself() -> None:
    is_visible = build_attention_mask(5, 4, None, is_causal=True)
    assert is_visible is not None
    assert is_visible.int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 1, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1],
    ]


def test_where_all_see_all_that_came_before_no_mask_is_built() -> None:
    assert build_attention_mask(6, 0, None, is_causal=True) is None
    assert build_attention_mask(2, 4, None, is_causal=True) is None
    assert build_attention_mask(6, 0, torch.zeros(1, 6, dtype=torch.bool), is_causal=True) is not None


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_window_is_where_the_row_is(is_causal: bool) -> None:
    is_visible = build_attention_mask(6, 4, None, is_causal, torch.device("meta"))
    assert is_visible is not None
    assert is_visible.is_meta


def test_a_causal_window_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves a position nothing to see"):
        make_causal("modern", local_attention=1)


def test_a_causal_generator_answers_from_the_position_before() -> None:
    generator = Generator(make_causal("modern")).eval()
    init_weights(generator, 1)
    exaggerate(generator)
    rows = torch.randint(1, 100, (2, 7), generator=torch.Generator().manual_seed(1))
    segments = torch.zeros_like(rows)
    guesses = generator(rows, segments, None, torch.tensor([3, 7 + 6]))
    states = generator.encoder(rows, segments, None)
    twin = torch.stack(
        [generator.head(states[row, column - 1], generator.encoder.embeddings) for row, column in [(0, 3), (1, 6)]]
    )
    assert torch.allclose(guesses, twin, atol=1e-5)
    assert not generator.reads_masked
    assert Generator(generator.config.model_copy(update={"is_causal": False})).reads_masked


def test_the_first_token_of_a_row_cannot_be_asked_for() -> None:
    generator = Generator(make_causal("modern"))
    init_weights(generator, 1)
    rows = torch.ones(2, 7, dtype=torch.long)
    with pytest.raises(AssertionError, match="nothing stands before"):
        generator(rows, rows, None, torch.tensor([3, 7]))
