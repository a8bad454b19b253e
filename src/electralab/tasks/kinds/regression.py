"""Regression: a text, or a pair, and a number.

    RegressionExample -> (1,) number -> squared error; (1,) logit -> RegressionPrediction -> Spearman, Pearson

The head begins at the mean of the training numbers and counts in their standard deviation, and so does the loss.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.model.task_model import HeadConfig
from electralab.records.tuned import PredictionRow, Scores
from electralab.tasks import baselines, kind
from electralab.tasks.features import Feature, TaskBatch
from electralab.tasks.kinds.classification import require_known_metrics
from electralab.tasks.table import Row
from electralab.tasks.texts import TextExample, TextKind, linear_baseline

METRICS = ("spearman", "pearson")


@dataclass(frozen=True, slots=True)
class RegressionExample(TextExample):
    score: float
    """Not a number (NaN) where it is not known."""


@dataclass(frozen=True, slots=True)
class RegressionPrediction(kind.Prediction):
    value: float


Examples = Sequence[RegressionExample]
Predictions = Sequence[RegressionPrediction]


class Regression(TextKind[RegressionExample, RegressionPrediction]):
    name = "regress"
    unlabelled = RegressionExample("", (), math.nan)
    has_numbers = True
    label_columns = ("score", "similarity", "rating", "stars", "target", "label", "labels")
    # For a number only nothing says that it is not known: -1 is one.
    unknown_labels = ("",)

    def own_tasks(self) -> tuple[kind.Task, ...]:
        return (kind.Task("regress", "regression", self, METRICS, num_texts=0, files=kind.OWN_FILES),)

    def convert(self, reader: kind.RowReader, row: Row) -> RegressionExample:
        score, column = math.nan, reader.columns.label
        if column:
            value = reader.read_field(row, column)
            if not kind.is_number(value):
                raise kind.RowError(f"{column!r} holds {kind.shorten(str(value))}, which is no number")
            score = float(value)
        return RegressionExample(reader.read_id(row), reader.read_texts(row), score)

    def target(self, example: RegressionExample, class_ids: Mapping[str, int]) -> NDArray[np.float32]:
        return np.array([example.score], dtype=np.float32)

    def fit_head(self, head: HeadConfig, examples: Examples) -> HeadConfig:
        scores = [example.score for example in examples]
        # Numbers that are all alike have no spread to count in.
        return head.model_copy(update={"origin": float(np.mean(scores)), "unit": float(np.std(scores)) or 1.0})

    def loss(self, logits: Tensor, batch: TaskBatch, head: HeadConfig) -> Tensor:
        return F.mse_loss(logits.float().squeeze(-1) / head.unit, batch.targets[:, 0] / head.unit, reduction="sum")

    def distillation_loss(
        self, logits: Tensor, teacher_logits: Tensor, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        return F.mse_loss(logits.float() / head.unit, teacher_logits.float() / head.unit, reduction="sum")

    def decode(self, outputs: kind.NetworkOutputs[RegressionExample, Feature]) -> list[RegressionPrediction]:
        return [RegressionPrediction(float(row.logits[0])) for row in outputs.rows]

    def score(
        self, task: kind.Task, examples: Examples, predictions: Predictions, labels: kind.Labels
    ) -> kind.SplitScores:
        truth = np.array([example.score for example in examples])
        predicted = np.array([prediction.value for prediction in predictions])
        return kind.SplitScores(score_values(task.metrics, truth, predicted))

    def to_row(self, example: RegressionExample, prediction: RegressionPrediction) -> PredictionRow:
        value = kind.round_number(prediction.value)
        row = PredictionRow(id=example.id, texts=example.texts, prediction=value)
        return row if math.isnan(example.score) else row.with_truth(example.score)

    def baselines(self, train: Examples) -> Iterator[kind.BaselineMethod[RegressionExample, RegressionPrediction]]:
        mean = float(np.mean([example.score for example in train]))
        yield kind.BaselineMethod(
            baselines.COMMONEST,
            "always answering the mean of the training rows",
            len(train),
            lambda examples: [RegressionPrediction(mean)] * len(examples),
        )
        yield linear_baseline(
            *("ridge regression", train),
            fit=lambda texts, values: baselines.LinearRegressor().fit(texts, values).predict,
            read_answer=lambda example: example.score,
            to_prediction=lambda value: RegressionPrediction(float(value)),
        )


KIND = Regression()


def score_values(metrics: Sequence[str], truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> Scores:
    """Correlations; 0 where one side is constant, or not finite, since nothing can then be said to rise together.

    >>> score_values(["spearman"], np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 9.0]))
    {'spearman': 1.0}
    """
    from scipy.stats import pearsonr, spearmanr

    known = {"pearson": pearsonr, "spearman": spearmanr}
    require_known_metrics(metrics, known)
    # A side varies if its spread is more than rounding: the bound lies above the one at which scipy warns.
    is_defined = all(
        values.size >= 2 and bool(np.isfinite(values).all()) and np.ptp(values) > 1e-12 * abs(values.mean())
        for values in (truth, predicted)
    )
    return {name: float(known[name](truth, predicted).statistic) if is_defined else 0.0 for name in metrics}
