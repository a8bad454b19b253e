"""A folder that cannot be used is one sentence that names the file and the cure."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from networks import make_pair, make_rows

from electralab.errors import ElectraError, InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.folders.folder import (
    load_encoder,
    load_network,
    load_task_model,
    locate_encoder,
    locate_model,
    save_network,
)
from electralab.model.task_model import HeadConfig, build_task_model

ROWS = make_rows()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four good folders; a test damages a copy."""
    place = tmp_path_factory.mktemp("saved")
    for backbone in ("electra", "modern"):
        pair = make_pair("tiny", backbone=backbone, num_layers=2)
        save_network(place / backbone / "discriminator", pair.discriminator, pad_id=0, cls_id=2, sep_id=3)
        save_network(place / backbone / "generator", pair.generator, pad_id=0, cls_id=2, sep_id=3)
    return place


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved / "electra" / "discriminator", tmp_path / "model"))


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, **changes: torch.Tensor | None) -> None:
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    for name, tensor in changes.items():
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    path.unlink()
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def refusal(folder: Path) -> str:
    with pytest.raises(ElectraError) as caught:
        load_network(folder)
    sentence = str(caught.value)
    assert sentence.startswith(str(folder))
    assert "\n" not in sentence
    return sentence


def test_a_pickle_is_refused_with_the_command_that_converts_it(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert f"convert it with 'electra import {folder} --out NEW'" in refusal(folder)


def test_safetensors_beside_a_pickle_are_read(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"not even a pickle")
    assert isinstance(load_network(folder), Discriminator)


def test_missing_things_are_named(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "has no model.safetensors" in refusal(folder)
    (folder / "config.json").unlink()
    assert "has no config.json, so it is not a model folder" in refusal(folder)
    folder.rmdir()
    assert "no such folder" in refusal(folder)


@pytest.mark.parametrize("keep", [0, 5, 100, 10_000])
def test_truncated_weights_are_damaged(folder: Path, keep: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert "the file is damaged, copy it again" in refusal(folder)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", '"electra"'])
def test_a_damaged_config_is_named(folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)
    assert "config.json: not " in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model_type": "bert"}, "model_type is 'bert'; models of type 'electra', 'modernbert' and 'modern"),
        ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new', but only 'gelu' or 'gelu_python' is supported"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"num_attention_heads": 3}, "does not divide into 3 heads"),
        ({"hidden_size": "wide"}, "hidden_size: input should be a valid integer"),
        ({"num_hidden_layers": 3}, "lacks the tensor electra.encoder.layer.2."),
        ({"num_hidden_layers": 9_000}, "config.json says 9000 layers, but the weights are fewer"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers: input should be less than or equal to 10000 (got 10000000"),
        (
            {"type_vocab_size": 10**6},
            "electra.embeddings.token_type_embeddings.weight has the shape (2, 128) where config.json says (1000000, 1",
        ),
        ({"max_position_embeddings": 10**12}, "max_position_embeddings: input should be less than or equal to 1048576"),
        ({"num_hidden_layers": 1}, "holds the tensor electra.encoder.layer.1."),
        (
            {"vocab_size": 99},
            "electra.embeddings.word_embeddings.weight has the shape (100, 128) where config.json says (99, 128)",
        ),
    ],
)
def test_a_config_of_another_network_is_refused(folder: Path, changes: dict[str, Any], sentence: str) -> None:
    edit_config(folder, **changes)
    assert sentence in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"hidden_activation": "silu"}, "hidden_activation is 'silu'"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"layer_types": ["sliding_attention", "full_attention"]}, "layer_types is not 'full_attention' in every n-th"),
        ({"layer_types": 5}, "config.json: layer_types: input should be a valid list (got 5)"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rotary positions of type 'yarn'"),
        ({"id2label": {"0": "PER", "1": "LOC"}}, "its classes are PER, LOC, not original and replaced"),
    ],
)
def test_a_modern_config_of_another_network_is_refused(
    saved: Path, tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    folder = Path(shutil.copytree(saved / "modern" / "discriminator", tmp_path / "model"))
    edit_config(folder, **changes)
    assert sentence in refusal(folder)


def test_an_old_modernbert_config_reads_the_same(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved / "modern" / "generator", tmp_path / "model"))
    new = load_network(folder).config
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["layer_types"], config["rope_parameters"]
    old = {"global_attn_every_n_layers": 1, "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
    path.write_text(json.dumps(config | old))
    assert load_network(folder).config == new


def test_a_missing_tensor_is_named(folder: Path) -> None:
    edit_weights(folder, **{"electra.encoder.layer.1.attention.self.key.bias": None})
    assert "lacks the tensor electra.encoder.layer.1.attention.self.key.bias;" in refusal(folder)


def test_a_part_of_the_encoder_that_we_do_not_build_is_refused(folder: Path) -> None:
    edit_weights(folder, **{"electra.encoder.layer.0.crossattention.self.query.weight": torch.ones(2)})
    assert "holds the tensor electra.encoder.layer.0.crossattention.self.query.weight" in refusal(folder)


def test_counters_saved_by_older_versions_are_ignored(folder: Path) -> None:
    edit_weights(folder, **{"electra.embeddings.position_ids": torch.arange(64)[None]})
    assert isinstance(load_network(folder), Discriminator)


def test_an_output_table_of_its_own_is_refused_and_a_copy_is_not(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved / "electra" / "generator", tmp_path / "model"))
    table = safetensors.torch.load_file(folder / "model.safetensors")["electra.embeddings.word_embeddings.weight"]
    edit_weights(folder, **{"generator_lm_head.weight": table.clone()})
    assert isinstance(load_network(folder), Generator)
    edit_weights(folder, **{"generator_lm_head.weight": table + 1})
    assert "generator_lm_head.weight differs from electra.embeddings.word_embeddings.weight" in refusal(folder)


