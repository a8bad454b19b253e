"""A branch goes on from a checkpoint of another run, exactly, with a schedule and a budget of its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from little_pretraining import make_request, prepare_sentences

from electralab.errors import ElectraError
from electralab.pretraining.stage import PretrainRequest, pretrain
from electralab.stopping import StopSignal

SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "8"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4"),
    *("--evaluation.rows", "4", "--evaluation.times", "1"),
)
STABLE = (
    *("--schedule.kind", "stable-decay", "--schedule.decay-share", "0.5"),
    *("--schedule.warmup-steps", "1", "--schedule.warmup-share", "0"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("branches"))


def request(data: Path, run: Path, steps: int, **changes: Any) -> PretrainRequest:
    return make_request(data, run, (*SMALL, *STABLE), steps=steps, **changes)


def train(data: Path, run: Path, steps: int, **changes: Any) -> None:
    for _ in pretrain(request(data, run, steps, **changes), StopSignal()):
        pass


@pytest.fixture(scope="module")
def long(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("long") / "run"
    train(data, run, 12, keep=9)
    return run


def weights_at(run: Path, step: int) -> bytes:
    return (run / f"checkpoints/step-{step}/model.safetensors").read_bytes()


def test_a_branch_ends_as_a_run_of_its_own_budget_would(data: Path, long: Path, tmp_path: Path) -> None:
    """Both have a constant rate up to step 3, so a run of six may begin with the long one's three."""
    train(data, tmp_path / "whole", 6)
    train(data, tmp_path / "branch", 6, branch_from=long / "checkpoints/step-3")
    assert weights_at(tmp_path / "branch", 6) == weights_at(tmp_path / "whole", 6)
    assert weights_at(tmp_path / "branch", 6) != weights_at(long, 6)  # which had not begun to decay
    steps = [json.loads(line)["step"] for line in (tmp_path / "branch/metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert json.loads((tmp_path / "branch/results.json").read_text())["step"] == 6


def test_a_branch_that_was_stopped_before_its_first_step_goes_on_from_the_same_place(
    data: Path, long: Path, tmp_path: Path
) -> None:
    train(data, tmp_path / "whole", 6, branch_from=long / "checkpoints/step-3")
    stopped = tmp_path / "stopped"
    shutil.copytree(tmp_path / "whole", stopped)
    for name in ("checkpoints", "export"):
        shutil.rmtree(stopped / name)
    for name in ("metrics.jsonl", "results.json"):
        (stopped / name).unlink()
    train(data, stopped, 6, branch_from=long / "checkpoints/step-3")
    assert weights_at(stopped, 6) == weights_at(tmp_path / "whole", 6)
    with pytest.raises(ElectraError, match="started from branch"):
        train(data, stopped, 6)


def test_a_run_stands_for_its_latest_checkpoint(data: Path, long: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "further", 14, branch_from=long)
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
        train(data, tmp_path / "run", steps, branch_from=long / place, **more)
    assert not (tmp_path / "run/run.json").exists()


def test_other_data_is_refused(data: Path, long: Path, tmp_path: Path) -> None:
    run = tmp_path / "long"
    shutil.copytree(long, run)
    stored = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(stored | {"data": "0" * 64}))
    with pytest.raises(ElectraError, match="was trained on other data"):
        train(data, tmp_path / "run", 6, branch_from=run / "checkpoints/step-3")
