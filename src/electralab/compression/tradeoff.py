"""Size, speed and quality of variants side by side: networks -> milliseconds -> points -> the one to take.

    speed-up     the baseline's latency / the variant's
    loss         the baseline's score - the variant's, in points
    efficiency   speed-up / loss, where a loss below the floor counts as the floor

The floor is the standard deviation of the score: a smaller difference is chance, and dividing by it means nothing.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch

from electralab.compression.task import CompressionTask, Network, NetworkInputs
from electralab.records.compression import NoiseFloor, TradeoffPoint, VariantMeasurement, VariantScore
from electralab.runtime import wait_for

# Seconds in which the threads of the network before stop waiting for more work.
_PAUSE = 0.02
_WARM_UP = 2
# A long call is interrupted by other work more often than a short one, so that on a busy machine no middle value is
# fair: what counts is the latency that the fastest tenth of the calls stay below.
_FASTEST = 0.1
# Scores that count examples.
_COUNTED = ("accuracy", "exact_match")


@torch.inference_mode()
def time_networks(
    networks: Mapping[str, Network], inputs: Mapping[int, NetworkInputs], rounds: int, check: Callable[[], None]
) -> dict[str, dict[str, float]]:
    """Milliseconds of each network by the size of the batch, measured in turn."""
    taken: dict[str, dict[int, list[float]]] = {name: {size: [] for size in inputs} for name in networks}
    for number in range(_WARM_UP + rounds):
        for size, batch in inputs.items():
            for name, network in networks.items():
                check()
                # Threads of the one before go on turning for a while, waiting for more work, and would take the cores.
                time.sleep(_PAUSE)
                device = batch[0].device
                wait_for(device)
                started = time.perf_counter()
                network(*batch)
                wait_for(device)
                if number >= _WARM_UP:
                    taken[name][size].append(1000 * (time.perf_counter() - started))
    return {
        name: {str(size): float(np.quantile(times, _FASTEST)) for size, times in by_size.items()}
        for name, by_size in taken.items()
    }


def find_noise_floor(task: CompressionTask, score: VariantScore) -> NoiseFloor:
    """From the baseline's score."""
    deviation, over = task.seed_deviation, "the seeds of the run"
    if deviation is None:
        assert score.deviation is not None  # the baseline's examples are always drawn again
        deviation, over = score.deviation, "examples drawn again"
    # Where examples are counted, one more or less is the smallest difference that there is.
    least = 1 / score.count if task.metric in _COUNTED else 0.0
    if deviation < least:
        return NoiseFloor(points=100 * least, origin="the weight of one example")
    return NoiseFloor(points=100 * deviation, origin=f"the standard deviation of the score over {over}")


def compute_tradeoff(variants: Sequence[VariantMeasurement], floor: NoiseFloor, batch: int) -> list[TradeoffPoint]:
    """The first is the baseline."""
    first, speedups, places = variants[0], {}, {}
    for variant in variants:
        by_size = {size: first.milliseconds[size] / taken for size, taken in variant.milliseconds.items()}
        speedups[variant.name] = by_size
        places[variant.name] = by_size[str(batch)], 100 * (first.score - variant.score)
    points = []
    for variant in variants:
        speedup, loss = place = places[variant.name]
        is_beaten = any(
            faster >= speedup and less <= loss and (faster, less) != place for faster, less in places.values()
        )
        points.append(
            TradeoffPoint(
                **dict(variant),
                speedups=speedups[variant.name],
                speedup=speedup,
                loss=loss,
                is_floored=loss < floor.points,
                efficiency=speedup / max(loss, floor.points),
                is_best=not is_beaten,
            )
        )
    return points


def select_variant(
    points: Sequence[TradeoffPoint], target_speedup: float | None, max_loss: float | None
) -> TradeoffPoint | None:
    """With a target the best that is so fast; with a limit alone the fastest that is so good. None if there is none."""
    fit = [point for point in points if target_speedup is None or point.speedup >= target_speedup]
    fit = [point for point in fit if max_loss is None or point.loss <= max_loss]
    if target_speedup is not None:
        return min(fit, key=lambda point: (point.loss, -point.speedup), default=None)
    return max(fit, key=lambda point: (point.speedup, -point.loss), default=None)
