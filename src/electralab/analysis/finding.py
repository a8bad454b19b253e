"""A figure has an interval and stands beside a control; one that cannot be had says what it needs.

statistic, rows -> Interval, Controlled -> Finding | Skipped
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from electralab.analysis.arrays import IntArray
from electralab.errors import DamagedArtifact, InputError
from electralab.statistics import Indices, Interval, Statistic, bootstrap_interval, resample, shuffle_interval

P = ParamSpec("P")
T = TypeVar("T")


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
        return bootstrap_interval(statistic, count, self.num_resamples, self.rng, groups=groups, centred=centred)

    def mean(self, values: NDArray[Any], groups: IntArray | None = None) -> Interval:
        return self.interval(lambda indices: float(values[indices].mean()), len(values), groups)

    def indices(self, count: int, groups: IntArray | None = None) -> Iterator[Indices]:
        """Rows drawn with replacement, for statistics that share their draws."""
        return resample(count, self.num_resamples, self.rng, groups)

    def shuffled(self, statistic: Statistic, count: int, most: int | None = None) -> Interval:
        """The statistic in orders that mean nothing, at most so many of them."""
        # Controls need their middle and no thin tails, so that a few orders are enough for slow statistics.
        num_orders = self.num_resamples if most is None else min(self.num_resamples, most)
        return shuffle_interval(statistic, count, num_orders, self.rng)

    def at_most(self, num_resamples: int) -> "Resampler":
        return Resampler(self.rng, min(self.num_resamples, num_resamples))


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
class Controlled:
    """A measure, and the same measure of what cannot hold the answer."""

    estimate: Interval
    control: Interval

    def scale(self, factor: float) -> "Controlled":
        return Controlled(self.estimate.scale(factor), self.control.scale(factor))

    def to_finding(
        self,
        id: str,
        name: str,
        unit: str,
        meaning: str,
        control_meaning: str,
        note: str = "",
        layer: int | None = None,
        series: str = "",
        part: str = "",
    ) -> Finding:
        return Finding(id, name, unit, meaning, self.estimate, self.control, control_meaning, note, layer, series, part)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Stands where the figure would be."""

    id: str
    """Of the finding that is missing, the first of several."""
    name: str
    reason: str
    """What is not there, and what would be needed."""


def skip_on_error(
    id: str, name: str, compute: Callable[P, Iterable[T]], *args: P.args, **kwargs: P.kwargs
) -> Iterator[T | Skipped]:
    """What can be said of one figure, or why it cannot; the others go on."""
    try:
        yield from compute(*args, **kwargs)
    except (InputError, DamagedArtifact) as error:
        yield Skipped(id, name, str(error))


def exact(value: float) -> Interval:
    """What is counted or known: an interval without width."""
    return Interval(value, value, value)
