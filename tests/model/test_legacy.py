"""Old weights become safetensors, and a pickle that would run code does not run it."""

import importlib.util
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from networks import exaggerate, generator_of, make_pair, make_rows
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.folders.folder import load_network, save_network
from electralab.model.folders.hf_config import SpecialTokenIds, export_config
from electralab.model.folders.hf_weights import export_weights
from electralab.model.folders.legacy import import_legacy, infer_config, main, rename_tensors, translate_tensorflow

ROWS = make_rows()


def make_discriminator() -> Discriminator:
    discriminator = make_pair("tiny", backbone="electra", embedding_size=32).discriminator
    exaggerate(discriminator)
    return discriminator.eval()


def age(name: str) -> str:
    return "module." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def save_old(folder: Path, content: Any) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(export_config(make_discriminator(), SpecialTokenIds(0))))
    (folder / "vocab.txt").write_text("[PAD]\n")
    torch.save(content, folder / "pytorch_model.bin")


def test_an_old_pickle_becomes_a_folder_that_judges_the_same(tmp_path: Path) -> None:
    network = make_discriminator()
    weights: dict[str, Tensor] = {age(name): tensor for name, tensor in export_weights(network).items()}
    weights["module.electra.embeddings.position_ids"] = torch.arange(64)[None]
    save_old(tmp_path / "old", weights)
    assert import_legacy(tmp_path / "old", tmp_path / "new") == [tmp_path / "new"]
    assert torch.equal(load_network(tmp_path / "new")(*ROWS), network(*ROWS))
    assert (tmp_path / "new" / "vocab.txt").read_text() == "[PAD]\n"
    assert not (tmp_path / "new" / "pytorch_model.bin").exists()


def test_what_cannot_be_read_back_is_named_by_the_folder_that_was_given(tmp_path: Path) -> None:
    weights = export_weights(make_discriminator())
    del weights["electra.encoder.layer.1.output.dense.bias"]
    save_old(tmp_path / "old", weights)
    config = json.loads((tmp_path / "old/config.json").read_text())
    with pytest.raises(InputError, match=r"old: lacks the tensor electra\.encoder\.layer\.1\.") as lacking:
        import_legacy(tmp_path / "old", tmp_path / "new")
    (tmp_path / "old/config.json").write_text(json.dumps({**config, "model_type": "gpt2"}))
    with pytest.raises(InputError, match="old: model_type is 'gpt2'") as foreign:
        import_legacy(tmp_path / "old", tmp_path / "new")
    assert "new" not in f"{lacking.value} {foreign.value}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


class Burglar:
    """Unpickled, it leaves a note."""

    def __init__(self, note: Path) -> None:
        self.note = note

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.note),)


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run_it(tmp_path: Path) -> None:
    note = tmp_path / "burgled"
    save_old(tmp_path / "old", {"electra.embeddings.word_embeddings.weight": Burglar(note)})
    with pytest.raises(InputError, match="holds more than tensors, so reading it could run code; it is refused"):
        import_legacy(tmp_path / "old", tmp_path / "new")
    assert not note.exists()
    assert not (tmp_path / "new").exists()


def test_the_burglar_would_have_run(tmp_path: Path) -> None:
    """Without this the test above could pass because the trap is blunt."""
    pickle.loads(pickle.dumps(Burglar(tmp_path / "burgled")))  # noqa: S301
    assert (tmp_path / "burgled").exists()


def read_in_this_process(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the separate process would say; an interpreter less to wait for."""
    assert main(folder, folder / "new") == 1
    assert not (folder / "new").exists()
    return capsys.readouterr().err


def test_a_truncated_pickle_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_old(tmp_path / "old", export_weights(make_discriminator()))
    path = tmp_path / "old" / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:1000])
    reason = read_in_this_process(tmp_path / "old", capsys)
    assert reason.startswith(f"{path}: cannot be read (")
    assert reason.endswith("the file is damaged, copy it again\n")


def test_entries_that_are_not_tensors_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_old(tmp_path / "old", {"electra.embeddings.word_embeddings.weight": "hello"})
    assert "is not a named tensor" in read_in_this_process(tmp_path / "old", capsys)


def test_a_full_out_folder_is_left_alone(tmp_path: Path) -> None:
    save_old(tmp_path / "old", {})
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="exists and is not empty"):
        import_legacy(tmp_path / "old", tmp_path / "new")
    assert (tmp_path / "new" / "thesis.txt").read_text() == "precious"


def test_safetensors_need_no_conversion(tmp_path: Path) -> None:
    save_network(tmp_path / "old", make_discriminator(), pad_id=0)
    with pytest.raises(InputError, match="already holds safetensors"):
        import_legacy(tmp_path / "old", tmp_path / "new")


def test_old_names_become_todays() -> None:
    old = {"module.module.a.LayerNorm.gamma": torch.ones(1), "a.LayerNorm.beta": torch.zeros(1)}
    assert sorted(rename_tensors(old)) == ["a.LayerNorm.bias", "a.LayerNorm.weight"]


def to_tensorflow(name: str, tensor: Tensor, root: str) -> tuple[str, Tensor]:
    """Today's name and layout -> the released checkpoint's, written out independently of the code under test."""
    name = name.replace("dense_prediction", "dense_1").replace(
        "generator_lm_head.bias", "generator_predictions.output_bias"
    )
    is_table, is_norm = "_embeddings.weight" in name, "LayerNorm" in name
    name = name.replace("electra.", f"{root}.", 1) if name.startswith("electra.") else name
    name = name.replace(".layer.", ".layer_").replace(".", "/")
    if is_table:
        return name.removesuffix("/weight"), tensor
    if is_norm:
        return name.replace("/weight", "/gamma").replace("/bias", "/beta"), tensor
    return name.replace("/weight", "/kernel"), tensor.T if tensor.dim() == 2 else tensor


def test_released_tensorflow_names_become_both_networks() -> None:
    pair = make_pair("tiny", backbone="electra", embedding_size=32)
    exaggerate(pair)
    released = {"global_step": torch.tensor(5), "electra/embeddings/word_embeddings/adam_m": torch.zeros(1)}
    for root, network in (("generator", generator_of(pair)), ("electra", pair.discriminator)):
        for name, tensor in export_weights(network).items():
            key, value = to_tensorflow(name, tensor, "electra" if ".embeddings." in name else root)
            released[key] = value
    networks = translate_tensorflow(released)
    for name, network in (("generator", generator_of(pair)), ("discriminator", pair.discriminator)):
        expected = export_weights(network)
        assert networks[name].keys() == expected.keys()
        assert all(torch.equal(networks[name][key], tensor) for key, tensor in expected.items())


def test_the_config_shows_in_the_shapes() -> None:
    pair = make_pair("small")
    network: Generator | Discriminator
    for network in (generator_of(pair), pair.discriminator):
        inferred = infer_config(export_weights(network))
        exported = export_config(network, SpecialTokenIds(0))
        assert {name: exported[name] for name in inferred} == inferred


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="TensorFlow is installed")
def test_without_tensorflow_its_checkpoint_is_refused_with_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "electra_small.index").write_bytes(b"")
    assert "run 'pip install tensorflow' and the same command again" in read_in_this_process(tmp_path, capsys)
