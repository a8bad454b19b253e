"""The learning rate as a pure function of the step."""

import math
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from electralab.config import Settings

# The factor of the learning rate at a step, counted from 1.
Rate = Callable[[int], float]


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
    """The factor for a step, counted from 1. Warm-up is multiplied with the decay, not joined to it."""
    done = (step - 1) / total_steps
    warmup_steps = config.warmup_steps or math.ceil(config.warmup_share * total_steps)
    warmup = min(1.0, step / warmup_steps) if warmup_steps else 1.0
    return warmup * (config.floor + (1 - config.floor) * _decay(done, config))


def follow(config: ScheduleConfig, total_steps: int) -> Rate:
    """One schedule from the first step to the last."""
    return lambda step: learning_rate_factor(step, total_steps, config)


def _decay(done: float, config: ScheduleConfig) -> float:
    match config.kind:
        case "linear":
            return 1 - done
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * done))
        case "stable-decay":
            return min(1.0, (1 - done) / config.decay_share)
        case "constant":
            return 1.0
