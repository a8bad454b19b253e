"""One sitting of a run: restore, take steps, log, judge, save, stop. What a step is about belongs to the `Work`.

Work, TrainingState -> Progress, Note...
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from electralab.errors import Stopped, TrainingDiverged
from electralab.events import Note, Progress, Update, warn
from electralab.stopping import StopSignal
from electralab.training.checkpoint import (
    TrainingState,
    clear_leftovers,
    find_latest,
    list_checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from electralab.training.loop import StepReport, join_norms, train
from electralab.training.metrics import MetricsLog, Record, format_heldout, format_scores, format_step
from electralab.training.optimizer import OptimizerConfig
from electralab.training.schedule import Rate

TRAINING = "training"
SNAPSHOT = "snapshot"
"""The phase of a step among `Pace.marks`: before the run goes on, its weights can be copied."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Scores on rows that training does not see, and what to tell the user about them."""

    scores: Record
    warnings: Sequence[str]


class Work(Protocol):
    """What differs between one kind of training and another."""

    def parts(self, step: int) -> Iterable[Tensor]:
        """The step's micro-batches, each as its share of the step's loss."""
        ...

    def count_tokens(self) -> int:
        """Of the step just taken."""
        ...

    def count_flops(self) -> int:
        """Of the step just taken, forward and backward."""
        ...

    def describe(self) -> Record:
        """The step just taken, for the log."""
        ...

    def judge(self, record: Record) -> Judgement:
        """The networks as they are after the step of this record."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a run is and how often it stops to write; only the first two belong to what the run is."""

    total_steps: int
    evaluate_every: int
    log_every: int
    save_every: int
    keep: int
    marks: frozenset[int] = frozenset()
    """Steps that are told of as they are reached."""
    most_lines: int = 0
    """In a pipe at most so many lines, beside those with scores; 0: one for every step that is logged."""


def take_steps(
    state: TrainingState,
    work: Work,
    optimizer: OptimizerConfig,
    rate: Rate,
    total_steps: int,
    stop: StopSignal,
) -> Iterator[StepReport]:
    """The steps of a run from where its state is, without anything around them."""
    return train(
        state.model,
        state.optimizer,
        work.parts,
        rate,
        first_step=state.progress.step + 1,
        last_step=total_steps,
        clip_norm=optimizer.clip_norm,
        scale=state.scale,
        stop=stop,
    )


