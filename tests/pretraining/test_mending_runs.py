"""Whole runs, seconds long: three steps and three are six, and what they export is what other libraries load."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from little_pretraining import make_request, prepare_sentences
from torch import Tensor
from watching_events import saved

from electralab.config import SettingsTree, parse_overrides
from electralab.events import Result
from electralab.model.electra import CopyMLM
from electralab.model.folders.folder import load_any, load_encoder
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.stage import pretrain
from electralab.pretraining.warm_start import load_pretrained
from electralab.stopping import StopSignal
from electralab.tokens.shards import open_data

SMALL = (
    *("--model.num-layers", "2", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4", "--batch.micro-size", "3"),
    *("--model.global-every", "2"),
    *("--evaluation.rows", "4", "--evaluation.times", "2"),
)
ALBERT = ("--objective", "mlm", "--sentence-task", "sentence-order", "--model.share-layers", "true")
ARMS = {
    "replace-mlm": ("--objective", "replace-mlm"),
    "all-tokens-mlm": ("--objective", "all-tokens-mlm"),
    "electra-15": ("--objective", "electra-15"),
    "bert": ("--objective", "bert"),
    "albert": ALBERT,
}
ROLES = {"electra-15": {"discriminator", "generator"}, "bert": {"model"}, "albert": {"model"}}
LOSSES = {
    "replace-mlm": {"generator_loss", "masked_loss"},
    "all-tokens-mlm": {"generator_loss", "tokens_loss", "masked_loss"},
    "electra-15": {"generator_loss", "discriminator_loss"},
    "bert": {"masked_loss", "sentence_loss"},
    "albert": {"masked_loss", "sentence_loss"},
}
arms = pytest.mark.parametrize("arm", ARMS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("mending"))


def train(data: Path, run: Path, arm: str, *more: str, stop_after: int = 6) -> SettingsTree:
    """Six steps, or until something else wants the machine after so many."""
    request = make_request(data, run, (*SMALL, *ARMS[arm], *more), keep=2)
    events = pretrain(request, StopSignal())
    for event in events:
        if saved([event]) and stop_after == 3:
            events.close()  # type: ignore[attr-defined]
            return {}
        if isinstance(event, Result):
            return dict(event.value)
    raise AssertionError("the run did not finish")


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("whole")
    for arm in ARMS:
        train(data, folder / arm, arm)
    return {arm: folder / arm for arm in ARMS}


def read_metrics(run: Path) -> list[SettingsTree]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if key not in ("seconds", "tokens_per_second")} for line in lines
    ]


@arms
def test_three_steps_and_three_steps_are_six(arm: str, whole: dict[str, Path], data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "run", arm, stop_after=3)
    assert not (tmp_path / "run/checkpoints/step-6").exists()
    train(data, tmp_path / "run", arm)
    for name in ("model.safetensors", "optimizer.safetensors"):
        files = [run / "checkpoints/step-6" / name for run in (tmp_path / "run", whole[arm])]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert read_metrics(tmp_path / "run") == read_metrics(whole[arm])


@arms
def test_losses_and_scores_are_logged_by_name_and_networks_exported(arm: str, whole: dict[str, Path]) -> None:
    last = read_metrics(whole[arm])[-1]
    names = LOSSES[arm] | ({"sentence_accuracy"} if arm in ("bert", "albert") else set())
    for name in names:
        assert np.isfinite(last[name])
        assert np.isfinite(last[f"heldout_{name}"])
    folders = {path.name: path for path in (whole[arm] / "export").iterdir()}
    assert folders.keys() == ROLES.get(arm, {"model", "generator"})
    objective = ARMS[arm][1]
    for folder in folders.values():
        assert json.loads((folder / "config.json").read_text())["electralab_objective"] == objective
        assert load_encoder(folder).config.share_layers == (arm == "albert")


def ids() -> Tensor:
    return torch.randint(5, 30, (3, 16), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("arm", ["replace-mlm", "bert", "albert"])
@torch.no_grad()
def test_transformers_guesses_as_we_do(arm: str, whole: dict[str, Path]) -> None:
    folder = whole[arm] / "export/model"
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    ours = load_any(folder)
    said = ours(ids(), torch.zeros_like(ids()), None, torch.arange(48))
    torch.testing.assert_close(theirs(ids()).logits.flatten(0, 1), said, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_copying_model_is_a_folder_of_our_own_beside_a_plain_generator(whole: dict[str, Path]) -> None:
    folder = whole["all-tokens-mlm"] / "export"
    model = load_any(folder / "model")
    assert isinstance(model, CopyMLM)
    log_probs = model(ids(), torch.zeros_like(ids()), None, torch.arange(48))
    torch.testing.assert_close(log_probs.exp().sum(dim=-1), torch.ones(48))
    transformers.AutoModelForMaskedLM.from_pretrained(folder / "generator")
    with pytest.raises(ValueError, match="electralab-"):
        transformers.AutoModel.from_pretrained(folder / "model")


def build(data: Path, arm: str, *more: str) -> Objective[Any]:
    config = resolve_pretrain([parse_overrides([*SMALL, *ARMS[arm], *more])])
    return build_objective(config, open_data(data), 7, torch.device("cpu"))


@pytest.mark.parametrize("arm", ["replace-mlm", "all-tokens-mlm"])
def test_training_starts_from_both_exported_networks_each_in_its_place(
    arm: str, whole: dict[str, Path], data: Path
) -> None:
    """Of the table that both share the narrower generator's export knows less, and the model's holds."""
    objective = build(data, arm)
    load_pretrained(whole[arm] / "export", objective, open_data(data))
    for role, network in objective.exports().items():
        source = load_any(whole[arm] / "export" / role)
        for name, parameter in source.named_parameters():
            if role == "generator" and ".embeddings." in name:
                continue
            assert torch.allclose(network.get_parameter(name), parameter, atol=1e-6), f"{role}.{name}"


def test_training_starts_from_the_encoder_of_a_discriminator(whole: dict[str, Path], data: Path) -> None:
    objective = build(data, "all-tokens-mlm", "--generator.width-share", "1")
    load_pretrained(whole["electra-15"] / "export", objective, open_data(data))
    theirs = load_encoder(whole["electra-15"] / "export/discriminator")
    ours = objective.exports()["model"].get_submodule("encoder")
    for name, parameter in theirs.named_parameters():
        assert torch.allclose(ours.get_parameter(name), parameter, atol=1e-6), name


def test_bert_hides_the_same_tokens_of_a_row_in_every_epoch() -> None:
    config = resolve_pretrain([parse_overrides(["--objective", "bert"])])
    assert config.masking.fixed_masks
    assert config.masking.appearance == "mask-keep-random"
    assert config.sentence_task == "next-sentence"
    assert resolve_pretrain([parse_overrides(["--objective", "bert", "--sentence-task", "none"])]).masking.fixed_masks
