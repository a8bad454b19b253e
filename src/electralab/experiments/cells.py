"""A cell is one arm with one seed: a chain of commands in processes of their own, each with what it is, about how long
it takes, and its result. Cells run side by side; one that fails stops its own chain only.

Cell <-> cells/ARM/seed-S/NAME.json for every finished step
Cell... -> StepEvent...
"""

import json
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electralab.artifacts import storage_errors, write_file, write_json
from electralab.config import differences
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError
from electralab.experiments.die_with_parent import die_with_parent
from electralab.experiments.scores import Measured, Score, read_score
from electralab.pretraining.settings import complete_settings
from electralab.records.record import JsonTree
from electralab.records.study import StepResult, TuningChoice
from electralab.runtime import default_threads
from electralab.stopping import StopSignal

_POLL_SECONDS = 0.1
# A child saves when it is told to stop: what takes longer than this is not saving.
_FAREWELL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    """`pretrain`, or a score, with `@share` behind it where it is that of a snapshot."""
    words: tuple[str, ...]
    """A module and its words, without those that change no result."""
    identity: JsonTree
    seconds: float
    """Estimated."""
    needs: tuple[Path, ...] = ()
    """Files of other cells, or of this one, without which it cannot be run."""
    choice: Path | None = None
    """The folder of the TuningChoice that it is tuned with: not known before the arm has been tried with all."""
    scratch: Path | None = None
    """What may go once the result is written down."""

    @property
    def kind(self) -> str:
        """Those of one kind take about as long as each other."""
        return self.name.partition("@")[0]

    def tuning(self) -> JsonTree:
        """The settings that were chosen for it; empty where nothing is to be chosen, or is not chosen yet."""
        choice = TuningChoice.find(self.choice) if self.choice else None
        return dict(choice.settings) if choice else {}

    def full_identity(self) -> JsonTree:
        """With the settings that were chosen for it, once they are."""
        tuning = self.tuning()
        return self.identity | ({"tuning": tuning} if tuning else {})


@dataclass(frozen=True, slots=True)
class Cell:
    arm: str
    seed: int
    folder: Path
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        return f"{self.arm} seed {self.seed}"

    def read(self, step: Step) -> StepResult | None:
        """None where the step is not finished; a result of other settings is refused."""
        path = self.folder / f"{step.name}.json"
        stored = StepResult.read(path)
        if stored is None or (step.choice and not step.tuning()):
            return None
        identity = step.full_identity()
        try:
            # With what has come since: files that were not hashed are taken for those of now, settings have defaults.
            known = {key: identity[key] for key in ("files", "generator") if key in identity} | stored.identity
            if "budget" in known and isinstance(before := known["settings"], dict):
                settings, now = complete_settings(before), identity["settings"]
                known |= {"settings": {name: settings[name] for name in settings if name in now}}  # type: ignore[operator]
            difference = next(differences(known, identity), None)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise DamagedArtifact(f"{path}: not the result of a step; delete it to run the step again") from None
        if difference:
            changed = "{} was {!r}, now {!r}".format(*difference)
            raise IdentityMismatch(f"{path}: {changed}; give the same study, or choose another --out for a new one")
        return stored

    def write(self, step: Step, seconds: float, result: JsonTree) -> None:
        record = StepResult(identity=step.full_identity(), seconds=seconds, result=result)
        record.write(self.folder / f"{step.name}.json")
        if step.scratch:
            shutil.rmtree(step.scratch, ignore_errors=True)
        self.log_path(step, "seconds").unlink(missing_ok=True)

    def finished(self) -> dict[str, StepResult]:
        """The results of the steps that are finished, by their names."""
        results = {step.name: self.read(step) for step in self.steps}
        return {name: result for name, result in results.items() if result is not None}

    def log_path(self, step: Step, ending: str) -> Path:
        """Of what the step's command printed (`out`, `err`), and of what it took so far (`seconds`)."""
        return self.folder / "logs" / f"{step.name}.{ending}"

    def add_seconds(self, step: Step, seconds: float) -> float:
        """To those that earlier sittings spent on the step: one that was stopped goes on where it was."""
        path = self.log_path(step, "seconds")
        spent = seconds + (float(path.read_text()) if path.is_file() else 0.0)
        write_file(path, f"{spent}\n")
        return spent

    def write_scores(self, scores: tuple[Score, ...]) -> None:
        """All that is measured of the cell so far, in one small file for people and scripts."""
        measured, _ = read_scores(self.finished(), scores)
        write_json(self.folder / "scores.json", {name: score.value for name, score in measured.items()})


