"""Runs of several seeds, each with its own interval, say one thing about a claim: it holds, it does not, or neither.

Interval of each seed -> Interval -> Verdict
"""

from collections.abc import Sequence
from math import hypot, isfinite, nan, sqrt

import numpy as np

from electralab.records.findings import Verdict
from electralab.statistics import Interval, mean_interval, student_margin


def pool(estimates: Sequence[Interval]) -> Interval:
    """The mean over seeds. Its interval has two parts that add as squares: Student's over the seeds, and sampling's.

    The first knows another seed, the second other examples. Of a single run there is only the second.
    """
    over_seeds = mean_interval([estimate.value for estimate in estimates])
    return _around(over_seeds.value, _sampling_error(estimates), over_seeds.high - over_seeds.value)


def subtract(ours: Sequence[Interval], theirs: Sequence[Interval]) -> Interval:
    """Two figures of the same models, the first less the second: taken model by model."""
    over_seeds = mean_interval([first.value - second.value for first, second in zip(ours, theirs, strict=True)])
    return _around(over_seeds.value, _sampling_error(ours, theirs), over_seeds.high - over_seeds.value)


def subtract_each(ours: Sequence[Interval], theirs: Sequence[Interval]) -> list[Interval]:
    """The same, left as a figure of each model, its errors of sampling taken as independent."""
    pairs = list(zip(ours, theirs, strict=True))
    return [_around(a.value - b.value, _sampling_error([a]), _sampling_error([b])) for a, b in pairs]


def compare(ours: Sequence[Interval], theirs: Sequence[Interval]) -> Interval:
    """A figure of some models less that of others, by Student's t for two groups whose spread is taken as the same.

    What a seed is to one objective it is not to another. Pairing them would leave n - 1 degrees of freedom, a single
    one of two seeds, where the groups have twice as many. Of one run each nothing is known of seeds: no interval.
    """
    groups = [np.asarray([estimate.value for estimate in side]) for side in (ours, theirs)]
    freedom = sum(map(len, groups)) - 2
    value = float(groups[0].mean() - groups[1].mean())
    if freedom == 0:
        return Interval(value, nan, nan)
    variance = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / freedom
    # A common variance of both groups: two seeds each are too few for Welch's own estimate of each.
    spread = student_margin(sqrt(variance * sum(1 / len(group) for group in groups)), freedom)
    return _around(value, _sampling_error(ours, theirs), spread)


def is_above(estimate: Interval, bound: float = 0.0) -> Verdict:
    """Whether a quantity is above a bound, as far as its interval tells."""
    if isfinite(estimate.low) and estimate.low > bound:
        return "holds"
    if isfinite(estimate.high) and estimate.high < bound:
        return "does not hold"
    return "undecided"


def is_below(estimate: Interval, bound: float = 0.0) -> Verdict:
    return is_above(estimate.scale(-1.0), -bound)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """A claim of several parts falls with any of them, and stands only if all stand."""
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts and set(verdicts) == {"holds"} else "undecided"


def _sampling_error(*sides: Sequence[Interval]) -> float:
    """Half the width that sampling gives. Of two sides taken as independent: wider than the same examples would give.

    Seeds are measured on the same examples, so that their sampling errors go together and do not average out.
    """
    widths = [[max(seed.high - seed.value, seed.value - seed.low) for seed in side] for side in sides]
    return sqrt(sum(float(np.mean(side)) ** 2 for side in widths))


def _around(value: float, *widths: float) -> Interval:
    known = [width for width in widths if isfinite(width)]
    width = hypot(*known) if known else nan
    return Interval(value, value - width, value + width)
