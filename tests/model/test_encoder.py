"""What may change what: padding, neighbours, segments, order."""

from typing import Any

import pytest
import torch
from networks import exaggerate, make_pair, make_rows
from torch import Tensor

from electralab.model.attention import build_attention_mask
from electralab.model.encoder import Encoder, HiddenStates
from electralab.model.settings import EncoderConfig

BACKBONES = ["electra", "modern"]


def make_encoder(backbone: str, **changes: Any) -> Encoder:
    encoder = make_pair("tiny", backbone=backbone, **changes).discriminator.encoder
    exaggerate(encoder)
    return encoder.eval()


def encode(encoder: Encoder, input_ids: Tensor, is_pad: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        states: Tensor = encoder(input_ids, torch.zeros_like(input_ids), is_pad)
    return states


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("network", ["generator", "discriminator"])
def test_padding_changes_no_answer_of_either_network(backbone: str, network: str) -> None:
    """A missing padding mask in one of the two is a classic."""
    pair = make_pair("tiny", backbone=backbone)
    exaggerate(pair)
    encoder = getattr(pair.eval(), network).encoder
    input_ids = torch.tensor([[5, 6, 7, 8]])
    padded = torch.tensor([[5, 6, 7, 8, 0, 0, 0]])
    alone = encode(encoder, input_ids)
    assert torch.allclose(encode(encoder, padded, padded == 0)[:, :4], alone, atol=1e-5)
    assert not torch.allclose(encode(encoder, padded)[:, :4], alone, atol=1e-2)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_what_stands_in_the_padding_does_not_matter(backbone: str) -> None:
    encoder = make_encoder(backbone)
    is_pad = torch.tensor([[False, False, True, True]])
    first = encode(encoder, torch.tensor([[5, 6, 0, 0]]), is_pad)
    second = encode(encoder, torch.tensor([[5, 6, 41, 17]]), is_pad)
    assert torch.equal(first[:, :2], second[:, :2])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_no_padding_said_in_either_way_is_the_same(backbone: str) -> None:
    encoder = make_encoder(backbone)
    input_ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    masked = encode(encoder, input_ids, torch.zeros_like(input_ids, dtype=torch.bool))
    assert torch.allclose(masked, encode(encoder, input_ids), atol=1e-5)


@pytest.mark.parametrize(("backbone", "changes"), [("electra", {}), ("modern", {}), ("modern", {"local_attention": 2})])
def test_a_row_of_nothing_but_padding_is_finite_and_so_are_its_gradients(
    backbone: str, changes: dict[str, Any]
) -> None:
    encoder = make_encoder(backbone, **changes).train()
    is_pad = torch.tensor([[False, False, False, True, True, True], [True] * 6])
    states = encoder(torch.full((2, 6), 5), torch.zeros(2, 6, dtype=torch.long), is_pad)
    states.sum().backward()
    assert states.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in encoder.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_order_matters(backbone: str) -> None:
    encoder = make_encoder(backbone)
    forwards, backwards = (encode(encoder, torch.tensor([row])) for row in ([5, 6, 7, 8], [8, 7, 6, 5]))
    assert not torch.allclose(forwards, backwards.flip(1), atol=1e-2)


def test_segments_matter_on_electra_and_do_not_exist_on_modern() -> None:
    input_ids, segment_ids, is_pad = make_rows()
    for backbone in BACKBONES:
        encoder = make_encoder(backbone)
        first, second = (
            encoder(input_ids, segments, is_pad) for segments in (segment_ids, torch.zeros_like(input_ids))
        )
        assert torch.equal(first, second) == (backbone == "modern")


def test_rotary_positions_see_distances_only() -> None:
    """One layer without the padding's help: shifting a row inside itself shifts its states."""
    encoder = make_encoder("modern", num_layers=1)
    input_ids = torch.tensor([[0, 0, 0, 5, 6, 7]])
    shifted = torch.tensor([[5, 6, 7, 0, 0, 0]])
    first, second = encode(encoder, input_ids, input_ids == 0), encode(encoder, shifted, shifted == 0)
    assert torch.allclose(first[:, 3:], second[:, :3], atol=1e-4)


def test_a_local_layer_sees_half_a_window_to_each_side() -> None:
    is_visible = build_attention_mask(6, 4, None)
    assert is_visible is not None
    assert is_visible.int().tolist() == [
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 0],
        [0, 1, 1, 1, 1, 1],
        [0, 0, 1, 1, 1, 1],
        [0, 0, 0, 1, 1, 1],
    ]


def test_where_all_see_all_no_mask_is_built() -> None:
    assert build_attention_mask(6, 0, None) is None
    assert build_attention_mask(3, 4, None) is None


def test_every_nth_layer_from_the_first_is_global() -> None:
    config = make_pair("tiny", num_layers=7, local_attention=8, global_every=3).discriminator.config
    assert [config.is_local(index) for index in range(7)] == [False, True, True, False, True, True, False]


def test_a_trace_holds_every_named_intermediate_and_the_answer_is_the_same() -> None:
    input_ids, segment_ids, is_pad = make_rows()
    encoder = make_encoder("modern")
    trace: HiddenStates = {}
    states = encoder(input_ids, segment_ids, is_pad, trace)
    assert list(trace) == ["embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "states"]
    assert trace["states"] is states
    assert torch.equal(states, encoder(input_ids, segment_ids, is_pad))


def test_a_row_longer_than_the_network_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="65 positions"):
        encode(make_encoder("modern"), torch.zeros(1, 65, dtype=torch.long))


def test_heads_that_do_not_divide_the_hidden_size_are_refused() -> None:
    good = make_pair("tiny").discriminator.config.model_dump()
    with pytest.raises(ValueError, match="hidden size of 128 does not divide into 3 heads"):
        EncoderConfig(**good | {"num_heads": 3})
    with pytest.raises(ValueError, match="even number of coordinates per head, not 1"):
        EncoderConfig(**good | {"num_heads": 128})


def test_dropout_acts_in_training_only() -> None:
    input_ids = torch.arange(20)[None]
    for backbone in BACKBONES:
        encoder = make_encoder(backbone, dropout=0.5)
        assert torch.equal(encode(encoder, input_ids), encode(encoder, input_ids))
        encoder.train()
        assert not torch.equal(encode(encoder, input_ids), encode(encoder, input_ids))
