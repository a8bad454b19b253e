"""A disentangled table is the generator's plus a difference: the discriminator moves the difference alone."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import exaggerate, make_pair, make_rows

from electralab.model.electra import Electra, Generator, parameter_depths
from electralab.model.encoder import DisentangledTable
from electralab.model.folders.folder import load_network, save_network
from electralab.model.weight_transfer import transfer_weights
from electralab.training.optimizer import OptimizerConfig, group_parameters

ROWS = make_rows()
TABLE = "generator.encoder.embeddings.tokens.weight"
DELTA = "discriminator.encoder.embeddings.tokens.delta"
each_kind = pytest.mark.parametrize(
    "kind", [{"backbone": "electra"}, {"embedding_size": 48}, {}], ids=["electra", "factorised", "modern"]
)


def make_disentangled(kind: dict[str, Any]) -> Electra:
    return make_pair("tiny", sharing="disentangled", num_layers=2, **kind).eval()


@each_kind
def test_the_discriminators_loss_moves_the_difference_and_not_the_generators_table(kind: dict[str, Any]) -> None:
    pair = make_disentangled(kind)
    pair.discriminator(*ROWS).sum().backward()
    assert pair.get_parameter(TABLE).grad is None
    moved = pair.get_parameter(DELTA).grad
    assert moved is not None
    seen = set(ROWS[0].flatten().tolist())
    is_moved = moved.abs().sum(1) > 0
    assert {int(token) for token in is_moved.nonzero()} <= seen
    assert int(is_moved.sum()) > 20


@each_kind
def test_the_generators_loss_moves_its_table_and_not_the_difference(kind: dict[str, Any]) -> None:
    pair = make_disentangled(kind)
    pair.generator(*ROWS, torch.arange(9)).square().sum().backward()
    assert pair.get_parameter(DELTA).grad is None
    assert pair.get_parameter(TABLE).grad is not None


@each_kind
@torch.no_grad()
def test_it_starts_as_a_shared_table(kind: dict[str, Any]) -> None:
    pair, plain = make_disentangled(kind), make_pair("tiny", sharing="token", num_layers=2, **kind).eval()
    for name, parameter in plain.named_parameters():
        other = TABLE if name.endswith("embeddings.tokens.weight") else name
        parameter.copy_(pair.get_parameter(other))
    assert torch.equal(pair.discriminator(*ROWS), plain.discriminator(*ROWS))
    assert torch.equal(pair.generator(*ROWS, torch.arange(72)), plain.generator(*ROWS, torch.arange(72)))


@torch.no_grad()
def test_the_discriminator_follows_the_generators_table_and_keeps_its_difference() -> None:
    pair = make_disentangled({})
    exaggerate(pair)
    tokens = pair.discriminator.encoder.embeddings.tokens
    assert isinstance(tokens, DisentangledTable)
    expected = pair.get_parameter(TABLE) + pair.get_parameter(DELTA)
    assert torch.equal(tokens.weight, expected)
    assert torch.equal(tokens(ROWS[0]), expected[ROWS[0]])
    pair.get_parameter(TABLE).add_(1)
    assert torch.allclose(tokens.weight, expected + 1)


def test_each_parameter_is_listed_and_stepped_once() -> None:
    pair = make_disentangled({})
    names = [name for name, _ in pair.named_parameters()]
    assert [name for name in names if "embeddings.tokens" in name] == [DELTA, TABLE]
    depths = parameter_depths(pair)
    assert depths[DELTA] == depths[TABLE] == 0
    groups = group_parameters(pair.named_parameters(), depths, frozenset(), OptimizerConfig())
    assert sorted(name for group in groups for name, _ in group.parameters) == sorted(names)


@each_kind
@torch.no_grad()
def test_named_parameters_are_the_whole_state(kind: dict[str, Any]) -> None:
    """As a checkpoint does: each parameter by its first name, into a pair built anew."""
    pair, again = make_disentangled(kind), make_disentangled(kind)
    exaggerate(pair)
    for name, parameter in again.named_parameters():
        parameter.copy_(pair.get_parameter(name))
    assert torch.equal(again.discriminator(*ROWS), pair.discriminator(*ROWS))


@torch.no_grad()
def test_a_copy_of_the_pair_follows_its_own_generator() -> None:
    pair = make_disentangled({})
    other = copy.deepcopy(pair)
    before = pair.discriminator(*ROWS)
    other.get_parameter(TABLE).add_(torch.randn(100, 128))
    assert torch.equal(pair.discriminator(*ROWS), before)
    assert not torch.allclose(other.discriminator(*ROWS), before)


@each_kind
@torch.no_grad()
def test_a_folder_has_one_table_and_a_new_pair_can_start_from_it(kind: dict[str, Any], tmp_path: Path) -> None:
    pair = make_disentangled(kind)
    exaggerate(pair)
    save_network(tmp_path, pair.discriminator, pad_id=0, cls_id=2, sep_id=3)
    loaded = load_network(tmp_path)
    assert isinstance(loaded.encoder.embeddings.tokens, torch.nn.Embedding)
    expected = pair.discriminator(*ROWS)
    assert torch.allclose(loaded(*ROWS), expected, rtol=1e-4, atol=1e-4)
    fresh = make_disentangled(kind)
    lost = transfer_weights(fresh.discriminator, loaded, "here")
    assert lost < 1e-5
    assert torch.allclose(fresh.discriminator(*ROWS), expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_a_folder_of_our_own_has_one_table_too(tmp_path: Path) -> None:
    pair = make_disentangled({"adaptive_norm": True})
    exaggerate(pair)
    save_network(tmp_path, pair.discriminator, pad_id=0)
    assert torch.allclose(load_network(tmp_path)(*ROWS), pair.discriminator(*ROWS), rtol=1e-4, atol=1e-4)


def test_positions_segments_and_norm_are_each_networks_own() -> None:
    pair = make_disentangled({"backbone": "electra"})
    assert isinstance(pair.generator, Generator)
    ours, theirs = pair.generator.encoder.embeddings, pair.discriminator.encoder.embeddings
    assert ours.positions is not theirs.positions
    assert ours.segments is not theirs.segments
    assert ours.norm is not theirs.norm
