"""How far texts of other domains are, and what the model loses there.

AnalysisModel, rows, texts -> Wasserstein distance W2, rise of the loss, fall of the AUC, and whether they go together
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from electralab.analysis.arrays import BoolArray, FloatArray, IntArray, Matrix, auc, require_count
from electralab.analysis.data import name_models
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, measure_correlation, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import embed_rows, lm_losses, pair_outputs
from electralab.errors import InputError
from electralab.statistics import Interval, null_interval, percentile_interval, shuffle_interval, subsample

Distance = Literal["gaussian", "sliced", "exact"]
_PURPOSE = "domain transfer"
_SHUFFLES = 20
_HALVES = "one half of the rows of its own domain against the other"
_DEALT = "the states of both domains dealt at random into two clouds"
_DISTANCES: dict[Distance, tuple[str, str, str]] = {
    "gaussian": ("w2", "W₂", "of Gaussians with the means and covariances of the states"),
    "sliced": ("sliced_w2", "sliced W₂", "the mean over directions of the distance along each"),
    "exact": ("exact_w2", "exact W₂", "of the best assignment of states to states"),
}
_DIRECTIONS = 128
# An assignment takes time with the cube of the points.
_ASSIGNED = 300


def gaussian_w2(
    mean: FloatArray, covariance: FloatArray, other_mean: FloatArray, other_covariance: FloatArray
) -> float:
    """W2 of two Gaussians: the root of |m - m'|^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2) (Bures).

    >>> gaussian_w2(np.zeros(2), np.eye(2), np.array([3.0, 4.0]), np.eye(2))
    5.0
    """
    values, axes = np.linalg.eigh(covariance)
    root = (axes * np.sqrt(np.clip(values, 0, None))) @ axes.T
    # The trace of the root from its eigenvalues alone.
    shared = np.sqrt(np.clip(np.linalg.eigvalsh(root @ other_covariance @ root), 0, None)).sum()
    square = ((mean - other_mean) ** 2).sum() + np.trace(covariance) + np.trace(other_covariance) - 2 * shared
    return float(np.sqrt(max(square, 0.0)))


def fit_gaussian_w2(cloud: Matrix, other: Matrix) -> float:
    """W2 of the Gaussians with the means and covariances of two clouds (N, D), (M, D)."""
    clouds = (np.asarray(cloud, dtype=np.float64), np.asarray(other, dtype=np.float64))
    moments = [(rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False, bias=True))) for rows in clouds]
    return gaussian_w2(*moments[0], *moments[1])


def exact_w2(cloud: Matrix, other: Matrix) -> float:
    """W2 of two clouds of as many points: the best one-to-one assignment."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    assert len(cloud) == len(other), "an assignment needs as many points on both sides"
    squares = cdist(cloud, other, "sqeuclidean")
    return float(np.sqrt(squares[linear_sum_assignment(squares)].mean()))


def sliced_w2(cloud: Matrix, other: Matrix, directions: FloatArray) -> float:
    """The root of the mean over directions (K, D) of the squared W2 along each, which sorting finds.

    At most W2; a shift by m alone is |m| / sqrt(D).
    """
    first, second = (np.sort(np.asarray(rows, dtype=np.float64) @ directions.T, axis=0) for rows in (cloud, other))
    if len(first) == len(second):
        return float(np.sqrt(((first - second) ** 2).mean()))
    # Both quantile functions are flat between the steps of either.
    steps = np.unique(np.concatenate([np.arange(1, len(rows)) / len(rows) for rows in (first, second)]))
    edges = np.concatenate([[0.0], steps, [1.0]])
    middles = (edges[1:] + edges[:-1]) / 2
    gaps = (first[(middles * len(first)).astype(int)] - second[(middles * len(second)).astype(int)]) ** 2
    return float(np.sqrt((np.diff(edges)[:, None] * gaps).sum(axis=0).mean()))


def sample_directions(count: int, size: int, rng: np.random.Generator) -> FloatArray:
    """(count, size) points of the unit sphere."""
    points = rng.normal(size=(count, size))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), dtype=np.float64)


