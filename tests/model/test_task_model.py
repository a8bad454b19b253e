"""A head on an encoder: shapes, first weights, depths."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from networks import exaggerate, make_pair, make_rows
from pydantic import ValidationError
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import parameter_depths
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import load_any, load_encoder, load_task_model, save_network
from electralab.model.folders.hf_config import task_class_name
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import HeadConfig, HeadStyle, SpanLogits, TaskModel, build_task_model
from electralab.model.weights import init_weights

ROWS = make_rows()
STYLES: tuple[HeadStyle, ...] = ("released", "huggingface")


def make_encoder(**changes: Any) -> Encoder:
    return make_pair("tiny", **changes).discriminator.encoder


def make_tuned(kind: Any, seed: int = 1, style: HeadStyle = "released", **changes: Any) -> TaskModel:
    labels = {"classify": ("no", "yes", "maybe"), "label": ("O", "B", "I", "E")}.get(kind, ())
    head = HeadConfig(kind=kind, labels=labels, style=style, has_answerability=kind == "qa")
    return build_task_model(make_encoder(**changes), head, seed)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("backbone", ["electra", "modern"])
@torch.no_grad()
def test_each_task_has_its_logits(backbone: str, style: HeadStyle) -> None:
    assert make_tuned("classify", style=style, backbone=backbone)(*ROWS).shape == (3, 3)
    assert make_tuned("regress", style=style, backbone=backbone)(*ROWS).shape == (3, 1)
    assert make_tuned("label", style=style, backbone=backbone)(*ROWS).shape == (3, 24, 4)
    spans: SpanLogits = make_tuned("qa", style=style, backbone=backbone)(*ROWS)
    assert spans.start.shape == spans.end.shape == (3, 24)
    assert spans.answerable is not None
    assert spans.answerable.shape == (3,)


@torch.no_grad()
def test_without_the_head_for_it_nothing_is_said_of_answerability() -> None:
    network = build_task_model(make_encoder(), HeadConfig(kind="qa"), seed=1)
    assert network(*ROWS).answerable is None


def test_the_released_head_is_one_linear_map() -> None:
    names = [name for name, _ in make_tuned("classify").head.named_parameters()]
    assert names == ["output.weight", "output.bias"]


def test_a_head_is_drawn_from_the_seed_and_leaves_the_encoder_alone() -> None:
    encoder = make_encoder()
    before = {name: parameter.clone() for name, parameter in encoder.named_parameters()}
    head = HeadConfig(kind="classify", labels=("a", "b"), style="huggingface")
    first = build_task_model(encoder, head, seed=1)
    assert all(torch.equal(parameter, before[name]) for name, parameter in encoder.named_parameters())
    again, other = build_task_model(make_encoder(), head, seed=1), build_task_model(make_encoder(), head, seed=2)
    assert all(map(torch.equal, first.head.parameters(), again.head.parameters()))
    assert not torch.equal(first.head.output.weight, other.head.output.weight)
    assert first.head.output.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not first.head.output.bias.any()


def test_a_draw_does_not_disturb_the_random_numbers_of_training() -> None:
    state = torch.get_rng_state()
    make_tuned("qa", style="huggingface")
    assert torch.equal(torch.get_rng_state(), state)


def test_the_head_stands_above_the_last_layer() -> None:
    depths = parameter_depths(make_tuned("qa", style="huggingface"))  # four layers
    assert depths["encoder.embeddings.tokens.weight"] == 0
    assert depths["encoder.layers.0.attention.qkv.weight"] == 1
    assert depths["encoder.layers.3.feedforward.up.weight"] == depths["encoder.final_norm.weight"] == 4
    assert {depth for name, depth in depths.items() if name.startswith("head.")} == {5}


def test_dropout_of_the_head_is_off_in_evaluation() -> None:
    network = make_tuned("classify")  # the encoder of this size drops nothing
    assert not torch.equal(network.train()(*ROWS), network(*ROWS))
    assert torch.equal(network.eval()(*ROWS), network(*ROWS))


@pytest.mark.parametrize("is_padded", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"backbone": "electra"}, id="electra"),
        pytest.param({}, id="modern"),
        pytest.param({"local_attention": 8, "global_every": 2}, id="modern, the last layer local"),
        pytest.param({"local_attention": 8, "global_every": 3}, id="modern, the last layer global"),
        pytest.param({"num_layers": 1}, id="modern, one layer"),
    ],
)
def test_the_first_state_alone_is_that_of_the_whole_computation(changes: dict[str, Any], is_padded: bool) -> None:
    encoder = make_encoder(**changes)
    exaggerate(encoder)
    encoder.double().eval()
    rows = ROWS if is_padded else (*ROWS[:2], None)
    weights = torch.linspace(-1, 1, 128, dtype=torch.float64)  # so that the gradient of a norm is not 0
    whole, alone = encoder(*rows), encoder(*rows, first_only=True)
    assert alone.shape == (3, 1, 128)
    torch.testing.assert_close(alone[:, 0], whole[:, 0], rtol=0, atol=1e-9)
    expected = torch.autograd.grad((whole[:, 0] * weights).sum(), list(encoder.parameters()))
    found = torch.autograd.grad((alone[:, 0] * weights).sum(), list(encoder.parameters()))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)
    assert max(gradient.abs().max().item() for gradient in found) > 0.1


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"kind": "classify", "labels": ("a", "a")}, "two labels have the same name"),
        ({"kind": "label", "labels": ("O",)}, "the task 'label' needs two labels or more, not 1"),
        ({"kind": "regress", "labels": ("a", "b")}, "the task 'regress' has no labels"),
        ({"kind": "regress", "has_answerability": True}, "has_answerability belongs to the task 'qa'"),
    ],
)
def test_a_head_that_makes_no_sense_is_refused(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        HeadConfig(**values)


# -------------------- A causal encoder answers for a row at its last token, and is saved in a folder of our own

LENGTHS = [24, 17, 5]
LABELS: dict[str, tuple[str, ...]] = {"classify": ("no", "yes", "maybe"), "label": ("O", "B", "I")}


def make_causal(kind: str, backbone: str = "modern", style: HeadStyle = "released", **head: Any) -> TaskModel:
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
    network = make_causal("classify", backbone)
    (logits,) = ask(network)
    for row, length in enumerate(LENGTHS):
        ids, segments = (part[row : row + 1, :length] for part in ROWS[:2])
        assert torch.allclose(logits[row], network.head(network.encoder(ids, segments, None)[0, -1]), atol=1e-3)
        assert torch.allclose(logits[row], network(ids, segments, None)[0], atol=1e-3)


def test_whether_there_is_an_answer_is_said_by_the_last_token_too() -> None:
    network = make_causal("qa", has_answerability=True)
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
    network = make_causal(kind, backbone, style, **own.get(kind, {}))
    assert task_class_name(network) == ""
    save_network(tmp_path, network, pad_id=0, cls_id=2, sep_id=3)
    again = load_task_model(tmp_path)
    assert again.head_config == network.head_config
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(ask(again), ask(network), strict=True))
    assert isinstance(load_any(tmp_path), TaskModel)
    assert load_encoder(tmp_path).config == network.config


def test_no_class_of_transformers_takes_the_folder_for_its_own(tmp_path: Path) -> None:
    save_network(tmp_path, make_causal("classify"), pad_id=0, cls_id=2, sep_id=3)
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
