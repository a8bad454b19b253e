"""Networks that no class of transformers has: their folder brings classes along that answer like ours, to 1e-5."""

from pathlib import Path
from typing import Any

import pytest
import torch
from little_exports import LENGTH, TEXT, TOKENIZER
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

import electralab
from electralab.finetuning.task_model import LoadedTaskModel, TaskModelConfig, save_model
from electralab.model.electra import Electra, build_electra
from electralab.model.folders.folder import load_network, save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.model.task_model import HeadConfig, SpanLogits, build_task_model

SIZES = {"num_layers": 3, "hidden_size": 16, "num_heads": 2, "feedforward_size": 32, "init_std": 0.5}
OPTIONS: dict[str, dict[str, Any]] = {
    "recipe": {"embedding_size": 8, "qk_norm": True, "gated_feedforward": False, "own_head_projection": True},
    "local": {"embedding_size": 16, "qk_norm": True, "local_attention": 4, "global_every": 2},
    "heads": {"embedding_size": 8, "verdict_adds_cls": True},
}
CLASSES = {
    "classify": AutoModelForSequenceClassification,
    "regress": AutoModelForSequenceClassification,
    "label": AutoModelForTokenClassification,
    "qa": AutoModelForQuestionAnswering,
}


def build(options: dict[str, Any]) -> Electra:
    model = ModelConfig.model_validate({"backbone": "modern", **SIZES, **options})
    generator = GeneratorConfig(width_share=0.5, num_heads=1)
    sizes = {"vocab_size": TOKENIZER.vocab_size, "sequence_length": LENGTH}
    pair = build_electra(model, generator, **sizes, seed=1).eval()
    with torch.no_grad():  # gains and biases other than 1 and 0, so that one that is forgotten shows
        for parameter in pair.parameters():
            parameter.add_(torch.rand(parameter.shape, generator=torch.manual_seed(parameter.numel())) * 0.2)
    return pair


def rows() -> tuple[Tensor, Tensor]:
    """Two rows, the second shorter and padded."""
    special = TOKENIZER.special
    ids = TOKENIZER.encode_many([TEXT])[0][: LENGTH - 2].tolist()
    longest = [special.cls, *ids, special.sep]
    short = [special.cls, *ids[:5], special.sep]
    padded = short + [special.pad] * (len(longest) - len(short))
    input_ids = torch.tensor([longest, padded])
    return input_ids, (input_ids != special.pad).long()


@pytest.fixture(scope="module", params=list(OPTIONS))
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Electra, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    pair = build(OPTIONS[request.param])
    for role in ("discriminator", "generator"):
        target = folder / "run" / "export" / role
        target.mkdir(parents=True)
        save_network(target, getattr(pair, role), pad_id=TOKENIZER.special.pad, objective="electra")
        TOKENIZER.save(target)
    electralab.export(folder / "run", folder / "hf", format="hf")
    return pair, folder / "hf"


def test_pretrained_networks_answer_like_ours(exported: tuple[Electra, Path]) -> None:
    pair, folder = exported
    ids, mask = rows()
    is_pad, segments = mask == 0, torch.zeros_like(ids)
    with torch.no_grad():
        theirs = AutoModelForPreTraining.from_pretrained(folder / "discriminator", trust_remote_code=True).eval()
        ours = pair.discriminator(ids, segments, is_pad)
        assert torch.allclose(theirs(ids, mask).logits[mask == 1], ours[mask == 1], atol=1e-5)
        encoder = AutoModel.from_pretrained(folder / "discriminator", trust_remote_code=True).eval()
        states = pair.discriminator.encoder(ids, segments, is_pad)
        assert torch.allclose(encoder(ids, mask).last_hidden_state[mask == 1], states[mask == 1], atol=1e-5)
        guesser = AutoModelForMaskedLM.from_pretrained(folder / "generator", trust_remote_code=True).eval()
        positions = torch.arange(ids.numel())[mask.flatten() == 1]
        guesses = pair.generator(ids, segments, is_pad, positions)
        assert torch.allclose(guesser(ids, mask).logits.flatten(0, 1)[positions], guesses, atol=1e-5)
        whole = guesser(ids[:1]).logits  # without a mask: nothing is padded
        assert torch.allclose(whole[0], guesses[: ids.shape[1]], atol=1e-5)
    tokenizer = AutoTokenizer.from_pretrained(folder / "generator", trust_remote_code=True)
    assert tokenizer(TEXT)["input_ids"] == ids[0].tolist()
    # The same folder is ours too.
    again = dict(load_network(folder / "discriminator").named_parameters())
    assert all(torch.equal(again[name], parameter) for name, parameter in pair.discriminator.named_parameters())


@pytest.mark.parametrize("kind", list(CLASSES))
@pytest.mark.parametrize("style", ["released", "huggingface"])
def test_tuned_networks_answer_like_ours(tmp_path: Path, kind: str, style: str) -> None:
    labels = ("a", "b", "c") if kind in ("classify", "label") else ()
    pooling = "mean" if kind in ("classify", "regress") else "first"
    units = {"origin": 2.0, "unit": 3.0} if kind == "regress" else {}
    head = HeadConfig.model_validate({"kind": kind, "labels": labels, "style": style, "pooling": pooling, **units})
    network = build_task_model(build(OPTIONS["recipe"]).discriminator.encoder, head, seed=1).eval()
    card = TaskModelConfig(task=kind, num_texts=2 if kind == "qa" else 1, sequence_length=LENGTH)
    save_model(tmp_path / "tuned", LoadedTaskModel(network, TOKENIZER, card))
    electralab.export(tmp_path / "tuned", tmp_path / "hf", format="hf")
    ids, mask = rows()
    with torch.no_grad():
        theirs = CLASSES[kind].from_pretrained(tmp_path / "hf" / "model", trust_remote_code=True).eval()(ids, mask)
        ours = network(ids, torch.zeros_like(ids), mask == 0)
    if isinstance(ours, SpanLogits):
        assert torch.allclose(theirs.start_logits[mask == 1], ours.start[mask == 1], atol=1e-5)
        assert torch.allclose(theirs.end_logits[mask == 1], ours.end[mask == 1], atol=1e-5)
    elif kind == "label":
        assert torch.allclose(theirs.logits[mask == 1], ours[mask == 1], atol=1e-5)
    else:
        assert torch.allclose(theirs.logits, ours, atol=1e-5)


def test_what_is_exported_can_be_tuned_by_transformers(exported: tuple[Electra, Path]) -> None:
    _, folder = exported
    model = AutoModelForSequenceClassification.from_pretrained(
        folder / "discriminator", trust_remote_code=True, num_labels=3
    )
    ids, mask = rows()
    loss = model(ids, mask, labels=torch.tensor([0, 2])).loss
    loss.backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if "head" in name)
