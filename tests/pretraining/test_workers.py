"""Slices of a step on several workers: the same bits on any number of them, and no silent end of any of them."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from little_pretraining import make_request, prepare_sentences
from torch import Tensor, nn

from electralab.errors import Stopped, UsageError, WorkerFailed
from electralab.events import Progress, run_to_end
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.stage import PretrainRequest, pretrain
from electralab.pretraining.task import build_worker
from electralab.records.run import read_metrics
from electralab.stopping import StopSignal
from electralab.training import workers
from electralab.training.checkpoint import TrainingProgress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters
from electralab.training.ranks import check_ranks
from electralab.training.workers import SlicedStep, WorkerJob

SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "6", "--batch.slices", "4"),
    *("--evaluation.rows", "4", "--evaluation.times", "2"),
)
# What a worker could get wrong: dropout, an optimizer with products of its own, averages, a network that waits, rows
# that do not fill all slices.
HARD = (
    *("--model.dropout", ".1", "--optimizer.kind", "muon", "--optimizer.average-decay", ".9"),
    *("--procedure", "two-stage", "--batch.first-size", "2"),
)
TIMES = {"seconds", "tokens_per_second"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("workers"))


def request(data: Path, run: Path, num_workers: int, extra: tuple[str, ...] = (), **changes: Any) -> PretrainRequest:
    return make_request(data, run, (*SMALL, *extra), workers=num_workers, **({"steps": 6, "save_every": 2} | changes))


def state_of(run: Path, step: int = 6) -> dict[str, Any]:
    """Weights and optimizer state as bytes; losses and scores as they are logged."""
    folder = run / "checkpoints" / f"step-{step}"
    files = {name: (folder / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")}
    records = [record.values for record in read_metrics(run / "metrics.jsonl")]
    return files | {"metrics": [{key: row[key] for key in row if key not in TIMES} for row in records]}


@pytest.mark.parametrize("extra", [(), HARD], ids=["plain", "hard"])
def test_weights_and_losses_are_the_same_on_any_number_of_workers(
    data: Path, tmp_path: Path, extra: tuple[str, ...]
) -> None:
    for count in (1, 3):
        run_to_end(pretrain(request(data, tmp_path / str(count), count, extra), StopSignal()))
    assert state_of(tmp_path / "1") == state_of(tmp_path / "3")


def run_and(act: Callable[[], object], request: PretrainRequest, stop: StopSignal) -> None:
    """A run during which something happens after its third step."""
    for event in pretrain(request, stop):
        if isinstance(event, Progress) and event.values.get("step") == 3:
            act()


def test_a_run_goes_on_with_another_number_of_workers(data: Path, tmp_path: Path) -> None:
    run_to_end(pretrain(request(data, tmp_path / "whole", 1), StopSignal()))
    stop = StopSignal()
    with pytest.raises(Stopped):
        run_and(lambda: setattr(stop, "number", signal.SIGTERM), request(data, tmp_path / "cut", 3), stop)
    assert run_to_end(pretrain(request(data, tmp_path / "cut", 2), StopSignal()))["step"] == 6
    assert state_of(tmp_path / "cut") == state_of(tmp_path / "whole")


def record_processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    return started


def make_state(network: nn.Module) -> TrainingState:
    config = OptimizerConfig()
    depths = dict.fromkeys(dict(network.named_parameters()), 0)
    optimizer = Optimizer(group_parameters(network.named_parameters(), depths, frozenset(), config), config)
    return TrainingState(network, optimizer, LossScale(), TrainingProgress(), None)


def test_a_worker_that_dies_ends_the_run_and_the_same_command_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = record_processes(monkeypatch)
    with pytest.raises(WorkerFailed, match=r"worker \d was ended by signal 9 .*the same command goes on"):
        run_and(lambda: started[0].kill(), request(data, tmp_path / "run", 3), StopSignal())
    assert all(process.poll() is not None for process in started), "the other workers are ended too"
    for name in ("run", "whole"):
        run_to_end(pretrain(request(data, tmp_path / name, 1), StopSignal()))
    assert state_of(tmp_path / "run") == state_of(tmp_path / "whole")


def test_a_worker_that_is_stopped_ends_the_run_with_the_stacks_of_all(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started = record_processes(monkeypatch)
    monkeypatch.setattr(workers, "_PATIENCE", 3)
    with pytest.raises(WorkerFailed, match=r"worker 1 gave no sign of life for \d seconds .*the same command goes on"):
        run_and(lambda: started[0].send_signal(signal.SIGSTOP), request(data, tmp_path / "run", 2), StopSignal())
    assert all(process.poll() is not None for process in started)
    stacks = capfd.readouterr().err
    assert "in _collect" in stacks, "this process"
    assert "in serve_worker" in stacks, "the worker"


class SlowTask:
    """A step in which nothing is heard of the main thread for longer than the run is patient."""

    def __init__(self, network: nn.Linear) -> None:
        self.network, self.part_metrics = network, dict[int, Any]()

    def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
        for number in choose(2):
            time.sleep(4 * step)
            yield self.network(torch.ones(1, 2)).sum() * (number + 1)


def build_slow() -> tuple[TrainingState, SlowTask]:
    network = nn.Linear(2, 2)
    return make_state(network), SlowTask(network)


def test_a_slow_step_is_not_taken_for_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PATIENCE", 5)
    state, task = build_slow()
    # The first worker, which is here, takes none of the slices.
    monkeypatch.setattr(task, "micro_losses", lambda *_: iter(()))
    step = SlicedStep(state, task, WorkerJob(build_slow, (), threads=1), num_slices=2, num_workers=2)
    try:
        whole = 3 * task.network(torch.ones(1, 2)).sum().item()
        assert step.backward(1, 1.0) == pytest.approx(whole)
    finally:
        step.close()


def test_an_error_in_a_worker_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    state = make_state(nn.Linear(2, 2))
    task = SimpleNamespace(micro_losses=None, part_metrics={})
    job = WorkerJob(build_worker, (tmp_path / "nowhere", resolve_pretrain([]), 1), threads=1)
    with pytest.raises(WorkerFailed, match=r"worker 1 failed: InputError: .*nowhere"):
        SlicedStep(state, task, job, num_slices=2, num_workers=2)
    assert "Traceback" in capfd.readouterr().err


@pytest.mark.parametrize(("num_ranks", "num_slices"), [(3, 4), (8, 4)])
def test_ranks_that_cannot_share_a_step_are_refused(
    monkeypatch: pytest.MonkeyPatch, num_ranks: int, num_slices: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(num_ranks))
    with pytest.raises(
        UsageError, match=rf"a step of 4 slices is shared out over 1, 2, 4 … ranks.* there are {num_ranks}"
    ):
        check_ranks(num_slices, "ddp")
