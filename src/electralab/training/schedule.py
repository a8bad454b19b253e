"""How far a run is at a step, and the learning rate there: pure functions of the step."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Literal

from pydantic import Field

from electralab.config import Settings
from electralab.records.run import RunLength

# The factor of the learning rate at a step, counted from 1.
LRSchedule = Callable[[int], float]


class ScheduleConfig(Settings):
    kind: Literal["linear", "cosine", "stable-decay", "constant"] = "linear"
    warmup_share: float = Field(0.05, ge=0, lt=1)
    warmup_steps: int = Field(0, ge=0)
    """Overrides the share where it is not 0."""
    decay_share: float = Field(0.2, gt=0, le=1)
    """The last part of the run in which `stable-decay` falls to the floor."""
    floor: float = Field(0.0, ge=0, lt=1)
    """The factor that decays end at."""


class StepPlan:
    """How far a run is after each of its steps, as it was decided on the way.

    >>> plan = StepPlan([RunLength.whole(10)])
    >>> plan.add(RunLength(step=4, position=4, planned_steps=10, total_steps=7, rows=0))
    >>> [plan.span(step) for step in (4, 5, 7)], plan.total_steps
    ([(3.0, 4.0), (4.0, 6.0), (8.0, 10.0)], 7)
    """

    def __init__(self, lengths: Iterable[RunLength]) -> None:
        self.lengths = list(lengths)

    @classmethod
    def whole(cls, total_steps: int) -> "StepPlan":
        return cls([RunLength.whole(total_steps)])

    @property
    def total_steps(self) -> int:
        return self.lengths[-1].total_steps

    def add(self, length: RunLength) -> None:
        """Who shares the plan is told once."""
        if self.lengths[-1] != length:
            self.lengths.append(length)

    def length_at(self, step: int) -> RunLength:
        """The last that was decided before this step."""
        return self.lengths[max(0, bisect_left(self.lengths, step, key=lambda length: length.step) - 1)]

    def span(self, step: int) -> tuple[float, float]:
        """How many of the planned steps are done before and after it."""
        length = self.length_at(step)
        return length.position_after(step - 1), length.position_after(step)

    def is_last(self, step: int) -> bool:
        return step >= self.length_at(step).total_steps

    def reaches(self, step: int, place: int) -> bool:
        """Whether so many of the planned steps are done with this step, and not before it."""
        before, after = self.span(step)
        return before < place <= after

    def reaches_multiple(self, step: int, every: int) -> bool:
        """Whether so many of the planned steps, or a multiple of them, are done with this step; so are all at the end.

        >>> [step for step in range(1, 8) if StepPlan.whole(7).reaches_multiple(step, 3)]
        [3, 6, 7]
        """
        before, after = self.span(step)
        return every > 0 and (self.is_last(step) or before // every != after // every)


def learning_rate_factor(
    step: float, total_steps: int, config: ScheduleConfig, *, warmup_step: float | None = None
) -> float:
    """The factor for a step, counted from 1. Warm-up is multiplied with the decay, not joined to it.

    `warmup_step`: where in the warm-up it is, if that has a number of steps of its own.

    >>> [round(learning_rate_factor(step, 4, ScheduleConfig(warmup_steps=2)), 3) for step in (1, 2, 3, 4)]
    [0.5, 0.75, 0.5, 0.25]
    """
    done = (step - 1) / total_steps
    warmup_steps = config.warmup_steps or math.ceil(config.warmup_share * total_steps)
    warmup = min(1.0, (warmup_step or step) / warmup_steps) if warmup_steps else 1.0
    match config.kind:
        case "linear":
            decay = 1 - done
        case "cosine":
            decay = 0.5 * (1 + math.cos(math.pi * done))
        case "stable-decay":
            decay = min(1.0, (1 - done) / config.decay_share)
        case "constant":
            decay = 1.0
    return warmup * (config.floor + (1 - config.floor) * decay)


def lr_schedule(config: ScheduleConfig, total_steps: int) -> LRSchedule:
    """One schedule from the first step to the last."""
    return lambda step: learning_rate_factor(step, total_steps, config)
