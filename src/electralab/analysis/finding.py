"""A figure has an interval and stands beside a control; one that cannot be had says what it needs.

values, a statistic of rows -> Interval, Controlled -> Finding | Skipped
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from electralab import statistics
from electralab.analysis.arrays import IntArray, require_count
from electralab.errors import DamagedArtifact, InputError
from electralab.statistics import FloatArray, Indices, Interval, Statistic

T = TypeVar("T")
# Of fewer pairs a perfect order is no rare chance, and drawing them again, ordered as they are, does not show it.
_LEAST_CORRELATED = 6
_ORDERS = 2000


class Controlled(NamedTuple):
    """A measure, and the same measure of what cannot hold the answer."""

    estimate: Interval
    control: Interval

    def scale(self, factor: float) -> "Controlled":
        return Controlled(self.estimate.scale(factor), self.control.scale(factor))


@dataclass(frozen=True, slots=True)
class Resampler:
    """Rows drawn again for intervals, and shuffled for controls, from one stream of random numbers.

    >>> Resampler(np.random.default_rng(0)).mean(np.array([1.0, 1.0, 1.0]))
    Interval(value=1.0, low=1.0, high=1.0)
    """

    rng: np.random.Generator
    num_resamples: int = 200

    def interval(
        self, statistic: Statistic, count: int, groups: IntArray | None = None, *, centred: bool = False
    ) -> Interval:
        """`centred` where repeating rows itself shifts the statistic; see `percentile_interval`."""
        times, rng = self.num_resamples, self.rng
        return statistics.bootstrap_interval(statistic, count, times, rng, groups=groups, centred=centred)

    def mean(self, values: NDArray[Any], groups: IntArray | None = None) -> Interval:
        return self.interval(lambda indices: float(values[indices].mean()), len(values), groups)

    def ratio(self, sums: FloatArray, counts: NDArray[Any]) -> Interval:
        """The sum of the one over the sum of the other, of rows drawn again; NaN where nothing was counted."""

        def divide(indices: Indices) -> float:
            count = float(counts[indices].sum())
            return float(sums[indices].sum()) / count if count else float("nan")

        return self.interval(divide, len(sums))

    def readings(
        self,
        compute: Callable[[Indices], T],
        count: int,
        groups: IntArray | None = None,
        *,
        centred: bool = False,
        num_fitted: int = 1,
    ) -> Callable[[Callable[[T], float]], Interval]:
        """What is read off one computation over the same draws, so that several numbers can be compared."""
        whole, units = compute(np.arange(count)), statistics.count_units(count, groups)
        drawn = [compute(indices) for indices in self.indices(count, groups)]

        def interval(read: Callable[[T], float]) -> Interval:
            draws = [read(other) for other in drawn]
            return statistics.percentile_interval(
                float(read(whole)), draws, units, centred=centred, num_fitted=num_fitted
            )

        return interval

    def indices(self, count: int, groups: IntArray | None = None) -> Iterator[Indices]:
        """Rows drawn with replacement, for statistics that share their draws."""
        return statistics.resample(count, self.num_resamples, self.rng, groups)

    def shuffled(self, statistic: Statistic, count: int, most: int | None = None) -> Interval:
        """The statistic in orders that mean nothing, at most so many of them."""
        # Controls need their middle and no thin tails, so that a few orders are enough for slow statistics.
        num_orders = self.num_resamples if most is None else min(self.num_resamples, most)
        return statistics.shuffle_interval(statistic, count, num_orders, self.rng)


def measure_correlation(first: FloatArray, second: FloatArray, draws: Resampler) -> tuple[Controlled, float]:
    """Whether two columns rise together: Spearman's rho, and p, how often an order without meaning gives as much.

    Control: the second column shuffled, in all orders where they are few (7 pairs), else in some drawn ones.
    """
    require_count("correlation", len(first), 4, "pairs", first, second)
    # Columns are short and ranks quick, so that the setting for slower figures does not count here.
    rho = Resampler(draws.rng).interval(
        lambda indices: statistics.spearman(first[indices], second[indices]), len(first)
    )
    if len(first) < _LEAST_CORRELATED:
        rho = Interval(rho.value, np.nan, np.nan)
    if not np.isfinite(rho.value):
        return Controlled(rho, exact(0.0)), 1.0
    x, y = statistics.unit_ranks(first), statistics.unit_ranks(second)
    p, null = statistics.permutation_test(lambda order: float(x @ y[order]), len(first), _ORDERS, draws.rng)
    return Controlled(rho, null), p


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure of one model, as a measure gives it; on disk it is a FindingRecord."""

    id: str
    """Within its measure, such as "self_similarity". Claims and pages look a figure up by it, never by its name."""
    name: str
    unit: str
    meaning: str
    estimate: Interval
    control: Interval | None = None
    control_meaning: str = ""
    note: str = ""
    layer: int | None = None
    """0 is what enters the first layer, 1 what leaves it; none where the whole model is meant."""
    series: str = ""
    part: str = ""
    """Where a figure is measured for several domains, widths or shares: what all are called, and which it is."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Stands where the figure would be."""

    id: str
    """Of the finding that is missing, the first of several."""
    name: str
    reason: str
    """What is not there, and what would be needed."""


@contextmanager
def skip_on_error(id: str, name: str) -> Iterator[list[Skipped]]:
    """What is yielded inside the block stays; an error that speaks to the user ends the block and is in the list.

    >>> with skip_on_error("probe", "the probe") as skipped:
    ...     require_count("probe", len(np.ones(3)), 4, "examples", np.ones(3))
    >>> skipped[0].reason
    'probe: needs at least 4 examples, got 3; give more'
    """
    skipped: list[Skipped] = []
    try:
        yield skipped
    except (InputError, DamagedArtifact) as error:
        skipped.append(Skipped(id, name, str(error)))


def exact(value: float) -> Interval:
    """What is counted or known: an interval without width."""
    return Interval(value, value, value)


def write_ends(interval: Interval, least: float = -inf, most: float = inf) -> dict[str, float | None]:
    """As records have it, cut to the values that there can be. JSON has no NaN: what cannot be had is null."""
    ends = {"value": interval.value, "low": interval.low, "high": interval.high}
    return {name: min(max(end, least), most) if isfinite(end) else None for name, end in ends.items()}
