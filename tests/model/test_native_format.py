"""What no class of transformers expresses is saved under our own names and comes back whole, or is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from networks import exaggerate, make_pair, make_rows

from electralab.errors import ElectraError
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import (
    Storage,
    load_any,
    load_encoder,
    load_network,
    load_task_model,
    save_network,
)
from electralab.model.folders.hf_config import is_expressible
from electralab.model.folders.native_format import export_own_config, export_own_weights, import_own
from electralab.model.task_model import HeadConfig, build_task_model

ROWS = make_rows()
OWN = {"discrepancy_attention": True, "adaptive_norm": True}


def make_own(backbone: str, **model: Any) -> Discriminator:
    pair = make_pair("tiny", backbone=backbone, num_layers=2, **(OWN | model))
    exaggerate(pair)
    return pair.discriminator.eval()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_network(tmp_path / "model", make_own("electra"), pad_id=0, cls_id=2, sep_id=3)
    return tmp_path / "model"


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["electralab_network"] |= changes
    path.write_text(json.dumps(config))


def refusal(folder: Path) -> str:
    with pytest.raises(ElectraError) as caught:
        load_network(folder)
    sentence = str(caught.value)
    assert sentence.startswith(str(folder))
    assert "\n" not in sentence
    return sentence


PLAIN = {"discrepancy_attention": False, "adaptive_norm": False}


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@pytest.mark.parametrize("option", [{}, PLAIN | {"qk_norm": True}, PLAIN | {"verdict_adds_cls": True}], ids=str)
def test_a_network_of_our_own_comes_back_bit_for_bit(backbone: str, option: dict[str, bool], tmp_path: Path) -> None:
    network = make_own(backbone, **option)
    assert not is_expressible(network)
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
    loaded = load_network(tmp_path)
    assert isinstance(loaded, Discriminator)
    assert loaded.config == network.config
    assert torch.equal(loaded(*ROWS), network(*ROWS))
    assert torch.equal(load_encoder(tmp_path)(*ROWS), network.encoder(*ROWS))
    assert isinstance(load_any(tmp_path), Discriminator)


@pytest.mark.parametrize("storage", ["fp16", "bf16"])
@pytest.mark.parametrize("role", ["discriminator", "generator"])
@pytest.mark.parametrize("is_own", [False, True])
def test_weights_stored_in_16_bits_are_computed_with_in_32(
    storage: Storage, role: str, is_own: bool, tmp_path: Path
) -> None:
    """Loaded weights are the stored ones, and answers those of a folder of 32 bits with the same rounded values."""
    pair = make_pair("tiny", num_layers=2, qk_norm=is_own)
    exaggerate(pair)
    network = getattr(pair, role).eval()
    save_network(tmp_path / "half", network, pad_id=0, cls_id=2, sep_id=3, storage=storage)
    stored = safetensors.torch.load_file(tmp_path / "half" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {{"fp16": torch.float16, "bf16": torch.bfloat16}[storage]}
    half = load_network(tmp_path / "half")
    assert {parameter.dtype for parameter in half.parameters()} == {torch.float32}
    (tmp_path / "whole").mkdir()
    cast = {name: tensor.float() for name, tensor in stored.items()}
    safetensors.torch.save_file(cast, tmp_path / "whole" / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(tmp_path / "half" / "config.json", tmp_path / "whole")
    whole, positions = load_network(tmp_path / "whole"), (torch.arange(3),) if role == "generator" else ()
    assert all(map(torch.equal, half.parameters(), whole.parameters()))
    assert torch.equal(half(*ROWS, *positions), whole(*ROWS, *positions))
    assert not torch.equal(half(*ROWS, *positions), network(*ROWS, *positions))


def test_a_feed_forward_without_gate_and_a_head_with_its_own_projection_come_back(tmp_path: Path) -> None:
    options = {"gated_feedforward": False, "own_head_projection": True, "embedding_size": 16}
    pair = make_pair("tiny", num_layers=2, **options)
    exaggerate(pair)
    assert not is_expressible(pair.generator)
    assert not is_expressible(pair.discriminator)
    for network, inputs in ((pair.generator.eval(), (*ROWS, torch.arange(4))), (pair.discriminator.eval(), ROWS)):
        save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
        assert torch.equal(load_network(tmp_path)(*inputs), network(*inputs))


def test_a_head_with_its_own_projection_needs_no_own_folder_for_the_discriminator() -> None:
    pair = make_pair("tiny", num_layers=2, own_head_projection=True, embedding_size=16)
    assert is_expressible(pair.discriminator)
    assert not is_expressible(pair.generator)


def test_a_linear_verdict_head_stays_linear(tmp_path: Path) -> None:
    network = make_own("electra", verdict_head="linear")
    save_network(tmp_path, network, pad_id=0)
    assert torch.equal(load_network(tmp_path)(*ROWS), network(*ROWS))


def test_no_other_library_takes_the_folder_for_its_own(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "electralab-electra"
    assert "architectures" not in config
    assert config["electralab_network"]["class"] == "Discriminator"


def test_plain_networks_are_expressible_and_come_back_from_the_own_words_too() -> None:
    pair = make_pair("tiny", num_layers=2)
    for network in (pair.generator, pair.discriminator):
        assert is_expressible(network)
        tree = export_own_config(network, {"model_type": "modernbert"})
        again = import_own(json.loads(json.dumps(tree)), export_own_weights(network), "here")
        assert type(again) is type(network)
        for name, parameter in network.named_parameters():
            assert torch.equal(again.get_parameter(name), parameter)


@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_tuned_network_with_such_an_encoder_comes_back_bit_for_bit(backbone: str, tmp_path: Path) -> None:
    head = HeadConfig(kind="regress", origin=2.0, unit=0.5)
    # Built with weights: those of a bare `TaskModel` are whatever the memory held before.
    network = build_task_model(make_own(backbone).encoder, head, seed=0)
    exaggerate(network)
    save_network(tmp_path, network.eval(), pad_id=0, cls_id=2, sep_id=3)
    loaded = load_task_model(tmp_path)
    assert loaded.head_config == head
    assert torch.equal(loaded(*ROWS), network(*ROWS))
    assert torch.equal(load_encoder(tmp_path)(*ROWS), network.encoder(*ROWS))
    assert "holds a tuned; give a generator or a discriminator" in refusal(tmp_path)


def test_a_discriminator_of_our_own_is_not_a_tuned_network(folder: Path) -> None:
    with pytest.raises(ElectraError, match="holds a discriminator, which is not tuned for a task"):
        load_task_model(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"class": "Oracle"}, "config.json names the class 'Oracle'; known are Generator, Discriminator"),
        ({"encoder": 5}, "electralab_network in config.json does not describe a network"),
        ({"encoder": {}}, "config.json: backbone: field required"),
        ({"verdict_head": "wise"}, "verdict_head"),
    ],
)
def test_a_damaged_description_is_refused(folder: Path, changes: dict[str, Any], sentence: str) -> None:
    edit(folder, **changes)
    assert sentence in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"num_layers": 10**12}, "config.json: num_layers: input should be less than or equal to 10000"),
        ({"num_layers": 9_000}, "config.json says 9000 layers, but the weights are fewer"),
        ({"num_layers": 9_000, "share_layers": True}, "config.json says 9000 layers"),
        ({"num_layers": 3}, "lacks the tensor encoder.layers.2."),
        ({"num_layers": 1}, "holds the tensor encoder.layers.1."),
        ({"vocab_size": 99}, "encoder.embeddings.tokens.weight has the shape (100, 128) where config.json says"),
        ({"width": 3}, "config.json: width: extra inputs are not permitted"),
    ],
)
def test_settings_of_another_encoder_are_refused(folder: Path, changes: dict[str, Any], sentence: str) -> None:
    encoder = json.loads((folder / "config.json").read_text())["electralab_network"]["encoder"]
    edit(folder, encoder=encoder | changes)
    assert sentence in refusal(folder)


def test_a_missing_verdict_head_is_named(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["electralab_network"]["verdict_head"]
    path.write_text(json.dumps(config))
    assert "electralab_network in config.json lacks 'verdict_head'; restore the file" in refusal(folder)


def test_each_tensor_is_saved_once_under_our_own_name(folder: Path) -> None:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    assert tensors.keys() == {name for name, _ in make_own("electra").named_parameters()}
