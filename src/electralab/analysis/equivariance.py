"""Whether a change of the sentence is a linear map of its vector: phi(h(T x)) = T' phi(h(x)).

vectors before, vectors after -> T' from half of the pairs -> error on the other half
"""

from collections.abc import Callable, Sequence
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
    require,
    require_finite,
)
from electralab.analysis.geometry import normalise, split_groups

# Of the mean squared singular value; the first is least squares.
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
_FOLDS = 5
Map = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Equivariance:
    """On pairs that no map has seen. Controls: T' taught with the pairs shuffled."""

    error: Contrast
    """|after - T' before| / |after - mean after|: 0 exact, 1 no better than always the mean."""
    r2: Contrast
    """1 - error^2."""
    retrieval: Contrast
    """The share of predictions that are nearest to their own sentence among the held-out ones."""
    unchanged: Estimate
    """The error of leaving the vector as it is: T' must beat this too."""
    unchanged_retrieval: Estimate
    moved: Estimate
    """The error of adding one and the same step."""
    penalty: float


def fit_linear(before: Floats, after: Floats, penalty: float) -> Map:
    """Ridge regression about the means."""
    centre, target = before.mean(axis=0), after.mean(axis=0)
    left, lengths, right = np.linalg.svd(before - centre, full_matrices=False)
    known = lengths > 1e-10 * lengths.max(initial=0.0)
    strict = penalty * float((lengths**2).mean())
    shrink = np.where(known, lengths / np.where(known, lengths**2 + strict, 1), 0)
    weights = right.T @ (shrink[:, None] * (left.T @ (after - target)))
    return lambda vectors: (vectors - centre) @ weights + target


def choose_penalty(
    before: Floats, after: Floats, groups: Labels, penalties: Sequence[float], rng: np.random.Generator
) -> float:
    """The one that does best on groups left out in turn."""
    names = rng.permutation(np.unique(groups))
    folds = [np.isin(groups, part) for part in np.array_split(names, min(_FOLDS, len(names)))]

    def judge(penalty: float) -> float:
        return sum(
            float(((fit_linear(before[~out], after[~out], penalty)(before[out]) - after[out]) ** 2).sum())
            for out in folds
        )

    return min(penalties, key=judge)


def measure_equivariance(
    before: Vectors,
    after: Vectors,
    rng: np.random.Generator,
    *,
    groups: Labels | None = None,
    penalties: Sequence[float] = PENALTIES,
    times: int = TIMES,
) -> Equivariance:
    """Row i of both (N, D) is one pair; pairs of a group (a template, a verb) stay in the same half."""
    assert before.shape == after.shape, "every sentence has its changed one, in the same space"
    owners = np.arange(len(before)) if groups is None else groups
    require("equivariance", len(np.unique(owners)), 8, "pairs that are not of one group")
    require_finite("equivariance", before)
    require_finite("equivariance", after)
    is_taught = split_groups(owners, rng)
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    pairs = _Halves(x[is_taught], y[is_taught], x[~is_taught], y[~is_taught], owners[~is_taught], times, rng)
    penalty = choose_penalty(pairs.before, pairs.after, owners[is_taught], penalties, rng)
    order = rng.permutation(len(pairs.after))
    astray = choose_penalty(pairs.before, pairs.after[order], owners[is_taught], penalties, rng)
    mapped = fit_linear(pairs.before, pairs.after, penalty)(pairs.asked)
    control = fit_linear(pairs.before, pairs.after[order], astray)(pairs.asked)
    error = Contrast(pairs.judge(mapped), pairs.judge(control))
    step = pairs.after.mean(axis=0) - pairs.before.mean(axis=0)
    return Equivariance(
        error,
        Contrast(_explain(error.estimate), _explain(error.control)),
        Contrast(pairs.retrieve(mapped), pairs.retrieve(control)),
        pairs.judge(pairs.asked),
        pairs.retrieve(pairs.asked),
        pairs.judge(pairs.asked + step),
        penalty,
    )


@dataclass(frozen=True, slots=True)
class _Halves:
    before: Floats
    after: Floats
    asked: Floats
    truth: Floats
    owners: Labels
    times: int
    rng: np.random.Generator

    def judge(self, said: Floats) -> Estimate:
        missed = ((self.truth - said) ** 2).sum(axis=1)
        spread = ((self.truth - self.after.mean(axis=0)) ** 2).sum(axis=1)

        def compare(places: Places) -> float:
            whole = float(spread[places].sum())
            return float(np.sqrt(missed[places].sum() / whole)) if whole else float("nan")

        return self._bootstrap(compare)

    def retrieve(self, said: Floats) -> Estimate:
        centre = self.after.mean(axis=0)
        nearness = normalise(said - centre) @ normalise(self.truth - centre).T
        is_own: Flags = nearness.argmax(axis=1) == np.arange(len(said))
        return self._bootstrap(lambda places: float(is_own[places].mean()))

    def _bootstrap(self, statistic: Callable[[Places], float]) -> Estimate:
        return bootstrap_estimate(statistic, len(self.truth), self.times, self.rng, groups=self.owners)


def _explain(error: Estimate) -> Estimate:
    return Estimate(1 - error.value**2, 1 - error.high**2, 1 - error.low**2)
