"""What a run may begin from: another objective's run, a folder, a frozen generator's company; and what it may not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from little_pretraining import make_request, prepare_sentences

from electralab.errors import InputError
from electralab.events import Result
from electralab.model.electra import Generator
from electralab.model.folders.folder import load_any
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.pretraining.settings import complete_settings
from electralab.pretraining.stage import PretrainRequest, pretrain
from electralab.pretraining.warm_start import load_pretrained
from electralab.records.run import RunFingerprint
from electralab.stopping import StopSignal
from electralab.tokens.shards import open_data
from electralab.training.fingerprints import check_resumable

SMALL = (
    *("--model.num-layers", "2", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4"),
    *("--evaluation.rows", "4", "--evaluation.times", "1"),
)
PAIR = ("--model.sharing", "embeddings", "--generator.width-share", "0.5", "--generator.num-heads", "1")
ONE_SIZE = ("--generator.width-share", "1")
DROPPING = (*PAIR, "--model.dropout", "0.3")
RUNS = {
    "pair": PAIR,
    "dropping": DROPPING,
    "mlm": ("--objective", "mlm"),
    "bert": ("--objective", "bert"),
    "causal": ("--objective", "causal"),
    "permutation": ("--objective", "permutation"),
    "apart": (*PAIR, "--model.backbone", "electra", "--model.sharing", "none"),
    "apart-alike": ("--model.backbone", "electra", "--model.sharing", "none", "--generator.width-share", "1"),
    "electric": ("--objective", "electric", "--generator.width-share", "0.5", "--generator.num-heads", "1"),
}


def request(data: Path, run: Path, *words: str, **changes: Any) -> PretrainRequest:
    return make_request(data, run, (*SMALL, *words), steps=2, **changes)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("origins"))


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, words in RUNS.items():
        list(pretrain(request(data, folder / name, *words), StopSignal()))
    return folder


def begin(data: Path, origin: Path, *words: str) -> tuple[Objective[Any], list[str]]:
    config = request(data, origin, *words).config
    prepared = open_data(data)
    objective = build_objective(config, prepared, 1, torch.device("cpu"))
    return objective, load_pretrained(origin, objective, prepared)


def encoder_of(folder: Path) -> dict[str, torch.Tensor]:
    return {name: one for name, one in load_any(folder).named_parameters() if name.startswith("encoder.layers")}


@pytest.mark.parametrize(
    ("origin", "role", "has_head"),
    [("permutation", "model", False), ("bert", "model", True), ("pair", "discriminator", False)],
)
def test_a_masked_model_begins_as_the_encoder_of_another_objectives_run(
    data: Path, runs: Path, origin: str, role: str, has_head: bool
) -> None:
    objective, notes = begin(data, runs / origin, "--objective", "mlm")
    anew = (
        f"{runs / origin / 'export' / role}: has no head of the kind that the model needs; the model's head begins anew"
    )
    assert notes == ([] if has_head else [anew])
    mine = dict(objective.networks.named_parameters())
    theirs = encoder_of(runs / origin / "export" / role)
    assert theirs
    assert all(torch.equal(mine[f"model.{name}"], one) for name, one in theirs.items())


@pytest.mark.parametrize("place", [".", "export"])
def test_one_that_reads_both_ways_does_not_begin_one_that_reads_forwards(data: Path, runs: Path, place: str) -> None:
    with pytest.raises(InputError, match="has is_causal"):
        begin(data, runs / "mlm" / place, "--objective", "causal")


@pytest.mark.parametrize("place", [".", "export"])
def test_one_that_reads_forwards_begins_one_that_reads_both_ways(data: Path, runs: Path, place: str) -> None:
    objective, notes = begin(data, runs / "causal" / place, "--objective", "mlm")
    assert [note for note in notes if note.endswith("read from left to right; from now on every token sees both sides")]
    mine = dict(objective.networks.named_parameters())
    theirs = encoder_of(runs / "causal/export/model")
    assert all(torch.equal(mine[f"model.{name}"], weight) for name, weight in theirs.items())


@pytest.mark.parametrize("origin", ["causal", "mlm"])
def test_a_language_model_of_the_discriminators_size_begins_the_discriminator(
    data: Path, runs: Path, origin: str
) -> None:
    objective, notes = begin(data, runs / origin, *PAIR)
    folder = runs / origin / "export/model"
    assert (
        f"{folder}: has no head of the kind that the discriminator needs; the discriminator's head begins anew" in notes
    )
    mine = dict(objective.networks.named_parameters())
    assert all(torch.equal(mine[f"discriminator.{name}"], weight) for name, weight in encoder_of(folder).items())
    config = objective.exports()["discriminator"].config
    assert not config.is_causal


def test_a_language_model_of_the_generators_size_begins_the_generator(data: Path, runs: Path) -> None:
    objective, _ = begin(data, runs / "mlm", "--model.sharing", "none", "--generator.width-share", "1")
    mine = dict(objective.networks.named_parameters())
    theirs = encoder_of(runs / "mlm/export/model")
    assert all(torch.equal(mine[f"generator.{name}"], weight) for name, weight in theirs.items())


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ("apart", (*PAIR, "--model.backbone", "electra")),
        ("apart-alike", ("--model.backbone", "electra", "--model.sharing", "everything", *ONE_SIZE)),
    ],
)
def test_what_a_pair_shares_from_now_on_is_the_discriminators(
    data: Path, runs: Path, origin: str, words: tuple[str, ...]
) -> None:
    """The wider network knows more; the generator's own table, positions, norm and layers do not replace its own."""
    objective, notes = begin(data, runs / origin / "export", *words)
    mine = dict(objective.networks.get_submodule("discriminator").named_parameters())
    theirs = dict(load_any(runs / origin / "export" / "discriminator").named_parameters())
    assert theirs
    assert [name for name, weight in theirs.items() if not torch.equal(mine[name], weight)] == []
    head = objective.networks.get_parameter("generator.head.dense.weight")
    assert torch.equal(head, load_any(runs / origin / "export" / "generator").get_parameter("head.dense.weight"))
    assert len(notes) == 1
    assert "its token table is not the one that both networks share from now on" in notes[0]


