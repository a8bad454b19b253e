"""How well bounded linear classes on frozen features fit noise: their empirical Rademacher complexity.

features -> E sup over w of 1/n sum of sigma_i w . x_i
"""

from typing import Literal

import numpy as np

from electralab.analysis.finding import Contrast, Estimate, Floats, Vectors, require, require_finite
from electralab.analysis.geometry import normalise

Ball = Literal["l2", "l1"]
_NORMAL_95 = 1.959963984540054
_DRAWS_AT_ONCE = 256


def estimate_rademacher(
    features: Vectors, rng: np.random.Generator, *, ball: Ball = "l2", bound: float = 1.0, draws: int = 2000
) -> Estimate:
    """Of {x -> w . x, |w| <= bound} on these n rows: the mean over draws of signs, and the interval of that mean.

    The best w is known for each draw: the supremum is the dual norm, bound/n |sum of sigma_i x_i|, Euclidean for the
    l2 ball and the largest coordinate for the l1 ball.
    """
    require("Rademacher complexity", len(features), 2, "rows")
    require("Rademacher complexity", draws, 2, "draws")
    require_finite("Rademacher complexity", features)
    wide = np.asarray(features, dtype=np.float64)
    order = 2 if ball == "l2" else np.inf
    suprema: list[Floats] = []
    for start in range(0, draws, _DRAWS_AT_ONCE):
        signs = rng.integers(2, size=(min(_DRAWS_AT_ONCE, draws - start), len(wide))) * 2.0 - 1
        suprema.append(np.linalg.norm(signs @ wide, ord=order, axis=1) * bound / len(wide))
    found = np.concatenate(suprema)
    mean, margin = float(found.mean()), _NORMAL_95 * float(found.std(ddof=1)) / np.sqrt(draws)
    return Estimate(mean, float(mean - margin), float(mean + margin))


def bound_rademacher(features: Vectors, *, ball: Ball = "l2", bound: float = 1.0) -> float:
    """What theory promises at most: Jensen's inequality for the l2 ball, Massart's lemma for the l1 ball."""
    squares = np.asarray(features, dtype=np.float64) ** 2
    if ball == "l2":
        return float(bound * np.sqrt(squares.sum()) / len(squares))
    longest = np.sqrt(squares.sum(axis=0).max())
    return float(bound * longest * np.sqrt(2 * np.log(2 * squares.shape[1])) / len(squares))


def measure_rademacher(
    features: Vectors, rng: np.random.Generator, *, ball: Ball = "l2", bound: float = 1.0, draws: int = 2000
) -> Contrast:
    """Of features about their mean, with rows of mean square 1, so that models of other scale can be compared.

    Control: rows of the same lengths in random directions.
    """
    require("Rademacher complexity", len(features), 2, "rows")
    require_finite("Rademacher complexity", features)
    wide = np.asarray(features, dtype=np.float64)
    wide = wide - wide.mean(axis=0)
    length = np.sqrt((wide**2).sum(axis=1).mean())
    wide = wide / length if length > 0 else wide
    aimless = normalise(rng.normal(size=wide.shape)) * np.linalg.norm(wide, axis=1, keepdims=True)
    estimate, control = (
        estimate_rademacher(rows, rng, ball=ball, bound=bound, draws=draws) for rows in (wide, aimless)
    )
    return Contrast(estimate, control)
