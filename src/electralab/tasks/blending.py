"""What a linear model says of rows, and what it and a network say together: predictions as files have them.

examples -> linear model -> PredictionRow...; PredictionRow... of several models -> weights -> PredictionRow...

A study scores linear models and blends with these functions, and `fit` builds what it exports with them.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from electralab.records.fitted import BlendWeights
from electralab.records.tuned import ClassReport, PredictionRow, Scores
from electralab.tasks.baselines import LinearClassifier, LinearRegressor, fit_quietly
from electralab.tasks.kind import Example, round_number
from electralab.tasks.kinds.classification import ClassificationExample, score_classes, tabulate_classes
from electralab.tasks.kinds.regression import RegressionExample, score_values
from electralab.tasks.texts import take_texts

FloatArray = NDArray[np.float64]
Rows = Sequence[PredictionRow]
PooledExample = ClassificationExample | RegressionExample
LinearModel = LinearClassifier | LinearRegressor

# A share that was rounded to 0 has no logarithm.
_LEAST_SHARE = 1e-6
_HIGHEST_LOG_TEMPERATURE = 5.0


def pooled_examples(examples: Sequence[Example]) -> list[PooledExample]:
    """Those of a kind of task with one answer for a text, or a pair."""
    return [example for example in examples if isinstance(example, PooledExample)]


def read_truth(example: PooledExample) -> str | float:
    return example.score if isinstance(example, RegressionExample) else example.label


def fit_linear(examples: Sequence[PooledExample]) -> LinearModel:
    """To as many of them as are fitted within seconds."""
    fitted = take_texts(examples)
    texts, known = [example.texts for example in fitted], [read_truth(example) for example in fitted]
    if isinstance(fitted[0], RegressionExample):
        return LinearRegressor().fit(texts, list(map(float, known)))
    return LinearClassifier().fit(texts, list(map(str, known)))


def answer_linear(
    model: LinearModel, asked: Sequence[PooledExample], labels: Sequence[str] = (), temperature: float = 1.0
) -> list[PredictionRow]:
    """A class has the margins as logits: "probabilities" whose order and differences mean something; they are chances
    with the right temperature alone. `labels`: also those that the model has not seen, with no share."""
    rows = []
    for example in asked:
        row, truth = PredictionRow(id=example.id, texts=example.texts, prediction=None), read_truth(example)
        # Not known: no label, or not a number.
        rows.append(row if truth == "" or truth != truth else row.with_truth(truth))
    texts = [example.texts for example in asked]
    if isinstance(model, LinearRegressor):
        return with_numbers(rows, model.predict(texts))
    margins = model.margins(texts) / temperature
    if not labels or list(labels) == list(model.labels):
        return with_classes(rows, model.labels, margins)
    logits = np.full((len(rows), len(labels)), -np.inf)
    logits[:, [list(labels).index(label) for label in model.labels]] = margins
    return with_classes(rows, labels, logits)


def with_numbers(rows: Rows, values: FloatArray) -> list[PredictionRow]:
    return [row.model_copy(update={"prediction": float(value)}) for row, value in zip(rows, values, strict=True)]


def with_classes(rows: Rows, labels: Sequence[str], logits: FloatArray) -> list[PredictionRow]:
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    answered = []
    for row, shares in zip(rows, exponents / exponents.sum(axis=1, keepdims=True), strict=True):
        by_label = {name: round_number(share) for name, share in zip(labels, shares, strict=True)}
        update = {"prediction": labels[int(shares.argmax())], "probabilities": by_label}
        answered.append(row.model_copy(update=update))
    return answered


def list_labels(rows: Rows) -> list[str]:
    """None for numbers."""
    return list(rows[0].probabilities) if isinstance(rows[0].probabilities, dict) else []


def read_share(row: PredictionRow, label: str) -> float:
    return (row.probabilities.get(label) if isinstance(row.probabilities, dict) else None) or 0.0


def fit_blend(labels: Sequence[str], answers: Sequence[Rows]) -> BlendWeights:
    """Weights by which the answers of several models to the same rows, whose truth is known, say most together. None of
    the models may have learned from these rows."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    features = scaler.fit_transform(_join(labels, answers))
    truth = [row.truth for row in answers[0]]
    if labels:
        model = LogisticRegression(C=1.0)
        fit_quietly(model, features, list(map(str, truth)))
    else:
        model = Ridge(alpha=1.0).fit(features, truth)
    return BlendWeights(
        labels=tuple(map(str, model.classes_)) if labels else (),
        mean=tuple(scaler.mean_.tolist()),
        scale=tuple(scaler.scale_.tolist()),
        weights=tuple(tuple(row) for row in np.atleast_2d(model.coef_).tolist()),
        intercept=tuple(np.atleast_1d(model.intercept_).tolist()),
    )


