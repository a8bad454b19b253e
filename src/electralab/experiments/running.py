"""Cells side by side, each a chain of commands in processes of their own; one that fails stops its own chain only.

Cell... -> StepStarted | StepFinished | StepFailed ...
"""

import json
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from electralab.artifacts import storage_errors
from electralab.experiments.cells import Cell, Step
from electralab.experiments.die_with_parent import die_with_parent
from electralab.stopping import StopSignal

_POLL_SECONDS = 0.1
# A child saves when it is told to stop: what takes longer than this is not saving.
_FAREWELL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class StepStarted:
    cell: Cell
    step: Step


@dataclass(frozen=True, slots=True)
class StepFinished:
    cell: Cell
    step: Step
    seconds: float


@dataclass(frozen=True, slots=True)
class StepFailed:
    cell: Cell
    step: Step
    reason: str


@dataclass(slots=True)
class _Job:
    cell: Cell
    step: Step
    process: "subprocess.Popen[bytes]"
    started: float


def run_cells(
    cells: Sequence[Cell], jobs: int, threads: int, stop: StopSignal, program: Sequence[str]
) -> Iterator[StepStarted | StepFinished | StepFailed]:
    """`program` is what a step's words are given to."""
    waiting = deque(cells)
    blocked: list[tuple[Cell, Step]] = []
    running: list[_Job] = []
    try:
        while waiting or running or blocked:
            while waiting and len(running) < jobs:
                cell = waiting.popleft()
                step = next((step for step in cell.steps if cell.read(step) is None), None)
                if step is None:
                    continue
                if not all(path.is_file() for path in step.needs):
                    blocked.append((cell, step))
                    continue
                running.append(_start(cell, step, threads, program))
                yield StepStarted(cell, step)
            if not running:
                for cell, step in blocked:
                    missing = next(path for path in step.needs if not path.is_file())
                    yield StepFailed(cell, step, f"{missing}: is not there and would not come; run that arm too")
                return
            stop.check()
            time.sleep(_POLL_SECONDS)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                event = _settle(job)
                yield event
                if isinstance(event, StepFinished):
                    # Its next step goes first: a cell that is begun is finished before another begins.
                    waiting.appendleft(job.cell)
                    waiting.extend(cell for cell, _ in blocked)
                    blocked.clear()
    finally:
        _end(running)


def name_flag(setting: str) -> str:
    """`optimizer.learning_rate` -> `--optimizer.learning-rate`"""
    return f"--{setting.replace('_', '-')}"


def _start(cell: Cell, step: Step, threads: int, program: Sequence[str]) -> _Job:
    out = cell.log_path(step, "out")
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("wb") as stdout, cell.log_path(step, "err").open("wb") as stderr:
            # What is derived from a tuned network depends on the choice, too, but takes no settings of tuning.
            chosen = step.tuning() if "finetune" in step.words[:2] else {}
            flags = [word for name, value in chosen.items() for word in (name_flag(name), str(value))]
            words = [*program, *step.words, *flags, "--threads", str(threads), "--json"]
            command = die_with_parent(words)
            # A session of its own: Ctrl-C reaches the study alone, which then tells its children.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
            )
    return _Job(cell, step, process, time.monotonic())


def _settle(job: _Job) -> StepFinished | StepFailed:
    """The result of a child that ended well is written down; of another its last words are told."""
    cell, step, status = job.cell, job.step, job.process.returncode
    seconds = cell.add_seconds(step, time.monotonic() - job.started)
    if status == 0:
        try:
            result = json.loads(cell.log_path(step, "out").read_text(encoding="utf-8"))
        except ValueError:
            result = None
        if isinstance(result, dict):
            cell.write(step, seconds, result)
            return StepFinished(cell, step, seconds)
    log = cell.log_path(step, "err")
    if status < 0:
        return StepFailed(cell, step, f"ended by signal {-status} ({signal.Signals(-status).name}), see {log}")
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    reason = lines[-1].removeprefix("electra: ").strip() if lines else f"ended with status {status}, see {log}"
    return StepFailed(cell, step, reason)


def _end(running: Sequence[_Job]) -> None:
    """All children are told first, so that they save side by side."""
    for job in running:
        job.process.terminate()
    until = time.monotonic() + _FAREWELL_SECONDS
    for job in running:
        try:
            job.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
        job.cell.add_seconds(job.step, time.monotonic() - job.started)
