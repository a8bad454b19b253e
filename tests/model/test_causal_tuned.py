"""A causal encoder answers for a row at its last token, and is saved in a folder of our own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from networks import exaggerate, make_pair, make_rows
from torch import Tensor

from electralab.errors import InputError
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import load_any, load_encoder, load_task_model, save_task_model
from electralab.model.folders.hf_config import task_class_name
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import HeadConfig, HeadStyle, SpanLogits, TaskModel
from electralab.model.weights import init_weights

ROWS = make_rows()
LENGTHS = [24, 17, 5]
LABELS: dict[str, tuple[str, ...]] = {"classify": ("no", "yes", "maybe"), "label": ("O", "B", "I")}


def make_tuned(kind: str, backbone: str = "modern", style: HeadStyle = "released", **head: Any) -> TaskModel:
    values = make_pair("tiny", backbone=backbone, num_layers=2).discriminator.config.model_dump()
    encoder = Encoder(EncoderConfig(**values | {"is_causal": True}))
    config = HeadConfig(kind=kind, labels=LABELS.get(kind, ()), style=style, pooling="last", **head)
    network = TaskModel(encoder, config)
    init_weights(network, 1)
    exaggerate(network)
    return network.eval()


def ask(network: TaskModel) -> list[Tensor]:
    with torch.no_grad():
        said = network(*ROWS)
    return [part for part in said if part is not None] if isinstance(said, SpanLogits) else [said]


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@torch.no_grad()
def test_the_answer_is_that_of_the_last_token_before_the_padding(backbone: str) -> None:
    network = make_tuned("classify", backbone)
    (logits,) = ask(network)
    for row, length in enumerate(LENGTHS):
        ids, segments = (part[row : row + 1, :length] for part in ROWS[:2])
        assert torch.allclose(logits[row], network.head(network.encoder(ids, segments, None)[0, -1]), atol=1e-3)
        assert torch.allclose(logits[row], network(ids, segments, None)[0], atol=1e-3)


def test_whether_there_is_an_answer_is_said_by_the_last_token_too() -> None:
    network = make_tuned("qa", has_answerability=True)
    changed = ROWS[0].clone()
    for row, length in enumerate(LENGTHS):
        changed[row, length - 1] = 1 + changed[row, length - 1] % 99
    with torch.no_grad():
        before, after = network(*ROWS), network(changed, *ROWS[1:])
    assert isinstance(before, SpanLogits)
    assert isinstance(after, SpanLogits)
    assert before.answerable is not None
    assert after.answerable is not None
    assert (before.answerable - after.answerable).abs().min() > 1e-3
    assert torch.allclose(before.start[:, 0], after.start[:, 0], atol=1e-5)


@pytest.mark.parametrize("style", ["released", "huggingface"])
@pytest.mark.parametrize("backbone", ["electra", "modern"])
@pytest.mark.parametrize("kind", ["classify", "regress", "label", "qa"])
def test_a_tuned_causal_model_comes_back_with_equal_logits(
    kind: str, backbone: str, style: HeadStyle, tmp_path: Path
) -> None:
    own: dict[str, dict[str, Any]] = {"regress": {"origin": 2.5, "unit": 1.5}, "qa": {"has_answerability": True}}
    network = make_tuned(kind, backbone, style, **own.get(kind, {}))
    assert task_class_name(network) == ""
    save_task_model(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
    again = load_task_model(tmp_path)
    assert again.head_config == network.head_config
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(ask(again), ask(network), strict=True))
    assert isinstance(load_any(tmp_path), TaskModel)
    assert load_encoder(tmp_path).config == network.config


def test_no_class_of_transformers_takes_the_folder_for_its_own(tmp_path: Path) -> None:
    save_task_model(tmp_path, make_tuned("classify"), pad_id=0, cls_id=2, sep_id=3)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"].startswith("electralab-")
    assert "architectures" not in config
    with pytest.raises(ValueError, match="electralab-"):
        transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)


def test_a_decoder_tuned_by_transformers_is_refused(tmp_path: Path) -> None:
    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    config = transformers.ModernBertDecoderConfig(**sizes, **special, intermediate_size=32)
    transformers.ModernBertDecoderForSequenceClassification(config).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="is a decoder tuned with transformers, which cannot be read"):
        load_task_model(tmp_path)
