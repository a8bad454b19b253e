"""How far texts of other domains are, and what the model loses there.

AnalysisModel, rows, texts -> Wasserstein distance W2, rise of the loss, fall of the AUC, and whether they go together
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from electralab.analysis.arrays import (
    BoolArray,
    FloatArray,
    Indices,
    IntArray,
    Matrix,
    auc,
    require_count,
    require_finite,
)
from electralab.analysis.correlation import measure_correlation
from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.model import AnalysisModel
from electralab.analysis.naming import name_models
from electralab.analysis.pair import PairOutputs, mlm_losses, run_pair
from electralab.analysis.states import embed_rows
from electralab.errors import InputError
from electralab.statistics import Interval, null_interval, percentile_interval, shuffle_interval, subsample

Distance = Literal["gaussian", "sliced", "exact"]
_SHUFFLES = 20
_HALVES = "one half of the rows of its own domain against the other"
_DEALT = "the states of both domains dealt at random into two clouds"
_DISTANCES: dict[Distance, tuple[str, str, str]] = {
    "gaussian": ("w2", "W₂", "of Gaussians with the means and covariances of the states"),
    "sliced": ("sliced_w2", "sliced W₂", "the mean over directions of the distance along each"),
    "exact": ("exact_w2", "exact W₂", "of the best assignment of states to states"),
}
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
    moments = [
        (rows.mean(axis=0), np.atleast_2d(np.cov(rows, rowvar=False, bias=True)))
        for rows in (np.asarray(cloud, dtype=np.float64), np.asarray(other, dtype=np.float64))
    ]
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
    directions: int = 128,
    relative: bool = False,
    num_resamples: int = 50,
) -> Controlled:
    """Control: the points of both dealt at random into two clouds of the same sizes, which is what chance gives.

    Exact distances take as many points of the larger cloud as the smaller has. `relative` is in units of the points'
    root mean square distance from their common middle, so that layers and models of other scale can be compared.
    """
    require_count("W2", min(len(cloud), len(other)), 2, "points in each cloud")
    assert cloud.shape[1] == other.shape[1], "both clouds are in the same space"
    if distance == "exact" and len(cloud) != len(other):
        least = min(len(cloud), len(other))
        cloud, other = (rows[np.sort(rng.permutation(len(rows))[:least])] for rows in (cloud, other))
    points = np.concatenate([cloud, other]).astype(np.float64)
    require_finite("W2", points)
    spread = float(np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
    points = points / spread if relative and spread > 0 else points
    sphere = sample_directions(directions, points.shape[1], rng)

    def compute(first: FloatArray, second: FloatArray) -> float:
        if distance == "sliced":
            return sliced_w2(first, second, sphere)
        return fit_gaussian_w2(first, second) if distance == "gaussian" else exact_w2(first, second)

    def deal(order: Indices) -> float:
        return compute(points[order[: len(cloud)]], points[order[len(cloud) :]])

    value = deal(np.arange(len(points)))
    # Points of each cloud are drawn again from that cloud; repeated points lie further from any others.
    draws = [
        compute(*(rows[rng.integers(len(rows), size=len(rows))] for rows in np.split(points, [len(cloud)])))
        for _ in range(num_resamples)
    ]
    estimate = percentile_interval(value, draws, min(len(cloud), len(other)), centred=True)
    control = shuffle_interval(deal, len(points), min(num_resamples, _SHUFFLES), rng)
    # A distance is not below 0, which centring alone does not know.
    return Controlled(Interval(value, max(estimate.low, 0.0), estimate.high), control)


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Of tokens (N,): losses in nats, or discriminator logits with the truth; and the row of each."""

    values: FloatArray
    rows: IntArray
    is_replaced: BoolArray | None = None

    @property
    def num_rows(self) -> int:
        return len(np.unique(self.rows))

    def mean_loss(self, indices: Indices) -> float:
        return float(self.values[indices].mean())

    def lost_auc(self, indices: Indices) -> float:
        """1 - AUC, which like a loss is higher where a model does worse."""
        assert self.is_replaced is not None, "logits have a truth"
        return 1 - auc(self.values[indices], self.is_replaced[indices])


