"""Wrong words: each word of a sentence is correct (c) or incorrect (i), as in the files of MultiGED.

    TaggingExample -> TaggedFeature -> cross-entropy
    (T, 2) logits -> log-odds of i against a threshold that dev rows chose -> F0.5 of i

Files have a word, a tab and its label per line and a blank line between sentences, or are tables of lists.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from electralab.records.tuned import ClassReport
from electralab.tasks import kind
from electralab.tasks.features import softmax
from electralab.tasks.kinds.classification import score_counts
from electralab.tasks.kinds.tagging import (
    TAGS,
    WORDS,
    Examples,
    Predictions,
    TaggedFeature,
    Tagging,
    TaggingExample,
    TaggingPrediction,
    read_conll,
)
from electralab.tasks.table import LabelledTable, Row, read_suffix

CORRECT, WRONG = "c", "i"
METRICS = ("f05", "precision", "recall", "best_f05")
# Of F: a word that is named for nothing costs more than one that is missed, as in the shared task.
_BETA = 0.5
_SUREST = 1e-6


class BestThreshold(NamedTuple):
    threshold: float
    f: float


class Errors(Tagging):
    name = "errors"

    def own_tasks(self) -> tuple[kind.Task, ...]:
        (tagging,) = super().own_tasks()
        return (kind.Task(self.name, "wrong words", self, METRICS, labels=(CORRECT, WRONG), files=tagging.files),)

    def read_table(self, path: Path, encoding: str, task: kind.Task) -> LabelledTable:
        is_columns = read_suffix(path) in (".txt", ".tsv") or read_suffix(path) not in kind.TABLE_SUFFIXES
        return read_errors(path, encoding) if is_columns else super().read_table(path, encoding, task)

    def decode(self, outputs: kind.NetworkOutputs[TaggingExample, TaggedFeature]) -> list[TaggingPrediction]:
        """The probabilities are those of being wrong, whatever the label."""
        wrong = outputs.head.labels.index(WRONG)
        by_example: list[list[float]] = [[] for _ in outputs.examples]
        for feature, row in zip(outputs.features, outputs.rows, strict=True):
            by_example[feature.example] += softmax(row.logits[feature.word_starts])[:, wrong].tolist()
        return [
            TaggingPrediction(
                tuple(WRONG if log_odds(p) > outputs.threshold else CORRECT for p in probabilities),
                tuple(probabilities),
            )
            for probabilities in by_example
        ]

    def score(
        self, task: kind.Task, examples: Examples, predictions: Predictions, labels: kind.Labels
    ) -> kind.SplitScores:
        truth = np.array([tag == WRONG for example in examples for tag in example.tags], dtype=np.bool_)
        named = np.array([tag == WRONG for prediction in predictions for tag in prediction.tags], dtype=np.bool_)
        total = score_counts(WRONG, int((truth & named).sum()), int(named.sum()), int(truth.sum()))
        scores = {"f05": f_score(total.precision, total.recall), "precision": total.precision, "recall": total.recall}
        report = ClassReport(classes=(total,))
        probabilities = [p for prediction in predictions for p in prediction.probabilities]
        if len(probabilities) != len(truth):
            return kind.SplitScores(scores, report)  # of a baseline, which says no more than labels
        best = find_threshold(probabilities, truth.tolist())
        scores |= {"best_f05": best.f, "best_f05_threshold": best.threshold}
        return kind.SplitScores(scores, report, best.threshold)


KIND = Errors()


def log_odds(p: float) -> float:
    """0 for one half."""
    sure = min(max(p, _SUREST), 1 - _SUREST)
    return math.log(sure / (1 - sure))


def f_score(precision: float, recall: float) -> float:
    """
    >>> f_score(0.5, 0.5), round(f_score(1.0, 0.2), 3)
    (0.5, 0.556)
    """
    square = _BETA**2
    return (1 + square) * precision * recall / (square * precision + recall) if precision + recall else 0.0


def find_threshold(probabilities: Sequence[float], is_wrong: Sequence[bool]) -> BestThreshold:
    """The log-odds above which to call a word wrong, for the best F0.5 here: midway between two words' own.

    >>> find_threshold([0.1, 0.2, 0.3, 0.4], [False, False, True, True]).f
    1.0
    """
    order = np.argsort(-np.array(probabilities), kind="stable")
    odds = np.array([log_odds(probabilities[index]) for index in order])
    hits = np.cumsum(np.array(is_wrong, dtype=np.float64)[order])
    # Words that are equally likely wrong are named together.
    ends = np.flatnonzero(np.append(odds[1:] < odds[:-1], True))
    f = (1 + _BETA**2) * hits[ends] / (ends + 1 + _BETA**2 * max(hits[-1], 1e-12))
    best = int(f.argmax())
    below = odds[ends[best + 1]] if best + 1 < len(ends) else odds[ends[best]] - 1
    return BestThreshold(float(odds[ends[best]] + below) / 2, float(f[best]))


def read_errors(path: Path, encoding: str) -> LabelledTable:
    """Columns as MultiGED has them, whose first line may name them."""
    table = read_conll(path, encoding)
    rows = list(table.rows)
    first = rows[0] if rows else None
    if isinstance(first, Row) and isinstance(tags := first.fields.get(TAGS), list) and tags[0] == "label":
        words = first.fields[WORDS]
        assert isinstance(words, list)
        rest = Row(first.number + 1, {WORDS: words[1:], TAGS: tags[1:]})
        rows[:1] = [rest] if words[1:] else []
    return replace(table, rows=rows)
