"""Whether a change of the sentence (voice, tense, number, ...) is a linear map of its vector: h(T x) = T' h(x).

AnalysisModel, pairs -> T' from half of the pairs -> error and retrieval on the other half
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from electralab.analysis import arrays
from electralab.analysis.arrays import FloatArray, Indices, IntArray, Matrix, label_ids, normalise
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.measures.geometry import split_groups
from electralab.analysis.outputs import embed_texts
from electralab.analysis.probe_sets import SentencePair
from electralab.errors import InputError
from electralab.statistics import Interval

# In units of the mean squared singular value; the first is least squares.
PENALTIES = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
_FOLDS = 5
# Pairs that a rare word may stand in; of many pairs, a twentieth.
_MOST = 8


class Equivariance(NamedTuple):
    """On pairs that no map has seen. Controls: T' taught with the pairs shuffled."""

    error: Controlled
    """|after - T' before| / |after - mean after|: 0 exact, 1 no better than always the mean."""
    retrieval: Controlled
    """The share of predictions that are nearest to their own sentence among the held-out ones."""
    unchanged: Interval
    """The error of leaving the vector as it is: T' must beat this too."""
    unchanged_retrieval: Interval
    moved: Interval
    """The error of adding one and the same step."""
    penalty: float


def fit_linear(before: FloatArray, after: FloatArray, penalty: float) -> Callable[[FloatArray], FloatArray]:
    """Ridge regression about the means.

    >>> double = fit_linear(np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]]), 0.0)
    >>> round(double(np.array([[5.0]])).item(), 6)
    10.0
    """
    centre, target = before.mean(axis=0), after.mean(axis=0)
    left, lengths, right = np.linalg.svd(before - centre, full_matrices=False)
    # Directions without variance say nothing, and dividing by them would say anything.
    known = lengths > 1e-10 * lengths.max(initial=0.0)
    strict = penalty * float((lengths**2).mean())
    shrink = np.where(known, lengths / np.where(known, lengths**2 + strict, 1), 0)
    weights = right.T @ (shrink[:, None] * (left.T @ (after - target)))
    return lambda vectors: (vectors - centre) @ weights + target


def choose_penalty(
    before: FloatArray, after: FloatArray, groups: IntArray, draws: Resampler, penalties: Sequence[float] = PENALTIES
) -> float:
    """The penalty that does best on groups left out in turn."""
    names = draws.rng.permutation(np.unique(groups))
    folds = [np.isin(groups, part) for part in np.array_split(names, min(_FOLDS, len(names)))]

    def error(penalty: float) -> float:
        predicted = (fit_linear(before[~out], after[~out], penalty)(before[out]) for out in folds)
        return sum(float(((rows - after[out]) ** 2).sum()) for rows, out in zip(predicted, folds, strict=True))

    return min(penalties, key=error)


def measure_equivariance(
    before: Matrix, after: Matrix, draws: Resampler, *, groups: IntArray | None = None
) -> Equivariance:
    """Row i of both (N, D) is one pair; pairs of a group (a template, a verb) stay in the same half."""
    assert before.shape == after.shape, "every sentence has its changed one, in the same space"
    group_ids = np.arange(len(before)) if groups is None else groups
    count = len(np.unique(group_ids))
    arrays.require_count("equivariance", count, 8, "pairs that are not of one group", before, after)
    is_taught = split_groups(group_ids, draws)
    x, y = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    taught_x, taught_y, test_x, test_y = x[is_taught], y[is_taught], x[~is_taught], y[~is_taught]
    taught_groups, test_groups = group_ids[is_taught], group_ids[~is_taught]
    centre = taught_y.mean(axis=0)
    spread = ((test_y - centre) ** 2).sum(axis=1)

    def error(predictions: FloatArray) -> Interval:
        missed = ((test_y - predictions) ** 2).sum(axis=1)

        def compare(indices: Indices) -> float:
            whole = float(spread[indices].sum())
            return float(np.sqrt(missed[indices].sum() / whole)) if whole else float("nan")

        return draws.interval(compare, len(test_y), test_groups)

    def retrieve(predictions: FloatArray) -> Interval:
        nearness = normalise(predictions - centre) @ normalise(test_y - centre).T
        return draws.mean(nearness.argmax(axis=1) == np.arange(len(predictions)), test_groups)

    penalty = choose_penalty(taught_x, taught_y, taught_groups, draws)
    # The control is fitted with the same care, penalty included, to pairs that do not belong together.
    order = draws.rng.permutation(len(taught_y))
    shuffled_penalty = choose_penalty(taught_x, taught_y[order], taught_groups, draws)
    mapped = fit_linear(taught_x, taught_y, penalty)(test_x)
    control = fit_linear(taught_x, taught_y[order], shuffled_penalty)(test_x)
    return Equivariance(
        Controlled(error(mapped), error(control)),
        Controlled(retrieve(mapped), retrieve(control)),
        error(test_x),
        retrieve(test_x),
        error(test_x + (centre - taught_x.mean(axis=0))),
        penalty,
    )


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """Is a change of the sentence a linear map of its vector?"""
    try:
        kinds = data.pairs.read_by(model)
    except InputError as error:
        yield Skipped("error", "equivariance", str(error))
        return
    meaning = "|h(Tx) - T'h(x)| / |h(Tx) - mean| on pairs of other words: 0 exact, 1 no better than the mean"
    retrieved = "share of T'h(x) that are nearest to their own changed sentence"
    for kind, pairs in kinds.items():
        with skip_on_error(f"error.{kind}", f"{kind} error") as skipped:
            texts = [pair.source for pair in pairs] + [pair.target for pair in pairs]
            groups = group_pairs(pairs)
            for layer, states in enumerate(embed_texts(model, texts, data)):
                data.conditions.check()
                before, after = np.split(states, 2)
                # The same halves at every layer, so that layers can be compared.
                draws = data.settings.resampler("equivariance", kind)
                result = measure_equivariance(before, after, draws, groups=groups)
                note = f"{len(pairs)} pairs in {len(np.unique(groups))} groups"
                id, name, control = f"error.{kind}", f"{kind} error", "T' taught with the pairs shuffled"
                yield Finding(id, name, "error", meaning, *result.error, control, note, layer)
                shares = result.retrieval.estimate, result.unchanged_retrieval
                id, name, control = f"retrieval.{kind}", f"{kind} retrieval", "h(x) as it is: the two share their words"
                yield Finding(id, name, "share", retrieved, *shares, control, layer=layer)
        yield from skipped


def group_pairs(pairs: Sequence[SentencePair]) -> IntArray:
    """By the longest rare word that the change brings, or else that stays: what T' learned must not be asked again."""
    texts = [(pair.source, pair.target) for pair in pairs]
    words = [tuple({word.strip(".,?!").lower() for word in text.split()} for text in pair) for pair in texts]
    counts = Counter(word for before, after in words for word in before | after)
    # Words of many pairs ("was", "not") tell none apart: one group would be half of all.
    most = max(_MOST, len(pairs) // 20)
    names = []
    for before, after in words:
        sides = (after - before, after & before, before)
        rare = [sorted(word for word in side if counts[word] <= most) for side in sides]
        names.append(next((max(side, key=len) for side in rare if side), " ".join(sorted(after))))
    return label_ids(names)


MEASURE = Measure("M37", "equivariance", measure)
