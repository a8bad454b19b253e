"""A run by the clock: how many steps it has is decided again and again while it trains.

seconds used, speed of late -> RunLength, written down before the run obeys it

A speed that is measured once spoils the whole run if the machine was busy at that moment. Here the run itself is the
measurement. Its decisions are in `lengths.json` first, so that a run that is killed and resumed repeats them.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from electralab.records.run import LengthLog, RunFingerprint, RunLength
from electralab.training.schedule import StepPlan

Clock = Callable[[], float]
Work = Literal["evaluation", "save"]

# How often the length is decided: after this share of the minutes, and at least once in so many seconds. The first
# decision of a process comes earlier, because the run may have begun with a guess.
_SHARE_BETWEEN, _MOST_SECONDS_BETWEEN, _FIRST = 0.02, 60.0, 0.25
# What changes a run by less is noise. Changes above the second are told.
_NOISE, _WORTH_TELLING = 0.005, 0.1
# Where the time is over at once, the learning rate still has this share of the steps so far to come down in.
_LANDING = 0.02
# The speed to come is taken to be that of late: of half as many seconds as are left, within these shares of all.
_LEAST_WINDOW, _MOST_WINDOW = 0.02, 0.25


class TimedTask(Protocol):
    """What is asked about steps that are still to come."""

    plan: StepPlan

    def mean_flops(self, after: float) -> float:
        """Of a step, over what is left after this share of the run."""
        ...

    def rows_before(self, step: int) -> int:
        """How many rows of the data all earlier steps take."""
        ...


def plan_total(length: RunLength, step: int, seconds_left: float, seconds_per_step: float, min_steps: int = 0) -> int:
    """How many steps a run is to have in all, of which `step` are done.

    >>> length = RunLength.whole(1000)
    >>> plan_total(length, 100, 60.0, 0.1), plan_total(length, 100, 90.2, 0.1)
    (700, 1000)
    >>> plan_total(length, 100, 0.0, 0.1), plan_total(length, 100, 0.0, 0.1, min_steps=400)
    (102, 400)
    """
    wanted = step + int(seconds_left / seconds_per_step)
    landing = step + math.ceil(_LANDING * step)
    if wanted < landing:  # at every decision again: the end comes no nearer, and must not go away either
        wanted = min(length.total_steps, landing)
    wanted = max(wanted, min_steps, step + 1)
    return length.total_steps if abs(wanted - length.total_steps) <= _NOISE * wanted else wanted


@dataclass(slots=True)
class TimeBudget:
    """The clock of a run, and the files that have its decisions."""

    run_dir: Path
    log: LengthLog
    fingerprint: RunFingerprint
    """Written again with every new number of steps, for those who read how far the run is."""
    task: TimedTask
    evaluate_every: int
    """In planned steps."""
    save_every: int
    evaluation_steps: float
    """How many steps an evaluation is worth; a guess until one is measured."""
    save_seconds: float
    """Of a checkpoint, and of an export; a guess as well."""
    min_steps: int = 0
    clock: Clock = time.perf_counter
    _started: float | None = None
    _step_began: float = 0.0
    _decided: float = 0.0
    _is_first: bool = True
    _num_steps: int = 0
    _recent_seconds: float = 0.0
    _recent_flops: float = 0.0
    _costs: dict[Work, list[float]] = field(default_factory=lambda: {"evaluation": [], "save": []})
    _told_total: int = 0
    _told_floor: bool = False

    @property
    def used(self) -> float:
        """Seconds of the run so far, those before it was resumed included."""
        return self.log.seconds + (0.0 if self._started is None else self.clock() - self._started)

    def start(self) -> None:
        """The first step of this process is about to be taken."""
        self._started = self._step_began = self.clock()
        self._decided, self._told_total = self.used, self.task.plan.total_steps

    @contextmanager
    def measure(self, work: Work) -> Iterator[None]:
        """Of what lies between two steps, and is no part of either."""
        began = self.clock()
        yield
        seconds = self.clock() - began
        self._step_began += seconds
        self._costs[work].append(seconds)

    def decide(self, step: int, flops: int) -> tuple[RunLength | None, str]:
        """After a step that is not the last: another length from here on, and what to say; most often neither."""
        now, total_seconds = self.clock(), 60 * self.log.minutes
        self._num_steps += 1
        if self._num_steps > 1:  # the first one pays for warming up
            window = (total_seconds - self.used) / 2
            window = min(max(window, _LEAST_WINDOW * total_seconds), _MOST_WINDOW * total_seconds)
            kept = math.exp((self._step_began - now) / window)
            self._recent_seconds = kept * self._recent_seconds + now - self._step_began
            self._recent_flops = kept * self._recent_flops + flops
        self._step_began = now
        used = self.used
        between = min(_SHARE_BETWEEN * total_seconds, _MOST_SECONDS_BETWEEN) * (_FIRST if self._is_first else 1.0)
        if used - self._decided < between or not self._recent_seconds:
            return None, ""
        self._decided, self._is_first = used, False
        plan = self.task.plan
        length = plan.lengths[-1]
        if step <= length.step:  # a resumed run repeats what it decided
            self.keep()
            return None, ""
        position = length.position_after(step)
        share = position / length.planned_steps
        seconds_per_step = self._recent_seconds / self._recent_flops * self.task.mean_flops(share)
        reserved, seconds_of_saving = self._seconds_between_steps(length, step, seconds_per_step)
        seconds_left, seconds_per_step = total_seconds - used - reserved, seconds_per_step + seconds_of_saving
        total = plan_total(length, step, seconds_left, seconds_per_step, self.min_steps)
        affordable = step + max(0, int(seconds_left / seconds_per_step))
        note = self._describe(total, affordable, used + seconds_per_step * (total - step))
        if total == length.total_steps:
            self.keep()
            return None, note
        decided = RunLength(
            step=step,
            position=position,
            planned_steps=length.planned_steps,
            total_steps=total,
            rows=self.task.rows_before(step + 1),
        )
        self.log = self.log.model_copy(update={"lengths": [*self.log.lengths, decided]})
        self.keep()
        plan.add(decided)
        self.fingerprint.model_copy(update={"total_steps": total}).write(self.run_dir)
        return decided, note

    def keep(self) -> None:
        """Write down the decisions and the seconds used."""
        self.log = self.log.model_copy(update={"seconds": round(self.used, 3)})
        if self._started is not None:
            self._started = self.clock()
        self.log.write(self.run_dir)

    def _seconds_between_steps(self, length: RunLength, step: int, seconds_per_step: float) -> tuple[float, float]:
        """What evaluations and the export will take, which scores the networks once more; of saving, each step's part.

        Checkpoints are no number of their own: a first guess of far too many steps would need far too many, whose
        time would leave none for steps.
        """
        evaluations = 1
        if self.evaluate_every:
            done = length.position_after(step) // self.evaluate_every
            evaluations += math.ceil(length.planned_steps / self.evaluate_every) - int(done)
        guesses: dict[Work, float] = {
            "evaluation": self.evaluation_steps * seconds_per_step,
            "save": self.save_seconds,
        }
        seconds = {work: sum(costs) / len(costs) if costs else guesses[work] for work, costs in self._costs.items()}
        of_each_step = seconds["save"] / self.save_every if self.save_every else 0.0
        return evaluations * seconds["evaluation"] + 2 * seconds["save"], of_each_step

    def _describe(self, total: int, affordable: int, seconds: float) -> str:
        """A sentence about a number of steps that is far from the one told before, or above what there is time for."""
        minutes = f"{self.log.minutes:g} minutes"
        if total == self.min_steps and affordable < total and not self._told_floor:
            self._told_floor, self._told_total = True, total
            return (
                f"there is time for about {affordable:,} steps in {minutes}, but the run takes at least {total:,} "
                f"(--min-steps): about {seconds / 60:.1f} minutes in all"
            )
        if abs(total - self._told_total) <= _WORTH_TELLING * self._told_total:
            return ""
        before, self._told_total = self._told_total, total
        return f"{minutes} are about {total:,} steps now, before {before:,}"
