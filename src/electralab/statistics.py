"""How sure a number is: intervals, tests and corrections for every part of the package.

values, a statistic of rows -> Interval, p

scipy is imported where it is needed: `scipy.stats` alone takes longer to load than everything that prepares text.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from electralab.randomness import mix

FloatArray = NDArray[np.float64]
Indices = NDArray[np.int64]
Groups = NDArray[np.integer]
Statistic = Callable[[Indices], float]
"""A number computed from the rows whose indices are given, repetitions included."""

_TAIL = 0.025
_NORMAL_QUANTILE = 1.959963984540054  # of that tail
# 7! orders are as quickly tried one and all as a few thousand are drawn.
_ALL_ORDERS = 5040
_PAIRED_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its 95 % interval; NaN for both ends where there is none."""

    value: float
    low: float
    high: float

    def scale(self, factor: float) -> "Interval":
        low, high = sorted((self.low * factor, self.high * factor))
        return Interval(self.value * factor, low, high)


def subsample(count: int, limit: int, seed: int) -> Indices:
    """At most `limit` of `count` indices, in their order; all where the limit is 0."""
    if not limit or count <= limit:
        return np.arange(count, dtype=np.int64)
    return np.sort(np.argsort(mix(seed, np.arange(count)), kind="stable")[:limit])


def bootstrap_indices(count: int, num_resamples: int, seed: int) -> Indices:
    """(num_resamples, count) indices drawn with replacement: a function of the seed, the same for every model."""
    words = mix(seed, np.arange(num_resamples)[:, None], np.arange(count)[None, :])
    return (words % np.uint64(max(count, 1))).astype(np.int64)


def resample(
    count: int, num_resamples: int, rng: np.random.Generator | int, groups: Groups | None = None
) -> Iterator[Indices]:
    """Rows drawn with replacement, by whole groups where there are any; `rng` may be a seed."""
    units = count_units(count, groups)
    draws: Iterable[Indices]
    if isinstance(rng, np.random.Generator):
        draws = (rng.integers(units, size=units) for _ in range(num_resamples))
    else:
        draws = bootstrap_indices(units, num_resamples, rng)
    if groups is None:
        yield from draws
        return
    assert len(groups) == count, "every row is in a group"
    _, sizes = np.unique(groups, return_counts=True)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    for draw in draws:
        yield np.concatenate([members[group] for group in draw])


def count_units(count: int, groups: Groups | None) -> int:
    """How many there are of what a bootstrap draws: rows, or groups of rows."""
    return count if groups is None else len(np.unique(groups))


def bootstrap_interval(
    statistic: Statistic,
    count: int,
    num_resamples: int,
    rng: np.random.Generator | int,
    *,
    groups: Groups | None = None,
    expand: bool = True,
    centred: bool = False,
) -> Interval:
    """A statistic of `count` rows and its interval, by drawing the rows again with replacement.

    Rows that depend on each other (the tokens of a sentence) are drawn as the `groups` they are in. For `centred`, and
    for what `expand` does to the tails, see `percentile_interval`.

    >>> heights = np.array([1.0, 2.0, 3.0, 4.0])
    >>> bootstrap_interval(lambda indices: float(heights[indices].mean()), 4, 200, 0, expand=False)
    Interval(value=2.5, low=1.5, high=3.75)
    """
    value = statistic(np.arange(count))
    draws = [statistic(indices) for indices in resample(count, num_resamples, rng, groups)]
    return percentile_interval(value, draws, count_units(count, groups) if expand else None, centred=centred)


def percentile_interval(
    value: float, draws: Iterable[float], units: int | None = None, *, centred: bool = False, num_fitted: int = 1
) -> Interval:
    """A value with the middle 95 % of what it was when its units were drawn again.

    With `units`, how many were drawn, the tails are Student's (`expanded_tail`); `num_fitted` is how many numbers the
    statistic takes from them (2 for a slope). Where repeating rows itself shifts the statistic (a distance between
    clouds, a rank), `centred` puts the spread of the draws around the value. A draw in which the statistic is not
    defined does not count. No draws, or no unit to spare: no interval.
    """
    values = np.asarray(list(draws), dtype=np.float64)
    values = values[np.isfinite(values)]
    if not len(values) or (units is not None and units <= num_fitted):
        return Interval(value, float("nan"), float("nan"))
    tail = _TAIL if units is None else expanded_tail(units, num_fitted)
    low, high = np.quantile(values - values.mean() + value if centred else values, (tail, 1 - tail))
    return Interval(value, float(low), float(high))


def expanded_tail(units: int, num_fitted: int = 1) -> float:
    """The fraction of draws outside the interval on either side: 0.025 of many units, less of few.

    Few units, drawn again, differ less than they should, so Student's tail replaces the normal one (Hesterberg 2015,
    the expanded percentile interval).
    """
    from scipy.special import ndtr, stdtrit

    spare = units - num_fitted
    return float(ndtr(-np.sqrt(units / spare) * stdtrit(spare, 1 - _TAIL)))