def test_towers_begin_as_towers_and_say_so_where_they_cannot(data: Path, runs: Path) -> None:
    objective, notes = begin(data, runs / "electric" / "export", *RUNS["electric"])
    assert notes == []
    mine = dict(objective.networks.named_parameters())
    towers = load_any(runs / "electric" / "export" / "generator").named_parameters()
    assert all(torch.equal(mine[f"generator.{name}"], one) for name, one in towers if ".layers." in name)
    _, notes = begin(data, runs / "electric" / "export", *PAIR)
    assert len(notes) == 1
    assert "the generator begins anew" in notes[0]


def frozen(runs: Path, name: str = "dropping") -> tuple[str, ...]:
    return ("--generator.kind", "frozen", "--generator.path", str(runs / name))


def test_a_frozen_generator_plays_without_dropout_whatever_the_mode(data: Path, runs: Path) -> None:
    config = request(data, runs, *frozen(runs)).config
    objective = build_objective(config, open_data(data), 0, torch.device("cpu"))
    objective.networks.train()
    generator = objective.networks.get_submodule("generator")
    assert isinstance(generator, Generator)
    assert not generator.training
    assert not generator.encoder.training
    assert objective.networks.get_submodule("discriminator").training


@pytest.mark.parametrize("place", [".", "export"])
def test_what_a_run_begins_from_leaves_its_frozen_generator_alone(data: Path, runs: Path, place: str) -> None:
    config = request(data, runs, *frozen(runs)).config
    objective = build_objective(config, open_data(data), 0, torch.device("cpu"))
    before = {name: one.clone() for name, one in objective.networks.named_parameters() if name.startswith("generator.")}
    load_pretrained(runs / "pair" / place, objective, open_data(data))
    after = dict(objective.networks.named_parameters())
    assert before
    assert all(torch.equal(after[name], one) for name, one in before.items())


def test_a_run_with_a_frozen_generator_can_be_begun_from(data: Path, runs: Path, tmp_path: Path) -> None:
    list(pretrain(request(data, tmp_path / "first", *frozen(runs)), StopSignal()))
    events = list(pretrain(request(data, tmp_path / "next", *frozen(runs), init_from=tmp_path / "first"), StopSignal()))
    assert isinstance(events[-1], Result)


def test_settings_that_came_later_had_their_defaults_before(runs: Path) -> None:
    """A run from before a setting existed goes on; one that differs where it had a say does not."""
    stored = RunFingerprint.find(runs / "mlm")
    assert stored is not None
    old = json.loads(json.dumps(stored.settings))
    for name in ("sentence_task", "procedure_options"):
        del old[name]
    del old["masking"]["unit"]
    assert complete_settings(old) == stored.settings
    identity = stored.model_copy(update={"init_from": "", "settings": complete_settings(old)})
    check_resumable(runs / "mlm", identity, stored, extend=False, allow_inexact=False)
    assert complete_settings({"no": "settings"}) == {"no": "settings"}