def answer_blend(blend: BlendWeights, labels: Sequence[str], answers: Sequence[Rows]) -> list[PredictionRow]:
    """`labels`: those of the models, in the order in which the weights were fitted; none for numbers."""
    if not answers[0]:
        return []
    features = (_join(labels, answers) - np.array(blend.mean)) / np.array(blend.scale)
    logits = features @ np.array(blend.weights).T + np.array(blend.intercept)
    if not labels:
        return with_numbers(answers[0], logits[:, 0])
    if len(blend.labels) == 2:
        # Of two classes there is one number, which speaks for the second.
        logits = np.hstack([np.zeros_like(logits), logits])
    return with_classes(answers[0], blend.labels, logits)


def _join(labels: Sequence[str], answers: Sequence[Rows]) -> FloatArray:
    """(rows, models × (classes - 1)): what each says beyond the first class; or (rows, models) numbers."""
    if not labels:
        return np.array([[row.prediction for row in rows] for rows in zip(*answers, strict=True)], dtype=float)
    columns = []
    for rows in answers:
        shares = [[read_share(row, label) for label in labels] for row in rows]
        logits = np.log(np.clip(shares, _LEAST_SHARE, 1))
        columns.append(logits[:, 1:] - logits[:, :1])
    return np.hstack(columns)


def find_temperature(rows: Rows, labels: Sequence[str]) -> float:
    """What margins are to be divided by, to be logits: the temperature at which the truth of these rows, answered with
    margins as logits and not learned from, was least surprising (Guo et al., 2017). It changes no prediction."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    # A class that the model of a row did not know says nothing of how sure it was.
    known = [row for row in rows if read_share(row, str(row.truth)) > 0]
    if not known:
        return 1.0
    logits = np.log(np.clip([[read_share(row, label) for label in labels] for row in known], _LEAST_SHARE, 1))
    # As if one more row had been wrong, and one right (Platt, 1999): where all are right, no temperature is too low.
    doubt = 1 / (len(known) + 2)
    truth = np.full(logits.shape, doubt / (len(labels) - 1))
    truth[np.arange(len(known)), [list(labels).index(str(row.truth)) for row in known]] = 1 - doubt

    def surprise(log_temperature: float) -> float:
        return float(-(truth * log_softmax(logits / np.exp(log_temperature), axis=1)).sum(axis=1).mean())

    bounds = (-_HIGHEST_LOG_TEMPERATURE, _HIGHEST_LOG_TEMPERATURE)
    return float(np.exp(minimize_scalar(surprise, bounds=bounds, method="bounded").x))


def cool(rows: Rows, temperature: float) -> list[PredictionRow]:
    """Rows answered with margins as logits, with the shares that a model of this temperature gives."""
    labels = list_labels(rows)
    logits = np.log(np.clip([[read_share(row, label) for label in labels] for row in rows], _LEAST_SHARE, 1))
    cooled = with_classes(rows, labels, logits / temperature)
    # Shares that were rounded may be alike where margins were not.
    return [
        row.model_copy(update={"probabilities": other.probabilities}) for row, other in zip(rows, cooled, strict=True)
    ]


def score_rows(metrics: Sequence[str], labels: Sequence[str], rows: Rows) -> Scores:
    """`labels`: in the order of the task, since F1 of two classes is that of the second; none for numbers."""
    return make_scorer(metrics, labels, rows)(np.arange(len(rows)))


def make_scorer(metrics: Sequence[str], labels: Sequence[str], rows: Rows) -> Callable[[NDArray[np.int64]], Scores]:
    """The scores of the rows whose indices are given, repetitions included."""
    truth, predicted = _read_answers(labels, rows)
    if labels:
        if tuple(metrics) == ("accuracy",):  # a bootstrap asks a thousand times
            is_right = truth == predicted
            return lambda indices: {"accuracy": float(is_right[indices].mean()) if len(indices) else 0.0}
        true_ids, predicted_ids = truth.astype(np.int64), predicted.astype(np.int64)
        return lambda indices: score_classes(metrics, true_ids[indices], predicted_ids[indices], len(labels))
    return lambda indices: score_values(metrics, truth[indices], predicted[indices])


def report_classes(labels: Sequence[str], rows: Rows) -> ClassReport:
    """Which classes were taken for which; nothing of numbers."""
    truth, predicted = _read_answers(labels, rows)
    return tabulate_classes(truth.astype(np.int64), predicted.astype(np.int64), labels) if labels else ClassReport()


def _read_answers(labels: Sequence[str], rows: Rows) -> tuple[FloatArray, FloatArray]:
    """What is true and what was predicted: numbers, or places among the labels."""
    pairs = [(row.truth, row.prediction) for row in rows]
    if labels:
        place = {label: number for number, label in enumerate(labels)}
        pairs = [(place[str(truth)], place[str(prediction)]) for truth, prediction in pairs]
    truth, predicted = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return truth, predicted
