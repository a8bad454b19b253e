"""Starting from a model of another vocabulary: refused, or with the rows of the tokens that both have."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from little_pretraining import make_request, prepare_sentences
from watching_events import warnings

import electralab
from electralab.display import Display
from electralab.errors import InputError
from electralab.events import Result
from electralab.model.encoder import Embeddings
from electralab.model.folders.folder import load_any
from electralab.objective.objective import Objective
from electralab.objective.registry import build_objective
from electralab.pretraining.stage import PretrainRequest, pretrain
from electralab.pretraining.warm_start import load_pretrained
from electralab.stopping import StopSignal
from electralab.tokens.agreement import ABSENT, match_tokens
from electralab.tokens.shards import open_data

SMALL = (
    *("--model.num-layers", "2", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4", "--evaluation.rows", "4"),
    *("--evaluation.times", "1", "--model.sharing", "embeddings", "--generator.width-share", "0.5"),
    *("--generator.num-heads", "1"),
)
BACKBONES = {
    "electra": ("--model.backbone", "electra"),
    "modern": ("--model.backbone", "modern"),
    "disentangled": ("--model.backbone", "electra", "--model.sharing", "disentangled"),
}


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("english"))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half in the words of the other data, half in words of its own."""
    folder = tmp_path_factory.mktemp("mixed")
    texts = [f"the {a} and the {b} Schiff {a} Schuh" for a in ("cat", "dog", "Ruf") for b in ("sun", "Rad", "Hut")]
    (folder / "text.txt").write_text("\n\n".join(texts))
    settings = {"tokenizer": {"vocab_size": 64}, "packing": {"sequence_length": 16}}
    electralab.prepare([folder / "text.txt"], folder / "data", settings=settings, display=Display(quiet=True))
    return folder / "data"


@pytest.fixture(scope="module")
def runs(english: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, words in BACKBONES.items():
        list(pretrain(request(english, folder / name, *words), StopSignal()))
    return folder


def request(data: Path, run: Path, *words: str, **changes: Any) -> PretrainRequest:
    return make_request(data, run, (*SMALL, *words), steps=2, **changes)


def begin(data: Path, origin: Path, *words: str) -> tuple[Objective[Any], list[str]]:
    prepared = open_data(data)
    objective = build_objective(request(data, origin, *words).config, prepared, 1, torch.device("cpu"))
    return objective, load_pretrained(origin, objective, prepared, by_text=True)


@pytest.mark.parametrize("place", [".", "export", "export/discriminator"])
def test_other_tokens_under_the_same_ids_are_refused(mixed: Path, runs: Path, place: str, tmp_path: Path) -> None:
    origin = runs / "electra" / place
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
    english: Path, mixed: Path, runs: Path, backbone: str, place: str
) -> None:
    theirs = load_any(runs / backbone / "export/discriminator").get_submodule("encoder.embeddings")
    objective, notes = begin(mixed, runs / backbone / place, *BACKBONES[backbone])
    config = request(mixed, runs, *BACKBONES[backbone]).config
    drawn = build_objective(config, open_data(mixed), 1, torch.device("cpu"))
    mine, fresh = (each.networks.get_submodule("discriminator.encoder.embeddings") for each in (objective, drawn))
    assert isinstance(mine, Embeddings)
    assert isinstance(fresh, Embeddings)
    assert isinstance(theirs, Embeddings)
    rows = torch.from_numpy(match_tokens(open_data(mixed).tokenizer, open_data(english).tokenizer))
    is_known = rows != ABSENT
    carried = int(is_known.sum())
    assert 10 < carried < len(rows)
    assert torch.allclose(mine.tokens.weight[is_known], theirs.tokens.weight[rows[is_known]], atol=1e-6)
    assert torch.equal(mine.tokens.weight[~is_known], fresh.tokens.weight[~is_known])
    generator = load_any(runs / backbone / "export/generator").get_parameter("head.bias")
    bias = objective.networks.get_parameter("generator.head.bias")
    assert torch.equal(bias[is_known], generator[rows[is_known]])
    assert not bias[~is_known].any()
    told = f"{carried} of {len(rows)} tokens are carried over by their text, {len(rows) - carried} begin anew"
    assert notes == [f"{runs / backbone / place}: {told}"]


@torch.no_grad()
def test_a_merged_table_is_factorised_by_the_rows_of_known_tokens(english: Path, mixed: Path, runs: Path) -> None:
    """On 'modern' the folder has one table where the settings have a table and a projection."""
    narrow = ("--model.embedding-size", "8")
    objective, notes = begin(mixed, runs / "modern" / "export", *BACKBONES["modern"], *narrow)
    assert "of its token table does not fit the factors" in " ".join(notes)
    config = request(mixed, runs, *BACKBONES["modern"], *narrow).config
    drawn = build_objective(config, open_data(mixed), 1, torch.device("cpu"))
    name = "discriminator.encoder.embeddings.tokens.weight"
    rows = match_tokens(open_data(mixed).tokenizer, open_data(english).tokenizer)
    is_same = (objective.networks.get_parameter(name) == drawn.networks.get_parameter(name)).all(dim=1)
    assert is_same.tolist() == (rows == ABSENT).tolist()


def test_a_whole_run_with_matched_tokens_says_how_many_and_resumes(mixed: Path, runs: Path, tmp_path: Path) -> None:
    asked = request(
        mixed, tmp_path / "run", *BACKBONES["electra"], init_from=runs / "electra" / "export", match_tokens=True
    )
    events = list(pretrain(asked, StopSignal()))
    assert [text for text in warnings(events) if "carried over" in text]
    assert isinstance(events[-1], Result)
    assert isinstance(list(pretrain(asked, StopSignal()))[-1], Result)


def test_a_model_without_a_tokenizer_is_taken_on_trust_and_that_is_said(
    english: Path, runs: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(runs / "electra/export/discriminator", bare)
    for name in ("tokenizer.json", "tokenizer_config.json", "manifest.json"):
        (bare / name).unlink()
    prepared = open_data(english)
    objective = build_objective(
        request(english, tmp_path, *BACKBONES["electra"]).config, prepared, 1, torch.device("cpu")
    )
    notes = load_pretrained(bare, objective, prepared)
    assert "holds no tokenizer, so that its ids are those of" in notes[0]
    with pytest.raises(InputError, match="--match-tokens cannot tell its tokens"):
        load_pretrained(bare, objective, prepared, by_text=True)
