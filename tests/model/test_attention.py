"""Queries and keys of one length: what the norm promises, against the formula, and where it starts."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import exaggerate, make_pair, make_rows, tiny_config
from pydantic import ValidationError
from torch import Tensor

from electralab.errors import UsageError
from electralab.model.attention import WINDOW, Attention, RotaryTable, measure_discrepancies, rotate
from electralab.model.settings import GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.weights import init_weights
from electralab.training.optimizer import OptimizerConfig, group_parameters

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


# -------------------- Discrepancy attention: what is measured, how it enters the scores, and that it starts as n

each_backbone = pytest.mark.parametrize("backbone", ["electra", "modern"])


def measure_slowly(states: Tensor, is_pad: Tensor) -> Tensor:
    """The slow twin: row by row, token by token."""
    found = torch.zeros(states.shape[:2])
    for row in range(states.shape[0]):
        for column in range(states.shape[1]):
            near = range(max(0, column - WINDOW), min(states.shape[1], column + WINDOW + 1))
            others = [states[row, other] for other in near if other != column and not is_pad[row, other]]
            if others and not is_pad[row, column]:
                mean, state = torch.stack(others).mean(0), states[row, column]
                found[row, column] = 1 - float(state @ mean) / (float(state.norm()) * float(mean.norm()))
    return found


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), length=st.integers(1, 40), padded=st.booleans())
def test_discrepancies_are_those_of_the_slow_twin(seed: int, length: int, padded: bool) -> None:
    rng = torch.Generator().manual_seed(seed)
    states = torch.randn(2, length, 6, generator=rng)
    is_pad = torch.rand(2, length, generator=rng) < (0.5 if padded else 0.0)
    found = measure_discrepancies(states, is_pad if padded else None)
    assert torch.allclose(found, measure_slowly(states, is_pad), atol=1e-4)


def test_a_stranger_among_equals_is_seen_and_padding_is_not() -> None:
    states = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 9.0]]])
    is_pad = torch.tensor([[False, False, False, False, True]])
    found = measure_discrepancies(states, is_pad)[0]
    assert found[2] == 1.0  # at right angles to all others
    # Two like itself and one at right angles: the angle to (2, 1).
    assert torch.allclose(found[[0, 1, 3]], torch.tensor(1 - 2 / math.sqrt(5)), atol=1e-6)
    assert found[4] == 0.0


def test_a_token_alone_has_no_discrepancy() -> None:
    states = torch.randn(1, 30, 4)
    is_pad = torch.ones(1, 30, dtype=torch.bool)
    is_pad[0, [0, 20]] = False  # out of each other's sight
    assert torch.equal(measure_discrepancies(states, is_pad), torch.zeros(1, 30))


@torch.no_grad()
def test_scores_are_raised_by_weight_times_discrepancy() -> None:
    size, heads, per_head = 8, 2, 4
    attention = Attention(tiny_config("electra", discrepancy_attention=True), heads).eval()
    init_weights(attention, seed=1)
    exaggerate(attention)
    states = torch.randn(1, 5, size, generator=torch.Generator().manual_seed(5))
    is_pad = torch.tensor([[False, False, False, False, True]])
    weights = attention.discrepancy_weights
    assert weights is not None
    discrepancies = measure_slowly(states, is_pad)[0]
    queries, keys, values = attention.qkv(states)[0].split(size, dim=-1)
    mixed = torch.zeros(5, size)
    for head in range(heads):
        part = slice(head * per_head, (head + 1) * per_head)
        for i in range(5):
            scores = [
                float(queries[i, part] @ keys[j, part]) / 2 + float(weights[head] * discrepancies[j]) for j in range(4)
            ]
            mixed[i, part] = torch.tensor(scores).softmax(0) @ values[:4, part]
    expected = attention.output(mixed)
    found = attention(states, None, ~is_pad[:, None, None], is_pad=is_pad)
    assert torch.allclose(found[0], expected, atol=1e-5)
    first = attention(states, None, ~is_pad[:, None, None], True, is_pad)
    assert torch.allclose(first[0], expected[:1], atol=1e-5)


@each_backbone
@torch.no_grad()
def test_it_starts_as_plain_electra_bit_for_bit(backbone: str) -> None:
    plain = make_pair("tiny", backbone=backbone).discriminator.eval()
    other = make_pair("tiny", backbone=backbone, discrepancy_attention=True).discriminator.eval()
    exaggerate(plain)
    for name, parameter in plain.named_parameters():
        other.get_parameter(name).copy_(parameter)
    verdicts = plain(*ROWS)
    assert torch.equal(other(*ROWS), verdicts)
    for layer in other.encoder.layers:
        layer.get_parameter("attention.discrepancy_weights").fill_(2.0)
    assert not torch.allclose(other(*ROWS), verdicts, atol=0.01)


@each_backbone
@torch.no_grad()
def test_padding_changes_nothing(backbone: str) -> None:
    network = make_pair("tiny", backbone=backbone, discrepancy_attention=True, num_layers=2).discriminator.eval()
    exaggerate(network)
    input_ids, segment_ids, is_pad = ROWS
    alone = network(input_ids[1:2, :17], segment_ids[1:2, :17], None)
    assert torch.allclose(network(input_ids, segment_ids, is_pad)[1:2, :17], alone, atol=1e-4)


@each_backbone
@torch.no_grad()
def test_the_first_state_alone_is_the_first_of_all(backbone: str) -> None:
    encoder = make_pair("tiny", backbone=backbone, discrepancy_attention=True).discriminator.eval().encoder
    exaggerate(encoder)
    assert torch.allclose(encoder(*ROWS, first_only=True), encoder(*ROWS)[:, :1], atol=1e-4)


def test_the_weights_learn_and_are_neither_decayed_nor_orthogonalised() -> None:
    pair = make_pair("tiny", discrepancy_attention=True, num_layers=2)
    pair.discriminator(*ROWS).square().sum().backward()
    names = [name for name, _ in pair.named_parameters() if name.endswith("discrepancy_weights")]
    assert names == [f"discriminator.encoder.layers.{index}.attention.discrepancy_weights" for index in (0, 1)]
    for name in names:
        moved = pair.get_parameter(name).grad
        assert moved is not None
        assert moved.abs().min() > 0
    matrices = frozenset(name for name, one in pair.named_parameters() if one.ndim == 2 and ".layers." in name)
    groups = group_parameters(
        pair.named_parameters(),
        dict.fromkeys((name for name, _ in pair.named_parameters()), 0),
        matrices,
        OptimizerConfig(kind="muon"),
    )
    group = next(group for group in groups if names[0] in dict(group.parameters))
    assert (group.method, group.weight_decay) == ("adamw", 0.0)


def test_the_options_are_the_discriminators_unless_everything_is_shared() -> None:
    options: dict[str, Any] = {"discrepancy_attention": True, "adaptive_norm": True}
    sizes = {"vocab_size": 50, "sequence_length": 16}
    guessing, judging = derive_encoders(ModelConfig(**options), GeneratorConfig(), **sizes)
    assert (guessing.discrepancy_attention, guessing.adaptive_norm) == (False, False)
    assert (judging.discrepancy_attention, judging.adaptive_norm) == (True, True)
    same = GeneratorConfig(width_share=1.0)
    guessing, judging = derive_encoders(ModelConfig(**options, sharing="everything"), same, **sizes)
    assert guessing == judging
    assert guessing.adaptive_norm


def test_a_causal_network_must_not_measure_what_comes() -> None:
    _, judging = derive_encoders(ModelConfig(), GeneratorConfig(), vocab_size=50, sequence_length=16)
    with pytest.raises(ValidationError, match="looks at both sides of a token, which a causal network must not"):
        type(judging)(**judging.model_dump() | {"is_causal": True, "discrepancy_attention": True})
    shared = ModelConfig(discrepancy_attention=True, sharing="everything")
    with pytest.raises(UsageError, match="looks at both sides"):
        derive_encoders(shared, GeneratorConfig(kind="causal", width_share=1.0), vocab_size=50, sequence_length=16)


def test_padding_and_lonely_tokens_have_a_gradient_of_zero_not_of_nothing() -> None:
    states = torch.randn(2, 6, 4, requires_grad=True)
    is_pad = torch.tensor([[True] * 6, [False] + [True] * 5])
    measure_discrepancies(states, is_pad).sum().backward()  # type: ignore[no-untyped-call]
    assert states.grad is not None
    assert torch.equal(states.grad, torch.zeros(2, 6, 4))
