"""A run from where it is to its end: restore, take steps, log, evaluate, save, stop.

What a step is about belongs to the `TrainingTask`.

TrainingTask, TrainingState -> Progress, Note...
"""

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from electralab.errors import Stopped, TrainingDiverged
from electralab.events import Note, Progress, Update, warn
from electralab.records.run import CHECKPOINTS, StepRecord
from electralab.stopping import StopSignal
from electralab.training.checkpoint import (
    TrainingState,
    clear_leftovers,
    find_latest,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from electralab.training.loop import StepReport, TrainStep, join_norms, train
from electralab.training.metrics import MetricsLog, format_heldout, format_scores, format_step
from electralab.training.optimizer import OptimizerConfig
from electralab.training.schedule import LRSchedule, StepPlan
from electralab.training.time_budget import TimeBudget, Work

TRAINING = "training"
SNAPSHOT = "snapshot"
"""The phase of a step among `LoopConfig.snapshot_steps`: before the run goes on, its weights can be copied."""


@dataclass(frozen=True, slots=True)
class EvalRecord:
    """Scores on rows that training does not see, and what to tell the user about them."""

    scores: Mapping[str, float | None]
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StepStats:
    """What the step just taken was about, for the log."""

    tokens: int = 0
    flops: int = 0
    """Forward and backward."""


class TrainingTask(Protocol):
    """What differs between one kind of training and another."""

    stats: StepStats
    part_metrics: dict[int, Any]
    """What is known of the micro-batches of the step just taken, by their numbers; from wherever they were computed."""

    def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterable[Tensor]:
        """The step's micro-batches, each as its part of the step's loss; of so many, those that `choose` names."""
        ...

    def step_metrics(self) -> Mapping[str, float]:
        """What is logged of the step just taken, beside its loss."""
        ...

    def evaluate(self, record: StepRecord) -> EvalRecord:
        """The networks as they are after the step of this record."""
        ...


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """How long a run is and how often it stops to write; only the first two belong to what the run is."""

    total_steps: int
    """As planned first; what is not saved or logged counts in these."""
    evaluate_every: int
    log_every: int
    save_every: int
    keep: int
    snapshot_steps: frozenset[int] = frozenset()
    """Steps that are told of as they are reached."""
    most_lines: int = 0
    """In a pipe at most so many lines, beside those with scores; 0: one for every step that is logged."""


def every_n_steps(times: int, total_steps: int) -> int:
    """Every how many steps, to do something so many times in a run; 0 for never.

    >>> every_n_steps(4, 10), every_n_steps(0, 10)
    (3, 0)
    """
    return max(1, math.ceil(total_steps / times)) if times else 0


def take_steps(
    state: TrainingState,
    train_step: TrainStep,
    optimizer: OptimizerConfig,
    lr_schedule: LRSchedule,
    plan: StepPlan,
    stop: StopSignal,
) -> Generator[StepReport]:
    """The steps of a run from where its state is, without anything around them."""

    def steps() -> Iterator[int]:
        step = state.progress.step
        while step < plan.length_at(step + 1).total_steps:  # not `is_last`: a run may be extended after its last step
            step += 1
            yield step

    try:
        yield from train(
            train_step,
            lr_schedule,
            steps=steps(),
            clip_norm=optimizer.clip_norm,
            scale=state.scale,
            stop=stop,
        )
    finally:
        train_step.close()


class Trainer:
    def __init__(
        self,
        run_dir: Path,
        state: TrainingState,
        task: TrainingTask,
        config: LoopConfig,
        optimizer: OptimizerConfig,
        lr_schedule: LRSchedule,
        stop: StopSignal,
        make_step: Callable[[], TrainStep] | None = None,
        plan: StepPlan | None = None,
        budget: TimeBudget | None = None,
    ) -> None:
        """`make_step`: who computes the steps, if not this process alone; called when the state is restored.

        `plan`: how long the run is, if not as planned first; `budget`: the clock that decides it.
        """
        self.run_dir = run_dir
        self.checkpoints_dir = run_dir / CHECKPOINTS
        self.state = state
        self.task = task
        self.config = config
        self.optimizer = optimizer
        self.lr_schedule = lr_schedule
        self.stop = stop
        self.make_step = make_step or (lambda: TrainStep(state.model, state.optimizer, task.micro_losses))
        self.plan = plan or StepPlan.whole(config.total_steps)
        self.budget = budget
        self.saved_step = -1
        self.line_step = 0

    def run(self) -> Iterator[Update]:
        """Every step from where the run is to its end; then the state is that of the last one."""
        yield from self.restore()
        yield from self.train()

    def restore(self) -> Iterator[Update]:
        """The newest checkpoint that verifies; without any, the state stays as it was built."""
        clear_leftovers(self.checkpoints_dir)
        warnings: list[str] = []
        latest = find_latest(self.checkpoints_dir, warnings.append)
        yield from map(warn, warnings)
        if latest is not None:
            load_checkpoint(latest, self.state)
            self.saved_step = self.state.progress.step
        elif list_checkpoints(self.checkpoints_dir):
            yield warn(f"{self.checkpoints_dir}: no checkpoint is intact; starting again from step 1")

    def train(self) -> Iterator[Update]:
        """Every step from the restored one to the end."""
        progress, total = self.state.progress, self.plan.total_steps
        train_step = TrainStep(self.state.model, self.state.optimizer, self.task.micro_losses)
        if progress.step >= total:
            yield Note(f"already finished: {total:,} steps")
        else:
            train_step = self.make_step()
            parameters = sum(parameter.numel() for parameter in self.state.model.parameters())
            how, about = "resuming" if progress.step else "starting", "" if self.budget is None else "about "
            yield Note(
                f"{how} at step {progress.step + 1:,} of {about}{total:,}, {parameters:,} parameters, "
                f"{train_step.description}"
            )
        self.line_step = progress.step
        yield self._progress(TRAINING)
        log = MetricsLog(self.run_dir, progress.step - (1 if self.state.pending else 0))
        try:
            if self.budget is not None:
                self.budget.start()
            yield from self._log_pending(log)
            yield from self._take_steps(log, train_step)
        except Stopped:
            # The step that a checkpoint already holds is not written again: replacing it would put it at risk.
            if progress.step != self.saved_step:
                train_step.collect()
                yield from self._save(log, train_step)
            if self.budget is not None:
                self.budget.keep()
            raise
        finally:
            train_step.close()
            log.close()

    def _progress(self, phase: str, line: str = "") -> Progress:
        return Progress(phase, self.state.progress.step, self.plan.total_steps, line=line)

    def _take_steps(self, log: MetricsLog, train_step: TrainStep) -> Iterator[Update]:
        progress, config = self.state.progress, self.config
        tokens_before, seconds_before = progress.tokens, progress.seconds
        clock = time.perf_counter()
        for report in take_steps(self.state, train_step, self.optimizer, self.lr_schedule, self.plan, self.stop):
            progress.step = report.step
            progress.tokens += self.task.stats.tokens
            progress.flops += self.task.stats.flops
            progress.seconds += time.perf_counter() - clock
            clock = time.perf_counter()
            progress.skipped_in_a_row = progress.skipped_in_a_row + 1 if report.is_skipped else 0
            if report.is_skipped:
                progress.skipped_steps += 1
                if progress.skipped_in_a_row > self.optimizer.max_skipped_in_a_row:
                    raise self._diverged()
                what = f"loss {report.loss:g}, gradient norm {report.gradient_norm:g}"
                count = f"{progress.skipped_steps} so far"
                yield warn(f"step {report.step} was not finite ({what}) and changed nothing; {count}")
            # Amid skipped steps the weights may be past saving, and must not push out the checkpoints before them. An
            # adaptive loss scale skips a step now and then to find its value; that says nothing about the weights.
            is_sound = not report.is_skipped or self.state.scale.is_adaptive
            is_end = self.plan.is_last(report.step)
            is_saved = self._is_due(config.save_every) and (is_end or is_sound)
            is_snapshot = any(self.plan.reaches(report.step, place) for place in config.snapshot_steps)
            if is_saved or self._is_evaluated() or is_snapshot:
                train_step.collect()
            # Before the step can be saved: who resumes behind it has been told of it.
            if is_snapshot:
                yield self._progress(SNAPSHOT)
            if self._is_due(config.log_every) or self._is_evaluated():
                speed = (progress.tokens - tokens_before) / max(progress.seconds - seconds_before, 1e-9)
                tokens_before, seconds_before = progress.tokens, progress.seconds
                self.state.pending = self._record_step(report, speed)
                if is_end and not is_sound:
                    # A run may end on a step that was skipped, as any other may be, but not with weights past saving.
                    scores = self.task.evaluate(self.state.pending).scores.values()
                    if not all(math.isfinite(score) for score in scores if isinstance(score, float)):
                        raise self._diverged()
                yield from self._log_pending(log)
            if is_saved:
                yield from self._save(log, train_step)
            if self.budget is not None and not is_end:
                length, note = self.budget.decide(report.step, self.task.stats.flops)
                if length is not None:
                    train_step.tell(length)
                yield from [Note(note)] if note else []
            clock = time.perf_counter()

    def _is_due(self, every: int) -> bool:
        step = self.state.progress.step
        return self.plan.is_last(step) or (every > 0 and step % every == 0)

    def _is_evaluated(self) -> bool:
        return self.plan.reaches_multiple(self.state.progress.step, self.config.evaluate_every)

    def _measure(self, work: Work) -> AbstractContextManager[None]:
        return nullcontext() if self.budget is None else self.budget.measure(work)

    def _record_step(self, report: StepReport, speed: float) -> StepRecord:
        # Of each network, where there are several; what two share goes by the name of the first.
        networks = {name.partition(".")[0] for name in self.state.optimizer.names}
        norms: dict[str, list[float]] = {}
        for name, norm in report.gradient_norms.items():
            norms.setdefault(name.partition(".")[0], []).append(norm)
        progress = self.state.progress
        values: dict[str, float | int | None] = {
            "tokens": progress.tokens,
            "flops": progress.flops,
            "loss": report.loss,
            **self.task.step_metrics(),
            "learning_rate": self.optimizer.learning_rate * report.lr_factor,
            "gradient_norm": report.gradient_norm,
            **{f"{name}_gradient_norm": join_norms(norms[name]) for name in norms if len(networks) > 1},
            "skipped_steps": progress.skipped_steps,
            "tokens_per_second": round(speed, 1),
            "seconds": round(progress.seconds, 3),
        }
        return StepRecord(step=report.step, values=values)

    def _log_pending(self, log: MetricsLog) -> Iterator[Update]:
        """Write the pending record. It outlives a stop inside its evaluation: the checkpoint carries it along."""
        record = self.state.pending
        if record is None:
            return
        if self._is_evaluated():
            with self._measure("evaluation"), self.state.optimizer.averaged():
                evaluated = self.task.evaluate(record)
            values = {**record.values, **evaluated.scores}
            record = StepRecord(step=record.step, values=values, warnings=list(evaluated.warnings))
            yield from map(warn, evaluated.warnings)
        log.write(record)
        self.state.pending = None
        # Live the losses beside the bar; a line of its own, live too, for a step with scores.
        step, total, most = record.step, self.plan.total_steps, self.config.most_lines
        left = int(record["seconds"] / step * (total - step))
        line = f"step {step:>6}/{total}  {format_step(record)}  eta {left // 60}:{left % 60:02d}"
        is_due = not most or most * step // total > most * self.line_step // total
        if is_due:
            self.line_step = step
        scores = []
        if heldout := record.with_prefix("heldout_"):
            scores.append(f"       held out  {format_heldout(heldout)}")
        if dev := record.with_prefix("dev_"):
            scores.append(f"       dev  {format_scores(dev)}")
        is_line = is_due and not scores
        yield Progress(TRAINING, step, total, format_step(record), line if is_line else "", record.to_json())
        yield from [Note(line)] if scores else []
        yield from (Note(text, "score") for text in scores)

    def _diverged(self) -> TrainingDiverged:
        last = next(iter(list_checkpoints(self.checkpoints_dir)), None)
        return TrainingDiverged(
            f"{self.run_dir}: {self.state.progress.skipped_in_a_row} steps in a row were not finite; the last good "
            f"checkpoint is {last or 'none'}; lower --optimizer.learning-rate and start a new run from it"
        )

    def _save(self, log: MetricsLog, train_step: TrainStep) -> Iterator[Update]:
        log.sync()
        with self._measure("save"):
            path = save_checkpoint(self.checkpoints_dir, self.state, self.config.keep, train_step.write_moments)
        self.saved_step = self.state.progress.step
        yield self._progress(TRAINING, f"saved {path}")
