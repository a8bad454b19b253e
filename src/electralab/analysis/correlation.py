"""Whether two columns rise together.

values, values -> Spearman's rho with an interval and a permutation p
"""

from dataclasses import dataclass

import numpy as np

from electralab.analysis.arrays import FloatArray, require_count, require_finite
from electralab.analysis.finding import Controlled, Resampler, exact
from electralab.statistics import Interval, permutation_test, spearman, unit_ranks

# Of fewer pairs a perfect order is no rare chance, and drawing them again, ordered as they are, does not show it.
_LEAST = 6
_ORDERS = 2000


@dataclass(frozen=True, slots=True)
class Correlation:
    rho: Controlled
    """Control: the second column shuffled."""
    p: float
    """Two-sided: how often an order without meaning gives as much."""


def measure_correlation(first: FloatArray, second: FloatArray, draws: Resampler) -> Correlation:
    """All orders are tried where they are few (7 pairs), else some drawn ones and the given one."""
    require_count("correlation", len(first), 4, "pairs")
    require_finite("correlation", np.concatenate([first, second]))
    # Columns are short and ranks quick, so that the setting for slower figures does not count here.
    rho = Resampler(draws.rng).interval(lambda indices: spearman(first[indices], second[indices]), len(first))
    if len(first) < _LEAST:
        rho = Interval(rho.value, np.nan, np.nan)
    if not np.isfinite(rho.value):
        return Correlation(Controlled(rho, exact(0.0)), 1.0)
    x, y = unit_ranks(first), unit_ranks(second)
    test = permutation_test(lambda order: float(x @ y[order]), len(first), _ORDERS, draws.rng)
    return Correlation(Controlled(rho, test.null), test.p)
