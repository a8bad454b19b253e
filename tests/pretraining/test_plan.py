"""A dry run refuses what the run would refuse, in the same words, and says what it would say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from little_pretraining import make_request, prepare_sentences

from electralab.errors import ElectraError
from electralab.pretraining.stage import PretrainRequest, plan_pretrain, pretrain
from electralab.records.run import Budget
from electralab.stopping import StopSignal
from electralab.tokens.shards import open_data

SMALL = (
    *("--model.backbone", "electra", "--model.num-layers", "1", "--model.hidden-size", "16"),
    *("--model.embedding-size", "16", "--model.num-heads", "2", "--model.feedforward-size", "16"),
    *("--batch.size", "4", "--evaluation.rows", "4", "--evaluation.times", "1"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `data`, a finished `run` of six steps and `bare`, an encoder without a head."""
    folder = tmp_path_factory.mktemp("plan")
    data = prepare_sentences(folder)
    list(pretrain(make_request(data, folder / "run", SMALL), StopSignal()))
    sizes = {"hidden_size": 16, "embedding_size": 16, "intermediate_size": 16}
    config = transformers.ElectraConfig(
        vocab_size=open_data(data).tokenizer.vocab_size, num_hidden_layers=1, num_attention_heads=2, **sizes
    )
    transformers.ElectraModel(config).save_pretrained(folder / "bare")
    return folder


def ask(folder: Path, run: str, *words: str, **changes: Any) -> PretrainRequest:
    return make_request(folder / "data", folder / run, (*SMALL, *words), **changes)


REFUSED: dict[str, Callable[[Path], PretrainRequest]] = {
    "fewer tokens": lambda f: ask(f, "run", extend=True, budget=Budget("tokens", 64.0)),
    "fewer steps": lambda f: ask(f, "run", extend=True, steps=5),
    "another budget": lambda f: ask(f, "run", steps=9),
    "other settings": lambda f: ask(f, "run", "--masking.mask-share", "0.3"),
    "other threads": lambda f: ask(f, "run", threads=2),
    "another origin": lambda f: ask(f, "run", init_from=f / "run"),
    "no head": lambda f: ask(f, "new", init_from=f / "bare"),
    "no model": lambda f: ask(f, "new", init_from=f / "nowhere"),
    "other sizes": lambda f: ask(f, "new", "--model.num-layers", "2", init_from=f / "run"),
    "generator alone": lambda f: ask(f, "new", init_generator=f / "run"),
    "tokens alone": lambda f: ask(f, "new", match_tokens=True),
    "not a run": lambda f: ask(f, "data"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_the_run_refuses_the_dry_run_refuses(folder: Path, name: str) -> None:
    request = REFUSED[name](folder)
    with pytest.raises(ElectraError) as of_plan:
        plan_pretrain(request)
    with pytest.raises(ElectraError) as of_run:
        list(pretrain(request, StopSignal()))
    assert str(of_plan.value) == str(of_run.value)
    assert type(of_plan.value) is type(of_run.value)


def test_what_the_run_accepts_the_dry_run_accepts(folder: Path) -> None:
    assert plan_pretrain(ask(folder, "run")).steps == 6
    assert plan_pretrain(ask(folder, "run", extend=True, steps=9)).steps == 9
    # How many steps minutes are is only estimated here: the run's own probe decides.
    assert plan_pretrain(ask(folder, "run", extend=True, budget=Budget("minutes", 1e-6))).steps == 6
    plan = plan_pretrain(ask(folder, "untouched", init_from=folder / "run/export/discriminator"))
    (note,) = plan.notes
    assert note.endswith(
        "holds no generator to start from: what it does not share begins anew; give one with --init-generator"
    )
    assert not (folder / "untouched").exists()
