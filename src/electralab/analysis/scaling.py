"""What more parameters, data and compute buy, as laws fitted over runs.

runs -> law, intervals over runs drawn again, error on runs left out
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Floats,
    bootstrap_estimate,
    lay_about,
    require,
    require_finite,
    summarise,
)
from electralab.errors import InputError

_EXPONENTS = np.geomspace(0.003, 3.0, 40)
# Straight lines are cheap, and the tails of few runs are thin.
_LINES = 1000
Predict = Callable[[Floats], Floats]
Fit = Callable[[Floats, Floats], Predict]
"""Columns of runs (N, C) and their scores (N,) -> what the law says of other runs."""


@dataclass(frozen=True, slots=True)
class LogLaw:
    """performance = alpha ln p + beta ln D - gamma; NaN where the runs do not tell."""

    alpha: float
    beta: float
    gamma: float

    def predict(self, parameters: Floats, tokens: Floats) -> Floats:
        return np.asarray(self.alpha * np.log(parameters) + self.beta * np.log(tokens) - self.gamma, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """loss = a C^-b + c, with a, b, c not below 0."""

    a: float
    b: float
    c: float

    def predict(self, compute: Floats) -> Floats:
        return np.asarray(self.a * compute**-self.b + self.c, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class LogLawFit:
    law: LogLaw
    alpha: Contrast
    """Controls: scores shuffled over the runs."""
    beta: Contrast
    gamma: Estimate
    left_out: Contrast
    """The root mean square error on each run, left out in turn. Control: of the mean of the others."""


@dataclass(frozen=True, slots=True)
class PowerLawFit:
    law: PowerLaw
    a: Estimate
    b: Contrast
    """Control: losses shuffled over the runs."""
    c: Estimate
    left_out: Contrast


def fit_log_law(parameters: Floats, tokens: Floats, performance: Floats) -> LogLaw:
    """Least squares; NaN where size and data of the runs rise together or do not vary."""
    table = np.stack([np.log(parameters), np.log(tokens), -np.ones(len(parameters))], axis=1)
    # About the middle: ln p and 1 are nearly parallel otherwise.
    spread = table[:, :2] - table[:, :2].mean(axis=0)
    if np.linalg.matrix_rank(spread, tol=1e-6) < 2:
        return LogLaw(*[float("nan")] * 3)
    return LogLaw(*(float(found) for found in np.linalg.lstsq(table, performance, rcond=None)[0]))


def fit_power_law(compute: Floats, losses: Floats) -> PowerLaw:
    """Least squares: for each exponent the best a and c are known, so only the exponent is searched."""
    from scipy.optimize import minimize_scalar, nnls

    # In units of their geometric mean the powers are of one size.
    unit = float(np.exp(np.log(compute).mean()))

    def solve(log_b: float) -> tuple[float, Floats]:
        table = np.stack([(compute / unit) ** -np.exp(log_b), np.ones(len(compute))], axis=1)
        found, residual = nnls(table, losses)
        return float(residual) ** 2, found

    start = int(np.argmin([solve(log_b)[0] for log_b in np.log(_EXPONENTS)]))
    around = np.log(_EXPONENTS[[max(start - 1, 0), min(start + 1, len(_EXPONENTS) - 1)]])
    best = minimize_scalar(
        lambda log_b: solve(log_b)[0], bounds=tuple(around), method="bounded", options={"xatol": 1e-10}
    )
    b = float(np.exp(best.x))
    a, c = solve(float(best.x))[1]
    return PowerLaw(float(a) * unit**b, b, float(c))


def fit_slope(x: Floats, y: Floats) -> float:
    """Of the straight line through points; NaN where x does not vary."""
    spread = x - x.mean()
    square = float(spread @ spread)
    return float(spread @ y) / square if square > 1e-12 * max(float(x @ x), 1e-300) else float("nan")


def measure_log_law(
    parameters: Floats, tokens: Floats, performance: Floats, rng: np.random.Generator, *, times: int = _LINES
) -> LogLawFit:
    require("scaling law", len(performance), 5, "runs")
    require_finite("scaling law", np.concatenate([parameters, tokens, performance]))
    law = fit_log_law(parameters, tokens, performance)
    if np.isnan(law.alpha):
        raise InputError("scaling law: size and data of the runs cannot be told apart; vary each by itself")
    count = len(performance)
    runs = [rng.integers(count, size=count) for _ in range(times)]
    drawn = [fit_log_law(parameters[taken], tokens[taken], performance[taken]) for taken in runs]
    shuffled = [fit_log_law(parameters, tokens, rng.permutation(performance)) for _ in range(times)]

    lay = partial(lay_about, units=count, fitted=3)

    def fit(columns: Floats, scores: Floats) -> Predict:
        found = fit_log_law(columns[:, 0], columns[:, 1], scores)
        return lambda asked: found.predict(asked[:, 0], asked[:, 1])

    return LogLawFit(
        law,
        Contrast(lay(law.alpha, [d.alpha for d in drawn]), summarise(s.alpha for s in shuffled)),
        Contrast(lay(law.beta, [d.beta for d in drawn]), summarise(s.beta for s in shuffled)),
        lay(law.gamma, [d.gamma for d in drawn]),
        leave_out(fit, np.stack([parameters, tokens], axis=1), performance, rng, times=times),
    )


def measure_power_law(compute: Floats, losses: Floats, rng: np.random.Generator, *, times: int = 100) -> PowerLawFit:
    require("power law", len(np.unique(compute)), 4, "runs of different compute")
    require_finite("power law", np.concatenate([compute, losses]))
    law, count = fit_power_law(compute, losses), len(losses)
    runs = [rng.integers(count, size=count) for _ in range(times)]
    # Three numbers cannot be had of fewer than three amounts of compute.
    drawn = [fit_power_law(compute[taken], losses[taken]) for taken in runs if len(np.unique(compute[taken])) > 2]
    shuffled = [fit_power_law(compute, rng.permutation(losses)).b for _ in range(min(times, 20))]

    lay = partial(lay_about, units=count, fitted=3)

    def fit(columns: Floats, scores: Floats) -> Predict:
        found = fit_power_law(columns[:, 0], scores)
        return lambda asked: found.predict(asked[:, 0])

    return PowerLawFit(
        law,
        lay(law.a, [d.a for d in drawn]),
        Contrast(lay(law.b, [d.b for d in drawn]), summarise(shuffled)),
        lay(law.c, [d.c for d in drawn]),
        leave_out(fit, compute[:, None], losses, rng, times=times),
    )


def leave_out(fit: Fit, columns: Floats, scores: Floats, rng: np.random.Generator, *, times: int = TIMES) -> Contrast:
    """The root mean square error of a law on each run, fitted without it. Control: the mean of the other runs."""
    places = np.arange(len(scores))
    others = [places != place for place in places]
    said = np.array([fit(columns[kept], scores[kept])(columns[~kept])[0] for kept in others])
    means = np.array([scores[kept].mean() for kept in others])

    def miss(guesses: Floats) -> Estimate:
        squares = (guesses - scores) ** 2
        return bootstrap_estimate(lambda p: float(np.sqrt(np.nanmean(squares[p]))), len(scores), times, rng)

    return Contrast(miss(said), miss(means))
