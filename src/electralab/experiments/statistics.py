"""What seeds and groups allow to say: intervals, paired tests, corrections, and where a curve crosses a score.

values -> Estimate, p
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from electralab.evaluation.resampling import draw_again, find_interval

_DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    n: int
    mean: float
    sd: float | None
    """Of the sample (n - 1); None for a single value."""
    low: float | None
    high: float | None
    """The 95 % interval by Student's t; None for a single value, which tells nothing of the spread."""


def find_margin(standard_error: float, freedom: int) -> float:
    """Half of the 95 % interval by Student's t."""
    from scipy.stats import t

    return float(t.ppf(0.975, freedom)) * standard_error


def estimate_mean(values: Sequence[float]) -> Estimate:
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Estimate(n, mean, None, None, None)
    sd = float(np.std(values, ddof=1))
    margin = find_margin(sd / sqrt(n), n - 1)
    return Estimate(n, mean, sd, mean - margin, mean + margin)


def compare_paired(differences: Sequence[float]) -> float | None:
    """Student's paired t-test, two-sided; None where there is no spread to hold the mean against."""
    from scipy.stats import t

    n = len(differences)
    spread = float(np.std(differences, ddof=1)) if n > 1 else 0.0
    # Equal differences differ in their last bits.
    if spread <= 1e-12 * max(map(abs, differences), default=0.0):
        return None
    return float(2 * t.sf(abs(float(np.mean(differences))) / (spread / sqrt(n)), n - 1))


@dataclass(frozen=True, slots=True)
class Bootstrap:
    p: float
    low: float
    high: float


def bootstrap_differences(differences: Sequence[float], seed: int = 0) -> Bootstrap:
    """Groups drawn again with replacement: how often their mean difference is on the other side of 0, both sides."""
    values = np.asarray(differences)
    means = values[draw_again(len(values), _DRAWS, seed)].mean(axis=1)
    # The sample itself is one of the draws, so that no p is 0.
    tail = (1 + min(int((means <= 0).sum()), int((means >= 0).sum()))) / (_DRAWS + 1)
    low, high = find_interval(means)
    return Bootstrap(min(1.0, 2 * tail), low, high)


def correct_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction over those that are there: the smallest p times their number, and so on down."""
    there = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(there):
        highest = max(highest, min(1.0, p * (len(there) - rank)))
        corrected[place] = highest
    return corrected


def find_crossing(points: Sequence[tuple[float, float]], target: float) -> float | None:
    """The compute at which a curve of (compute, score) first reaches a score, linear over log compute; None if never.

    Where the first point is above it already, that point's compute: what is known is "at most this".
    """
    before: tuple[float, float] | None = None
    for compute, score in sorted(points):
        if score >= target:
            if before is None or score == before[1]:
                return compute
            part = (target - before[1]) / (score - before[1])
            return exp(log(before[0]) + part * (log(compute) - log(before[0])))
        before = compute, score
    return None


def pair_groups(ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]) -> list[float]:
    """Per group that all runs were scored on: the mean over the seeds of ours less that of theirs."""
    shared = set.intersection(*(set(groups) for groups in (*ours, *theirs)))
    return [
        float(np.mean([groups[name] for groups in ours]) - np.mean([groups[name] for groups in theirs]))
        for name in sorted(shared)
    ]
