"""Regression: a text, or a pair, and a number.

    RegressionExample -> (1,) number -> squared error; (1,) logit -> RegressionPrediction -> Spearman, Pearson

The head begins at the mean of the training numbers and counts in their standard deviation, and so does the loss.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.model.task_model import HeadConfig
from electralab.records.tuned import PredictionRow, Scores
from electralab.tasks.baselines import COMMONEST, LINEAR, LinearRegressor
from electralab.tasks.features import Feature, TaskBatch
from electralab.tasks.kind import (
    OWN_FILES,
    BaselinePredictions,
    Labels,
    Logits,
    NetworkOutputs,
    Prediction,
    RowConverter,
    RowError,
    Split,
    SplitScores,
    Task,
    is_number,
    round_number,
    shorten,
)
from electralab.tasks.kinds.classification import require_known_metrics
from electralab.tasks.table import Row
from electralab.tasks.texts import TextExample, TextKind, take_texts

METRICS = ("spearman", "pearson")


@dataclass(frozen=True, slots=True)
class RegressionExample(TextExample):
    score: float
    """Not a number (NaN) where it is not known."""


@dataclass(frozen=True, slots=True)
class RegressionPrediction(Prediction):
    value: float


Examples = Sequence[RegressionExample]
Predictions = Sequence[RegressionPrediction]


class _Converter(RowConverter[RegressionExample]):
    def convert(self, row: Row) -> RegressionExample:
        score = math.nan
        if self.columns.label:
            value = self.read_field(row, self.columns.label)
            if not is_number(value):
                raise RowError(f"{self.columns.label!r} holds {shorten(str(value))}, which is no number")
            score = float(value)
        return RegressionExample(self.read_id(row), self.read_texts(row), score)


class Regression(TextKind[RegressionExample, RegressionPrediction]):
    name = "regress"
    has_numbers = True
    label_columns = ("score", "similarity", "rating", "stars", "target", "label", "labels")
    # For a number only nothing says that it is not known: -1 is one.
    unknown_labels = ("",)
    converter = _Converter

    def own_tasks(self) -> tuple[Task, ...]:
        return (Task("regress", "regression", self, METRICS, num_texts=0, files=OWN_FILES),)

    def make_unlabelled(self, texts: tuple[str, ...]) -> RegressionExample:
        return RegressionExample("", texts, math.nan)

    def target(self, example: RegressionExample, class_ids: Mapping[str, int]) -> NDArray[np.float32]:
        return np.array([example.score], dtype=np.float32)

    def fit_head(self, head: HeadConfig, examples: Examples) -> HeadConfig:
        scores = [example.score for example in examples]
        return head.model_copy(update={"origin": float(np.mean(scores)), "unit": float(np.std(scores)) or 1.0})

    def loss(self, logits: Logits, batch: TaskBatch, head: HeadConfig) -> Tensor:
        assert isinstance(logits, Tensor)
        return F.mse_loss(logits.float().squeeze(-1) / head.unit, batch.targets[:, 0] / head.unit, reduction="sum")

    def distillation_loss(
        self, logits: Logits, teacher_logits: Logits, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        assert isinstance(logits, Tensor)
        assert isinstance(teacher_logits, Tensor)
        return F.mse_loss(logits.float() / head.unit, teacher_logits.float() / head.unit, reduction="sum")

    def decode(self, outputs: NetworkOutputs[RegressionExample, Feature]) -> list[RegressionPrediction]:
        return [RegressionPrediction(float(row.logits[0])) for row in outputs.rows]

    def score(self, task: Task, examples: Examples, predictions: Predictions, labels: Labels) -> SplitScores:
        truth = np.array([example.score for example in examples])
        return SplitScores(score_values(task.metrics, truth, np.array([answer.value for answer in predictions])))

    def to_row(self, example: RegressionExample, prediction: RegressionPrediction) -> PredictionRow:
        truth: dict[str, Any] = {} if math.isnan(example.score) else {"truth": example.score}
        return PredictionRow(id=example.id, texts=example.texts, **truth, prediction=round_number(prediction.value))

    def baselines(
        self, train: Examples, splits: Sequence[Split]
    ) -> Iterator[BaselinePredictions[RegressionPrediction]]:
        mean = float(np.mean([example.score for example in train]))
        constant = {split.name: [RegressionPrediction(mean)] * len(split.examples) for split in splits}
        yield BaselinePredictions(COMMONEST, "always answering the mean of the training rows", len(train), constant)
        some = take_texts(train)
        what = "TF-IDF of words and " + ("characters" if len(train[0].texts) == 1 else "what the pair shares")
        model = LinearRegressor().fit([example.texts for example in some], [example.score for example in some])
        linear = {
            split.name: [RegressionPrediction(float(x)) for x in model.predict([e.texts for e in split.examples])]
            for split in splits
        }
        yield BaselinePredictions(LINEAR, f"ridge regression over {what}", len(some), linear)


KIND = Regression()


def score_values(metrics: Sequence[str], truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> Scores:
    """Correlations; 0 where one side is constant, or not finite, since nothing can then be said to rise together.

    >>> score_values(["spearman"], np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 9.0]))
    {'spearman': 1.0}
    """
    from scipy.stats import pearsonr, spearmanr

    known = {"pearson": pearsonr, "spearman": spearmanr}
    require_known_metrics(metrics, known)
    is_defined = _varies(truth) and _varies(predicted)
    return {name: float(known[name](truth, predicted).statistic) if is_defined else 0.0 for name in metrics}


def _varies(values: NDArray[np.float64]) -> bool:
    """Whether the spread is more than rounding: the bound lies above the one at which scipy warns."""
    return values.size >= 2 and bool(np.isfinite(values).all()) and np.ptp(values) > 1e-12 * abs(values.mean())
