"""How well bounded linear classifiers on frozen states fit noise: their empirical Rademacher complexity.

AnalysisModel, rows -> E sup over w of 1/n sum of sigma_i w . x_i, by layer
"""

from typing import Literal

import numpy as np

from electralab.analysis.arrays import FloatArray, Matrix, normalise, require_count
from electralab.analysis.finding import Controlled, Finding, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import embed_rows
from electralab.statistics import Interval

LinearClass = Literal["l2", "l1", "local"]
_NORMAL_95 = 1.959963984540054
_DRAWS_AT_ONCE = 256
_CLASSES: dict[LinearClass, tuple[str, str]] = {
    "l2": ("Rademacher, l2 ball", "over the l2 ball"),
    "l1": ("Rademacher, l1 ball", "over the l1 ball"),
    "local": ("Rademacher, local", "over w whose answers vary by no more than the states do along an average axis"),
}


def estimate_rademacher(
    features: Matrix, rng: np.random.Generator, *, linear: LinearClass = "l2", draws: int = 2000
) -> Interval:
    """Of {x -> w . x, |w| <= 1} on these n rows: the mean over draws of signs, and the interval of that mean.

    The best w is known for each draw: the supremum is the dual norm, 1/n |sum of sigma_i x_i|, Euclidean for the
    l2 ball and the largest coordinate for the l1 ball.

    >>> estimate_rademacher(np.eye(4), np.random.default_rng(0)).value  # 1/n |sum of signs| = sqrt(4) / 4
    0.5
    """
    wide = np.asarray(features, dtype=np.float64)
    if linear == "local":
        wide = flatten_axes(wide)
    suprema: list[FloatArray] = []
    for start in range(0, draws, _DRAWS_AT_ONCE):
        signs = rng.integers(2, size=(min(_DRAWS_AT_ONCE, draws - start), len(wide))) * 2.0 - 1
        suprema.append(np.linalg.norm(signs @ wide, ord=np.inf if linear == "l1" else 2, axis=1) / len(wide))
    values = np.concatenate(suprema)
    mean, margin = float(values.mean()), _NORMAL_95 * float(values.std(ddof=1)) / np.sqrt(draws)
    return Interval(mean, float(mean - margin), float(mean + margin))


def flatten_axes(rows: FloatArray) -> FloatArray:
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
    features: Matrix, rng: np.random.Generator, *, linear: LinearClass = "l2", draws: int = 2000
) -> Controlled:
    """Of features about their mean, scaled to a mean square of 1, so that models of other scale can be compared.

    Control: rows of the same lengths in random directions.
    """
    require_count("Rademacher complexity", len(features), 2, "rows", features)
    rows = np.asarray(features, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    length = np.sqrt((rows**2).sum(axis=1).mean())
    rows = rows / length if length > 0 else rows
    # Of the same lengths: the complexity of the l2 ball depends on little else.
    aimless = normalise(rng.normal(size=rows.shape)) * np.linalg.norm(rows, axis=1, keepdims=True)
    estimates = [estimate_rademacher(cloud, rng, linear=linear, draws=draws) for cloud in (rows, aimless)]
    return Controlled(*estimates)


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """How much noise can a linear classifier on the states fit?"""
    with skip_on_error("rademacher_local", "Rademacher complexity") as skipped:
        tokens = embed_rows(model, data, data.settings.vectors, is_spread=True)
        control = "rows of the same lengths in random directions"
        note = "the interval is that of the draws of signs, not of the data"
        for layer, states in enumerate(tokens.layers):
            for linear, (name, over) in _CLASSES.items():
                data.conditions.check()
                rng = data.settings.make_rng("rademacher", linear, str(layer))
                meaning = f"E sup of 1/n sum of sigma_i w.x_i {over}, {len(states):,} tokens scaled to length 1"
                result = measure_rademacher(states, rng, linear=linear)
                yield Finding(f"rademacher_{linear}", name, "complexity", meaning, *result, control, note, layer)
    yield from skipped


MEASURE = Measure("M43", "Rademacher complexity", measure)
