"""How well anomalies of time series are found, by the rule of the Numenta Anomaly Benchmark, and its simplest rival.

scores of points, labelled windows -> NabScore

The rule is that of Lavin and Ahmad (2015), "Evaluating Real-time Anomaly Detection Algorithms: the Numenta Anomaly
Benchmark" (arXiv 1510.03336), with the details of the published scorer, version 1.1: a labelled window counts once, by
the earliest point in it that passes the threshold; a false alarm costs the less the closer it follows a window; the
first 15 % of a series, at most 750 points, are not scored; one threshold holds for all series.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc, expit

from electralab.records.series import NabScore

Floats = NDArray[np.float64]
Profile = Literal["standard", "low-false-alarms", "low-misses"]

# What a window that is found gives, a false alarm takes, and a window that is missed takes.
PROFILES: dict[Profile, tuple[float, float, float]] = {
    "standard": (1.0, 0.11, 1.0),
    "low-false-alarms": (1.0, 0.22, 1.0),
    "low-misses": (1.0, 0.11, 2.0),
}
_PROBATION_SHARE, _PROBATION_MOST = 0.15, 5000
# Of windows: so far behind one an alarm has nothing to do with it any more.
_FAR = 3.0


def count_probation(count: int) -> int:
    """The points at the beginning of a series that are there to learn from.

    >>> count_probation(1000), count_probation(20_000)
    (150, 750)
    """
    return math.floor(_PROBATION_SHARE * min(count, _PROBATION_MOST))


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """The scores of a series, the higher the odder, and its labelled windows: first and last point, both included."""

    name: str
    scores: Floats  # (N,)
    windows: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Points:
    """The points that count, of all series together."""

    scores: Floats  # (P,)
    weights: Floats  # (P,) what an alarm there is worth
    owners: NDArray[np.int64]  # (P,) the number of its window, -1 outside all
    num_windows: int
    """Those with a point that counts."""
    perfect: float


def weigh_points(count: int, windows: Sequence[tuple[int, int]], profile: Profile = "standard") -> Floats:
    """What an alarm at each point is worth: up to 1 at the beginning of a window, below 0 outside of all.

    >>> [round(weight, 3) for weight in weigh_points(6, [(1, 3)]).tolist()]
    [-0.11, 1.0, 0.943, 0.69, -0.093, -0.109]
    """
    hit, false_alarm, _ = PROFILES[profile]
    places, weights = np.arange(count), np.full(count, -false_alarm)
    for number, (first, last) in enumerate(windows):
        inside = places[first : last + 1]
        width = last - first + 1
        weights[inside] = hit * _sigmoid(-(last - inside + 1) / width) / _sigmoid(-1.0)
        until = windows[number + 1][0] if number + 1 < len(windows) else count
        behind = places[last + 1 : until]
        distance = (behind - last) / max(width - 1, 1e-9)
        weights[behind] = false_alarm * np.where(distance >= _FAR, -1.0, _sigmoid(distance))
    return weights


def _sigmoid(position: Floats | float) -> Floats:
    """From 1 far before the end of a window, by 0 at its end, to -1 far behind it; in widths of the window."""
    return np.asarray(2 * expit(-5 * np.asarray(position)) - 1)


def _gather(series: Sequence[LabelledSeries], profile: Profile) -> _Points:
    scores, weights, owners = [np.zeros(0)], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
    num_windows = total = 0
    for labelled in series:
        count = len(labelled.scores)
        probation = count_probation(count)
        owner = np.full(count, -1, dtype=np.int64)
        for first, last in labelled.windows:
            if last >= probation:
                owner[first : last + 1] = num_windows
                num_windows += 1
        total += len(labelled.windows)
        scores.append(labelled.scores[probation:])
        weights.append(weigh_points(count, labelled.windows, profile)[probation:])
        owners.append(owner[probation:])
    perfect = total * PROFILES[profile][0]
    return _Points(np.concatenate(scores), np.concatenate(weights), np.concatenate(owners), num_windows, perfect)


def score_nab(
    series: Sequence[LabelledSeries], threshold: float | None = None, profile: Profile = "standard"
) -> NabScore:
    """All series at one threshold, or at the one that is best for them together: 100 finds the first point of every
    window and nothing else, 0 finds nothing.

    >>> found = LabelledSeries("found", np.eye(1, 100, 50)[0], ((50, 59),))
    >>> score_nab([found]).score, score_nab([found], threshold=2.0).score
    (100.0, 0.0)
    """
    points = _gather(series, profile)
    null = -PROFILES[profile][2] * points.num_windows
    order = np.argsort(-points.scores, kind="stable")
    ranked, owners, weights = points.scores[order], points.owners[order], points.weights[order]
    gains = weights.copy()
    # Of a window only its best point counts, over what it takes to miss it.
    best = np.full(points.num_windows, -PROFILES[profile][2])
    for place in np.flatnonzero(owners >= 0).tolist():
        owner, weight = owners[place], weights[place]
        gains[place] = max(0.0, weight - best[owner])
        best[owner] = max(best[owner], weight)
    totals = null + np.concatenate([[0.0], np.cumsum(gains)])
    # Points of equal scores pass together.
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) + 1 if len(ranked) else np.zeros(0, dtype=int)
    if threshold is None:
        chosen = max((0, *ends.tolist()), key=lambda passed: totals[passed])
        threshold = float(ranked[chosen - 1]) if chosen else math.inf
    chosen = int(np.searchsorted(-ranked, -threshold, side="right"))
    passed = owners[:chosen]
    room = points.perfect - null
    return NabScore(
        score=100 * (float(totals[chosen]) - null) / room if room else 0.0,
        threshold=threshold if math.isfinite(threshold) else None,
        windows=points.num_windows,
        found_windows=len(np.unique(passed[passed >= 0])),
        alarms=chosen,
        false_alarms=int((passed < 0).sum()),
        points=len(ranked),
    )


def score_gaussian(values: Floats, size: int = 6400, step: int = 100) -> Floats:
    """The windowed Gaussian of the benchmark: 1 minus the tail beyond each value, by mean and deviation of the
    `size` values before it, which move on by `step`."""
    count = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    # Around the mean of all, so that squares keep their digits.
    center = float(values.mean()) if count else 0.0
    squares = np.concatenate([[0.0], np.cumsum((values - center) ** 2)])
    places = np.arange(count)
    start = np.maximum(0, (places - size) // step * step)
    end = np.where(places <= size, places, start + size)
    known = np.maximum(end - start, 1)
    mean = (sums[end] - sums[start]) / known
    variance = (squares[end] - squares[start]) / known - (mean - center) ** 2
    deviation = np.where(variance > 1e-12, np.sqrt(np.maximum(variance, 0.0)), 1e-6)
    scores = 1 - 0.5 * erfc(np.abs(values - mean) / deviation / math.sqrt(2))
    return np.where(places > 0, scores, 0.0)
