"""Predictions beside the truth -> the scores of the task, and a report by class.

Prediction..., Split -> Judged
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from electralab.finetuning.decoding import (
    AnswerPrediction,
    ClassPrediction,
    Prediction,
    TagsPrediction,
    ValuePrediction,
)
from electralab.finetuning.examples import Question, ScoredExample, Split, TaggedExample, TextExample
from electralab.finetuning.scores import (
    report_entities,
    score_classes,
    score_tags,
    score_values,
    tabulate_classes,
)
from electralab.finetuning.squad_scores import score_squad
from electralab.finetuning.tasks import Task
from electralab.records.tuned import ClassReport, Scores


@dataclass(frozen=True, slots=True)
class Judged:
    """A split with an answer for every example; no scores where the truth is not known."""

    predictions: list[Prediction]
    scores: Scores
    report: ClassReport
    best_threshold: float | None
    """Of questions that may have no answer: the no-answer score beyond which to say nothing, for the best F1 here."""


def judge_predictions(
    task: Task, split: Split, predictions: Sequence[Prediction], labels: Sequence[str], threshold: float
) -> Judged:
    """`threshold` is the no-answer score that the predictions were decoded with."""
    found = list(predictions)
    if not split.is_labelled:
        return Judged(found, {}, ClassReport(), None)
    match found:
        case [ClassPrediction(), *_]:
            return _judge_classes(task, split, found, labels)
        case [ValuePrediction(), *_]:
            truth = np.array([e.score for e in split.examples if isinstance(e, ScoredExample)])
            values = np.array([p.value for p in found if isinstance(p, ValuePrediction)])
            return Judged(found, score_values(task.metrics, truth, values), ClassReport(), None)
        case [TagsPrediction(), *_]:
            return _judge_tags(split, found)
        case _:
            return _judge_answers(split, found, threshold)


def _judge_classes(task: Task, split: Split, found: list[Prediction], labels: Sequence[str]) -> Judged:
    number_of = {label: number for number, label in enumerate(labels)}
    truth = np.array([number_of[e.label] for e in split.examples if isinstance(e, TextExample)])
    predicted = np.array([number_of[p.label] for p in found if isinstance(p, ClassPrediction)])
    scores = score_classes(task.metrics, truth, predicted, len(labels))
    return Judged(found, scores, tabulate_classes(truth, predicted, labels), None)


def _judge_tags(split: Split, found: list[Prediction]) -> Judged:
    truth = [e.tags for e in split.examples if isinstance(e, TaggedExample)]
    predicted = [p.tags for p in found if isinstance(p, TagsPrediction)]
    return Judged(found, score_tags(truth, predicted), ClassReport(classes=report_entities(truth, predicted)), None)


def _judge_answers(split: Split, found: list[Prediction], threshold: float) -> Judged:
    questions = [e for e in split.examples if isinstance(e, Question)]
    answers = [p.best for p in found if isinstance(p, AnswerPrediction)]
    texts = [answer.text for answer in answers]
    if math.isinf(threshold) and not any(question.is_impossible for question in questions):
        return Judged(found, score_squad(questions, texts), ClassReport(), None)
    scores = score_squad(questions, texts, [answer.no_answer_score for answer in answers], threshold)
    return Judged(found, scores, ClassReport(), scores["best_f1_threshold"])
