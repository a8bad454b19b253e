"""Logits into answers: a class, a number, a tag for every word, a slice of the context."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from little_kinds import encode
from little_words import word_tokenizer

from electralab.model.task_model import HeadConfig
from electralab.tasks.features import FeatureEncoder, RowLogits, SpanConfig, softmax
from electralab.tasks.kind import Example, NetworkOutputs
from electralab.tasks.kinds import KINDS
from electralab.tasks.kinds.classification import ClassificationExample, ClassPrediction
from electralab.tasks.kinds.qa import AnswerPrediction
from electralab.tasks.kinds.regression import RegressionPrediction
from electralab.tasks.kinds.tagging import TaggingExample, TaggingPrediction
from electralab.tasks.squad import QAExample

SPANS = SpanConfig(stride=4)
NAN = float("nan")


def rows_of(*examples: Example, length: int = 16) -> list[Any]:
    return encode(FeatureEncoder(word_tokenizer(), (), length, SPANS), examples, is_labelled=False).features


def decode(
    head: HeadConfig, examples: Sequence[Example], features: Sequence[Any], rows: Sequence[RowLogits], threshold: float
) -> list[Any]:
    outputs = NetworkOutputs(head, examples, features, rows, SPANS, threshold)
    return list(KINDS[head.kind].decode(outputs))


def say(*logits: float) -> RowLogits:
    return RowLogits(np.array(logits, dtype=np.float32), NAN)


def test_probabilities_add_up_and_large_logits_do_no_harm() -> None:
    np.testing.assert_allclose(softmax(np.array([1e4, 1e4], dtype=np.float32)), [0.5, 0.5])
    np.testing.assert_allclose(softmax(np.log(np.array([[0.2, 0.8]], dtype=np.float32))), [[0.2, 0.8]], rtol=1e-6)


def test_the_likeliest_class_is_named_with_the_probabilities_of_all() -> None:
    examples = [ClassificationExample("0", ("cat",), ""), ClassificationExample("1", ("dog",), "")]
    head = HeadConfig(kind="classify", labels=("no", "yes"))
    outputs = [say(0.0, float(np.log(3))), say(float(np.log(9)), 0.0)]
    first, second = decode(head, examples, rows_of(*examples), outputs, 0.0)
    assert isinstance(first, ClassPrediction)
    assert isinstance(second, ClassPrediction)
    assert (first.label, second.label) == ("yes", "no")
    assert first.probabilities == pytest.approx({"no": 0.25, "yes": 0.75})


def test_a_number_is_what_the_network_says() -> None:
    example = ClassificationExample("0", ("cat",), "")
    assert decode(HeadConfig(kind="regress"), [example], rows_of(example), [say(2.5)], 0.0) == [
        RegressionPrediction(2.5)
    ]


def test_words_over_several_rows_get_their_tags_in_order() -> None:
    words = ("the", "cats", "on", "dogs", "mat")
    examples = [TaggingExample("0", words, ()), TaggingExample("1", ("sat",), ())]
    features = rows_of(*examples, length=6)
    assert len(features) == 3
    wanted = ["B", "O", "O", "O", "B", "B"]
    outputs = []
    for feature in features:
        logits = np.zeros((len(feature.ids), 2), dtype=np.float32)
        logits[:, 1] = 9.0  # what lies between the beginnings of words must not matter
        for position in feature.word_starts:
            logits[position] = (0.0, np.log(3)) if wanted.pop(0) == "B" else (np.log(3), 0.0)
        outputs.append(RowLogits(logits, NAN))
    first, second = decode(HeadConfig(kind="label", labels=("O", "B")), examples, features, outputs, 0.0)
    assert isinstance(first, TaggingPrediction)
    assert first.tags == ("B", "O", "O", "O", "B")
    assert first.probabilities == pytest.approx((0.75,) * 5)
    assert isinstance(second, TaggingPrediction)
    assert second.tags == ("B",)


def answer(answerable: float, threshold: float, *, has_answerability: bool) -> AnswerPrediction:
    """Of a network that finds the cat, and says so much on whether there is an answer."""
    question = QAExample("0", "who sat", "the cat on the mat", (), is_impossible=False)
    (window,) = rows_of(question)
    logits = np.zeros((len(window.ids), 2), dtype=np.float32)
    logits[window.context_start + 1] = 5.0
    head = HeadConfig(kind="qa", has_answerability=has_answerability)
    (said,) = decode(head, [question], [window], [RowLogits(logits, answerable)], threshold)
    assert isinstance(said, AnswerPrediction)
    assert said.best.text == "cat"
    return said


@pytest.mark.parametrize(
    ("answerable", "threshold", "text"), [(3.0, 0.0, "cat"), (-3.0, 0.0, ""), (-3.0, 3.0, "cat"), (3.0, -4.0, "")]
)
def test_beyond_the_threshold_nothing_is_said(answerable: float, threshold: float, text: str) -> None:
    said = answer(answerable, threshold, has_answerability=True)
    assert said.text == text
    assert said.no_answer_score == -answerable


def test_without_a_head_for_doubt_there_is_always_an_answer() -> None:
    assert answer(NAN, -1e9, has_answerability=False).text == "cat"
