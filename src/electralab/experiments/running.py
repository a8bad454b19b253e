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
from pathlib import Path
from typing import Any

from electralab.artifacts import storage_errors
from electralab.experiments.cells import Cell, Step
from electralab.experiments.records import Record, add_seconds, read_record, write_record
from electralab.experiments.tether import tether
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
    record: Record


@dataclass(frozen=True, slots=True)
class StepFailed:
    cell: Cell
    step: Step
    reason: str


StepEvent = StepStarted | StepFinished | StepFailed


@dataclass(slots=True)
class _Job:
    cell: Cell
    step: Step
    process: "subprocess.Popen[bytes]"
    started: float


def run_cells(
    cells: Sequence[Cell], jobs: int, threads: int, stop: StopSignal, program: Sequence[str]
) -> Iterator[StepEvent]:
    """`program` is what a step's words are given to."""
    waiting = deque(cells)
    blocked: list[Cell] = []
    running: list[_Job] = []
    try:
        while waiting or running or blocked:
            while waiting and len(running) < jobs:
                cell = waiting.popleft()
                step = _find_next(cell)
                if step is not None and step.needs is not None and not step.needs.is_file():
                    blocked.append(cell)
                elif step is not None:
                    running.append(_start(cell, step, threads, program))
                    yield StepStarted(cell, step)
            if not running:
                yield from map(_give_up, blocked)
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
                    waiting.extend(blocked)
                    blocked.clear()
    finally:
        _end(running)


def _find_next(cell: Cell) -> Step | None:
    """The first step that is not finished."""
    return next((step for step in cell.steps if read_record(cell, step) is None), None)


def _give_up(cell: Cell) -> StepFailed:
    step = _find_next(cell)
    assert step is not None, "what waits has something left to do"
    return StepFailed(cell, step, f"{step.needs}: is not there and would not come; run that arm too")


def _start(cell: Cell, step: Step, threads: int, program: Sequence[str]) -> _Job:
    out, err = _logs(cell, step)
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("wb") as stdout, err.open("wb") as stderr:
            command = tether([*program, *step.words, "--threads", str(threads), "--json"])
            # A session of its own: Ctrl-C reaches the study alone, which then tells its children.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
            )
    return _Job(cell, step, process, time.monotonic())


def _settle(job: _Job) -> StepFinished | StepFailed:
    out, err = _logs(job.cell, job.step)
    status = job.process.returncode
    result = _read_result(out) if status == 0 else None
    seconds = add_seconds(job.cell, job.step, time.monotonic() - job.started)
    if result is None:
        return StepFailed(job.cell, job.step, _last_words(err, status))
    record = Record(seconds, result)
    write_record(job.cell, job.step, record)
    return StepFinished(job.cell, job.step, record)


def _read_result(path: Path) -> dict[str, Any] | None:
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _last_words(path: Path, status: int) -> str:
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    if status < 0:
        return f"ended by signal {-status} ({signal.Signals(-status).name}), see {path}"
    return lines[-1].removeprefix("electra: ").strip() if lines else f"ended with status {status}, see {path}"


def _logs(cell: Cell, step: Step) -> tuple[Path, Path]:
    folder = cell.folder / "logs"
    return folder / f"{step.name}.out", folder / f"{step.name}.err"


def _end(running: Sequence[_Job]) -> None:
    for job in running:
        job.process.terminate()
    until = time.monotonic() + _FAREWELL_SECONDS
    for job in running:
        try:
            job.process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            job.process.kill()
            job.process.wait()
        add_seconds(job.cell, job.step, time.monotonic() - job.started)
