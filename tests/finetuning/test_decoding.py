"""Logits into answers: a class, a number, a tag for every word, a slice of the context."""

import numpy as np
import pytest
from little_words import word_tokenizer

from electralab.finetuning.decoding import (
    AnswerPrediction,
    ClassPrediction,
    TagsPrediction,
    ValuePrediction,
    decode,
)
from electralab.finetuning.encoding import FeatureSet, Framer
from electralab.finetuning.examples import Example, Question, TaggedExample, TextExample
from electralab.finetuning.forward import RowOutput, softmax
from electralab.finetuning.questions import SpanConfig
from electralab.model.task_model import HeadConfig

SPANS = SpanConfig(stride=4)
NAN = float("nan")


def encode(*examples: Example, length: int = 16) -> FeatureSet:
    return Framer(word_tokenizer(), (), length, SPANS).encode(examples, is_labelled=False)


def say(*logits: float) -> RowOutput:
    return RowOutput(np.array(logits, dtype=np.float32), NAN)


def test_probabilities_add_up_and_large_logits_do_no_harm() -> None:
    np.testing.assert_allclose(softmax(np.array([1e4, 1e4], dtype=np.float32)), [0.5, 0.5])
    np.testing.assert_allclose(softmax(np.log(np.array([[0.2, 0.8]], dtype=np.float32))), [[0.2, 0.8]], rtol=1e-6)


def test_the_likeliest_class_is_named_with_the_probabilities_of_all() -> None:
    examples = [TextExample("0", ("cat",), ""), TextExample("1", ("dog",), "")]
    head = HeadConfig(kind="classify", labels=("no", "yes"))
    outputs = [say(0.0, float(np.log(3))), say(float(np.log(9)), 0.0)]
    first, second = decode(head, examples, encode(*examples), outputs, SPANS, 0.0)
    assert isinstance(first, ClassPrediction)
    assert isinstance(second, ClassPrediction)
    assert (first.label, second.label) == ("yes", "no")
    assert first.probabilities == pytest.approx({"no": 0.25, "yes": 0.75})


def test_a_number_is_what_the_network_says() -> None:
    example = TextExample("0", ("cat",), "")
    assert decode(HeadConfig(kind="regress"), [example], encode(example), [say(2.5)], SPANS, 0.0) == [
        ValuePrediction(2.5)
    ]


def test_words_over_several_rows_get_their_tags_in_order() -> None:
    words = ("the", "cats", "on", "dogs", "mat")
    examples = [TaggedExample("0", words, ()), TaggedExample("1", ("sat",), ())]
    encoded = encode(*examples, length=6)
    assert len(encoded.features) == 3
    wanted = ["B", "O", "O", "O", "B", "B"]
    outputs = []
    for feature, places in zip(encoded.features, encoded.word_places, strict=True):
        logits = np.zeros((len(feature.ids), 2), dtype=np.float32)
        logits[:, 1] = 9.0  # what lies between the beginnings of words must not matter
        for place in places:
            logits[place] = (0.0, np.log(3)) if wanted.pop(0) == "B" else (np.log(3), 0.0)
        outputs.append(RowOutput(logits, NAN))
    first, second = decode(HeadConfig(kind="label", labels=("O", "B")), examples, encoded, outputs, SPANS, 0.0)
    assert isinstance(first, TagsPrediction)
    assert first.tags == ("B", "O", "O", "O", "B")
    assert first.probabilities == pytest.approx((0.75,) * 5)
    assert isinstance(second, TagsPrediction)
    assert second.tags == ("B",)


def answer(answerable: float, threshold: float, *, has_answerability: bool) -> AnswerPrediction:
    """Of a network that finds the cat, and says so much on whether there is an answer."""
    question = Question("0", "who sat", "the cat on the mat", (), is_impossible=False)
    encoded = encode(question)
    logits = np.zeros((len(encoded.features[0].ids), 2), dtype=np.float32)
    logits[encoded.windows[0].context_start + 1] = 5.0
    head = HeadConfig(kind="qa", has_answerability=has_answerability)
    (said,) = decode(head, [question], encoded, [RowOutput(logits, answerable)], SPANS, threshold)
    assert isinstance(said, AnswerPrediction)
    assert said.best.text == "cat"
    return said


@pytest.mark.parametrize(
    ("answerable", "threshold", "text"), [(3.0, 0.0, "cat"), (-3.0, 0.0, ""), (-3.0, 3.0, "cat"), (3.0, -4.0, "")]
)
def test_beyond_the_threshold_nothing_is_said(answerable: float, threshold: float, text: str) -> None:
    said = answer(answerable, threshold, has_answerability=True)
    assert said.text == text
    assert said.best.no_answer_score == -answerable


def test_without_a_head_for_doubt_there_is_always_an_answer() -> None:
    assert answer(NAN, -1e9, has_answerability=False).text == "cat"
