import math

import pytest
import torch
from networks import make_pair

from electralab.model.electra import build_electra
from electralab.model.settings import SIZES, GeneratorConfig, ModelConfig


def test_the_same_seed_draws_the_same_weights_and_another_seed_others() -> None:
    model, generator = ModelConfig(**SIZES["tiny"]["model"]), GeneratorConfig()
    first, again, other = (
        build_electra(model, generator, vocab_size=50, sequence_length=8, seed=seed).state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(*(weights["discriminator.head.dense.weight"] for weights in (first, other)))


def test_drawing_weights_leaves_torchs_own_randomness_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make_pair("tiny")
    assert torch.equal(torch.rand(3), expected)


def test_sharing_does_not_change_the_discriminators_first_weights() -> None:
    apart, together = make_pair("tiny", sharing="none"), make_pair("tiny", sharing="embeddings")
    theirs = together.discriminator.state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in apart.discriminator.state_dict().items())


def test_weights_follow_a_normal_cut_off_at_two_deviations() -> None:
    table = make_pair("small", vocab_size=5000).discriminator.encoder.embeddings.tokens.weight.detach() / 0.02
    assert table.abs().max() <= 2 + 1e-6
    within_one = math.erf(1 / math.sqrt(2)) / math.erf(2 / math.sqrt(2))
    assert (table.abs() < 1).float().mean().item() == pytest.approx(within_one, abs=0.003)
    assert table.mean().item() == pytest.approx(0, abs=0.005)


def test_biases_begin_at_zero_and_norms_at_one() -> None:
    for name, parameter in make_pair("small").named_parameters():
        if parameter.dim() == 1:
            assert torch.equal(parameter, torch.full_like(parameter, float("norm.weight" in name)))


def test_no_matrix_is_left_unset() -> None:
    for name, parameter in make_pair("tiny").named_parameters():
        if parameter.dim() == 2:
            assert 0 < parameter.std() < 0.2, name


def test_zero_initialised_outputs_leave_the_residual_stream_as_the_embeddings_wrote_it() -> None:
    pair = make_pair("tiny", zero_init_outputs=True)
    trace: dict[str, torch.Tensor] = {}
    input_ids = torch.arange(10)[None]
    pair.discriminator(input_ids, torch.zeros_like(input_ids), None, trace)
    assert torch.equal(trace["layers.3"], trace["embeddings"])


def test_by_the_rule_of_fan_in_matrices_are_as_wide_as_their_inputs_ask_and_the_verdict_begins_at_zero() -> None:
    pair = make_pair("tiny", init_rule="fan-in", zero_init_outputs=True, hidden_size=128, num_layers=1)
    first = dict(pair.discriminator.named_parameters())
    # A normal cut off at two deviations is narrower by this factor.
    expected = 0.5 / math.sqrt(128) * 0.8796
    assert first["encoder.layers.0.attention.qkv.weight"].std().item() == pytest.approx(expected, rel=0.05)
    assert first["encoder.layers.0.feedforward.up.weight"].std().item() == pytest.approx(expected, rel=0.05)
    assert first["encoder.embeddings.tokens.weight"].std().item() == pytest.approx(0.02 * 0.8796, rel=0.05)
    assert not first["encoder.layers.0.attention.output.weight"].any()
    assert not first["head.verdict.weight"].any()
