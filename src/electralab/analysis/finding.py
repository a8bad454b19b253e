"""A number is told with its interval and beside a control, and one that cannot be had is told with what it needs.

statistic, rows -> Estimate, Contrast -> Finding | Missing
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from electralab.errors import DamagedArtifact, InputError
from electralab.evaluation.resampling import find_interval

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Vectors = NDArray[np.floating[Any]]
"""(N, D), one row for each token, word or text."""
Labels = NDArray[np.integer[Any]]
Flags = NDArray[np.bool_]
Statistic = Callable[[Places], float]

T = TypeVar("T")

TIMES = 200


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    low: float
    high: float
    """From low to high: the 95 % interval."""

    def scale(self, factor: float) -> "Estimate":
        low, high = sorted((self.low * factor, self.high * factor))
        return Estimate(self.value * factor, low, high)

    def shift(self, offset: float) -> "Estimate":
        return Estimate(self.value + offset, self.low + offset, self.high + offset)


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    claim: str
    unit: str
    meaning: str
    estimate: Estimate
    control: Estimate | None
    control_meaning: str
    note: str = ""
    layer: int | None = None
    """0 is what enters the first layer, 1 what leaves it; none where the whole model is meant."""
    series: str = ""
    part: str = ""
    """Of a figure that is asked of several domains, widths or shares alike: what all are called, and which it is."""

    def as_part(self, series: str, part: str) -> "Finding":
        return replace(self, series=series, part=part)


@dataclass(frozen=True, slots=True)
class Contrast:
    """A measure, and the same measure of what cannot hold the answer."""

    estimate: Estimate
    control: Estimate

    def scale(self, factor: float) -> "Contrast":
        return Contrast(self.estimate.scale(factor), self.control.scale(factor))

    def tell(
        self,
        name: str,
        claim: str,
        unit: str,
        meaning: str,
        control_meaning: str,
        note: str = "",
        layer: int | None = None,
    ) -> Finding:
        return Finding(name, claim, unit, meaning, self.estimate, self.control, control_meaning, note, layer)


@dataclass(frozen=True, slots=True)
class Missing:
    """Said where the figure would be."""

    name: str
    claim: str
    reason: str
    """What is not there, and what would be needed."""


def attempt(name: str, claim: str, tell: Callable[[], Iterable[T]]) -> Iterator[T | Missing]:
    """What can be told of one figure, or why it cannot; the others go on."""
    try:
        yield from tell()
    except (InputError, DamagedArtifact) as error:
        yield Missing(name, claim, str(error))


def require(name: str, count: int, least: int, what: str) -> None:
    if count < least:
        raise InputError(f"{name}: needs at least {least:,} {what}, got {count:,}; give more")


def require_finite(name: str, values: NDArray[np.floating[Any]]) -> None:
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise InputError(f"{name}: {bad:,} of {values.size:,} numbers are not finite; see whether the model diverged")


def bootstrap_estimate(
    statistic: Statistic,
    rows: int,
    times: int,
    rng: np.random.Generator,
    *,
    groups: Labels | None = None,
    centred: bool = False,
    fitted: int = 1,
) -> Estimate:
    """A statistic of `rows` rows, named by their places, and its interval: rows drawn again with replacement.

    Rows that hang together (tokens of a sentence) are drawn as the `groups` they are in. Where repeating rows itself
    shifts the statistic (a distance between clouds, a rank), `centred` lays the spread of the draws about the value.
    A draw in which the statistic is not defined (NaN) does not count. `fitted` is how many numbers the statistic
    takes from the rows (2 for a slope).
    """
    value = statistic(np.arange(rows))
    drawn = [statistic(places) for places in draw_rows(rows, groups, times, rng)]
    return lay_about(value, drawn, count_units(rows, groups), centred=centred, fitted=fitted)


def count_units(rows: int, groups: Labels | None) -> int:
    """How many there are of what is drawn again."""
    return rows if groups is None else len(np.unique(groups))


def lay_about(value: float, drawn: Iterable[float], units: int, *, centred: bool = False, fitted: int = 1) -> Estimate:
    """A value with the middle of what it was when its `units` were drawn again.

    Few units, drawn again, differ less than they should: the share left out is Student's instead of the normal one
    (Hesterberg 2015, the expanded percentile interval). No draws, or no unit to spare: no interval (NaN).
    """
    found = np.asarray(list(drawn), dtype=np.float64)
    found = found[np.isfinite(found)]
    if not len(found) or units <= fitted:
        return Estimate(value, float("nan"), float("nan"))
    tail = find_tail(units, fitted)
    low, high = np.quantile(found - found.mean() + value if centred else found, (tail, 1 - tail))
    return Estimate(value, float(low), float(high))


def find_tail(units: int, fitted: int) -> float:
    """The share of draws to leave out on either side: 0.025 of many units, less of few."""
    from scipy.special import ndtr, stdtrit

    spare = units - fitted
    return float(ndtr(-np.sqrt(units / spare) * stdtrit(spare, 0.975)))


def draw_rows(rows: int, groups: Labels | None, times: int, rng: np.random.Generator) -> Iterable[Places]:
    """Places drawn with replacement, `times` over, by whole groups where there are any."""
    if groups is None:
        for _ in range(times):
            yield rng.integers(rows, size=rows)
        return
    assert len(groups) == rows, "every row is in a group"
    _, sizes = np.unique(groups, return_counts=True)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(sizes)[:-1])
    for _ in range(times):
        yield np.concatenate([members[group] for group in rng.integers(len(members), size=len(members))])


def tally(places: Labels, count: int, weights: NDArray[Any] | None = None) -> Floats:
    """(count,) how often each place is named, or the sum of the weights it is named with."""
    return np.bincount(places, weights, minlength=count).astype(np.float64)


def shuffle_estimate(statistic: Statistic, rows: int, times: int, rng: np.random.Generator) -> Estimate:
    """A statistic with the rows in an order that means nothing: its mean, and the middle 95 % of it."""
    return summarise([statistic(rng.permutation(rows)) for _ in range(max(times, 1))])


def summarise(values: Iterable[float]) -> Estimate:
    """The mean of values, and where the middle 95 % of them lie."""
    found = np.asarray(list(values), dtype=np.float64)
    low, high = find_interval(found)
    return Estimate(float(found.mean()), low, high)
