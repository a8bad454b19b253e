"""Layers that share their weights are copies of one layer that stay copies: in depth, in training, in a folder."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from networks import exaggerate, make_pair, make_rows
from torch import Tensor

from electralab.model.electra import Discriminator, build_electra, parameter_depths
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import load_encoder, load_network, save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.model.weight_transfer import transfer_weights
from electralab.training.optimizer import OptimizerConfig, group_parameters

ROWS = make_rows()
WINDOWS = {"local_attention": 8, "global_every": 2}
KINDS = [{"backbone": "electra"}, {"backbone": "modern"} | WINDOWS]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=["electra", "modern"])


def make_shared(kind: dict[str, Any], num_layers: int = 3) -> Discriminator:
    pair = make_pair("tiny", share_layers=True, num_layers=num_layers, **kind)
    exaggerate(pair)
    return pair.discriminator.eval()


def unshare(encoder: Encoder) -> Encoder:
    """The slow twin: layers of their own, each with a copy of the weights."""
    twin = Encoder(encoder.config.model_copy(update={"share_layers": False}))
    for name, parameter in twin.named_parameters():
        part = name.split(".")
        if part[0] == "layers":
            part[1] = "1" if encoder.config.is_modern and part[2] == "attention_norm" else "0"
        parameter.data.copy_(encoder.get_parameter(".".join(part)))
    return twin.eval()


@each_kind
@torch.no_grad()
def test_a_shared_network_is_the_one_with_copies(kind: dict[str, Any]) -> None:
    encoder = make_shared(kind).encoder
    assert torch.equal(encoder(*ROWS), unshare(encoder)(*ROWS))


@each_kind
def test_the_gradient_is_the_sum_over_the_copies(kind: dict[str, Any]) -> None:
    encoder = make_shared(kind).encoder
    twin = unshare(encoder)
    for network in (encoder, twin):
        network(*ROWS).square().mean().backward()
    name = "feedforward.up.weight"
    copies = [layer.get_parameter(name).grad for layer in twin.layers]
    shared = encoder.layers[0].get_parameter(name).grad
    assert shared is not None
    expected = torch.zeros_like(shared)
    for one in copies:
        assert one is not None
        expected += one
    assert torch.allclose(shared, expected, rtol=1e-4, atol=1e-6)


@each_kind
def test_depth_adds_no_parameters(kind: dict[str, Any]) -> None:
    def count(num_layers: int) -> int:
        return sum(parameter.numel() for parameter in make_shared(kind, num_layers).parameters())

    assert count(2) == count(5)
    assert make_shared(kind, 1)(*ROWS).shape == (3, 24)


@each_kind
def test_every_weight_is_listed_once_and_stands_where_the_last_layer_does(kind: dict[str, Any]) -> None:
    pair = make_pair("tiny", share_layers=True, num_layers=3, **kind)
    depths = parameter_depths(pair)
    assert {depth for name, depth in depths.items() if ".layers." in name} == {3}
    groups = group_parameters(pair.named_parameters(), depths, frozenset(), OptimizerConfig())
    names = [name for group in groups for name, _ in group.parameters]
    assert sorted(names) == sorted(depths)


def test_both_networks_of_a_pair_share_their_layers_if_of_different_depths_too() -> None:
    model = ModelConfig(share_layers=True, num_layers=4, hidden_size=64, num_heads=2)
    pair = build_electra(model, GeneratorConfig(depth_share=0.5), vocab_size=50, sequence_length=16, seed=1)
    for network in (pair.discriminator, pair.generator):
        layers = {name.split(".")[2] for name, _ in network.named_parameters() if name.startswith("encoder.layers.")}
        assert layers == {"0"}


@each_kind
@torch.no_grad()
def test_a_folder_of_copies_is_read_as_shared_again(kind: dict[str, Any], tmp_path: Path) -> None:
    network = make_shared(kind)
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
    loaded = load_network(tmp_path)
    assert loaded.config.share_layers
    assert torch.allclose(loaded(*ROWS), network(*ROWS), rtol=1e-4, atol=1e-4)
    assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in network.named_parameters()]
    layers = load_encoder(tmp_path).layers
    assert layers[0].feedforward is layers[2].feedforward
    again = make_pair("tiny", share_layers=True, num_layers=3, **kind).discriminator.eval()
    transfer_weights(again, loaded, "here")
    assert torch.equal(again(*ROWS), loaded(*ROWS))


@each_kind
@torch.no_grad()
def test_copies_that_were_trained_apart_are_layers_of_their_own(kind: dict[str, Any], tmp_path: Path) -> None:
    network = make_shared(kind)
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
    path = tmp_path / "model.safetensors"
    tensors: dict[str, Tensor] = safetensors.torch.load_file(path)
    changed = next(name for name in sorted(tensors) if ".2." in name)
    tensors[changed] = tensors[changed] * 2
    path.unlink()
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    loaded = load_network(tmp_path)
    assert not loaded.config.share_layers
    assert not torch.allclose(loaded(*ROWS), network(*ROWS), atol=1e-3)
