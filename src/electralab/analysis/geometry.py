"""What shape a cloud of states has: how narrow, how many directions, and whether categories lie apart in it.

vectors, labels -> anisotropy, ranks, separation, coordinates
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Flags,
    Floats,
    Labels,
    Places,
    Vectors,
    bootstrap_estimate,
    count_units,
    draw_rows,
    lay_about,
    require,
    require_finite,
    shuffle_estimate,
    summarise,
    tally,
)
from electralab.errors import InputError

_SHUFFLES = 20
_PERPLEXITY = 30.0


def normalise(vectors: Vectors) -> Floats:
    """Rows of length 1; a row of zeros stays one."""
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1), dtype=np.float64)


def mean_cosine(units: Floats, counts: Floats) -> float:
    """Over all pairs of different rows, each row as often as its count: never of a row with a copy of itself."""
    whole = counts @ units
    selves = (counts**2).sum()
    pairs = counts.sum() ** 2 - selves
    return float((whole @ whole - (counts**2) @ (units**2).sum(axis=1)) / pairs) if pairs else float("nan")


def anisotropy(vectors: Vectors) -> float:
    """The mean cosine of pairs of different rows: 0 for directions without preference, 1 for a single one."""
    return mean_cosine(normalise(vectors), np.ones(len(vectors)))


def measure_anisotropy(
    vectors: Vectors, rng: np.random.Generator, *, groups: Labels | None = None, times: int = TIMES
) -> Contrast:
    """Control: Gaussian noise of the same shape."""
    require("anisotropy", len(vectors), 3, "vectors")
    require_finite("anisotropy", vectors)

    def measure(cloud: Vectors, owners: Labels | None) -> Estimate:
        units = normalise(cloud)

        def average(places: Places) -> float:
            return mean_cosine(units, tally(places, len(units)))

        return bootstrap_estimate(average, len(units), times, rng, groups=owners)

    return Contrast(measure(vectors, groups), measure(rng.normal(size=vectors.shape), None))


def find_spectrum(vectors: Vectors) -> Floats:
    """The share of the variance along each principal axis, falling. (min(N, D),)"""
    centred = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    # The smaller of the two products has the same eigenvalues.
    product = centred.T @ centred if centred.shape[1] <= len(centred) else centred @ centred.T
    variances = np.clip(np.linalg.eigvalsh(product)[::-1], 0, None)
    total = variances.sum()
    return np.asarray(variances / total if total > 0 else variances, dtype=np.float64)


def participation_ratio(spectrum: Floats) -> float:
    """(sum of variances)^2 / sum of their squares: k for k equal directions."""
    squares = float((spectrum**2).sum())
    return float(spectrum.sum()) ** 2 / squares if squares else 0.0


def effective_rank(spectrum: Floats) -> float:
    """e to the entropy of the shares of variance: k for k equal directions."""
    shares = spectrum[spectrum > 0]
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


def count_axes(spectrum: Floats, share: float = 0.9) -> int:
    """How many principal axes hold this share of the variance."""
    return int(np.searchsorted(np.cumsum(spectrum), share * spectrum.sum() * (1 - 1e-12)) + 1)


@dataclass(frozen=True, slots=True)
class Dimension:
    spectrum: Floats
    effective_rank: Contrast
    participation_ratio: Contrast
    axes_for_90: int


def measure_dimension(
    vectors: Vectors, rng: np.random.Generator, *, groups: Labels | None = None, times: int = TIMES
) -> Dimension:
    """Control: each coordinate shuffled over the rows, which keeps its values and unties it from the others."""
    require("effective rank", len(vectors), 3, "vectors")
    require_finite("effective rank", vectors)
    spectrum = find_spectrum(vectors)
    drawn = [find_spectrum(vectors[places]) for places in draw_rows(len(vectors), groups, times, rng)]
    untied = [find_spectrum(rng.permuted(vectors, axis=0)) for _ in range(_SHUFFLES)]
    units = count_units(len(vectors), groups)

    def measure(summary: Callable[[Floats], float]) -> Contrast:
        # Repeated rows span less.
        estimate = lay_about(summary(spectrum), [summary(other) for other in drawn], units, centred=True)
        return Contrast(estimate, summarise(summary(other) for other in untied))

    return Dimension(spectrum, measure(effective_rank), measure(participation_ratio), count_axes(spectrum))


def measure_silhouette(
    vectors: Vectors,
    labels: Labels,
    rng: np.random.Generator,
    *,
    groups: Labels | None = None,
    metric: str = "cosine",
    times: int = TIMES,
) -> Contrast:
    """How much nearer rows are to their own category than to the next: 1 apart, 0 mixed, below 0 astray.

    Each row's value is of the whole cloud; the interval is of their mean. Control: labels shuffled.
    """
    from sklearn.metrics import pairwise_distances, silhouette_samples

    require("silhouette", len(np.unique(labels)), 2, "categories")
    require("silhouette", len(vectors), len(np.unique(labels)) + 1, "vectors")
    require_finite("silhouette", vectors)
    distances = pairwise_distances(np.asarray(vectors, dtype=np.float64), metric=metric)
    # Rounding leaves a row a little away from itself, which the next call refuses.
    np.fill_diagonal(distances, 0)
    values = np.asarray(silhouette_samples(distances, labels, metric="precomputed"))
    estimate = bootstrap_estimate(lambda places: float(values[places].mean()), len(values), times, rng, groups=groups)

    def shuffle(order: Places) -> float:
        return float(silhouette_samples(distances, labels[order], metric="precomputed").mean())

    return Contrast(estimate, shuffle_estimate(shuffle, len(values), min(times, _SHUFFLES), rng))


def measure_probe(
    vectors: Vectors,
    labels: Labels,
    rng: np.random.Generator,
    *,
    groups: Labels | None = None,
    strength: float = 0.1,
    times: int = TIMES,
) -> Contrast:
    """The accuracy of a straight cut taught on half of the groups, on the other half. Control: taught shuffled labels.

    Every group counts once, however many rows it has: a few words make up half of a text. The same probe as that of
    `electra evaluate --suite probe`, with its penalty given.
    """
    from electralab.evaluation.outcome import Conditions
    from electralab.evaluation.probes import Judge, ProbeConfig

    require_finite("probe", vectors)
    _, truth = np.unique(labels, return_inverse=True)
    owners = np.arange(len(vectors)) if groups is None else np.unique(groups, return_inverse=True)[1]
    require("probe", int(owners.max(initial=-1)) + 1, 4, "examples")
    is_taught = split_groups(owners, rng)
    if len(np.unique(truth[is_taught])) < 2:
        raise InputError("probe: half of the examples have fewer than two categories; give more examples")
    judge = Judge(("accuracy",), int(truth.max()) + 1, ProbeConfig(), Conditions())
    cloud = np.asarray(vectors, dtype=np.float32)
    asked = np.unique(owners[~is_taught], return_inverse=True)[1]

    def score(taught: Labels) -> Estimate:
        predict = judge.fit(cloud[is_taught], np.asarray(taught, dtype=np.int64), strength)
        is_right = predict(cloud[~is_taught]) == truth[~is_taught]
        shares = np.bincount(asked, is_right) / np.bincount(asked)
        return bootstrap_estimate(lambda places: float(shares[places].mean()), len(shares), times, rng)

    return Contrast(score(truth[is_taught]), score(rng.permutation(truth[is_taught])))


def split_groups(groups: Labels, rng: np.random.Generator) -> Flags:
    """True for the rows of half of the groups: no group is on both sides."""
    names = np.unique(groups)
    return np.isin(groups, rng.permutation(names)[: (len(names) + 1) // 2])


def lay_out_pca(vectors: Vectors, dimensions: int = 2) -> Floats:
    """(N, dimensions) coordinates along the first principal axes; zeros where there are fewer axes.

    An axis points where its largest coordinate is positive, so that a picture does not flip from machine to machine.
    """
    centred = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    found = left[:, :dimensions] * lengths[:dimensions]
    furthest = np.abs(found).argmax(axis=0)
    found = found * np.where(found[furthest, np.arange(found.shape[1])] < 0, -1.0, 1.0)
    return np.pad(found, ((0, 0), (0, dimensions - found.shape[1])))


def lay_out_tsne(vectors: Vectors, seed: int, dimensions: int = 2) -> Floats:
    """(N, dimensions) coordinates that keep neighbours: distances between far groups mean nothing."""
    from sklearn.manifold import TSNE

    require("t-SNE", len(vectors), 5, "vectors")
    require_finite("t-SNE", vectors)
    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    start = lay_out_pca(vectors, dimensions)
    start = start / max(float(start[:, 0].std()), 1e-12) * 1e-4
    layout = TSNE(
        dimensions,
        perplexity=perplexity,
        init=start.astype(np.float32),
        # The usual floor of 50 throws a few dozen points across each other.
        learning_rate=max(len(vectors) / 48, 10.0),
        random_state=seed,
        n_jobs=1,
    )
    return np.asarray(layout.fit_transform(np.asarray(vectors, dtype=np.float32)), dtype=np.float64)
