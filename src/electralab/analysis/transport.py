"""How far one domain's features are from another's: the Wasserstein distance W2.

cloud, cloud -> distance
"""

from typing import Literal

import numpy as np

from electralab.analysis.finding import (
    Contrast,
    Estimate,
    Floats,
    Places,
    Vectors,
    lay_about,
    require,
    require_finite,
    shuffle_estimate,
)

Distance = Literal["gaussian", "sliced", "exact"]
_SHUFFLES = 20


def _root(symmetric: Floats) -> Floats:
    values, axes = np.linalg.eigh(symmetric)
    return np.asarray((axes * np.sqrt(np.clip(values, 0, None))) @ axes.T, dtype=np.float64)


def gaussian_w2(mean: Floats, covariance: Floats, other_mean: Floats, other_covariance: Floats) -> float:
    """Of two Gaussians: |m - m'|^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2), the root of it (Bures)."""
    root = _root(covariance)
    # The trace of the root from its eigenvalues alone.
    shared = np.sqrt(np.clip(np.linalg.eigvalsh(root @ other_covariance @ root), 0, None)).sum()
    square = ((mean - other_mean) ** 2).sum() + np.trace(covariance) + np.trace(other_covariance) - 2 * shared
    return float(np.sqrt(max(square, 0.0)))


def fit_gaussian_w2(cloud: Vectors, other: Vectors) -> float:
    """Of the Gaussians with the means and covariances of two clouds (N, D), (M, D)."""
    moments = [
        (rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False, bias=True)))
        for rows in (np.asarray(cloud, dtype=np.float64), np.asarray(other, dtype=np.float64))
    ]
    return gaussian_w2(*moments[0], *moments[1])


def exact_w2(cloud: Vectors, other: Vectors) -> float:
    """Of two clouds of as many points: the best one-to-one assignment."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    assert len(cloud) == len(other), "an assignment needs as many points on both sides"
    squares = cdist(cloud, other, "sqeuclidean")
    return float(np.sqrt(squares[linear_sum_assignment(squares)].mean()))


def sliced_w2(cloud: Vectors, other: Vectors, directions: Floats) -> float:
    """The root of the mean over directions (K, D) of the squared W2 along each, which sorting finds.

    At most W2; a shift by m alone is |m| / sqrt(D).
    """
    one, two = (np.sort(np.asarray(rows, dtype=np.float64) @ directions.T, axis=0) for rows in (cloud, other))
    if len(one) == len(two):
        return float(np.sqrt(((one - two) ** 2).mean()))
    # Both quantile functions are flat between the steps of either.
    steps = np.unique(np.concatenate([np.arange(1, len(one)) / len(one), np.arange(1, len(two)) / len(two)]))
    edges = np.concatenate([[0.0], steps, [1.0]])
    middles = (edges[1:] + edges[:-1]) / 2
    gaps = (one[(middles * len(one)).astype(int)] - two[(middles * len(two)).astype(int)]) ** 2
    return float(np.sqrt((np.diff(edges)[:, None] * gaps).sum(axis=0).mean()))


def draw_directions(count: int, size: int, rng: np.random.Generator) -> Floats:
    """(count, size) points of the unit sphere."""
    drawn = rng.normal(size=(count, size))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype=np.float64)


def measure_w2(
    cloud: Vectors,
    other: Vectors,
    rng: np.random.Generator,
    *,
    distance: Distance = "gaussian",
    directions: int = 128,
    relative: bool = False,
    times: int = 50,
) -> Contrast:
    """Control: the points of both dealt at random into two clouds of the same sizes, which is what chance gives.

    Exact distances take as many points of the larger cloud as the smaller has. `relative` is in units of the points'
    root mean square distance from their common middle, so that layers and models of other scale can be compared.
    """
    require("W2", min(len(cloud), len(other)), 2, "points in each cloud")
    assert cloud.shape[1] == other.shape[1], "both clouds are in the same space"
    if distance == "exact" and len(cloud) != len(other):
        least = min(len(cloud), len(other))
        cloud, other = (rows[np.sort(rng.permutation(len(rows))[:least])] for rows in (cloud, other))
    points = np.concatenate([cloud, other]).astype(np.float64)
    require_finite("W2", points)
    spread = float(np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
    points = points / spread if relative and spread > 0 else points
    sphere = draw_directions(directions, points.shape[1], rng)

    def measure(one: Floats, two: Floats) -> float:
        if distance == "sliced":
            return sliced_w2(one, two, sphere)
        return fit_gaussian_w2(one, two) if distance == "gaussian" else exact_w2(one, two)

    def deal(order: Places) -> float:
        return measure(points[order[: len(cloud)]], points[order[len(cloud) :]])

    # Points of each cloud are drawn again from that cloud; repeated points lie further from any others.
    value = deal(np.arange(len(points)))
    drawn = [
        measure(*(rows[rng.integers(len(rows), size=len(rows))] for rows in np.split(points, [len(cloud)])))
        for _ in range(times)
    ]
    estimate = lay_about(value, drawn, min(len(cloud), len(other)), centred=True)
    control = shuffle_estimate(deal, len(points), min(times, _SHUFFLES), rng)
    return Contrast(Estimate(value, max(estimate.low, 0.0), estimate.high), control)
