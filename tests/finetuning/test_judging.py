"""Answers beside the truth: the scores of the task, and a report by class."""

import math
from collections.abc import Sequence

import pytest

from electralab.finetuning.decoding import AnswerPrediction, ClassPrediction, TagsPrediction, ValuePrediction
from electralab.finetuning.examples import Answer, Example, Question, ScoredExample, Split, TaggedExample, TextExample
from electralab.finetuning.judging import judge_predictions
from electralab.finetuning.spans import SpanAnswer
from electralab.finetuning.tasks import find_task
from electralab.records.tuned import ClassReport


def split(examples: Sequence[Example], *, is_labelled: bool = True) -> Split:
    return Split("dev", "dev.jsonl", examples, is_labelled, {}, len(examples), ())


def texts(*labels: str) -> list[TextExample]:
    return [TextExample(str(number), ("cat",), label) for number, label in enumerate(labels)]


def classes(*labels: str) -> list[ClassPrediction]:
    return [ClassPrediction(label, {}) for label in labels]


def test_classes_are_scored_and_tabulated() -> None:
    found = classes("1", "0", "1", "1")
    judged = judge_predictions(find_task("mrpc"), split(texts("1", "0", "0", "1")), found, ("0", "1"), 0.0)
    assert judged.scores == {"accuracy": 0.75, "f1": pytest.approx(0.8)}
    assert judged.report.confusion == ((1, 1), (0, 2))
    assert judged.predictions == found
    assert judged.best_threshold is None


def test_without_the_truth_there_are_predictions_alone() -> None:
    unknown = split(texts("", ""), is_labelled=False)
    judged = judge_predictions(find_task("cola"), unknown, classes("1", "0"), ("0", "1"), 0.0)
    assert (judged.scores, judged.report) == ({}, ClassReport())
    assert len(judged.predictions) == 2


def test_numbers_are_correlated() -> None:
    truth = [ScoredExample(str(number), ("cat",), float(number)) for number in range(4)]
    values = [ValuePrediction(value) for value in (0.0, 0.1, 0.2, 9.0)]
    judged = judge_predictions(find_task("stsb"), split(truth), values, (), 0.0)
    assert judged.scores["spearman"] == pytest.approx(1.0)
    assert judged.scores["pearson"] < 0.9


def test_tags_are_scored_by_whole_entities() -> None:
    truth = TaggedExample("0", ("a", "b", "c", "the"), ("B-X", "I-X", "O", "B-Y"))
    found = TagsPrediction(("B-X", "O", "O", "B-Y"), (1.0,) * 4)
    judged = judge_predictions(find_task("ner"), split([truth]), [found], (), 0.0)
    assert judged.scores == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 0.75}
    assert [(scores.name, scores.f1) for scores in judged.report.classes] == [("X", 0.0), ("Y", 1.0)]


def question(text: str = "") -> Question:
    answers = (Answer(text, 0),) if text else ()
    return Question("0", "who", f"{text} sat", answers, is_impossible=not text)


def answer(text: str, no_answer_score: float) -> AnswerPrediction:
    return AnswerPrediction(text, SpanAnswer(text, 0, len(text), 1.0, no_answer_score, ()))


def test_where_every_question_has_an_answer_no_threshold_is_looked_for() -> None:
    found = [answer("cat", 9.0), answer("dog", 9.0)]
    judged = judge_predictions(find_task("squad1"), split([question("cat"), question("mat")]), found, (), math.inf)
    assert judged.scores == {"exact_match": 0.5, "f1": 0.5}
    assert judged.best_threshold is None


def test_a_model_that_doubts_is_scored_with_its_doubts_where_every_question_has_an_answer() -> None:
    found = [answer("cat", 9.0), answer("mat", -9.0)]
    judged = judge_predictions(find_task("squad2"), split([question("cat"), question("mat")]), found, (), 0.0)
    assert judged.scores["exact_match"] == 0.5


def test_the_threshold_decides_what_stays_unanswered() -> None:
    asked = split([question("cat"), question("")])
    found = [answer("cat", -1.0), answer("dog", -0.5)]
    at_zero = judge_predictions(find_task("squad2"), asked, found, (), 0.0)
    assert at_zero.scores["f1"] == 0.5
    assert at_zero.scores["best_f1"] == 1.0
    assert at_zero.best_threshold == -1.0
    at_best = judge_predictions(find_task("squad2"), asked, found, (), -1.0)
    assert at_best.scores["f1"] == 1.0
    assert judge_predictions(find_task("squad2"), asked, found, (), math.inf).scores["f1"] == 0.5
