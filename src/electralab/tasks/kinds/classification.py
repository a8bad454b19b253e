"""Classification: a text, or a pair, and the name of its class.

    ClassificationExample -> (1,) class -> cross-entropy; (L,) logits -> ClassPrediction -> accuracy, F1, Matthews

A score that its definition leaves open (nothing predicted, nothing to find) is 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.errors import InputError, UsageError
from electralab.model.task_model import KIND_OF_SHAPE, HeadConfig
from electralab.records.tuned import ClassReport, ClassScores, PredictionRow, Scores
from electralab.tasks import baselines, kind
from electralab.tasks.features import Feature, Ids, TaskBatch, soft_cross_entropy, softmax
from electralab.tasks.table import Row
from electralab.tasks.texts import TextExample, TextKind, linear_baseline

METRICS = ("accuracy", "macro_f1")
# So many different values, or fractions, in a column are no classes.
_MANY_CLASSES = 100


@dataclass(frozen=True, slots=True)
class ClassificationExample(TextExample):
    label: str
    """Empty where it is not known, as in a test set."""


@dataclass(frozen=True, slots=True)
class ClassPrediction(kind.Prediction):
    label: str
    probabilities: Mapping[str, float]


Examples = Sequence[ClassificationExample]
Predictions = Sequence[ClassPrediction]


class Classification(TextKind[ClassificationExample, ClassPrediction]):
    name = KIND_OF_SHAPE["row"]
    unlabelled = ClassificationExample("", (), "")
    has_classes = True
    label_columns = (
        *("label", "labels", "class", "category", "sentiment", "target", "gold_label", "is_duplicate", "topic"),
        *("intent", "polarity", "score", "stars", "rating", "similarity"),
    )

    def own_tasks(self) -> tuple[kind.Task, ...]:
        return (
            kind.Task(self.name, "classification", self, METRICS, num_texts=0, files=kind.OWN_FILES),
            kind.Task("pair", "classification of pairs", self, METRICS, num_texts=2, files=kind.OWN_FILES),
        )

    def convert(self, reader: kind.RowReader, row: Row) -> ClassificationExample:
        name, texts, column = reader.read_id(row), reader.read_texts(row), reader.columns.label
        if not column:
            return ClassificationExample(name, texts, "")
        label = reader.read_string(reader.read_field(row, column), column).strip()
        if not label:
            raise kind.RowError(f"{column!r} is empty")
        return ClassificationExample(name, texts, reader.check_label(label))

    def find_labels(self, split: kind.Split[ClassificationExample]) -> tuple[str, ...]:
        """Numbers by their value, so that 10 follows 9."""
        labels = {example.label for example in split.examples}
        are_numbers = all(map(kind.is_number, labels))
        are_fractions = are_numbers and not all(float(label).is_integer() for label in labels)
        # A column of ids, dates or prices would train a network with one output for each.
        if len(labels) > len(split.examples) // 2 and (len(labels) > _MANY_CLASSES or are_fractions):
            raise InputError(
                f"{split.path}: column {split.columns['label']!r} has {len(labels):,} different values in "
                f"{len(split.examples):,} rows, which are no classes; give --data.label, or --task regress for numbers"
            )
        return tuple(sorted(labels, key=(lambda label: (float(label), label)) if are_numbers else None))

    def target(self, example: ClassificationExample, class_ids: Mapping[str, int]) -> Ids:
        return np.array([class_ids[example.label]], dtype=np.int64)

    def loss(self, logits: Tensor, batch: TaskBatch, head: HeadConfig) -> Tensor:
        return F.cross_entropy(logits.float(), batch.targets[:, 0], reduction="sum")

    def distillation_loss(
        self, logits: Tensor, teacher_logits: Tensor, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        return soft_cross_entropy(logits, teacher_logits, temperature)

    def decode(self, outputs: kind.NetworkOutputs[ClassificationExample, Feature]) -> list[ClassPrediction]:
        predictions = []
        for row in outputs.rows:
            probs = softmax(row.logits)
            by_label = dict(zip(outputs.head.labels, map(float, probs), strict=True))
            predictions.append(ClassPrediction(outputs.head.labels[int(probs.argmax())], by_label))
        return predictions

    def score(
        self, task: kind.Task, examples: Examples, predictions: Predictions, labels: kind.Labels
    ) -> kind.SplitScores:
        class_ids = {label: number for number, label in enumerate(labels)}
        truth = np.array([class_ids[example.label] for example in examples])
        predicted = np.array([class_ids[prediction.label] for prediction in predictions])
        scores = score_classes(task.metrics, truth, predicted, len(labels))
        return kind.SplitScores(scores, tabulate_classes(truth, predicted, labels))

    def to_row(self, example: ClassificationExample, prediction: ClassPrediction) -> PredictionRow:
        probs = {label: kind.round_number(prob) for label, prob in prediction.probabilities.items()}
        row = PredictionRow(id=example.id, texts=example.texts, prediction=prediction.label, probabilities=probs)
        return row.with_truth(example.label) if example.label else row

    def baselines(self, train: Examples) -> Iterator[kind.BaselineMethod[ClassificationExample, ClassPrediction]]:
        label = baselines.find_commonest([example.label for example in train])
        yield kind.BaselineMethod(
            baselines.COMMONEST,
            f"always answering {label!r}",
            len(train),
            lambda examples: [ClassPrediction(label, {})] * len(examples),
        )
        yield linear_baseline(
            *("a linear SVM", train),
            fit=lambda texts, labels: baselines.LinearClassifier().fit(texts, labels).predict,
            read_answer=lambda example: example.label,
            to_prediction=lambda label: ClassPrediction(label, {}),
        )


KIND = Classification()


def score_classes(metrics: Sequence[str], truth: Ids, predicted: Ids, num_labels: int) -> Scores:
    """F1 is that of class 1 where there are two classes, as in GLUE, and the mean over the classes otherwise.

    >>> score_classes(["accuracy", "f1"], np.array([0, 1, 1]), np.array([0, 1, 0]), 2)
    {'accuracy': 0.6666666666666666, 'f1': 0.6666666666666666}
    """
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    def f1(labels: list[int] | None) -> float:
        return float(f1_score(truth, predicted, labels=labels, average="macro", zero_division=0.0))

    # With a single class in sight the correlation is 0 by definition, and scikit-learn would warn.
    is_single = np.unique(np.concatenate([truth, predicted])).size < 2
    known = {
        "accuracy": lambda: float(accuracy_score(truth, predicted)),
        "f1": lambda: f1([1] if num_labels == 2 else None),
        "macro_f1": lambda: f1(None),
        "mcc": lambda: 0.0 if is_single else float(matthews_corrcoef(truth, predicted)),
    }
    require_known_metrics(metrics, known)
    return {name: known[name]() if truth.size else 0.0 for name in metrics}


def require_known_metrics(metrics: Sequence[str], known: Mapping[str, object]) -> None:
    if unknown := [name for name in metrics if name not in known]:
        raise UsageError(f"metrics: no metric named {unknown[0]!r} for this kind of task; known are {', '.join(known)}")


def tabulate_classes(truth: NDArray[np.int64], predicted: NDArray[np.int64], labels: Sequence[str]) -> ClassReport:
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    hits, proposed, support = confusion.diagonal(), confusion.sum(axis=0), confusion.sum(axis=1)
    classes = tuple(
        score_counts(name, *map(int, counts)) for name, *counts in zip(labels, hits, proposed, support, strict=True)
    )
    return ClassReport(classes=classes, confusion=tuple(tuple(row) for row in confusion.tolist()))


def score_counts(name: str, hits: int, proposed: int, support: int) -> ClassScores:
    return ClassScores(
        name=name,
        precision=hits / proposed if proposed else 0.0,
        recall=hits / support if support else 0.0,
        f1=2 * hits / (proposed + support) if proposed + support else 0.0,
        support=support,
    )