def read_scores(results: Mapping[str, StepResult], scores: tuple[Score, ...]) -> tuple[dict[str, Measured], str]:
    """What is measured, and what is wrong with the first result that does not say its score."""
    by_name = {score.name: score for score in scores}
    measured: dict[str, Measured] = {}
    wrong = ""
    for name, step in results.items():
        score = by_name.get(name.partition("@")[0])
        try:
            if score is not None:
                measured[name] = read_score(score, step.result)
        except InputError as error:
            wrong = wrong or f"{name}: {error}; delete {name}.json of the cell to run it again"
    return measured, wrong


@dataclass(frozen=True, slots=True)
class StepEvent:
    cell: Cell
    step: Step
    state: Literal["started", "finished", "failed"]
    seconds: float = 0.0
    """That a finished step took, in all sittings."""
    reason: str = ""
    """Why it failed."""


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
                # What is derived from a tuned network depends on the choice, too, but takes no settings of tuning.
                chosen = step.tuning() if "finetune" in step.words[:2] else {}
                flags = [word for name, value in chosen.items() for word in (name_flag(name), str(value))]
                if step.words[1:2] in (("pretrain",), ("finetune",)):  # the cores are shared out to the cells
                    flags += ["--workers", str(max(1, default_threads() // (jobs * threads)))]
                command = die_with_parent([*program, *step.words, *flags, "--threads", str(threads), "--json"])
                out, err = cell.log_path(step, "out"), cell.log_path(step, "err")
                # To files, not through pipes: a full pipe stops the child, and what a killed study read would be lost.
                with storage_errors(out):
                    out.parent.mkdir(parents=True, exist_ok=True)
                    with out.open("wb") as stdout, err.open("wb") as stderr:
                        # A session of its own: Ctrl-C reaches the study alone, which then tells its children.
                        process = subprocess.Popen(
                            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
                        )
                running.append(_Job(cell, step, process, time.monotonic()))
                yield StepEvent(cell, step, "started")
            if not running:
                for cell, step in blocked:
                    missing = next(path for path in step.needs if not path.is_file())
                    reason = f"{missing}: is not there and would not come; run that arm too"
                    yield StepEvent(cell, step, "failed", reason=reason)
                return
            stop.check()
            # Polled and not waited for: any of the children may end first, or a signal come.
            time.sleep(_POLL_SECONDS)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                event = _settle(job)
                yield event
                if event.state == "finished":
                    # Its next step goes first: a cell that is begun is finished before another begins.
                    waiting.appendleft(job.cell)
                    waiting.extend(cell for cell, _ in blocked)
                    blocked.clear()
    finally:
        # All children are told first, so that they save side by side.
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


def name_flag(setting: str) -> str:
    """`optimizer.learning_rate` -> `--optimizer.learning-rate`"""
    return f"--{setting.replace('_', '-')}"


def _settle(job: _Job) -> StepEvent:
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
            return StepEvent(cell, step, "finished", seconds)
    log = cell.log_path(step, "err")
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    if status < 0:
        reason = f"ended by signal {-status} ({signal.Signals(-status).name}), see {log}"
    else:
        reason = lines[-1].removeprefix("electra: ").strip() if lines else f"ended with status {status}, see {log}"
    return StepEvent(cell, step, "failed", reason=reason)
