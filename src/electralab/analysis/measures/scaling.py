"""What more parameters, data and compute buy, as laws fitted over a folder of runs trained as the model was.

AnalysisModel, runs -> alpha and beta of the law, exponent of a power law, error on runs left out
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from electralab.analysis.arrays import FloatArray, require_count
from electralab.analysis.data import kind_of
from electralab.analysis.finding import Controlled, Finding, Resampler, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.artifacts import count_parameters
from electralab.errors import InputError
from electralab.pretraining.stage import primary_network
from electralab.records.kinds import find_kind
from electralab.records.run import PretrainResults, RunFingerprint
from electralab.statistics import Interval, null_interval

_EXPONENTS = np.geomspace(0.003, 3.0, 40)
# Straight lines are cheap, and the tails of few runs are thin.
_LINE_RESAMPLES = 1000
_CURVE_RESAMPLES = 100
_LOSSES = ("discriminator_loss", "masked_loss", "next_loss", "permuted_loss")
_SHUFFLED = "the runs' losses shuffled"
_MEAN = "the mean of the other runs"


@dataclass(frozen=True, slots=True)
class RunPoint:
    name: str
    objective: str
    parameters: int
    """Of the network that the run is made for."""
    tokens: int
    flops: int
    loss: float
    """Held out, of the main network: of replaced-token detection or of a language model, in nats."""


def read_points(folder: Path) -> list[RunPoint]:
    """All finished runs of pre-training in a folder, or in folders of it."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that holds pre-training runs")
    globs = ("*/results.json", "*/*/results.json", "*/*/*/results.json")
    points = []
    for run in sorted({path.parent for glob in globs for path in folder.glob(glob)}):
        kind = find_kind(run)
        if kind is None or kind.name != "run" or not (run / RunFingerprint.FILE).is_file():
            continue
        results, objective = PretrainResults.read(run), RunFingerprint.read(run).objective
        weights = run / "export" / primary_network(objective) / "model.safetensors"
        loss = next((loss for name in _LOSSES if (loss := results.heldout.get(name)) is not None), None)
        if loss is not None and weights.is_file():
            size = count_parameters(weights)
            points.append(RunPoint(str(run), objective, size, results.tokens, results.flops, loss))
    if not points:
        raise InputError(f"{folder}: holds no finished pre-training run; give a folder of runs or a study")
    return points


class LogLaw(NamedTuple):
    """performance = alpha ln p + beta ln D - gamma; NaN where the runs do not tell."""

    alpha: float
    beta: float
    gamma: float

    def predict(self, runs: FloatArray) -> FloatArray:
        return np.asarray(self.alpha * np.log(runs[:, 0]) + self.beta * np.log(runs[:, 1]) - self.gamma)


class PowerLaw(NamedTuple):
    """loss = a C^-b + c, with a, b, c not below 0; NaN of fewer than three amounts of compute."""

    a: float
    b: float
    c: float

    def predict(self, compute: FloatArray) -> FloatArray:
        return np.asarray(self.a * compute**-self.b + self.c, dtype=np.float64)


class LawFit(NamedTuple):
    numbers: list[Controlled]
    """Of the law, in its order. Controls: scores shuffled over the runs."""
    left_out: Controlled
    """The root mean square error on each run, left out in turn. Control: of the mean of the other runs."""


def fit_log_law(runs: FloatArray, performance: FloatArray) -> LogLaw:
    """Least squares over parameters and tokens (N, 2); NaN where they rise together or do not vary.

    >>> runs = np.exp([[1.0, 1], [1, 2], [2, 1], [2, 2]])
    >>> law = fit_log_law(runs, np.array([1.0, 1.5, 2.0, 2.5]))
    >>> round(law.alpha, 6), round(law.beta, 6)
    (1.0, 0.5)
    """
    logs = np.log(runs)
    # About the middle: ln p and 1 are nearly parallel otherwise.
    if np.linalg.matrix_rank(logs - logs.mean(axis=0), tol=1e-6) < 2:
        return LogLaw(*[float("nan")] * 3)
    table = np.concatenate([logs, -np.ones((len(logs), 1))], axis=1)
    return LogLaw(*(float(value) for value in np.linalg.lstsq(table, performance, rcond=None)[0]))


def fit_power_law(compute: FloatArray, losses: FloatArray) -> PowerLaw:
    """Least squares: for each exponent the best a and c are known, so only the exponent is searched."""
    from scipy.optimize import minimize_scalar, nnls

    if len(np.unique(compute)) < 3:
        return PowerLaw(*[float("nan")] * 3)
    # In units of their geometric mean the powers are of one size.
    unit = float(np.exp(np.log(compute).mean()))

    def solve(log_b: float) -> tuple[float, FloatArray]:
        table = np.stack([(compute / unit) ** -np.exp(log_b), np.ones(len(compute))], axis=1)
        solution, residual = nnls(table, losses)
        return float(residual) ** 2, solution

    start = int(np.argmin([solve(log_b)[0] for log_b in np.log(_EXPONENTS)]))
    around = tuple(np.log(_EXPONENTS[[max(start - 1, 0), min(start + 1, len(_EXPONENTS) - 1)]]))
    best = minimize_scalar(lambda log_b: solve(log_b)[0], bounds=around, method="bounded", options={"xatol": 1e-10})
    b = float(np.exp(best.x))
    a, c = solve(float(best.x))[1]
    return PowerLaw(float(a) * unit**b, b, float(c))


