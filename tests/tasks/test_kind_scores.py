"""Answers beside the truth: the scores of the task, and a report by class."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from electralab.tasks.catalog import find_task
from electralab.tasks.kind import SplitScores
from electralab.tasks.kinds.classification import ClassificationExample, ClassPrediction
from electralab.tasks.kinds.qa import AnswerPrediction, Span
from electralab.tasks.kinds.regression import RegressionExample, RegressionPrediction
from electralab.tasks.kinds.tagging import TaggingExample, TaggingPrediction
from electralab.tasks.squad import Answer, QAExample


def score(task_name: str, examples: Sequence[Any], predictions: Sequence[Any], labels: tuple[str, ...]) -> SplitScores:
    task = find_task(task_name)
    return task.kind.score(task, examples, predictions, labels)


def texts(*labels: str) -> list[ClassificationExample]:
    return [ClassificationExample(str(number), ("cat",), label) for number, label in enumerate(labels)]


def classes(*labels: str) -> list[ClassPrediction]:
    return [ClassPrediction(label, {}) for label in labels]


def test_classes_are_scored_and_tabulated() -> None:
    found = classes("1", "0", "1", "1")
    judged = score("mrpc", texts("1", "0", "0", "1"), found, ("0", "1"))
    assert judged.scores == {"accuracy": 0.75, "f1": pytest.approx(0.8)}
    assert judged.report.confusion == ((1, 1), (0, 2))
    assert judged.best_threshold is None


def test_numbers_are_correlated() -> None:
    truth = [RegressionExample(str(number), ("cat",), float(number)) for number in range(4)]
    values = [RegressionPrediction(value) for value in (0.0, 0.1, 0.2, 9.0)]
    judged = score("stsb", truth, values, ())
    assert judged.scores["spearman"] == pytest.approx(1.0)
    assert judged.scores["pearson"] < 0.9


def test_tags_are_scored_by_whole_entities() -> None:
    truth = TaggingExample("0", ("a", "b", "c", "the"), ("B-X", "I-X", "O", "B-Y"))
    found = TaggingPrediction(("B-X", "O", "O", "B-Y"), (1.0,) * 4)
    judged = score("ner", [truth], [found], ())
    assert judged.scores == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 0.75}
    assert [(scores.name, scores.f1) for scores in judged.report.classes] == [("X", 0.0), ("Y", 1.0)]


def question(text: str = "") -> QAExample:
    answers = (Answer(text, 0),) if text else ()
    return QAExample("0", "who", f"{text} sat", answers, is_impossible=not text)


def answer(text: str, no_answer_score: float, threshold: float = 0.0) -> AnswerPrediction:
    return AnswerPrediction(text, Span(text, 0, len(text), 1.0), (), no_answer_score, threshold)


def test_where_every_question_has_an_answer_no_threshold_is_looked_for() -> None:
    found = [answer("cat", 9.0, math.inf), answer("dog", 9.0, math.inf)]
    judged = score("squad1", [question("cat"), question("mat")], found, ())
    assert judged.scores == {"exact_match": 0.5, "f1": 0.5}
    assert judged.best_threshold is None


def test_a_model_that_doubts_is_scored_with_its_doubts_where_every_question_has_an_answer() -> None:
    found = [answer("cat", 9.0), answer("mat", -9.0)]
    judged = score("squad2", [question("cat"), question("mat")], found, ())
    assert judged.scores["exact_match"] == 0.5


def test_the_threshold_decides_what_stays_unanswered() -> None:
    asked = [question("cat"), question("")]

    def at(threshold: float) -> SplitScores:
        return score("squad2", asked, [answer("cat", -1.0, threshold), answer("dog", -0.5, threshold)], ())

    assert at(0.0).scores["f1"] == 0.5
    assert at(0.0).scores["best_f1"] == 1.0
    assert at(0.0).best_threshold == -1.0
    assert at(-1.0).scores["f1"] == 1.0
    assert at(math.inf).scores["f1"] == 0.5
