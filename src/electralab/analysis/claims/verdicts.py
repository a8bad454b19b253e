"""Runs of several seeds, each with its own interval, say one thing about a claim: it holds, it does not, or neither.

Estimate of each seed -> Estimate -> Verdict
"""

from collections.abc import Sequence
from math import hypot, isfinite, nan, sqrt
from typing import Literal

import numpy as np

from electralab.analysis.finding import Estimate
from electralab.experiments.statistics import estimate_mean, find_margin

Verdict = Literal["holds", "does not hold", "undecided"]


def pool(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over seeds. Its interval has two parts that add as squares: Student's over the seeds, and sampling's.

    The first knows another seed, the second other examples. Of a single run there is only the second.
    """
    values = [estimate.value for estimate in estimates]
    over_seeds = estimate_mean(values)
    # Seeds are measured on the same examples, so that their sampling errors go together and do not average out.
    sampled = float(np.mean([_half_width(estimate) for estimate in estimates]))
    spread = nan if over_seeds.high is None else over_seeds.high - over_seeds.mean
    return _about(over_seeds.mean, [sampled, spread])


def subtract(ours: Sequence[Estimate], theirs: Sequence[Estimate]) -> Estimate:
    """Two figures of the same models, the first less the second: taken model by model."""
    differences = [one.value - other.value for one, other in zip(ours, theirs, strict=True)]
    over_seeds = estimate_mean(differences)
    spread = nan if over_seeds.high is None else over_seeds.high - over_seeds.mean
    return _about(over_seeds.mean, [_add_errors(ours, theirs), spread])


def subtract_each(ours: Sequence[Estimate], theirs: Sequence[Estimate]) -> list[Estimate]:
    """The same, left as a figure of each model, its errors of sampling taken as independent."""
    differences = []
    for first, second in zip(ours, theirs, strict=True):
        widths = [_half_width(first), _half_width(second)]
        differences.append(_about(first.value - second.value, widths))
    return differences


def compare(ours: Sequence[Estimate], theirs: Sequence[Estimate]) -> Estimate:
    """A figure of some models less that of others, by Student's t for two groups whose spread is taken as the same.

    What a seed is to one objective it is not to another. Pairing them would leave n - 1 degrees of freedom, a single
    one of two seeds, where the groups have twice as many. Of one run each nothing is known of seeds: no interval.
    """
    groups = [np.asarray([one.value for one in side]) for side in (ours, theirs)]
    freedom = sum(map(len, groups)) - 2
    value = float(groups[0].mean() - groups[1].mean())
    if freedom == 0:
        return Estimate(value, nan, nan)
    variance = sum(float(((of - of.mean()) ** 2).sum()) for of in groups) / freedom
    spread = find_margin(sqrt(variance * sum(1 / len(of) for of in groups)), freedom)
    return _about(value, [_add_errors(ours, theirs), spread])


def _add_errors(ours: Sequence[Estimate], theirs: Sequence[Estimate]) -> float:
    """Those of sampling, taken as independent: wider than what the same examples on both sides would give."""
    return sqrt(sum(float(np.mean([_half_width(one) for one in side])) ** 2 for side in (ours, theirs)))


def is_above(estimate: Estimate, bound: float = 0.0) -> Verdict:
    """Whether a quantity is above a bound, as far as its interval tells."""
    if isfinite(estimate.low) and estimate.low > bound:
        return "holds"
    if isfinite(estimate.high) and estimate.high < bound:
        return "does not hold"
    return "undecided"


def is_below(estimate: Estimate, bound: float = 0.0) -> Verdict:
    return is_above(estimate.scale(-1.0), -bound)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """A claim of several parts falls with any of them, and stands only if all stand."""
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts and set(verdicts) == {"holds"} else "undecided"


def _half_width(estimate: Estimate) -> float:
    return max(estimate.high - estimate.value, estimate.value - estimate.low)


def _about(value: float, widths: Sequence[float]) -> Estimate:
    known = [width for width in widths if isfinite(width)]
    width = hypot(*known) if known else nan
    return Estimate(value, value - width, value + width)