class Session:
    def __init__(
        self,
        run_dir: Path,
        state: TrainingState,
        work: Work,
        pace: Pace,
        optimizer: OptimizerConfig,
        rate: Rate,
        stop: StopSignal,
    ) -> None:
        self.run_dir = run_dir
        self.checkpoints_dir = run_dir / "checkpoints"
        self.state = state
        self.work = work
        self.pace = pace
        self.optimizer = optimizer
        self.rate = rate
        self.stop = stop
        self.saved_step = -1
        self.line_step = 0

    def events(self) -> Iterator[Update]:
        """Every step from where the run is to its end; then the state is that of the last one."""
        yield from self.restore()
        yield from self.train()

    def train(self) -> Iterator[Update]:
        """Every step from the restored one to the end."""
        yield from self._announce()
        progress = self.state.progress
        log = MetricsLog(self.run_dir, progress.step - (1 if self.state.pending else 0))
        try:
            yield from self._catch_up(log)
            yield from self._take_steps(log)
        except Stopped:
            # The step that a checkpoint already holds is not written again: replacing it would put it at risk.
            if progress.step != self.saved_step:
                yield from self._save(log)
            raise
        finally:
            log.close()

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

    def _announce(self) -> Iterator[Update]:
        done, total = self.state.progress.step, self.pace.total_steps
        if done >= total:
            yield Note(f"already finished: {total:,} steps")
        else:
            parameters = sum(parameter.numel() for parameter in self.state.model.parameters())
            threads = torch.get_num_threads()
            yield Note(
                f"{'resuming' if done else 'starting'} at step {done + 1:,} of {total:,}, {parameters:,} parameters, "
                f"{threads} thread{'s' if threads > 1 else ''}"
            )
        self.line_step = done
        yield self._progress(TRAINING)

    def _progress(self, phase: str, line: str = "") -> Progress:
        return Progress(phase, self.state.progress.step, self.pace.total_steps, line=line)

    def _take_steps(self, log: MetricsLog) -> Iterator[Update]:
        progress = self.state.progress
        tokens_before, seconds_before = progress.tokens, progress.seconds
        clock = time.perf_counter()
        steps = take_steps(self.state, self.work, self.optimizer, self.rate, self.pace.total_steps, self.stop)
        for report in steps:
            progress.step = report.step
            progress.tokens += self.work.count_tokens()
            progress.flops += self.work.count_flops()
            progress.seconds += time.perf_counter() - clock
            clock = time.perf_counter()
            yield from self._count_skipped(report)
            is_end = report.step == self.pace.total_steps
            # Before the step can be saved: who resumes behind it has been told of it.
            if report.step in self.pace.marks:
                yield self._progress(SNAPSHOT)
            if self._is_due(report.step, self.pace.log_every) or self._is_judged(report.step):
                speed = (progress.tokens - tokens_before) / max(progress.seconds - seconds_before, 1e-9)
                tokens_before, seconds_before = progress.tokens, progress.seconds
                self.state.pending = self._describe(report, speed)
                if is_end and not self._is_sound(report):
                    self._require_finite_scores(self.state.pending)
                yield from self._catch_up(log)
            if self._is_due(report.step, self.pace.save_every) and (is_end or self._is_sound(report)):
                yield from self._save(log)
            clock = time.perf_counter()

    def _is_due(self, step: int, every: int) -> bool:
        return step == self.pace.total_steps or (every > 0 and step % every == 0)

    def _is_sound(self, report: StepReport) -> bool:
        """Amid skipped steps the weights may be past saving, and must not push out the checkpoints before them.

        An adaptive loss scale skips a step now and then to find its value; that says nothing about the weights.
        """
        return not report.is_skipped or self.state.scale.is_adaptive

    def _is_judged(self, step: int) -> bool:
        return self.pace.evaluate_every > 0 and self._is_due(step, self.pace.evaluate_every)

    def _describe(self, report: StepReport, speed: float) -> Record:
        progress = self.state.progress
        return {
            "step": report.step,
            "tokens": progress.tokens,
            "flops": progress.flops,
            "loss": report.loss,
            **self.work.describe(),
            "learning_rate": self.optimizer.learning_rate * report.rate_factor,
            "gradient_norm": report.gradient_norm,
            **self._split_norm(report),
            "skipped_steps": progress.skipped_steps,
            "tokens_per_second": round(speed, 1),
            "seconds": round(progress.seconds, 3),
        }

    def _split_norm(self, report: StepReport) -> Record:
        """Of each network, where there are several; what two share goes by the name of the first."""
        networks = dict.fromkeys(name.partition(".")[0] for name in self.state.optimizer.names)
        norms: dict[str, list[Tensor]] = {}
        for name, norm in report.gradient_norms.items():
            norms.setdefault(name.partition(".")[0], []).append(norm)
        several = norms if len(networks) > 1 else {}
        return {f"{network}_gradient_norm": join_norms(of) for network, of in several.items()}

    def _catch_up(self, log: MetricsLog) -> Iterator[Update]:
        """Write the pending record. It outlives a stop inside its judging: the checkpoint carries it along."""
        record = self.state.pending
        if record is None:
            return
        if self._is_judged(record["step"]):
            with self.state.optimizer.averaged():
                judgement = self.work.judge(record)
            record = record | judgement.scores
            yield from map(warn, judgement.warnings)
        log.write(record)
        self.state.pending = None
        yield from self._tell_step(record)

    def _tell_step(self, record: Record) -> Iterator[Update]:
        """Live the losses beside the bar; a line of its own, live too, for a step with scores."""
        step, total, most = record["step"], self.pace.total_steps, self.pace.most_lines
        left = int(record["seconds"] / step * (total - step))
        line = f"step {step:>6}/{total}  {format_step(record)}  eta {left // 60}:{left % 60:02d}"
        is_due = not most or most * step // total > most * self.line_step // total
        if is_due:
            self.line_step = step
        scores = []
        if any(name.startswith("heldout_") for name in record):
            scores.append(f"       held out  {format_heldout(record)}")
        if dev := {name.removeprefix("dev_"): value for name, value in record.items() if name.startswith("dev_")}:
            scores.append(f"       dev  {format_scores(dev)}")
        is_line = is_due and not scores
        yield Progress(TRAINING, step, total, format_step(record), line if is_line else "", record)
        if scores:
            yield Note(line)
        for text in scores:
            yield Note(text, "score")

    def _count_skipped(self, report: StepReport) -> Iterator[Update]:
        progress = self.state.progress
        progress.skipped_in_a_row = progress.skipped_in_a_row + 1 if report.is_skipped else 0
        if not report.is_skipped:
            return
        progress.skipped_steps += 1
        if progress.skipped_in_a_row > self.optimizer.max_skipped_in_a_row:
            raise self._diverged()
        what = f"loss {report.loss:g}, gradient norm {report.gradient_norm:g}"
        yield warn(f"step {report.step} was not finite ({what}) and changed nothing; {progress.skipped_steps} so far")

    def _require_finite_scores(self, record: Record) -> None:
        """A run may end on a step that was skipped, as any other may be, but not with weights that are past saving."""
        scores = self.work.judge(record).scores
        if not all(math.isfinite(score) for score in scores.values() if isinstance(score, float)):
            raise self._diverged()

    def _diverged(self) -> TrainingDiverged:
        kept = next(iter(list_checkpoints(self.checkpoints_dir)), None)
        return TrainingDiverged(
            f"{self.run_dir}: {self.state.progress.skipped_in_a_row} steps in a row were not finite; the last good "
            f"checkpoint is {kept or 'none'}; lower --optimizer.learning-rate and start a new run from it"
        )

    def _save(self, log: MetricsLog) -> Iterator[Update]:
        log.sync()
        path = save_checkpoint(self.checkpoints_dir, self.state, self.pace.keep)
        self.saved_step = self.state.progress.step
        yield self._progress(TRAINING, f"saved {path}")


def spread(times: int, total_steps: int) -> int:
    """Every how many steps, to do something so many times in a run; 0 for never."""
    return max(1, math.ceil(total_steps / times)) if times else 0