def null_interval(values: Iterable[float]) -> Interval:
    """The mean of a statistic where nothing is to be found, and the middle 95 % of it."""
    drawn = np.asarray(list(values), dtype=np.float64)
    low, high = np.quantile(drawn, (_TAIL, 1 - _TAIL))
    return Interval(float(drawn.mean()), float(low), float(high))


def shuffle_interval(statistic: Statistic, count: int, num_orders: int, rng: np.random.Generator) -> Interval:
    """A statistic with the rows in an order that means nothing."""
    return null_interval(statistic(rng.permutation(count)) for _ in range(max(num_orders, 1)))


class PermutationTest(NamedTuple):
    p: float
    """Two-sided: how often an order that means nothing gives as much."""
    null: Interval


def permutation_test(statistic: Statistic, count: int, num_orders: int, rng: np.random.Generator) -> PermutationTest:
    """The statistic in the order given, against all orders where they are few (7 rows), else against drawn ones."""
    orders: Iterable[Indices]
    if factorial(count) <= _ALL_ORDERS:
        orders = (np.array(order) for order in permutations(range(count)))
    else:
        # The order given is one of them, so that no p is 0.
        orders = (np.arange(count), *(rng.permutation(count) for _ in range(num_orders)))
    values = np.array([statistic(order) for order in orders])
    # Equal statistics differ in their last bits.
    return PermutationTest(float((np.abs(values) >= abs(values[0]) - 1e-12).mean()), null_interval(values))


def spearman(first: FloatArray, second: FloatArray) -> float:
    """Spearman's rank correlation; NaN where a column does not vary."""
    return float(unit_ranks(first) @ unit_ranks(second))


def unit_ranks(column: FloatArray) -> FloatArray:
    """Ranks minus their mean, with length 1: the product of two is their correlation, in any order of either."""
    from scipy.stats import rankdata

    ranks = rankdata(column) - (len(column) + 1) / 2
    length = float(np.linalg.norm(ranks))
    return np.asarray(ranks / length if length else np.full(len(column), np.nan), dtype=np.float64)


def share_interval(hits: int, count: int) -> Interval:
    """A share and its 95 % interval (Wilson's), which is no point where all or none are hits.

    >>> [(round(share.low, 3), round(share.high, 3)) for share in (share_interval(0, 10), share_interval(5, 10))]
    [(0.0, 0.278), (0.237, 0.763)]
    """
    share, z = hits / count, _NORMAL_QUANTILE
    centre, margin = share + z * z / (2 * count), z * sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    scale = 1 + z * z / count
    return Interval(share, (centre - margin) / scale, (centre + margin) / scale)


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean and its interval by Student's t; a single value says nothing about the spread.

    >>> mean_interval([0.6])
    Interval(value=0.6, low=nan, high=nan)
    """
    n, mean = len(values), float(np.mean(values))
    margin = student_margin(float(np.std(values, ddof=1)) / sqrt(n), n - 1) if n > 1 else float("nan")
    return Interval(mean, mean - margin, mean + margin)


def student_margin(standard_error: float, freedom: int) -> float:
    """Half of the 95 % interval by Student's t."""
    from scipy.stats import t

    return float(t.ppf(1 - _TAIL, freedom)) * standard_error


def paired_t(differences: Sequence[float]) -> float | None:
    """p of Student's paired t-test, two-sided; None where there is no spread to compare the mean with."""
    from scipy.stats import t

    n = len(differences)
    spread = float(np.std(differences, ddof=1)) if n > 1 else 0.0
    # Equal differences differ in their last bits.
    if spread <= 1e-12 * max(map(abs, differences), default=0.0):
        return None
    # scipy's `ttest_1samp` says the same but for the last bits, which studies have on disk.
    return float(2 * t.sf(abs(float(np.mean(differences))) / (spread / sqrt(n)), n - 1))


class PairedBootstrap(NamedTuple):
    p: float
    """Two-sided: how often the mean difference of the groups drawn is on the other side of 0."""
    mean: Interval


def paired_bootstrap(differences: Sequence[float], seed: int = 0) -> PairedBootstrap:
    """The mean difference of paired groups, whose groups are drawn again with replacement."""
    values = np.asarray(differences)
    means = values[bootstrap_indices(len(values), _PAIRED_RESAMPLES, seed)].mean(axis=1)
    # The sample itself is one of the draws, so that no p is 0.
    tail = (1 + min(int((means <= 0).sum()), int((means >= 0).sum()))) / (_PAIRED_RESAMPLES + 1)
    return PairedBootstrap(min(1.0, 2 * tail), percentile_interval(float(values.mean()), means))


def correct_holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction over the tests that were made: the smallest p times their number, and so on down."""
    made = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(made):
        highest = max(highest, min(1.0, p * (len(made) - rank)))
        corrected[index] = highest
    return corrected
