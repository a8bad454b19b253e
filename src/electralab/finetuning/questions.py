"""A question and its context as rows that fit: a long context is cut into windows that overlap.

    Question -> QuestionWindow: [CLS] question [SEP] part of the context [SEP]

The tokens of a context are found once, however many questions follow on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.errors import UsageError
from electralab.finetuning.examples import Question
from electralab.finetuning.features import Feature
from electralab.tokens.tokenizer import Tokenizer

_SPECIAL_TOKENS = 3
_SHORTEST_ROW = 16


class SpanConfig(Settings):
    stride: int = Field(default=128, ge=1)
    """How many tokens of the context one window begins after another; at most half a window."""
    max_question: int = Field(default=64, ge=1)
    """Tokens of the question that are kept; at most half a row."""
    max_answer: int = Field(default=30, ge=1)
    """The most tokens an answer may have."""
    best: int = Field(default=20, ge=1)
    """How many spans of each window are compared with those of the others."""


@dataclass(frozen=True, slots=True)
class QuestionWindow:
    """A part of the context as a row, and the way back from its tokens to the characters of the context."""

    feature: Feature
    context_start: int
    """The position in the row of the first token of the context."""
    first_token: int
    """Which of the context's tokens that is."""
    offsets: NDArray[np.int64]  # (n, 2)
    has_most_context: NDArray[np.bool_]  # (n,)
    """Of the windows that hold a token, the one that shows most on its shorter side; the first of equals."""
    has_answer: bool
    """Whether the question has one in its context, be it in this window or not."""
    is_aligned: bool
    """False where the answer begins or ends inside a token, so that its tokens say more than it does."""
    is_question_cut: bool


@dataclass(frozen=True, slots=True)
class _Context:
    ids: NDArray[np.int64]  # (n,)
    offsets: NDArray[np.int64]  # (n, 2)


@dataclass(frozen=True, slots=True)
class _AnswerTokens:
    first: int
    last: int
    is_aligned: bool


# The questions on a context follow each other in every known file; a shuffled one only costs time.
@lru_cache(maxsize=64)
def _encode_context(tokenizer: Tokenizer, context: str) -> _Context:
    encoded = tokenizer.encode_literal(context)
    return _Context(encoded.ids, np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2))


def cut_question(
    question: Question, example: int, tokenizer: Tokenizer, sequence_length: int, config: SpanConfig, is_labelled: bool
) -> list[QuestionWindow]:
    """At least one window; its targets point at [CLS] where the answer is not wholly inside, or there is none."""
    if sequence_length < _SHORTEST_ROW:
        raise UsageError(
            f"sequence_length: a row of {sequence_length} tokens has no room for a question and a context; "
            f"give {_SHORTEST_ROW} or more"
        )
    special = tokenizer.special
    longest = min(config.max_question, (sequence_length - _SPECIAL_TOKENS) // 2)
    whole = tokenizer.encode_literal(question.question).ids
    asked = whole[:longest]
    head = np.concatenate([[special.cls], asked, [special.sep]])
    context = _encode_context(tokenizer, question.context)
    room = sequence_length - _SPECIAL_TOKENS - len(asked)
    bounds = _cut_windows(len(context.ids), room, min(config.stride, room // 2))
    answer = _find_answer(context.offsets, question) if is_labelled else None
    windows = []
    for (start, end), has_most_context in zip(bounds, _find_most_context(bounds), strict=True):
        ids = np.concatenate([head, context.ids[start:end], [special.sep]])
        segment_ids = np.zeros(len(ids), dtype=np.int64)
        segment_ids[len(head) :] = 1
        targets = _place_answer(answer, start, end, len(head)) if is_labelled else np.zeros(0, dtype=np.int64)
        windows.append(
            QuestionWindow(
                feature=Feature(example, ids, segment_ids, targets),
                context_start=len(head),
                first_token=start,
                offsets=context.offsets[start:end],
                has_most_context=has_most_context,
                has_answer=bool(question.answers),
                is_aligned=answer is None or answer.is_aligned,
                is_question_cut=len(whole) > longest,
            )
        )
    return windows


def _cut_windows(size: int, room: int, stride: int) -> list[tuple[int, int]]:
    starts = range(0, max(size - room, 0) + stride, stride)
    return [(start, min(start + room, size)) for start in starts]


def _find_most_context(bounds: Sequence[tuple[int, int]]) -> list[NDArray[np.bool_]]:
    """As BERT's run_squad: the shorter side decides, and among equals the longer window by a hundredth a token."""
    most = np.full(bounds[-1][1], -1.0)  # (n,) of the context
    best = np.zeros(bounds[-1][1], dtype=np.int64)
    for window, (start, end) in enumerate(bounds):
        place = np.arange(end - start)
        shown = np.minimum(place, place[::-1]) + 0.01 * (end - start)
        is_more = shown > most[start:end]
        most[start:end][is_more] = shown[is_more]
        best[start:end][is_more] = window
    return [best[start:end] == window for window, (start, end) in enumerate(bounds)]


def _find_answer(offsets: NDArray[np.int64], question: Question) -> _AnswerTokens | None:
    """The tokens that cover the first answer; None if there is no answer or the tokenizer drops all of it."""
    if question.is_impossible or not question.answers:
        return None
    answer = question.answers[0]
    start, end = answer.start, answer.start + len(answer.text)
    inside = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < end))
    if not inside.size:
        return None
    first, last = int(inside[0]), int(inside[-1])
    covered = question.context[offsets[first, 0] : offsets[last, 1]]
    # Some tokenizers count the space before a word to its token.
    return _AnswerTokens(first, last, covered.strip() == answer.text.strip())


def _place_answer(answer: _AnswerTokens | None, start: int, end: int, shift: int) -> NDArray[np.int64]:
    """(3,): its first and last position in the row, and that it is there."""
    if answer is None or answer.first < start or answer.last >= end:
        return np.zeros(3, dtype=np.int64)
    return np.array([answer.first - start + shift, answer.last - start + shift, 1], dtype=np.int64)
