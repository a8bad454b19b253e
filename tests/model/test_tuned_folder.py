"""A folder that is not the tuned model asked for is one sentence that says so; a MODEL argument finds what it means."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from networks import make_pair

from electralab.errors import ElectraError, InputError
from electralab.model.folders.folder import (
    load_network,
    load_task_model,
    locate_encoder,
    locate_model,
    save_network,
    save_task_model,
)
from electralab.model.task_model import HeadConfig, build_task_model

KINDS: tuple[str, ...] = ("classify", "regress", "label", "qa")
LABELS: dict[str, tuple[str, ...]] = {"classify": ("no", "yes", "maybe"), "label": ("O", "B", "I")}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pre-trained and tuned folders of both backbones; a test damages a copy."""
    place = tmp_path_factory.mktemp("saved")
    for backbone in ("electra", "modern"):
        pair = make_pair("tiny", backbone=backbone, num_layers=1)
        save_network(place / backbone / "discriminator", pair.discriminator, pad_id=0, cls_id=2, sep_id=3)
        save_network(place / backbone / "generator", pair.generator, pad_id=0, cls_id=2, sep_id=3)
        for kind in KINDS:
            head = HeadConfig(kind=kind, labels=LABELS.get(kind, ()), style="huggingface")
            tuned = build_task_model(pair.discriminator.encoder, head, seed=1)
            save_task_model(place / backbone / kind, tuned, pad_id=0, cls_id=2, sep_id=3)
    return place


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(saved / name, tmp_path / "model"))


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def refusal(load: Callable[[Path], object], folder: Path) -> str:
    with pytest.raises(ElectraError) as caught:
        load(folder)
    sentence = str(caught.value)
    assert sentence.startswith(str(folder))
    assert "\n" not in sentence
    return sentence.removeprefix(str(folder))


@pytest.mark.parametrize("role", ["discriminator", "generator"])
@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_pre_trained_network_is_no_tuned_one(saved: Path, backbone: str, role: str) -> None:
    sentence = refusal(load_task_model, saved / backbone / role)
    assert sentence.startswith(": is not tuned for a task")
    assert "run 'electra finetune" in sentence


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_a_tuned_network_is_no_pre_trained_one(saved: Path, backbone: str, kind: str) -> None:
    assert refusal(load_network, saved / backbone / kind).startswith(": is a tuned model (its classes are ")


def test_a_tagger_tuned_to_find_replaced_tokens_is_not_taken_for_a_discriminator(tmp_path: Path) -> None:
    encoder = make_pair("tiny", num_layers=1).discriminator.encoder
    head = HeadConfig(kind="label", labels=("original", "replaced"), style="huggingface")
    save_task_model(tmp_path, build_task_model(encoder, head, seed=1), pad_id=0, cls_id=2, sep_id=3)
    assert load_task_model(tmp_path).head_config == head
    assert "is a tuned model" in refusal(load_network, tmp_path)


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
    assert reason in refusal(load_task_model, folder)


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (5, 3, 1)])
@pytest.mark.parametrize(
    "name",
    ["classifier.out_proj.weight", "classifier.out_proj.bias", "classifier.dense.weight", "classifier.dense.bias"],
)
def test_tensors_of_a_wrong_shape_are_named(copy: Callable[[str], Path], name: str, shape: tuple[int, ...]) -> None:
    folder = copy("electra/classify")
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    safetensors.torch.save_file(tensors | {name: torch.zeros(shape)}, folder / "model.safetensors")
    assert refusal(load_task_model, folder)


def test_a_pickle_is_never_read(copy: Callable[[str], Path]) -> None:
    folder = copy("electra/qa")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "a pickle, which can run code" in refusal(load_task_model, folder)


@pytest.mark.parametrize("inside", ["export/model", "model", "."])
def test_a_tuned_model_is_found_in_its_run_or_folder(saved: Path, tmp_path: Path, inside: str) -> None:
    shutil.copytree(saved / "modern/qa", tmp_path / "run" / inside)
    wanted = tmp_path / "run" / inside
    assert locate_model(tmp_path / "run", "model") == wanted
    assert locate_encoder(tmp_path / "run") == wanted


def test_an_encoder_is_a_discriminators_before_a_tuned_models(saved: Path, tmp_path: Path) -> None:
    for role in ("discriminator", "model"):
        shutil.copytree(saved / "modern/qa", tmp_path / "export" / role)
    assert locate_encoder(tmp_path) == tmp_path / "export" / "discriminator"


def test_a_run_without_the_network_asked_for_says_what_it_has(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "modern/qa", tmp_path / "tuned/export/model")
    with pytest.raises(InputError, match="tuned: holds a tuned model, but not a discriminator; give a run"):
        locate_model(tmp_path / "tuned", "discriminator")
    for role in ("discriminator", "generator"):
        shutil.copytree(saved / "modern" / role, tmp_path / "pretrained/export" / role)
    with pytest.raises(InputError, match="holds a discriminator and a generator, but not a tuned model"):
        locate_model(tmp_path / "pretrained", "model")


@pytest.mark.parametrize("role", ["model", "discriminator"])
@pytest.mark.parametrize(("file", "verb"), [("seed-0/metrics.jsonl", "finetune"), ("run.json", "pretrain")])
def test_an_unfinished_run_is_sent_back_to_its_verb(tmp_path: Path, role: Any, file: str, verb: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("{}")
    with pytest.raises(InputError, match=f"has not exported its networks yet; let 'electra {verb}' finish it"):
        locate_model(tmp_path, role)
