"""A new kind of task is one file: it is tuned, saved, loaded, asked and compressed without anybody naming it."""

import random
from pathlib import Path

import pytest
from little_tasks import fill, make_request, read_lines, save_origin, tune, write_rows
from toy_kind import KIND

import electralab
from electralab.finetuning import stage
from electralab.records.tuned import TunedResults
from electralab.tasks import kinds
from electralab.tasks.catalog import TASKS
from electralab.tasks.kinds import KINDS


@pytest.fixture
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if its file lay beside the others."""
    monkeypatch.setitem(KINDS, KIND.name, KIND)
    for task in KIND.own_tasks():
        monkeypatch.setitem(TASKS, task.name, task)
    monkeypatch.setattr(
        stage, "plot_learning_curve", lambda out, *_: (out / "learning-curve.png").write_bytes(b"drawn")
    )


def test_every_file_of_the_folder_is_a_kind() -> None:
    files = {path.stem for path in Path(kinds.__file__).parent.glob("*.py")} - {"__init__"}
    assert {type(kind).__module__.rpartition(".")[2] for kind in KINDS.values()} == files
    assert all(kind.own_tasks() for kind in KINDS.values())


@pytest.mark.usefixtures("_known")
def test_a_kind_in_one_file_is_tuned_and_predicts(tmp_path: Path) -> None:
    rng = random.Random(0)
    for split, count in (("train", 192), ("dev", 18)):
        words = [("cat",), ("dog",), ("cat", "dog")] * (count // 3)
        rows = [{"text": " ".join(fill(rng, word) for word in chosen), "topics": list(chosen)} for chosen in words]
        write_rows(tmp_path / "data" / f"{split}.jsonl", rows)
    request = make_request(
        save_origin(tmp_path / "model"), "topics", tmp_path / "data", tmp_path / "run", {"epochs": 20}, seeds=2
    )
    assert tune(request)["dev"] == {"exact": 1.0}
    assert TunedResults.read(tmp_path / "run").notes == ("no baseline: nothing simple does topics of a text",)
    predicted = read_lines(tmp_path / "run/seed-0/predictions/dev.jsonl")
    assert all(row["prediction"] == row["truth"] for row in predicted)
    answers = electralab.load(tmp_path / "run").predict(["the cat", {"text": "a dog and a cat"}, "dog"])
    assert [row["prediction"] for row in answers] == [("cat",), ("cat", "dog"), ("dog",)]
    # What the server says of its models names the kind too.
    assert electralab.load(tmp_path / "run").describe("run").task == "topics"
    assert "topics" in (tmp_path / "run" / "README.md").read_text()
