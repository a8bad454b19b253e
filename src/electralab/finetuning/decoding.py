"""What the network says of the rows -> an answer for every example, in order.

RowOutput... -> Prediction...
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from electralab.finetuning.encoding import FeatureSet
from electralab.finetuning.examples import Example, Question
from electralab.finetuning.forward import RowOutput, softmax
from electralab.finetuning.questions import QuestionWindow, SpanConfig
from electralab.finetuning.spans import SpanAnswer, decode_answers
from electralab.model.task_model import HeadConfig


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    label: str
    probabilities: dict[str, float]


@dataclass(frozen=True, slots=True)
class ValuePrediction:
    value: float


@dataclass(frozen=True, slots=True)
class TagsPrediction:
    """A tag for every word, and how probable it is."""

    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """The best slice of the context; `text` is empty where it is more likely that there is no answer."""

    text: str
    best: SpanAnswer


Prediction = ClassPrediction | ValuePrediction | TagsPrediction | AnswerPrediction


def decode(
    head: HeadConfig,
    examples: Sequence[Example],
    encoded: FeatureSet,
    outputs: Sequence[RowOutput],
    spans: SpanConfig,
    threshold: float,
) -> list[Prediction]:
    """`threshold`: the no-answer score above which a question stays unanswered, if the head can doubt at all."""
    match head.kind:
        case "classify":
            return [_name_class(softmax(output.logits), head.labels) for output in outputs]
        case "regress":
            return [ValuePrediction(float(output.logits[0])) for output in outputs]
        case "label":
            return _name_tags(head.labels, len(examples), encoded, outputs)
        case "qa":
            answers = _find_answers(examples, encoded, outputs, spans)
            limit = threshold if head.has_answerability else float("inf")
            return [AnswerPrediction("" if a.no_answer_score > limit else a.text, a) for a in answers]


def _name_class(chances: NDArray[np.float64], labels: Sequence[str]) -> ClassPrediction:
    return ClassPrediction(labels[int(chances.argmax())], dict(zip(labels, map(float, chances), strict=True)))


def _name_tags(
    labels: Sequence[str], count: int, encoded: FeatureSet, outputs: Sequence[RowOutput]
) -> list[Prediction]:
    tags: list[list[str]] = [[] for _ in range(count)]
    chances: list[list[float]] = [[] for _ in range(count)]
    for feature, places, output in zip(encoded.features, encoded.word_places, outputs, strict=True):
        of_words = softmax(output.logits[places])  # (words, L)
        tags[feature.example] += [labels[number] for number in of_words.argmax(axis=1)]
        chances[feature.example] += of_words.max(axis=1).tolist()
    return [TagsPrediction(tuple(t), tuple(c)) for t, c in zip(tags, chances, strict=True)]


def _find_answers(
    examples: Sequence[Example], encoded: FeatureSet, outputs: Sequence[RowOutput], spans: SpanConfig
) -> list[SpanAnswer]:
    """The best span of every question, before any threshold."""
    questions = [example for example in examples if isinstance(example, Question)]
    windows: list[list[QuestionWindow]] = [[] for _ in questions]
    for window in encoded.windows:
        windows[window.feature.example].append(window)
    has_judge = bool(outputs) and not np.isnan(outputs[0].answerable)
    return decode_answers(
        questions,
        windows,
        [output.logits[:, 0] for output in outputs],
        [output.logits[:, 1] for output in outputs],
        [output.answerable for output in outputs] if has_judge else None,
        spans,
    )