def fit_slope(x: FloatArray, y: FloatArray) -> float:
    """The slope of the straight line through points; NaN where x does not vary."""
    spread = x - x.mean()
    square = float(spread @ spread)
    return float(spread @ y) / square if square > 1e-12 * max(float(x @ x), 1e-300) else float("nan")


def measure_log_law(runs: FloatArray, performance: FloatArray, draws: Resampler) -> LawFit:
    require_count("scaling law", len(runs), 5, "runs", runs, performance)
    if np.isnan(fit_log_law(runs, performance).alpha):
        raise InputError("scaling law: size and data of the runs cannot be told apart; vary each by itself")
    return _measure_law(fit_log_law, runs, performance, draws, draws.num_resamples)


def measure_power_law(compute: FloatArray, losses: FloatArray, draws: Resampler) -> LawFit:
    require_count("power law", len(np.unique(compute)), 4, "runs of different compute", compute, losses)
    return _measure_law(fit_power_law, compute, losses, draws, min(draws.num_resamples, 20))


def _measure_law(
    fit: Callable[[FloatArray, FloatArray], LogLaw | PowerLaw],
    runs: FloatArray,
    scores: FloatArray,
    draws: Resampler,
    num_orders: int,
) -> LawFit:
    everything = np.arange(len(scores))
    # Runs are drawn again whole: a run is one point of the law, however many tokens it has seen.
    interval = draws.readings(lambda rows: fit(runs[rows], scores[rows]), len(scores), num_fitted=3)
    shuffled = [fit(runs, draws.rng.permutation(scores)) for _ in range(num_orders)]
    reads = [itemgetter(index) for index in range(3)]
    numbers = [Controlled(interval(read), null_interval(map(read, shuffled))) for read in reads]
    others = [everything != index for index in everything]

    def error(values: list[float]) -> Interval:
        squares = (np.array(values) - scores) ** 2
        return draws.interval(lambda rows: float(np.sqrt(np.nanmean(squares[rows]))), len(scores))

    left_out = error([fit(runs[kept], scores[kept]).predict(runs[~kept])[0] for kept in others])
    return LawFit(numbers, Controlled(left_out, error([scores[kept].mean() for kept in others])))


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """What do more parameters, data and compute buy?"""
    folder, settings = data.settings.runs, data.settings
    if model.control_of is not None:
        return
    with skip_on_error("alpha", "scaling law") as skipped:
        if not folder:
            raise InputError("scaling law: needs runs of several sizes and amounts of data; give --runs DIR")
        points = [point for point in read_points(Path(folder)) if kind_of(point.objective) == model.kind]
        if not points:
            raise InputError(f"{folder}: holds no run of {model.kind}, as {model.name} is; train some")
        columns = [(point.parameters, point.tokens, point.flops, point.loss) for point in points]
        sizes, tokens, flops, losses = np.array(columns, dtype=np.float64).T
    if skipped:
        yield from skipped
        return
    with skip_on_error("alpha", "scaling law") as skipped:
        draws = Resampler(settings.make_rng("log law"), _LINE_RESAMPLES)
        (alpha, beta, _), left_out = measure_log_law(np.stack([sizes, tokens], axis=1), -losses, draws)
        note = "performance is minus the held-out loss, of verdicts against the run's own generator"
        note = f"{len(points)} runs; {note}"
        meaning = "performance = alpha ln p + beta ln D - gamma: what e times the {} buys"
        yield Finding("alpha", "alpha", "nats", meaning.format("parameters"), *alpha, _SHUFFLED, note)
        yield Finding("beta", "beta", "nats", meaning.format("tokens"), *beta, _SHUFFLED, note)
        name = "error of the law on runs left out"
        meaning = "root mean square error of the law on each run, fitted without it"
        yield Finding("log_law_error", name, "nats", meaning, *left_out, _MEAN, note)
    yield from skipped
    with skip_on_error("exponent", "power law") as skipped:
        draws = Resampler(settings.make_rng("power law"), _CURVE_RESAMPLES)
        (_, exponent, _), left_out = measure_power_law(flops, losses, draws)
        note = f"{len(points)} runs of {flops.min():.2g} to {flops.max():.2g} FLOPs"
        meaning = "b of loss = a C^-b + c over compute"
        yield Finding("exponent", "exponent of the power law", "", meaning, *exponent, _SHUFFLED, note)
        meaning = "root mean square error of the power law on each run, fitted without it"
        name = "error of the power law on runs left out"
        yield Finding("power_law_error", name, "nats", meaning, *left_out, _MEAN, note)
    yield from skipped


MEASURE = Measure("M40", "scaling law", measure, reads=("runs",))