def measure_rise(
    home: TokenScores, away: TokenScores, score: Callable[[TokenScores, Indices], float], draws: Resampler
) -> Controlled:
    """How much higher a score is away, the rows of either drawn again. Control: one half of home's rows as away."""
    for scores in (home, away):
        require_count("transfer", scores.num_rows, 4, "rows of each domain")
        require_finite("transfer", scores.values)
    value = score(away, np.arange(len(away.values))) - score(home, np.arange(len(home.values)))
    resamples = (draws.indices(len(scores.values), scores.rows) for scores in (home, away))
    # Both generators draw in turn from one stream.
    rises = [score(away, there) - score(home, here) for here, there in zip(*resamples, strict=True)]
    names = np.unique(home.rows)

    def split() -> float:
        is_away = np.isin(home.rows, draws.rng.permutation(names)[: len(names) // 2])
        return score(home, np.flatnonzero(is_away)) - score(home, np.flatnonzero(~is_away))

    estimate = percentile_interval(value, rises, min(home.num_rows, away.num_rows))
    return Controlled(estimate, null_interval(split() for _ in range(_SHUFFLES)))


@dataclass(frozen=True, slots=True)
class _DomainScores:
    """What a model's states are in one domain, and how it does there."""

    cloud: Matrix
    lm: TokenScores | None
    rtd: TokenScores | None


@dataclass(frozen=True, slots=True)
class _DomainShift:
    """From home to one other domain."""

    distances: dict[Distance, Controlled]
    rise: Controlled | None
    fall: Controlled | None


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if not data.settings.domains:
        yield Skipped(
            "w2", "domain transfer", "domain transfer: needs texts of other domains; give --domains FILE,FILE"
        )
        return
    yield from skip_on_error("w2", "domain transfer", _findings, model, data)


def _findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    settings, home = data.settings, _score_domain(model, data)
    # Rows of text as long as those at home: a shorter row costs a model something by itself.
    length = data.read_rows(model).ids.shape[1]
    shifts: list[_DomainShift] = []
    paths = list(map(Path, settings.domains))
    names = name_models(paths)
    short = [str(Path(name).with_suffix("")) for name in names]
    for name, path in zip(short if len(set(short)) == len(short) else names, paths, strict=True):
        # Rows of the other text are not those of home: the cache starts empty.
        away = replace(data, data=path, settings=settings.model_copy(update={"row_length": length}), _rows={})
        yield from skip_on_error(f"w2.{name}", f"transfer to {name}", _domain_findings, model, home, away, name, shifts)
    yield from skip_on_error("w2_with_auc_fall", "distance and loss", _correlation_findings, shifts, data)


def _score_domain(model: AnalysisModel, data: AnalysisData) -> _DomainScores:
    cloud = embed_rows(model, data, data.settings.vectors, is_spread=True).layers[-1]
    lm = rtd = None
    if model.generator is not None:
        losses = mlm_losses(model, data, "domain transfer")
        lm = TokenScores(losses.losses, losses.rows)
    if model.kind in ("electra", "electra-15"):
        outputs = PairOutputs.concat(map(PairOutputs.from_batch, run_pair(model, data, "domain transfer")))
        rtd = TokenScores(outputs.logits, outputs.rows, outputs.is_replaced)
    return _DomainScores(cloud, lm, rtd)


def _domain_findings(
    model: AnalysisModel, home: _DomainScores, data: AnalysisData, name: str, shifts: list[_DomainShift]
) -> Iterator[Finding]:
    settings, draws = data.settings, data.settings.resampler("transfer", name)
    away = _score_domain(model, data)
    distances: dict[Distance, Controlled] = {}
    for distance, (id, series, how) in _DISTANCES.items():
        data.conditions.check()
        most = _ASSIGNED if distance == "exact" else settings.vectors
        here, there = (cloud[subsample(len(cloud), most, settings.seed)] for cloud in (home.cloud, away.cloud))
        distances[distance] = measure_w2(here, there, draws.rng, distance=distance, relative=True)
        meaning = f"Wasserstein distance of its states at the last layer from those of the model's own domain: {how}"
        note = "in units of their spread"
        yield distances[distance].to_finding(
            f"{id}.{name}", f"{series} to {name}", "spread", meaning, _DEALT, note, series=series, part=name
        )
    rise = fall = None
    if home.lm is not None and away.lm is not None:
        rise = measure_rise(home.lm, away.lm, TokenScores.mean_loss, draws)
    if home.rtd is not None and away.rtd is not None:
        fall = measure_rise(home.rtd, away.rtd, TokenScores.lost_auc, draws)
    shifts.append(_DomainShift(distances, rise, fall))
    if rise is not None:
        who = "its generator" if model.discriminator is not None else "it"
        meaning, series = f"how much more naming a hidden token costs {who} there", "loss risen"
        yield rise.to_finding(
            f"loss_rise.{name}", f"loss risen on {name}", "nats", meaning, _HALVES, series=series, part=name
        )
    if fall is not None:
        meaning, series = "how much lower the verdict AUC is there", "AUC fallen"
        note = "against the model's own generator, which is on strange ground too"
        yield fall.to_finding(
            f"auc_fall.{name}", f"AUC fallen on {name}", "AUC", meaning, _HALVES, note, series=series, part=name
        )


def _correlation_findings(shifts: list[_DomainShift], data: AnalysisData) -> Iterator[Finding]:
    if len(shifts) < 4:
        raise InputError(f"distance and loss: needs at least 4 other domains, got {len(shifts)}; give more")
    draws = data.settings.resampler("distance and loss")
    columns = {
        ("loss_rise", "loss risen"): [shift.rise for shift in shifts],
        ("auc_fall", "AUC fallen"): [shift.fall for shift in shifts],
    }
    for distance, (id, series, _) in _DISTANCES.items():
        far = np.array([shift.distances[distance].estimate.value for shift in shifts])
        for (lost_id, lost), results in columns.items():
            values = [result.estimate.value for result in results if result is not None]
            if len(values) == len(shifts):
                correlation = measure_correlation(far, np.array(values), draws)
                meaning = f"Spearman's rho of {series} with the {lost}, over domains"
                note = f"{len(shifts)} domains; p = {correlation.p:.2g}"
                yield correlation.rho.to_finding(
                    f"{id}_with_{lost_id}", f"{series} with {lost}", "rho", meaning, "domains shuffled", note
                )


MEASURE = Measure(
    "transfer",
    "M44",
    "domain transfer",
    "How far are other domains, and what is lost there?",
    measure,
    reads=("domains",),
)
