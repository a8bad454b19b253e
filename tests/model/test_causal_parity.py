"""A causal network says what `transformers` say, both ways: what we save, they load; what they save, we load."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from networks import exaggerate, make_pair, make_rows
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Generator
from electralab.model.folders.folder import load_encoder, load_network, save_network
from electralab.model.settings import EncoderConfig
from electralab.model.weights import init_weights

INPUT_IDS, SEGMENT_IDS, IS_PAD = make_rows()
# Every position but the first, which nothing stands before, and but the padding.
ASKED = (~IS_PAD & (torch.arange(IS_PAD.shape[1]) > 0)).flatten().nonzero().squeeze(1)

KINDS = [
    pytest.param({"backbone": "electra"}, "ElectraForCausalLM", id="electra"),
    pytest.param({"backbone": "electra", "embedding_size": 48}, "ElectraForCausalLM", id="electra, factorised"),
    pytest.param({}, "ModernBertDecoderForCausalLM", id="modern"),
    pytest.param({"embedding_size": 48}, "ModernBertDecoderForCausalLM", id="modern, factorised"),
    pytest.param({"local_attention": 8, "global_every": 2}, "ModernBertDecoderForCausalLM", id="modern, local"),
    pytest.param({"local_attention": 7}, "ModernBertDecoderForCausalLM", id="modern, odd window"),
    pytest.param(
        {"local_attention": 10, "local_rope_theta": 100.0, "global_rope_theta": 5000.0},
        "ModernBertDecoderForCausalLM",
        id="modern, other rotations",
    ),
]


def make_causal(**changes: Any) -> Generator:
    values = make_pair("tiny", **changes).discriminator.config.model_dump()
    generator = Generator(EncoderConfig(**values | {"is_causal": True}))
    init_weights(generator, 1)
    exaggerate(generator)
    return generator.eval()


def ask_ours(network: object) -> Tensor:
    assert isinstance(network, Generator)
    guesses: Tensor = network(INPUT_IDS, SEGMENT_IDS, IS_PAD, ASKED)
    return guesses


def ask_theirs(network: Any) -> Tensor:
    """Theirs answers at a position for the next."""
    words = {"input_ids": INPUT_IDS, "attention_mask": (~IS_PAD).long()}
    if network.config.model_type == "electra":
        words["token_type_ids"] = SEGMENT_IDS
    logits: Tensor = network(**words).logits
    return logits.flatten(0, 1)[ASKED - 1]


def assert_equal(ours: Tensor, theirs: Tensor) -> None:
    assert (ours - theirs).abs().max() < 1e-5 * max(1.0, theirs.abs().max().item())
    assert theirs.std() > 0.1, "answers too small for a difference to show"


@pytest.mark.parametrize(("changes", "name"), KINDS)
@torch.no_grad()
def test_their_causal_network_guesses_like_ours(changes: dict[str, Any], name: str, tmp_path: Path) -> None:
    ours = make_causal(**changes)
    save_network(tmp_path, ours, pad_id=0, cls_id=2, sep_id=3)
    theirs, report = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [name]
    assert_equal(ask_ours(ours), ask_theirs(theirs.eval()))
    assert type(transformers.AutoModelForCausalLM.from_pretrained(tmp_path)).__name__ == name


@pytest.mark.parametrize(("changes", "_"), KINDS)
@torch.no_grad()
def test_our_causal_folder_comes_back_as_it_was(changes: dict[str, Any], _: str, tmp_path: Path) -> None:
    ours = make_causal(**changes)
    save_network(tmp_path, ours, pad_id=0, objective="causal")
    again = load_network(tmp_path)
    assert again.config.is_causal
    assert_equal(ask_ours(again), ask_ours(ours))
    states = load_encoder(tmp_path)(INPUT_IDS, SEGMENT_IDS, IS_PAD)
    assert_equal(states[~IS_PAD], ours.encoder(INPUT_IDS, SEGMENT_IDS, IS_PAD)[~IS_PAD])
    assert json.loads((tmp_path / "config.json").read_text())["electralab_objective"] == "causal"


def save_theirs(kind: str, folder: Path) -> Any:
    values: dict[str, Any] = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4}
    values |= {"intermediate_size": 96, "max_position_embeddings": 32, "pad_token_id": 0}
    if kind == "electra":
        config = transformers.ElectraConfig(**values, embedding_size=24, is_decoder=True)
        theirs: Any = transformers.ElectraForCausalLM(config)
    else:
        special = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
        config = transformers.ModernBertDecoderConfig(**values, **special, local_attention=6)
        theirs = transformers.ModernBertDecoderForCausalLM(config)
    exaggerate(theirs.eval())
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("kind", ["electra", "modern"])
@torch.no_grad()
def test_their_causal_network_loads_into_ours(kind: str, tmp_path: Path) -> None:
    theirs = save_theirs(kind, tmp_path)
    assert_equal(ask_ours(load_network(tmp_path)), ask_theirs(theirs))


@torch.no_grad()
def test_a_window_that_sees_one_more_would_fail_this_parity(tmp_path: Path) -> None:
    theirs = save_theirs("modern", tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"local_attention": 8}))
    with pytest.raises(AssertionError):
        assert_equal(ask_ours(load_network(tmp_path)), ask_theirs(theirs))


def test_an_unknown_type_is_told_which_are_known(tmp_path: Path) -> None:
    save_theirs("modern", tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "gpt2"}))
    with pytest.raises(InputError, match="'gpt2'; models of type 'electra', 'modernbert' and 'modernbert-decoder'"):
        load_network(tmp_path)
