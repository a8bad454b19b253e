"""The learning rate as a pure function of the step."""

import math
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from electralab.config import Settings

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


def learning_rate_factor(step: int, total_steps: int, config: ScheduleConfig) -> float:
    """The factor for a step, counted from 1. Warm-up is multiplied with the decay, not joined to it.

    >>> [round(learning_rate_factor(step, 4, ScheduleConfig(warmup_steps=2)), 3) for step in (1, 2, 3, 4)]
    [0.5, 0.75, 0.5, 0.25]
    """
    done = (step - 1) / total_steps
    warmup_steps = config.warmup_steps or math.ceil(config.warmup_share * total_steps)
    warmup = min(1.0, step / warmup_steps) if warmup_steps else 1.0
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
