"""A figure has an interval and stands beside a control; one that cannot be had says what it needs.

statistic, rows -> Interval, Controlled -> Finding | Skipped
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from electralab.errors import DamagedArtifact, InputError
from electralab.statistics import Interval

Matrix = NDArray[np.floating[Any]]
"""(N, D), one row for each token, word or text."""
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]

NUM_RESAMPLES = 200

P = ParamSpec("P")
T = TypeVar("T")


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


def require_count(name: str, count: int, least: int, what: str) -> None:
    if count < least:
        raise InputError(f"{name}: needs at least {least:,} {what}, got {count:,}; give more")


def require_finite(name: str, *arrays: NDArray[np.floating[Any]]) -> None:
    for values in arrays:
        if not np.isfinite(values).all():
            bad = int((~np.isfinite(values)).sum())
            raise InputError(
                f"{name}: {bad:,} of {values.size:,} numbers are not finite; see whether the model diverged"
            )


def exact(value: float) -> Interval:
    """What is counted or known: an interval without width."""
    return Interval(value, value, value)


def auc(values: NDArray[np.floating[Any]], is_positive: BoolArray) -> float:
    """The chance that a positive has a higher value than a negative, a tie being half a chance; 1/2 where there is
    only one kind. By ranks, so that drawing again thousands of times takes seconds.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    from scipy.stats import rankdata

    positives = int(is_positive.sum())
    negatives = len(is_positive) - positives
    if not positives or not negatives:
        return 0.5
    total = float(rankdata(values)[is_positive].sum())
    return (total - positives * (positives + 1) / 2) / (positives * negatives)


def count_at(indices: IntArray, count: int, weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """(count,) how often each index is named, or the sum of the weights it is named with."""
    return np.bincount(indices, weights, minlength=count).astype(np.float64)
