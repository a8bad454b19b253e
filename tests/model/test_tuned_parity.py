"""Tuned networks give the same logits in `transformers`, both ways, and come back as they were."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from networks import exaggerate, make_pair, make_rows
from torch import Tensor

from electralab.model.folders.folder import load_encoder, load_task_model, save_task_model
from electralab.model.folders.hf_config import task_class_name
from electralab.model.task_model import HeadConfig, HeadStyle, SpanLogits, TaskModel, build_task_model

ROWS = make_rows()
TOLERANCE = 1e-5
LABELS: dict[str, tuple[str, ...]] = {"classify": ("no", "yes", "maybe"), "label": ("O", "B-X", "I-X", "E-X")}
SUFFIX = {
    "classify": "ForSequenceClassification",
    "regress": "ForSequenceClassification",
    "label": "ForTokenClassification",
    "qa": "ForQuestionAnswering",
}
KINDS: tuple[str, ...] = ("classify", "regress", "label", "qa")
# What has a class of theirs: both styles on electra, theirs on modern.
EXPORTED = [
    *(pytest.param("electra", "released", kind, id=f"electra, released, {kind}") for kind in KINDS),
    *(pytest.param("electra", "huggingface", kind, id=f"electra, huggingface, {kind}") for kind in KINDS),
    *(pytest.param("modern", "huggingface", kind, id=f"modern, huggingface, {kind}") for kind in KINDS),
]
EVERY = [*EXPORTED, *(pytest.param("modern", "released", kind, id=f"modern, released, {kind}") for kind in KINDS)]


def make_tuned(backbone: str, style: HeadStyle, kind: str, **head: Any) -> TaskModel:
    config = HeadConfig(**{"kind": kind, "labels": LABELS.get(kind, ()), "style": style, "dropout": 0.25} | head)
    encoder = make_pair("tiny", backbone=backbone, num_layers=3, local_attention=8 * (backbone == "modern"))
    network = build_task_model(encoder.discriminator.encoder, config, seed=1)
    exaggerate(network)
    return network.eval()


def save(folder: Path, network: TaskModel) -> dict[str, Any]:
    save_task_model(folder, network, pad_id=0, cls_id=2, sep_id=3)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def flatten(answer: Tensor | SpanLogits) -> Tensor:
    return answer if isinstance(answer, Tensor) else torch.stack((answer.start, answer.end), dim=-1)


def ask_theirs(network: Any) -> Tensor:
    input_ids, segment_ids, is_pad = ROWS
    words = {"input_ids": input_ids, "attention_mask": (~is_pad).long()}
    if network.config.model_type == "electra":
        words["token_type_ids"] = segment_ids
    answer = network(**words)
    logits: Tensor
    logits = answer.logits if hasattr(answer, "logits") else torch.stack((answer.start_logits, answer.end_logits), -1)
    return logits


def assert_equal(ours: Tensor | SpanLogits, theirs: Tensor) -> None:
    ours = flatten(ours)
    assert ours.shape == theirs.shape
    if ours.dim() == 3:  # padding has no logits worth comparing
        ours, theirs = ours[~ROWS[2]], theirs[~ROWS[2]]
    assert (ours - theirs).abs().max() < TOLERANCE * max(1.0, theirs.abs().max().item())
    assert theirs.std() > 0.1, "logits too small for a difference to show"


@pytest.mark.parametrize(("backbone", "style", "kind"), EXPORTED)
@torch.no_grad()
def test_theirs_answers_like_ours(backbone: str, style: HeadStyle, kind: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, kind)
    config = save(tmp_path, ours)
    name = task_class_name(ours)
    assert name == {"electra": "Electra", "modern": "ModernBert"}[backbone] + SUFFIX[kind]
    assert config["architectures"] == [name]
    theirs, report = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    assert not report["unexpected_keys"]
    assert_equal(ours(*ROWS), ask_theirs(theirs.eval()))
    assert theirs.config.num_labels == ours.head_config.num_outputs
    assert theirs.config.classifier_dropout == 0.25
    if kind in LABELS:
        assert tuple(theirs.config.id2label.values()) == LABELS[kind]
        assert theirs.config.label2id["no" if kind == "classify" else "O"] == 0
    assert theirs.config.problem_type == {"classify": "single_label_classification", "regress": "regression"}.get(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["Electra", "ModernBert"])
@torch.no_grad()
def test_ours_answers_like_theirs(family: str, kind: str, tmp_path: Path) -> None:
    theirs = save_theirs(family, kind, tmp_path)
    ours = load_task_model(tmp_path)
    assert not ours.training
    assert_equal(ours(*ROWS), ask_theirs(theirs))
    assert ours.head_config.kind == kind
    assert ours.head_config.labels == LABELS.get(kind, ())
    is_deep = family == "ModernBert" or kind in ("classify", "regress")
    assert ours.head_config.style == ("huggingface" if is_deep else "released")


def save_theirs(family: str, kind: str, folder: Path, **changes: Any) -> Any:
    sizes: dict[str, Any] = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 96, "max_position_embeddings": 32, "pad_token_id": 0}
    if family == "Electra":
        sizes["embedding_size"] = 24
    else:
        sizes |= {"local_attention": 6, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    if kind in LABELS:
        sizes["id2label"] = dict(enumerate(LABELS[kind]))
        sizes["label2id"] = {name: index for index, name in enumerate(LABELS[kind])}
    if kind == "regress":
        sizes["num_labels"] = 1
    config = getattr(transformers, f"{family}Config")(**sizes | changes)
    theirs = getattr(transformers, family + SUFFIX[kind])(config).eval()
    exaggerate(theirs)
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize(("backbone", "style", "kind"), EVERY)
@torch.no_grad()
def test_a_tuned_network_comes_back_as_it_was(backbone: str, style: HeadStyle, kind: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, kind, has_answerability=kind == "qa")
    save(tmp_path, ours)
    again = load_task_model(tmp_path)
    # Labels and spans on electra are one head in both styles, and go by the released one.
    is_one = backbone == "electra" and not ours.head_config.is_pooled
    assert again.head_config == ours.head_config.model_copy(update={"style": "released"} if is_one else {})
    assert again.config.model_copy(update={"global_every": 1}) == ours.config.model_copy(update={"global_every": 1})
    expected = dict(ours.named_parameters())
    assert all(torch.equal(parameter, expected.pop(name)) for name, parameter in again.named_parameters())
    assert not expected
    before, after = ours(*ROWS), again(*ROWS)
    assert torch.equal(flatten(before), flatten(after))
    if kind == "qa":
        assert torch.equal(before.answerable, after.answerable)


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@torch.no_grad()
def test_answerability_goes_along_without_disturbing_theirs(backbone: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, "huggingface", "qa", has_answerability=True)
    save(tmp_path, ours)
    theirs, report = getattr(transformers, task_class_name(ours)).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert set(report["unexpected_keys"]) == {"head.answerable.weight", "head.answerable.bias"}
    assert_equal(ours(*ROWS), ask_theirs(theirs.eval()))


@pytest.mark.parametrize(("backbone", "style", "kind"), EVERY)
@torch.no_grad()
def test_the_encoder_of_a_tuned_folder_loads_alone(backbone: str, style: HeadStyle, kind: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, kind, has_answerability=kind == "qa")
    save(tmp_path, ours)
    assert torch.equal(load_encoder(tmp_path)(*ROWS), ours.encoder(*ROWS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["Electra", "ModernBert"])
@torch.no_grad()
def test_the_encoder_of_their_tuned_folder_loads_alone(family: str, kind: str, tmp_path: Path) -> None:
    theirs = save_theirs(family, kind, tmp_path)
    words = {"input_ids": ROWS[0], "attention_mask": (~ROWS[2]).long()}
    if family == "Electra":
        words["token_type_ids"] = ROWS[1]
    assert_equal(load_encoder(tmp_path)(*ROWS), theirs.base_model(**words).last_hidden_state)


@torch.no_grad()
def test_what_they_trained_further_is_no_longer_read_as_a_linear_head(tmp_path: Path) -> None:
    save(tmp_path / "ours", make_tuned("electra", "released", "classify"))
    theirs = transformers.ElectraForSequenceClassification.from_pretrained(tmp_path / "ours").eval()
    theirs.classifier.dense.weight[-1, 0] += 0.5
    theirs.classifier.out_proj.weight[0, -1] += 0.5
    theirs.save_pretrained(tmp_path / "theirs")
    again = load_task_model(tmp_path / "theirs")
    assert again.head_config.style == "huggingface"
    assert_equal(again(*ROWS), ask_theirs(theirs))


@pytest.mark.parametrize(
    ("backbone", "labels"), [("electra", tuple(f"intent {index}" for index in range(65))), ("modern", ("no", "yes"))]
)
@torch.no_grad()
def test_a_head_without_a_class_of_theirs_is_not_loaded_by_them(
    backbone: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    ours = make_tuned(backbone, "released", "classify", labels=labels)  # 2 * 65 are more than 128 hidden
    config = save(tmp_path, ours)
    assert task_class_name(ours) == ""
    assert "architectures" not in config
    with pytest.raises(ValueError, match="does not recognize this architecture"):
        transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    again = load_task_model(tmp_path)
    assert torch.equal(again(*ROWS), ours(*ROWS))
    assert again.head_config.labels == labels


@torch.no_grad()
def test_a_merged_table_keeps_the_logits(tmp_path: Path) -> None:
    encoder = make_pair("tiny", embedding_size=48).discriminator.encoder
    ours = build_task_model(encoder, HeadConfig(kind="classify", labels=("a", "b"), style="huggingface"), seed=1).eval()
    exaggerate(ours)
    save(tmp_path, ours)
    assert_equal(load_task_model(tmp_path)(*ROWS), ours(*ROWS))
    theirs = transformers.ModernBertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert_equal(ours(*ROWS), ask_theirs(theirs))


@torch.no_grad()
def test_their_two_unnamed_labels_have_their_usual_names(tmp_path: Path) -> None:
    save_theirs("Electra", "classify", tmp_path, id2label=None, label2id=None, num_labels=2)
    assert load_task_model(tmp_path).head_config.labels == ("LABEL_0", "LABEL_1")


@torch.no_grad()
@pytest.mark.parametrize("kind", ["classify", "regress"])
def test_mean_pooling_is_theirs(kind: str, tmp_path: Path) -> None:
    ours = make_tuned("modern", "huggingface", kind, pooling="mean")
    config = save(tmp_path, ours)
    assert config["classifier_pooling"] == "mean"
    theirs = transformers.ModernBertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert_equal(ours(*ROWS), ask_theirs(theirs))
    again = load_task_model(tmp_path)
    assert again.head_config.pooling == "mean"
    assert torch.equal(again(*ROWS), ours(*ROWS))
    assert not torch.allclose(flatten(ours(*ROWS)), flatten(make_tuned("modern", "huggingface", kind)(*ROWS)))


@torch.no_grad()
@pytest.mark.parametrize(
    ("backbone", "style"), [("modern", "released"), ("electra", "released"), ("electra", "huggingface")]
)
def test_mean_pooling_that_no_class_of_theirs_has_comes_back(backbone: str, style: HeadStyle, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, "classify", pooling="mean")
    assert task_class_name(ours) == ""
    assert "architectures" not in save(tmp_path, ours)
    assert torch.equal(flatten(load_task_model(tmp_path)(*ROWS)), flatten(ours(*ROWS)))


@torch.no_grad()
def test_the_mean_is_that_of_tokens_alone() -> None:
    ours = make_tuned("modern", "released", "classify", pooling="mean")
    input_ids, segment_ids, is_pad = ROWS
    row, length = 1, int((~is_pad[1]).sum())
    alone = ours(input_ids[row : row + 1, :length], segment_ids[row : row + 1, :length], None)
    assert torch.allclose(flatten(ours(*ROWS))[row], flatten(alone)[0], atol=1e-4)
