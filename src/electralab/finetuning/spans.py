"""Logits of windows -> the best slice of the context, and how sure it is that there is none.

    QuestionWindow, start and end logits -> SpanAnswer

The score of a span is its start logit plus its end logit, and the best over all windows wins. A span counts in the
window where its first token has the most context. The no-answer score grows with the belief that there is no answer:

    with an answerability head   -max over windows of its logit (released ELECTRA, whose logit has the other sign)
    without                      min over windows of the score of [CLS] .. [CLS], minus the best span's (BERT)

so a question counts as answerable if one window says so, and 0 is where both are believed alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from electralab.finetuning.examples import Question
from electralab.finetuning.questions import QuestionWindow, SpanConfig

_ALTERNATIVES = 4

Logits = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Span:
    """context[start:end] == text"""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class SpanAnswer:
    """The best span, whatever the no-answer score says of it; "" only where the context has no token to answer with."""

    text: str
    start: int
    end: int
    score: float
    no_answer_score: float
    alternatives: tuple[Span, ...]
    """The next best, other slices."""


def decode_answers(
    questions: Sequence[Question],
    windows_by_question: Sequence[Sequence[QuestionWindow]],
    start_logits: Sequence[Logits],
    end_logits: Sequence[Logits],
    answerable_logits: Sequence[float] | Logits | None,
    config: SpanConfig,
) -> list[SpanAnswer]:
    """Logits are those of all windows one after another, question by question; a row may be padded at its end."""
    answers = []
    row = 0
    for question, windows in zip(questions, windows_by_question, strict=True):
        rows = slice(row, row + len(windows))
        row += len(windows)
        starts, ends = start_logits[rows], end_logits[rows]
        spans = _find_spans(question.context, windows, starts, ends, config)
        best, *others = [*_distinct(spans, 1 + _ALTERNATIVES)] or [Span("", 0, 0, 0.0)]
        if answerable_logits is None:
            silence = min(float(start[0]) + float(end[0]) for start, end in zip(starts, ends, strict=True)) - best.score
        else:
            silence = -max(float(logit) for logit in answerable_logits[rows])
        answers.append(SpanAnswer(best.text, best.start, best.end, best.score, silence, tuple(others)))
    return answers


def _find_spans(
    context: str,
    windows: Sequence[QuestionWindow],
    start_logits: Sequence[Logits],
    end_logits: Sequence[Logits],
    config: SpanConfig,
) -> list[Span]:
    """The best of each window, best first; of equals the one that stands first."""
    found: list[Span] = []
    for window, starts, ends in zip(windows, start_logits, end_logits, strict=True):
        here = slice(window.context_start, window.context_start + len(window.offsets))
        first, length, scores = _best_in_window(starts[here], ends[here], window.has_most_context, config)
        begins, stops = window.offsets[first, 0], window.offsets[first + length, 1]
        found += map(_trim, repeat(context), begins.tolist(), stops.tolist(), scores.tolist())
    return sorted(found, key=lambda span: (-span.score, span.start, span.end))


def _best_in_window(
    starts: Logits, ends: Logits, may_start: NDArray[np.bool_], config: SpanConfig
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """First tokens, how many more follow, and scores of the best spans; a row of scores for each first token."""
    places = np.flatnonzero(may_start)
    if not places.size:
        return places, places, np.zeros(0)
    beyond = np.full(config.max_answer - 1, -np.inf)
    last = sliding_window_view(np.concatenate([ends.astype(np.float64), beyond]), config.max_answer)  # (n, A)
    scores = (starts[places, None] + last[places]).ravel()
    kept = np.argpartition(-scores, min(config.best, scores.size) - 1)[: config.best]
    kept = kept[scores[kept] > -np.inf]
    return places[kept // config.max_answer], kept % config.max_answer, scores[kept]


def _trim(context: str, start: int, end: int, score: float) -> Span:
    """Some tokenizers count the space before a word to its token."""
    text = context[start:end]
    start += len(text) - len(text.lstrip())
    text = text.strip()
    return Span(text, start, start + len(text), score)


def _distinct(spans: Sequence[Span], count: int) -> Iterator[Span]:
    """The first `count` that say something, each slice once."""
    seen: set[tuple[int, int]] = set()
    for span in spans:
        if len(seen) == count:
            return
        if span.text and (span.start, span.end) not in seen:
            seen.add((span.start, span.end))
            yield span