def test_an_encoder_without_a_head_cannot_judge_but_can_be_loaded_as_an_encoder(folder: Path) -> None:
    heads = [name for name in safetensors.torch.load_file(folder / "model.safetensors") if "predictions" in name]
    edit_weights(folder, **dict.fromkeys(heads))
    assert "holds an encoder without a head" in refusal(folder)
    assert load_encoder(folder)(*ROWS).shape == (3, 24, 128)


@pytest.mark.parametrize("place", ["../model.safetensors", "/etc/passwd", "sub/model.safetensors", "..", ""])
def test_an_index_that_points_outside_its_folder_is_refused(folder: Path, place: str) -> None:
    shutil.move(folder / "model.safetensors", folder.parent / "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": place}}))
    assert "which is not a file of this folder; do not trust it" in refusal(folder)


def test_an_index_with_a_missing_shard_names_it(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "one.safetensors"}}))
    assert "names one.safetensors, which is missing" in refusal(folder)


def test_a_folder_of_links_as_in_a_download_cache_is_read(folder: Path) -> None:
    blob = folder.parent / "blob"
    (folder / "model.safetensors").rename(blob)
    (folder / "one.safetensors").symlink_to(blob)
    names = safetensors.torch.load_file(blob)
    index = {"weight_map": dict.fromkeys(names, "one.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert isinstance(load_network(folder), Discriminator)


def test_half_precision_weights_are_widened(folder: Path) -> None:
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    edit_weights(folder, **{name: tensor.bfloat16() for name, tensor in tensors.items()})
    network = load_network(folder)
    assert all(parameter.dtype == torch.float32 for parameter in network.parameters())


def test_loaded_weights_live_in_storage_of_their_own(folder: Path) -> None:
    """A mapped file would change under us, and its alignment can change the bits of a matmul."""
    network = load_network(folder)
    expected = network(*ROWS)
    size = (folder / "model.safetensors").stat().st_size
    (folder / "model.safetensors").write_bytes(bytes(size))
    assert torch.equal(network(*ROWS), expected)
    assert all(parameter.data_ptr() % 64 == 0 for parameter in network.parameters())


def test_saving_says_which_network_it_is(saved: Path) -> None:
    named = {
        path.parent.relative_to(saved).as_posix(): json.loads(path.read_text())["architectures"]
        for path in saved.rglob("config.json")
    }
    assert named == {
        "electra/discriminator": ["ElectraForPreTraining"],
        "electra/generator": ["ElectraForMaskedLM"],
        "modern/discriminator": ["ModernBertForTokenClassification"],
        "modern/generator": ["ModernBertForMaskedLM"],
    }


# -------------------- A folder that is not the tuned model asked for is one sentence that says so; a MODEL argum

KINDS: tuple[str, ...] = ("classify", "regress", "label", "qa")
LABELS: dict[str, tuple[str, ...]] = {"classify": ("no", "yes", "maybe"), "label": ("O", "B", "I")}


@pytest.fixture(scope="module")
def saved_tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pre-trained and tuned folders of both backbones; a test damages a copy."""
    place = tmp_path_factory.mktemp("saved")
    for backbone in ("electra", "modern"):
        pair = make_pair("tiny", backbone=backbone, num_layers=1)
        save_network(place / backbone / "discriminator", pair.discriminator, pad_id=0, cls_id=2, sep_id=3)
        save_network(place / backbone / "generator", pair.generator, pad_id=0, cls_id=2, sep_id=3)
        for kind in KINDS:
            head = HeadConfig(kind=kind, labels=LABELS.get(kind, ()), style="huggingface")
            tuned = build_task_model(pair.discriminator.encoder, head, seed=1)
            save_network(place / backbone / kind, tuned, pad_id=0, cls_id=2, sep_id=3)
    return place


@pytest.fixture
def copy(saved_tuned: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(saved_tuned / name, tmp_path / "model"))


def tuned_refusal(load: Callable[[Path], object], folder: Path) -> str:
    with pytest.raises(ElectraError) as caught:
        load(folder)
    sentence = str(caught.value)
    assert sentence.startswith(str(folder))
    assert "\n" not in sentence
    return sentence.removeprefix(str(folder))


@pytest.mark.parametrize("role", ["discriminator", "generator"])
@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_pre_trained_network_is_no_tuned_one(saved_tuned: Path, backbone: str, role: str) -> None:
    sentence = tuned_refusal(load_task_model, saved_tuned / backbone / role)
    assert sentence.startswith(": is not tuned for a task")
    assert "run 'electra finetune" in sentence


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_tuned_network_is_no_pre_trained_one(saved_tuned: Path, backbone: str, kind: str) -> None:
    assert tuned_refusal(load_network, saved_tuned / backbone / kind).startswith(": is a tuned model (its classes are ")


def test_a_tagger_tuned_to_find_replaced_tokens_is_not_taken_for_a_discriminator(tmp_path: Path) -> None:
    encoder = make_pair("tiny", num_layers=1).discriminator.encoder
    head = HeadConfig(kind="label", labels=("original", "replaced"), style="huggingface")
    save_network(tmp_path, build_task_model(encoder, head, seed=1), pad_id=0, cls_id=2, sep_id=3)
    assert load_task_model(tmp_path).head_config == head
    assert "is a tuned model" in tuned_refusal(load_network, tmp_path)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("electra/classify", {"problem_type": "multi_label_classification"}, "problem_type is 'multi_label_class"),
        ("electra/classify", {"problem_type": "regression"}, "problem_type is 'regression'"),
        ("modern/classify", {"classifier_pooling": "max"}, "classifier_pooling is 'max', but only 'cls' or 'mean'"),
        ("electra/label", {"id2label": {"0": "O"}}, "id2label in config.json does not name the 3 outputs"),
        ("electra/label", {"id2label": ["O", "B", "I"]}, "id2label in config.json does not name the 3 outputs"),
        ("modern/label", {"id2label": {"0": "O", "1": "B", "2": "B"}}, "two labels have the same name"),
        ("modern/qa", {"architectures": None}, "config.json does not say what its head is for (got None)"),
        ("modern/qa", {"architectures": [["a"]]}, "config.json does not say what its head is for (got ['a'])"),
        ("modern/qa", {"architectures": ["ModernBertForMultipleChoice"]}, "(got 'ModernBertForMultipleChoice')"),
        ("electra/qa", {"classifier_dropout": 2}, "config.json: dropout: input should be less than 1"),
        ("electra/classify", {"hidden_size": 64, "embedding_size": 64}, "has the shape"),
        ("electra/classify", {"model_type": "bert"}, "model_type is 'bert'"),
    ],
)
def test_a_config_that_does_not_fit_is_named(
    copy: Callable[[str], Path], name: str, changes: dict[str, Any], reason: str
) -> None:
    folder = copy(name)
    edit_config(folder, **changes)
    assert reason in tuned_refusal(load_task_model, folder)


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (5, 3, 1)])
@pytest.mark.parametrize(
    "name",
    ["classifier.out_proj.weight", "classifier.out_proj.bias", "classifier.dense.weight", "classifier.dense.bias"],
)
def test_tensors_of_a_wrong_shape_are_named(copy: Callable[[str], Path], name: str, shape: tuple[int, ...]) -> None:
    folder = copy("electra/classify")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(tensors | {name: torch.zeros(shape)}, folder / "model.safetensors")
    assert tuned_refusal(load_task_model, folder)


def test_a_pickle_is_never_read(copy: Callable[[str], Path]) -> None:
    folder = copy("electra/qa")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "a pickle, which can run code" in tuned_refusal(load_task_model, folder)


@pytest.mark.parametrize("inside", ["export/model", "model", "."])
def test_a_tuned_model_is_found_in_its_run_or_folder(saved_tuned: Path, tmp_path: Path, inside: str) -> None:
    shutil.copytree(saved_tuned / "modern/qa", tmp_path / "run" / inside)
    wanted = tmp_path / "run" / inside
    assert locate_model(tmp_path / "run", "model") == wanted
    assert locate_encoder(tmp_path / "run") == wanted


def test_an_encoder_is_a_discriminators_before_a_tuned_models(saved_tuned: Path, tmp_path: Path) -> None:
    for role in ("discriminator", "model"):
        shutil.copytree(saved_tuned / "modern/qa", tmp_path / "export" / role)
    assert locate_encoder(tmp_path) == tmp_path / "export" / "discriminator"


def test_a_run_without_the_network_asked_for_says_what_it_has(saved_tuned: Path, tmp_path: Path) -> None:
    shutil.copytree(saved_tuned / "modern/qa", tmp_path / "tuned/export/model")
    with pytest.raises(InputError, match="tuned: holds a tuned model, but not a discriminator; give a run"):
        locate_model(tmp_path / "tuned", "discriminator")
    for role in ("discriminator", "generator"):
        shutil.copytree(saved_tuned / "modern" / role, tmp_path / "pretrained/export" / role)
    with pytest.raises(InputError, match="holds a discriminator and a generator, but not a tuned model"):
        locate_model(tmp_path / "pretrained", "model")


@pytest.mark.parametrize("role", ["model", "discriminator"])
@pytest.mark.parametrize(("file", "verb"), [("seed-0/metrics.jsonl", "finetune"), ("run.json", "pretrain")])
def test_an_unfinished_run_is_sent_back_to_its_verb(tmp_path: Path, role: Any, file: str, verb: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("{}")
    with pytest.raises(InputError, match=f"has not exported its networks yet; let 'electra {verb}' finish it"):
        locate_model(tmp_path, role)
