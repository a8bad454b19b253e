"""How well bounded linear classes on frozen features fit noise: their empirical Rademacher complexity.

features -> E sup over w of 1/n sum of sigma_i w . x_i
"""

from typing import Literal

import numpy as np

from electralab.analysis.finding import Contrast, Estimate, Floats, Vectors, require, require_finite
from electralab.analysis.geometry import normalise

Ball = Literal["l2", "l1"]
LinearClass = Literal["l2", "l1", "local"]
_NORMAL_95 = 1.959963984540054
_DRAWS_AT_ONCE = 256


def estimate_rademacher(
    features: Vectors, rng: np.random.Generator, *, ball: Ball = "l2", draws: int = 2000
) -> Estimate:
    """Of {x -> w . x, |w| <= 1} on these n rows: the mean over draws of signs, and the interval of that mean.

    The best w is known for each draw: the supremum is the dual norm, 1/n |sum of sigma_i x_i|, Euclidean for the
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
        suprema.append(np.linalg.norm(signs @ wide, ord=order, axis=1) / len(wide))
    found = np.concatenate(suprema)
    mean, margin = float(found.mean()), _NORMAL_95 * float(found.std(ddof=1)) / np.sqrt(draws)
    return Estimate(mean, float(mean - margin), float(mean + margin))


def scale_rows(features: Vectors) -> Floats:
    """About their mean, with rows of mean square 1, so that models of other scale can be compared."""
    wide = np.asarray(features, dtype=np.float64)
    wide = wide - wide.mean(axis=0)
    length = np.sqrt((wide**2).sum(axis=1).mean())
    return np.asarray(wide / length if length > 0 else wide, dtype=np.float64)


def flatten_axes(rows: Floats) -> Floats:
    """Rows on which the l2 ball is a local class: principal axes longer than the average cut down to it.

    Of w in the l2 ball only those are left whose answers vary by no more than the features do along an average axis:
    sum of w_j^2 max(1, v_j / r) <= 1 with variances v_j and their mean r, which is {|w| <= 1, var(w . x) <= r} within
    a factor of sqrt 2 (Mendelson 2002).
    """
    variances, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    mean = variances.mean()
    factors = np.sqrt(mean / np.maximum(variances, mean)) if mean > 0 else np.ones_like(variances)
    return np.asarray(rows @ axes * factors, dtype=np.float64)


def measure_rademacher(
    features: Vectors, rng: np.random.Generator, *, linear: LinearClass = "l2", draws: int = 2000
) -> Contrast:
    """Of scaled features. Control: rows of the same lengths in random directions."""
    require("Rademacher complexity", len(features), 2, "rows")
    require_finite("Rademacher complexity", features)
    rows = scale_rows(features)
    aimless = normalise(rng.normal(size=rows.shape)) * np.linalg.norm(rows, axis=1, keepdims=True)

    def estimate(cloud: Floats) -> Estimate:
        if linear == "local":
            return estimate_rademacher(flatten_axes(cloud), rng, draws=draws)
        return estimate_rademacher(cloud, rng, ball=linear, draws=draws)

    return Contrast(estimate(rows), estimate(aimless))
