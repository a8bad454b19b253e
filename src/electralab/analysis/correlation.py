"""Whether two columns rise together.

values, values -> Spearman's rho with an interval and a permutation p
"""

from dataclasses import dataclass

import numpy as np

from electralab.analysis.finding import NUM_RESAMPLES, Controlled, exact, require_count, require_finite
from electralab.statistics import FloatArray, Interval, bootstrap_interval, permutation_test, spearman, unit_ranks

_LEAST = 6
"""Of fewer pairs a perfect order is no rare chance, and drawing them again, ordered as they are, does not show it."""


@dataclass(frozen=True, slots=True)
class Correlation:
    rho: Controlled
    """Control: the second column shuffled."""
    p: float
    """Two-sided: how often an order without meaning gives as much."""


def measure_correlation(
    first: FloatArray,
    second: FloatArray,
    rng: np.random.Generator,
    *,
    num_orders: int = 2000,
    num_resamples: int = NUM_RESAMPLES,
) -> Correlation:
    """All orders are tried where they are few (7 pairs), else `num_orders` drawn ones and the given one."""
    require_count("correlation", len(first), 4, "pairs")
    require_finite("correlation", np.concatenate([first, second]))
    rho = bootstrap_interval(lambda indices: spearman(first[indices], second[indices]), len(first), num_resamples, rng)
    if len(first) < _LEAST:
        rho = Interval(rho.value, np.nan, np.nan)
    if not np.isfinite(rho.value):
        return Correlation(Controlled(rho, exact(0.0)), 1.0)
    x, y = unit_ranks(first), unit_ranks(second)
    test = permutation_test(lambda order: float(x @ y[order]), len(first), num_orders, rng)
    return Correlation(Controlled(rho, test.null), test.p)
