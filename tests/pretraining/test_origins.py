"""What a run may begin from: another objective's run, a folder, a frozen generator's company; and what it may not.

Starting from a model of another vocabulary: refused, or with the rows of the tokens that both have.
A branch goes on from a checkpoint of another run, exactly, with a schedule and a budget of its own.
"""

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from little_pretraining import SMALL, make_request, prepare_sentences, train
from watching_events import warnings

from electralab.config import SettingsTree
from electralab.errors import ElectraError, InputError
from electralab.events import Result
from electralab.model.electra import Discriminator, Electra, Generator, build_electra
from electralab.model.encoder import Embeddings
from electralab.model.folders.folder import load_any, save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.pretraining.cost import placeholder_data
from electralab.pretraining.settings import complete_settings, resolve_pretrain
from electralab.pretraining.stage import PretrainRequest, pretrain
from electralab.pretraining.warm_start import load_pretrained
from electralab.records.run import RunFingerprint
from electralab.stopping import StopSignal
from electralab.tokens.agreement import ABSENT, match_tokens
from electralab.tokens.shards import open_data
from electralab.training.fingerprints import check_resumable

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
    return make_request(data, run, (*SMALL, "--model.num-layers", "2", *words), steps=2, **changes)


@pytest.fixture(scope="module")
def runs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, words in RUNS.items():
        list(pretrain(request(data, folder / name, *words), StopSignal()))
    return folder


def build(data: Path, *words: str) -> Objective[Any]:
    return build_objective(request(data, data, *words).config, open_data(data), 1, torch.device("cpu"))


def begin(data: Path, origin: Path, *words: str, by_text: bool = False) -> tuple[Objective[Any], list[str]]:
    objective = build(data, *words)
    return objective, load_pretrained(origin, objective, open_data(data), by_text=by_text)


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
        f"{runs / origin / 'export' / role}: has no head of the kind that the model needs; the model's head "
        "starts from random weights"
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
        f"{folder}: has no head of the kind that the discriminator needs; "
        "the discriminator's head starts from random weights" in notes
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
    assert "the generator starts from random weights" in notes[0]


def frozen(runs: Path, name: str = "dropping") -> tuple[str, ...]:
    return ("--generator.kind", "frozen", "--generator.path", str(runs / name))


def test_a_frozen_generator_plays_without_dropout_whatever_the_mode(data: Path, runs: Path) -> None:
    objective = build(data, *frozen(runs))
    objective.networks.train()
    generator = objective.networks.get_submodule("generator")
    assert isinstance(generator, Generator)
    assert not generator.training
    assert not generator.encoder.training
    assert objective.networks.get_submodule("discriminator").training


@pytest.mark.parametrize("place", [".", "export"])
def test_what_a_run_begins_from_leaves_its_frozen_generator_alone(data: Path, runs: Path, place: str) -> None:
    objective = build(data, *frozen(runs))
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


