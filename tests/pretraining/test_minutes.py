"""Runs by the clock: what they decide is written first, and a run that is killed repeats it bit for bit."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from little_pretraining import SMALL, make_request
from watching_events import notes

from electralab.config import read_toml
from electralab.errors import UsageError
from electralab.events import Progress
from electralab.pretraining.stage import PretrainRequest, plan_pretrain, pretrain
from electralab.records.run import Budget, LengthLog, PretrainResults, RunFingerprint
from electralab.stopping import StopSignal

# Everything that changes along a run, and a step in two slices, so that workers have to know.
CHANGING = (
    *(*SMALL, "--evaluation.times", "2", "--batch.slices", "2"),
    *("--batch.first-size", "2", "--batch.halved-share", "0.3", "--masking.final-mask-share", "0.4"),
    *("--sampling.final-temperature", "0.5", "--schedule.kind", "cosine"),
)


def ticking(seconds: float, busy_from: int = 10**9) -> Callable[[], float]:
    """A clock that is so much later at every look at it; later still when the machine is busy."""
    looks = itertools.accumulate(3 * seconds if look > busy_from else seconds for look in itertools.count())
    return lambda: next(looks)


def request(data: Path, run: Path, minutes: float = 1.0, *words: str, **changes: Any) -> PretrainRequest:
    changes = {"save_every": 5, "keep": 99, "workers": 1} | changes
    return make_request(data, run, (*CHANGING, *words), budget=Budget("minutes", minutes), **changes)


def weights_of(run: Path, step: int) -> list[bytes]:
    folder = run / f"checkpoints/step-{step}"
    return [(folder / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")]


def train_to(events: Any, step: int) -> None:
    """As `kill -9` leaves a run: nothing is saved any more."""
    for event in events:
        if isinstance(event, Progress) and event.values.get("step") == step:
            events.close()
            return
    raise AssertionError(f"the run has no step {step}")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_run_repeats_its_decisions_bit_for_bit(data: Path, tmp_path: Path, workers: int) -> None:
    killed, again = tmp_path / "killed", tmp_path / "again"
    train_to(pretrain(request(data, killed, workers=workers), StopSignal(), ticking(0.15, busy_from=60)), 33)
    decided = LengthLog.read(killed).lengths
    assert len(decided) > 2
    assert decided[-1].step > 30, "the last decision is to come after the last checkpoint"
    list(pretrain(request(data, killed), StopSignal(), ticking(0.3)))
    log = LengthLog.read(killed)
    assert log.lengths[: len(decided)] == decided
    last = log.lengths[-1].total_steps
    assert PretrainResults.read(killed).step == last == RunFingerprint.read(killed).total_steps

    # A run that was never disturbed, given these decisions; its own clock stands still.
    again.mkdir()
    for name in ("run.json", "config.toml", "lengths.json"):
        shutil.copyfile(killed / name, again / name)
    list(pretrain(request(data, again, workers=3 - workers), StopSignal(), lambda: 0.0))
    assert LengthLog.read(again).lengths == log.lengths
    assert weights_of(again, last) == weights_of(killed, last)
    rows = [json.loads(line) for line in (again / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, last + 1))
    assert sum("heldout_auc" in row for row in rows) == 2


def test_what_a_run_takes_from_the_data_goes_on_where_it_was(data: Path, tmp_path: Path) -> None:
    """Rows are neither left out nor seen twice where the length bends, though their number grows along the run."""
    list(pretrain(request(data, tmp_path / "run"), StopSignal(), ticking(0.3, busy_from=60)))
    lengths = LengthLog.read(tmp_path / "run").lengths
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    tokens = [0, *(row["tokens"] for row in rows)]
    assert len(lengths) > 2
    assert [16 * length.rows for length in lengths] == [tokens[length.step] for length in lengths]
    assert [length.position for length in lengths] == sorted(length.position for length in lengths)


def test_the_export_is_written_when_the_time_is_over(data: Path, tmp_path: Path) -> None:
    events = list(pretrain(request(data, tmp_path / "run"), StopSignal(), ticking(0.05, busy_from=500)))
    assert 57 < LengthLog.read(tmp_path / "run").seconds < 63
    assert any(text.endswith(" of 1 minutes") for text in notes(events))


def test_a_floor_of_steps_wins(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    events = list(pretrain(request(data, run, min_steps=40), StopSignal(), ticking(10.0)))
    assert PretrainResults.read(run).step == 40
    assert sum("the run takes at least 40 (--min-steps)" in text for text in notes(events)) == 1


def test_a_run_of_before_keeps_the_steps_it_was_given(data: Path, tmp_path: Path) -> None:
    """It has minutes and a number of steps, and no log of decisions."""
    run = tmp_path / "run"
    train_to(pretrain(request(data, run), StopSignal(), ticking(0.3)), 7)
    (run / "lengths.json").unlink()
    RunFingerprint.read(run).model_copy(update={"total_steps": 11}).write(run)
    list(pretrain(request(data, run), StopSignal(), ticking(0.001)))
    assert PretrainResults.read(run).step == 11
    assert not (run / "lengths.json").exists()


def test_a_run_is_extended_by_the_clock_from_steps_and_to_steps(data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    list(pretrain(make_request(data, run, CHANGING, steps=6), StopSignal()))
    plan = request(data, run, extend=True, min_steps=20)
    assert plan_pretrain(plan).steps >= 20
    list(pretrain(plan, StopSignal(), ticking(10.0)))
    first, longer, *_ = LengthLog.read(run).lengths
    assert (first.total_steps, longer.step, longer.position) == (6, 6, 6.0)
    taken = PretrainResults.read(run).step
    assert taken >= 20
    # Fewer minutes than it has used already.
    fewer = request(data, run, 1e-6, extend=True)
    for refuse in (lambda: plan_pretrain(fewer), lambda: list(pretrain(fewer, StopSignal()))):
        with pytest.raises(UsageError, match="give more"):
            refuse()
    list(pretrain(make_request(data, run, CHANGING, steps=taken + 3, extend=True), StopSignal()))
    assert PretrainResults.read(run).step == taken + 3
    assert LengthLog.read(run).minutes == 0
    assert "minutes" not in str(read_toml(run / "config.toml").values)
