"""What is left of a score as more and more of the input is damaged.

answers at each share of damage -> RobustnessCurve
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Flags,
    Floats,
    Places,
    bootstrap_estimate,
    require,
    shuffle_estimate,
)


@dataclass(frozen=True, slots=True)
class RobustnessCurve:
    shares: tuple[float, ...]
    scores: tuple[Estimate, ...]
    """The accuracy at each share of damage."""
    retained: Estimate
    """The mean over the shares of (accuracy - chance) / (undamaged accuracy - chance): 1 unharmed, 0 chance."""


def find_area(shares: Floats, scores: Floats) -> float:
    """The mean height of a curve over its shares, by trapezia."""
    return float(np.trapezoid(scores, shares) / (shares[-1] - shares[0]))


def _retain(is_right: Flags, shares: Floats, chance: float, places: Places) -> float:
    scores = is_right[:, places].mean(axis=1) - chance
    # Nothing above chance was there to be kept.
    return find_area(shares, scores / scores[0]) if scores[0] > 0 else float("nan")


def measure_robustness(
    is_right: Flags, shares: Sequence[float], chance: float, rng: np.random.Generator, *, times: int = TIMES
) -> RobustnessCurve:
    """Of answers (L, N) to the same N examples at L shares of damage, the first undamaged; chance is the control."""
    _check(is_right, shares)
    at, count = np.asarray(shares), is_right.shape[1]

    def score(level: Flags) -> Estimate:
        return bootstrap_estimate(lambda places: float(level[places].mean()), count, times, rng)

    scores = tuple(score(level) for level in is_right)
    retained = bootstrap_estimate(lambda p: _retain(is_right, at, chance, p), count, times, rng)
    return RobustnessCurve(tuple(shares), scores, retained)


def compare_robustness(
    ours: Flags,
    theirs: Flags,
    shares: Sequence[float],
    chance: float,
    rng: np.random.Generator,
    *,
    times: int = TIMES,
) -> Contrast:
    """What we retain less what they retain, of the same examples drawn again. Control: answers swapped at random."""
    _check(ours, shares)
    assert ours.shape == theirs.shape, "both answered the same"
    at, count = np.asarray(shares), ours.shape[1]

    def differ(one: Flags, two: Flags, places: Places) -> float:
        return _retain(one, at, chance, places) - _retain(two, at, chance, places)

    def swap(_: Places) -> float:
        is_swapped = rng.random(count) < 0.5
        return differ(np.where(is_swapped, theirs, ours), np.where(is_swapped, ours, theirs), np.arange(count))

    estimate = bootstrap_estimate(lambda places: differ(ours, theirs, places), count, times, rng)
    return Contrast(estimate, shuffle_estimate(swap, count, times, rng))


def _check(is_right: Flags, shares: Sequence[float]) -> None:
    require("robustness", len(shares), 2, "shares of damage, the first being none")
    require("robustness", is_right.shape[1], 2, "examples")
    assert is_right.shape[0] == len(shares), "answers at every share"
    assert shares[0] == 0, "the first share is no damage"
    assert all(np.diff(shares) > 0), "shares rise"