BACKBONES = {
    "electra": (*PAIR, "--model.backbone", "electra"),
    "modern": (*PAIR, "--model.backbone", "modern"),
    "disentangled": (*PAIR, "--model.backbone", "electra", "--model.sharing", "disentangled"),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half in the words of the other data, half in words of its own."""
    texts = [f"the {a} and the {b} Schiff {a} Schuh" for a in ("cat", "dog", "Ruf") for b in ("sun", "Rad", "Hut")]
    return prepare_sentences(tmp_path_factory.mktemp("mixed"), texts)


@pytest.fixture(scope="module")
def pairs(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    for name, words in BACKBONES.items():
        list(pretrain(request(data, folder / name, *words), StopSignal()))
    return folder


@pytest.mark.parametrize("place", [".", "export", "export/discriminator"])
def test_other_tokens_under_the_same_ids_are_refused(mixed: Path, pairs: Path, place: str, tmp_path: Path) -> None:
    origin = pairs / "electra" / place
    with pytest.raises(InputError) as caught:
        list(pretrain(request(mixed, tmp_path / "run", *BACKBONES["electra"], init_from=origin), StopSignal()))
    sentence = str(caught.value)
    assert "its tokenizer gives other ids: " in sentence
    assert f"compared with {mixed}, so its weights would read other words" in sentence
    assert sentence.endswith("or carry over the tokens that both have: --match-tokens")
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize("place", [".", "export"])
@pytest.mark.parametrize("backbone", list(BACKBONES))
def test_tokens_that_both_have_keep_their_rows_and_the_others_begin_as_drawn(
    data: Path, mixed: Path, pairs: Path, backbone: str, place: str
) -> None:
    theirs = load_any(pairs / backbone / "export/discriminator").get_submodule("encoder.embeddings")
    objective, notes = begin(mixed, pairs / backbone / place, *BACKBONES[backbone], by_text=True)
    drawn = build(mixed, *BACKBONES[backbone])
    mine, fresh = (each.networks.get_submodule("discriminator.encoder.embeddings") for each in (objective, drawn))
    assert isinstance(mine, Embeddings)
    assert isinstance(fresh, Embeddings)
    assert isinstance(theirs, Embeddings)
    rows = torch.from_numpy(match_tokens(open_data(mixed).tokenizer, open_data(data).tokenizer))
    is_known = rows != ABSENT
    carried = int(is_known.sum())
    assert 10 < carried < len(rows)
    assert torch.allclose(mine.tokens.weight[is_known], theirs.tokens.weight[rows[is_known]], atol=1e-6)
    assert torch.equal(mine.tokens.weight[~is_known], fresh.tokens.weight[~is_known])
    generator = load_any(pairs / backbone / "export/generator").get_parameter("head.bias")
    bias = objective.networks.get_parameter("generator.head.bias")
    assert torch.equal(bias[is_known], generator[rows[is_known]])
    assert not bias[~is_known].any()
    (note,) = notes
    assert note.startswith(
        f"{pairs / backbone / place}: {carried} of {len(rows)} tokens are carried over by their text"
    )
    assert note.endswith(f", {len(rows) - carried} start from random weights")


@torch.no_grad()
def test_a_merged_table_is_factorised_by_the_rows_of_known_tokens(data: Path, mixed: Path, pairs: Path) -> None:
    """On 'modern' the folder has one table where the settings have a table and a projection."""
    narrow = ("--model.embedding-size", "8")
    objective, notes = begin(mixed, pairs / "modern" / "export", *BACKBONES["modern"], *narrow, by_text=True)
    assert "of its token table does not fit the factors" in " ".join(notes)
    drawn = build(mixed, *BACKBONES["modern"], *narrow)
    name = "discriminator.encoder.embeddings.tokens.weight"
    rows = match_tokens(open_data(mixed).tokenizer, open_data(data).tokenizer)
    is_same = (objective.networks.get_parameter(name) == drawn.networks.get_parameter(name)).all(dim=1)
    assert is_same.tolist() == (rows == ABSENT).tolist()


def test_a_whole_run_with_matched_tokens_says_how_many_and_resumes(mixed: Path, pairs: Path, tmp_path: Path) -> None:
    asked = request(
        mixed, tmp_path / "run", *BACKBONES["electra"], init_from=pairs / "electra" / "export", match_tokens=True
    )
    events = list(pretrain(asked, StopSignal()))
    assert [text for text in warnings(events) if "carried over" in text]
    assert isinstance(events[-1], Result)
    assert isinstance(list(pretrain(asked, StopSignal()))[-1], Result)


def test_a_model_without_a_tokenizer_is_taken_on_trust_and_that_is_said(
    data: Path, pairs: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(pairs / "electra/export/discriminator", bare)
    for name in ("tokenizer.json", "tokenizer_config.json", "manifest.json"):
        (bare / name).unlink()
    _, notes = begin(data, bare, *BACKBONES["electra"])
    assert "holds no tokenizer, so that its ids are those of" in notes[0]
    with pytest.raises(InputError, match="--match-tokens cannot tell its tokens"):
        begin(data, bare, *BACKBONES["electra"], by_text=True)


SIZES: SettingsTree = {"embedding_size": 16, "hidden_size": 32, "num_layers": 2, "num_heads": 2, "feedforward_size": 32}

DATA = placeholder_data(resolve_pretrain([]), 64, 8)


class Exporter:
    """Of an objective only what it exports."""

    def __init__(self, pair: Electra) -> None:
        self.pair = pair

    def exports(self) -> dict[str, Any]:
        return {"discriminator": self.pair.discriminator, "generator": self.pair.generator}


def make_disentangled(seed: int, backbone: str, sharing: str) -> Electra:
    model = ModelConfig.model_validate(SIZES | {"backbone": backbone, "sharing": sharing})
    generator = GeneratorConfig(width_share=0.5)
    return build_electra(model, generator, vocab_size=DATA.tokenizer.vocab_size, sequence_length=8, seed=seed).eval()


def judge(network: Discriminator) -> torch.Tensor:
    ids = torch.arange(16).view(2, 8)
    verdicts: torch.Tensor = network(ids, torch.zeros_like(ids), None)
    return verdicts


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@pytest.mark.parametrize("sharing", ["disentangled", "none"])
@torch.no_grad()
def test_both_tables_are_those_of_the_folders(backbone: str, sharing: str, tmp_path: Path) -> None:
    saved = make_disentangled(1, backbone, sharing)
    for name in ("discriminator", "generator"):
        save_network(tmp_path / name, getattr(saved, name), pad_id=0)
        DATA.tokenizer.save(tmp_path / name)
    begun = make_disentangled(2, backbone, "disentangled")
    assert load_pretrained(tmp_path, cast("Objective[Any]", Exporter(begun)), DATA) == []
    assert torch.allclose(judge(begun.discriminator), judge(saved.discriminator), atol=1e-5)
    where = torch.arange(4)
    ids = torch.arange(8)[None]
    rows = (ids, torch.zeros_like(ids), None, where)
    assert torch.allclose(begun.generator(*rows), saved.generator(*rows), atol=1e-5)


STABLE = (
    *("--schedule.kind", "stable-decay", "--schedule.decay-share", "0.5"),
    *("--schedule.warmup-steps", "1", "--schedule.warmup-share", "0"),
)


def train_stable(data: Path, run: Path, steps: int, **changes: Any) -> None:
    train(data, run, (*SMALL, *STABLE), steps=steps, **changes)


@pytest.fixture(scope="module")
def long(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("long") / "run"
    train_stable(data, run, 12, keep=9)
    return run


def weights_at(run: Path, step: int) -> bytes:
    return (run / f"checkpoints/step-{step}/model.safetensors").read_bytes()


def test_a_branch_ends_as_a_run_of_its_own_budget_would(data: Path, long: Path, tmp_path: Path) -> None:
    """Both have a constant rate up to step 3, so a run of six may begin with the long one's three."""
    train_stable(data, tmp_path / "whole", 6)
    train_stable(data, tmp_path / "branch", 6, branch_from=long / "checkpoints/step-3")
    assert weights_at(tmp_path / "branch", 6) == weights_at(tmp_path / "whole", 6)
    assert weights_at(tmp_path / "branch", 6) != weights_at(long, 6)  # which had not begun to decay
    steps = [json.loads(line)["step"] for line in (tmp_path / "branch/metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert json.loads((tmp_path / "branch/results.json").read_text())["step"] == 6


def test_a_branch_that_was_stopped_before_its_first_step_goes_on_from_the_same_place(
    data: Path, long: Path, tmp_path: Path
) -> None:
    train_stable(data, tmp_path / "whole", 6, branch_from=long / "checkpoints/step-3")
    stopped = tmp_path / "stopped"
    shutil.copytree(tmp_path / "whole", stopped)
    for name in ("checkpoints", "export"):
        shutil.rmtree(stopped / name)
    for name in ("metrics.jsonl", "results.json"):
        (stopped / name).unlink()
    train_stable(data, stopped, 6, branch_from=long / "checkpoints/step-3")
    assert weights_at(stopped, 6) == weights_at(tmp_path / "whole", 6)
    with pytest.raises(ElectraError, match="started from branch"):
        train_stable(data, stopped, 6)


def test_a_run_stands_for_its_latest_checkpoint(data: Path, long: Path, tmp_path: Path) -> None:
    train_stable(data, tmp_path / "further", 14, branch_from=long)
    first = json.loads((tmp_path / "further/metrics.jsonl").read_text().splitlines()[-2])
    assert first["step"] == 13


@pytest.mark.parametrize(
    ("steps", "place", "changes", "sentence"),
    [
        (3, "checkpoints/step-3", {}, "is at step 3, and this run would have 3 steps in all"),
        (6, "checkpoints/step-99", {}, "holds no checkpoint to go on from"),
        (6, "checkpoints/step-3", {"init_from": True}, "takes over all weights, so --init-from would do nothing"),
    ],
)
def test_what_makes_no_branch_is_refused_before_anything_is_written(
    data: Path, long: Path, tmp_path: Path, steps: int, place: str, changes: dict[str, bool], sentence: str
) -> None:
    more = dict.fromkeys(changes, long)
    with pytest.raises(ElectraError, match=sentence):
        train_stable(data, tmp_path / "run", steps, branch_from=long / place, **more)
    assert not (tmp_path / "run/run.json").exists()


def test_other_data_is_refused(data: Path, long: Path, tmp_path: Path) -> None:
    run = tmp_path / "long"
    shutil.copytree(long, run)
    stored = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(stored | {"data": "0" * 64}))
    with pytest.raises(ElectraError, match="was trained on other data"):
        train_stable(data, tmp_path / "run", 6, branch_from=run / "checkpoints/step-3")
