"""Size, speed and quality of variants side by side: measurements -> points -> the one to take.

    speed-up     the baseline's latency / the variant's
    loss         the baseline's score - the variant's, in points
    efficiency   speed-up / loss, where a loss below the floor counts as the floor

The floor is the standard deviation of the score: a smaller difference is chance, and dividing by it means nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

BASELINE = "fp32"


@dataclass(frozen=True, slots=True)
class KeptParts:
    """What a variant has of the model's parts, in all its layers together."""

    layers: int
    heads: int
    neurons: int


@dataclass(frozen=True, slots=True)
class VariantMeasurement:
    name: str
    bytes: int
    parameters: int
    milliseconds: dict[int, float]
    """The latency that a tenth of the calls stay below, by the rows in a batch."""
    score: float
    kept: KeptParts


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    points: float
    origin: str
    """What it is the standard deviation of."""


@dataclass(frozen=True, slots=True)
class TradeoffPoint:
    name: str
    bytes: int
    parameters: int
    milliseconds: dict[int, float]
    score: float
    kept: KeptParts
    speedups: dict[int, float]
    speedup: float
    """That of the batch that was asked for."""
    loss: float
    """In points; below 0 where the variant is better."""
    is_floored: bool
    efficiency: float
    is_best: bool
    """Whether no other is both faster and better: the front of Pareto."""


def weigh(variants: Sequence[VariantMeasurement], floor: NoiseFloor, batch: int) -> list[TradeoffPoint]:
    """The first is the baseline."""
    first = variants[0]
    losses = {one.name: 100 * (first.score - one.score) for one in variants}
    speedups = {
        one.name: {size: first.milliseconds[size] / one.milliseconds[size] for size in one.milliseconds}
        for one in variants
    }
    return [
        TradeoffPoint(
            name=one.name,
            bytes=one.bytes,
            parameters=one.parameters,
            milliseconds=one.milliseconds,
            score=one.score,
            kept=one.kept,
            speedups=speedups[one.name],
            speedup=speedups[one.name][batch],
            loss=losses[one.name],
            is_floored=losses[one.name] < floor.points,
            efficiency=speedups[one.name][batch] / max(losses[one.name], floor.points),
            is_best=not any(
                speedups[other.name][batch] >= speedups[one.name][batch]
                and losses[other.name] <= losses[one.name]
                and (speedups[other.name][batch], losses[other.name]) != (speedups[one.name][batch], losses[one.name])
                for other in variants
            ),
        )
        for one in variants
    ]


def pick(points: Sequence[TradeoffPoint], target_speedup: float | None, max_loss: float | None) -> TradeoffPoint | None:
    """With a target the best that is so fast; with a limit alone the fastest that is so good. None if there is none."""
    fit = [point for point in points if target_speedup is None or point.speedup >= target_speedup]
    fit = [point for point in fit if max_loss is None or point.loss <= max_loss]
    if target_speedup is not None:
        return min(fit, key=lambda point: (point.loss, -point.speedup), default=None)
    return max(fit, key=lambda point: (point.speedup, -point.loss), default=None)