def measure_w2(
    cloud: Matrix,
    other: Matrix,
    rng: np.random.Generator,
    *,
    distance: Distance = "gaussian",
    relative: bool = False,
    num_resamples: int = 50,
) -> Controlled:
    """Control: the points of both dealt at random into two clouds of the same sizes, which is what chance gives.

    Exact distances take as many points of the larger cloud as the smaller has. `relative` is in units of the points'
    root mean square distance from their common middle, so that layers and models of other scale can be compared.
    """
    least = min(len(cloud), len(other))
    require_count("W2", least, 2, "points in each cloud", cloud, other)
    assert cloud.shape[1] == other.shape[1], "both clouds are in the same space"
    if distance == "exact" and len(cloud) != len(other):
        cloud, other = (rows[np.sort(rng.permutation(len(rows))[:least])] for rows in (cloud, other))
    points = np.concatenate([cloud, other]).astype(np.float64)
    spread = float(np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
    points = points / spread if relative and spread > 0 else points
    # Drawn also where no direction is asked for: the draws after it are then the same for every distance.
    sphere = sample_directions(_DIRECTIONS, points.shape[1], rng)

    def compute(first: FloatArray, second: FloatArray) -> float:
        if distance == "sliced":
            return sliced_w2(first, second, sphere)
        return fit_gaussian_w2(first, second) if distance == "gaussian" else exact_w2(first, second)

    def deal(order: IntArray) -> float:
        return compute(points[order[: len(cloud)]], points[order[len(cloud) :]])

    value = deal(np.arange(len(points)))
    # Points of each cloud are drawn again from that cloud; repeated points lie further from any others.
    draws = [
        compute(*(rows[rng.integers(len(rows), size=len(rows))] for rows in np.split(points, [len(cloud)])))
        for _ in range(num_resamples)
    ]
    estimate = percentile_interval(value, draws, least, centred=True)
    control = shuffle_interval(deal, len(points), min(num_resamples, _SHUFFLES), rng)
    # A distance is not below 0, which centring alone does not know.
    return Controlled(Interval(value, max(estimate.low, 0.0), estimate.high), control)


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Of tokens (N,): losses in nats, or discriminator logits with the truth; and the row of each."""

    values: FloatArray
    rows: IntArray
    is_replaced: BoolArray | None = None

    def badness(self, indices: IntArray) -> float:
        """The mean loss, or 1 - AUC, which like a loss is higher where a model does worse."""
        if self.is_replaced is None:
            return float(self.values[indices].mean())
        return 1 - auc(self.values[indices], self.is_replaced[indices])


def measure_rise(home: TokenScores, away: TokenScores, draws: Resampler) -> Controlled:
    """How much worse the scores are away, the rows of either drawn again. Control: one half of home's rows as away."""
    for scores in (home, away):
        require_count("transfer", len(np.unique(scores.rows)), 4, "rows of each domain", scores.values)
    value = away.badness(np.arange(len(away.values))) - home.badness(np.arange(len(home.values)))
    resamples = (draws.indices(len(scores.values), scores.rows) for scores in (home, away))
    # Both generators draw in turn from one stream.
    rises = [away.badness(there) - home.badness(here) for here, there in zip(*resamples, strict=True)]
    names, falls = np.unique(home.rows), []
    for _ in range(_SHUFFLES):
        is_away = np.isin(home.rows, draws.rng.permutation(names)[: len(names) // 2])
        falls.append(home.badness(np.flatnonzero(is_away)) - home.badness(np.flatnonzero(~is_away)))
    estimate = percentile_interval(value, rises, min(len(names), len(np.unique(away.rows))))
    return Controlled(estimate, null_interval(falls))


# States of a model in a domain, and how its networks do there: losses of tokens, logits of the discriminator.
DomainScores = tuple[Matrix, TokenScores | None, TokenScores | None]


def _score_domain(model: AnalysisModel, data: AnalysisData) -> DomainScores:
    cloud = embed_rows(model, data, data.settings.vectors, is_spread=True).layers[-1]
    lm = rtd = None
    if model.generator is not None:
        losses = lm_losses(model, data, _PURPOSE)
        lm = TokenScores(losses.losses, losses.rows)
    if model.kind in ("electra", "electra-15"):
        outputs = pair_outputs(model, data, _PURPOSE)
        rtd = TokenScores(outputs.logits, outputs.rows, outputs.is_replaced)
    return cloud, lm, rtd


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """How far are other domains, and what is lost there?"""
    settings = data.settings
    if not settings.domains:
        reason = "domain transfer: needs texts of other domains; give --domains FILE,FILE"
        yield Skipped("w2", _PURPOSE, reason)
        return
    with skip_on_error("w2", _PURPOSE) as skipped:
        home = _score_domain(model, data)
        # Rows of text as long as those at home: a shorter row costs a model something by itself.
        length = data.read_rows(model).ids.shape[1]
        # Of each domain the distances by their ids, and what is lost there, where it was measured.
        shifts: list[dict[str, float]] = []
        paths = list(map(Path, settings.domains))
        names = name_models(paths)
        short = [str(Path(name).with_suffix("")) for name in names]
        for name, path in zip(short if len(set(short)) == len(short) else names, paths, strict=True):
            # Rows of the other text are not those of home: the cache starts empty.
            away = replace(data, data=path, settings=settings.model_copy(update={"row_length": length}), _rows={})
            with skip_on_error(f"w2.{name}", f"transfer to {name}") as unmeasured:
                shift: dict[str, float] = {}
                for finding in _domain_findings(model, home, away, name):
                    shift[finding.id.partition(".")[0]] = finding.estimate.value
                    yield finding
                shifts.append(shift)
            yield from unmeasured
        with skip_on_error("w2_with_auc_fall", "distance and loss") as uncorrelated:
            if len(shifts) < 4:
                raise InputError(f"distance and loss: needs at least 4 other domains, got {len(shifts)}; give more")
            draws = settings.resampler("distance and loss")
            for id, series, _ in _DISTANCES.values():
                far = np.array([shift[id] for shift in shifts])
                for lost_id, lost in {"loss_rise": "loss risen", "auc_fall": "AUC fallen"}.items():
                    if all(lost_id in shift for shift in shifts):
                        rho, p = measure_correlation(far, np.array([shift[lost_id] for shift in shifts]), draws)
                        meaning = f"Spearman's rho of {series} with the {lost}, over domains"
                        note, control = f"{len(shifts)} domains; p = {p:.2g}", "domains shuffled"
                        title = f"{series} with {lost}"
                        yield Finding(f"{id}_with_{lost_id}", title, "rho", meaning, *rho, control, note)
        yield from uncorrelated
    yield from skipped


def _domain_findings(model: AnalysisModel, home: DomainScores, data: AnalysisData, name: str) -> Iterator[Finding]:
    settings, draws = data.settings, data.settings.resampler("transfer", name)
    (cloud, lm, rtd), (other, other_lm, other_rtd) = home, _score_domain(model, data)
    for distance, (id, series, how) in _DISTANCES.items():
        data.conditions.check()
        most = _ASSIGNED if distance == "exact" else settings.vectors
        here, there = (rows[subsample(len(rows), most, settings.seed)] for rows in (cloud, other))
        far = measure_w2(here, there, draws.rng, distance=distance, relative=True)
        meaning = f"Wasserstein distance of its states at the last layer from those of the model's own domain: {how}"
        id, title, note = f"{id}.{name}", f"{series} to {name}", "in units of their spread"
        yield Finding(id, title, "spread", meaning, *far, _DEALT, note, series=series, part=name)
    # Both before either is given: what fails leaves neither.
    rise = None if lm is None or other_lm is None else measure_rise(lm, other_lm, draws)
    fall = None if rtd is None or other_rtd is None else measure_rise(rtd, other_rtd, draws)
    if rise is not None:
        who = "its generator" if model.discriminator is not None else "it"
        id, title, series = f"loss_rise.{name}", f"loss risen on {name}", "loss risen"
        meaning = f"how much more naming a hidden token costs {who} there"
        yield Finding(id, title, "nats", meaning, *rise, _HALVES, series=series, part=name)
    if fall is not None:
        id, title, series = f"auc_fall.{name}", f"AUC fallen on {name}", "AUC fallen"
        meaning = "how much lower the verdict AUC is there"
        note = "against the model's own generator, which is on strange ground too"
        yield Finding(id, title, "AUC", meaning, *fall, _HALVES, note, series=series, part=name)


MEASURE = Measure("M44", "domain transfer", measure, reads=("domains",))
