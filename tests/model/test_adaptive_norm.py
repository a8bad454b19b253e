"""Adaptive norms: a plain norm, plus a change for what looks replaced."""

import math

import pytest
import torch
from networks import exaggerate, make_pair, make_rows
from torch import Tensor, nn

from electralab.model.encoder import AdaptiveNorm
from electralab.model.weights import init_weights

ROWS = make_rows()
each_backbone = pytest.mark.parametrize("backbone", ["electra", "modern"])


def norm_slowly(norm: AdaptiveNorm, state: Tensor) -> list[float]:
    """The slow twin: one token, coordinate by coordinate."""
    values = state.tolist()
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values) + norm.eps)
    normed = [(value - mean) / deviation for value in values]
    logit = sum(u * z for u, z in zip(norm.guess_weight.tolist(), normed, strict=True)) + float(norm.guess_bias)
    guess = 1 / (1 + math.exp(-logit))
    none = [0.0] * len(values)
    bias = none if norm.bias is None else norm.bias.tolist()
    bias_delta = none if norm.bias_delta is None else norm.bias_delta.tolist()
    return [
        z * (gamma + guess * delta) + beta + guess * change
        for z, gamma, delta, beta, change in zip(
            normed, norm.weight.tolist(), norm.weight_delta.tolist(), bias, bias_delta, strict=True
        )
    ]


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_a_norm_is_that_of_the_slow_twin(bias: bool) -> None:
    norm = AdaptiveNorm(6, eps=1e-5, bias=bias)
    exaggerate(norm)
    states = 3 + 2 * torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1))
    found = norm(states)
    for row in range(2):
        for column in range(4):
            expected = torch.tensor(norm_slowly(norm, states[row, column]))
            assert torch.allclose(found[row, column], expected, atol=1e-5)


def test_a_new_one_is_a_plain_norm_bit_for_bit() -> None:
    norm, plain = AdaptiveNorm(6, eps=1e-5, bias=True), nn.LayerNorm(6, eps=1e-5)
    init_weights(nn.ModuleDict({"norm": norm}), seed=1)
    states = torch.randn(2, 4, 6)
    assert torch.equal(norm(states), plain(states))


@each_backbone
@torch.no_grad()
def test_it_starts_as_plain_electra_bit_for_bit(backbone: str) -> None:
    plain = make_pair("tiny", backbone=backbone).discriminator.eval()
    other = make_pair("tiny", backbone=backbone, adaptive_norm=True).discriminator.eval()
    exaggerate(plain)
    for name, parameter in plain.named_parameters():
        other.get_parameter(name).copy_(parameter)
    verdicts = plain(*ROWS)
    assert torch.equal(other(*ROWS), verdicts)
    other.encoder.layers[1].get_parameter("feedforward_norm.weight_delta").fill_(1.0)
    assert not torch.allclose(other(*ROWS), verdicts, atol=0.01)


@each_backbone
def test_the_norms_of_the_layers_adapt_and_those_of_embeddings_and_heads_do_not(backbone: str) -> None:
    network = make_pair("tiny", backbone=backbone, adaptive_norm=True, num_layers=2).discriminator
    adaptive = {name for name, module in network.named_modules() if isinstance(module, AdaptiveNorm)}
    first, last = ("encoder.layers.0.attention_norm", "encoder.final_norm")
    expected = {f"encoder.layers.{index}.{norm}_norm" for index in (0, 1) for norm in ("attention", "feedforward")}
    assert adaptive == (expected - {first} | {last} if backbone == "modern" else expected)
    assert all(parameter.ndim == 1 for name, parameter in network.named_parameters() if "_norm." in name)


@each_backbone
def test_the_guess_learns_once_the_change_is_not_zero(backbone: str) -> None:
    network = make_pair("tiny", backbone=backbone, adaptive_norm=True, num_layers=2).discriminator
    name = "encoder.layers.1.feedforward_norm."
    network(*ROWS).square().sum().backward()
    first = network.get_parameter(f"{name}weight_delta").grad
    assert first is not None
    assert first.abs().max() > 0
    with torch.no_grad():
        network.get_parameter(f"{name}weight_delta").sub_(first)
    network.zero_grad()
    network(*ROWS).square().sum().backward()
    second = network.get_parameter(f"{name}guess_weight").grad
    assert second is not None
    assert second.abs().max() > 0
