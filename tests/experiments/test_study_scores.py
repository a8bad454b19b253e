"""What a score needs is looked for before anything is run, and what it is measured on is part of what it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from electralab.errors import ElectraError, IdentityMismatch
from electralab.experiments.cells import Cell, Step
from electralab.experiments.scores import Score, find_scores
from electralab.experiments.settings import StudyConfig
from electralab.model.settings import EncoderConfig
from electralab.records.record import JsonTree

ENCODER = EncoderConfig(
    backbone="electra",
    vocab_size=1,
    sequence_length=32,
    num_layers=1,
    hidden_size=32,
    embedding_size=32,
    num_heads=2,
    feedforward_size=64,
    dropout=0.0,
    attention_dropout=0.0,
    norm_eps=1e-6,
)
PAIR = {"sentence_good": "Anna sees it.", "sentence_bad": "Anna it sees.", "UID": "order"}
ALIKE = {"blimp": {"limit": 5, "generator_limit": 5}}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "blimp").mkdir()
    (tmp_path / "blimp" / "order.jsonl").write_text(json.dumps(PAIR))
    (tmp_path / "CoLA").mkdir()
    for split in ("train", "dev", "test"):
        (tmp_path / "CoLA" / f"{split}.tsv").write_text("gj04\t1\t\tAnna sees it.\n")
    return tmp_path


def find(below: Path, /, **score: Any) -> Score:
    values = {"name": "s", "baseline": "a", "arms": {"a": {}}, "budget": {"steps": 1}, "scores": [score]}
    scores, missing = find_scores(StudyConfig.model_validate(values), below, below, "s.toml", ENCODER)
    assert missing == ()
    return scores[0]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a metric that a task has not": (
        {"task": "cola", "metric": "f1"},
        "s.toml: scores.cola: metric: no score named 'f1' comes out of it; known are mcc, accuracy",
    ),
    "a metric that a suite has not": (
        {"suite": "blimp", "data": "blimp", "metric": "accuracy", "settings": ALIKE},
        "no score named 'accuracy' comes out of it; known are discriminator",
    ),
    "a metric of which less is better": ({"suite": "mlm", "metric": "loss"}, "known are accuracy"),
    "pairs that differ from arm to arm": (
        {"suite": "blimp", "data": "blimp", "settings": {"blimp": {"limit": 50}}},
        "blimp.limit 50 and blimp.generator_limit 100 differ, so that arms of different kinds would be scored on "
        "different pairs; give the score settings = { blimp = { limit = 50, generator_limit = 50 } }",
    ),
    "pairs without a word about limits": (
        {"suite": "blimp", "data": "blimp"},
        "give the score settings = { blimp = { limit = 100, generator_limit = 100 } }",
    ),
    "a probe without classes": ({"suite": "probe", "task": "stsb"}, "task 'stsb' has no classes to tell apart"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_score_that_could_not_be_measured_is_refused_by_name(data: Path, case: str) -> None:
    score, said = REFUSED[case]
    with pytest.raises(ElectraError) as caught:
        find(data, **score)
    assert said in str(caught.value)


def test_other_data_is_refused_but_for_what_no_score_is_read_from(data: Path) -> None:
    def cell() -> Cell:
        files: JsonTree = dict(find(data, task="cola").files)
        return Cell("a", 0, data / "cell", (Step("cola", (), {"files": files}, 1.0),))

    first = cell()
    first.write(first.steps[0], 1.0, {})
    (data / "CoLA" / "test.tsv").write_text("gj04\t1\t\tOthers.\n")
    assert set(cell().finished()) == {"cola"}
    (data / "CoLA" / "dev.tsv").write_text("gj04\t0\t\tOthers.\n")
    with pytest.raises(IdentityMismatch, match=r"cola.json: files.dev was '.*', now '.*'; give the same study"):
        cell().finished()


def test_a_result_from_before_files_were_hashed_still_counts(data: Path) -> None:
    old = Cell("a", 0, data / "cell", (Step("cola", (), {"task": "cola"}, 1.0),))
    old.write(old.steps[0], 1.0, {})
    new = Cell("a", 0, data / "cell", (Step("cola", (), {"task": "cola", "files": {"dev": "0"}}, 1.0),))
    assert set(new.finished()) == {"cola"}


def test_blimp_is_its_pairs_whatever_lies_beside_them(data: Path) -> None:
    before = find(data, suite="blimp", data="blimp", settings=ALIKE).files
    (data / "blimp" / "README.md").write_text("pairs")
    assert find(data, suite="blimp", data="blimp", settings=ALIKE).files == before
    assert set(before) == {"order.jsonl"}


def test_what_the_corpus_holds_out_can_be_asked_about(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("anna sees the house")
    values = {
        "name": "s",
        "baseline": "a",
        "budget": {"steps": 1},
        "arms": {"a": {}},
        "scores": [{"suite": "mlm", "data": "@corpus"}],
    }
    (score,), _ = find_scores(StudyConfig.model_validate(values), None, tmp_path, "s.toml", ENCODER)
    assert score.data == tmp_path


def test_all_that_is_missing_is_gathered_place_by_place(data: Path) -> None:
    scores = [
        {"suite": "blimp", "data": "pairs", "settings": ALIKE},
        {"suite": "blimp", "name": "empty", "data": "CoLA", "settings": ALIKE},
        {"task": "cola"},
        {"task": "mrpc", "data": "glue"},
        {"task": "stsb", "data": "glue"},
        {"task": "rte"},
    ]
    values = {"name": "s", "baseline": "a", "arms": {"a": {}}, "budget": {"steps": 1}, "scores": scores}
    found, missing = find_scores(StudyConfig.model_validate(values), data, data, "s.toml", ENCODER)
    assert [score.name for score in found] == ["cola"]
    pairs, empty, glue, rte = missing
    assert pairs == f"{data}/pairs: no such file or folder (needed by blimp)"
    assert "CoLA: holds no" in empty
    assert glue == f"{data}/glue: no such file or folder (needed by mrpc, stsb)"
    assert "has no train file of RTE" in rte
