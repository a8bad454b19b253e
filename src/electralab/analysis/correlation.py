"""Whether two columns rise together.

values, values -> Spearman's rho with an interval and a permutation p
"""

from dataclasses import dataclass
from itertools import permutations
from math import factorial

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Floats,
    Places,
    bootstrap_estimate,
    require,
    require_finite,
    summarise,
)

_ALL_ORDERS = 5040
_LEAST = 6
"""Of fewer pairs a perfect order is no rare chance, and drawing them again, ordered as they are, does not show it."""


@dataclass(frozen=True, slots=True)
class Correlation:
    rho: Contrast
    """Control: the second column shuffled."""
    p: float
    """Two-sided: how often an order without meaning gives as much."""


def correlate_ranks(first: Floats, second: Floats) -> float:
    """Spearman's rho; NaN where a column does not vary."""
    return float(_rank(first) @ _rank(second))


def _rank(column: Floats) -> Floats:
    """Ranks about their mean, of length 1: a product of two is their correlation, in any order of either."""
    from scipy.stats import rankdata

    ranks = rankdata(column) - (len(column) + 1) / 2
    length = float(np.linalg.norm(ranks))
    return np.asarray(ranks / length if length else np.full(len(column), np.nan), dtype=np.float64)


def measure_correlation(
    first: Floats, second: Floats, rng: np.random.Generator, *, orders: int = 2000, times: int = TIMES
) -> Correlation:
    """All orders are tried where they are few (7 pairs), else `orders` drawn ones and the given one."""
    require("correlation", len(first), 4, "pairs")
    require_finite("correlation", np.concatenate([first, second]))
    rho = bootstrap_estimate(lambda places: correlate_ranks(first[places], second[places]), len(first), times, rng)
    if len(first) < _LEAST:
        rho = Estimate(rho.value, np.nan, np.nan)
    if not np.isfinite(rho.value):
        return Correlation(Contrast(rho, Estimate(0.0, 0.0, 0.0)), 1.0)
    # The given order is among all; drawn ones are joined by it, so that no p is 0.
    x, y = _rank(first), _rank(second)
    tried = [float(x @ y[order]) for order in _find_orders(len(first), orders, rng)]
    p = float((np.abs(tried) >= abs(rho.value) - 1e-12).mean())
    return Correlation(Contrast(rho, summarise(tried)), p)


def _find_orders(count: int, orders: int, rng: np.random.Generator) -> list[Places]:
    if factorial(count) <= _ALL_ORDERS:
        return [np.array(order) for order in permutations(range(count))]
    return [np.arange(count), *(rng.permutation(count) for _ in range(orders))]
