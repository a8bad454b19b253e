"""The answer is the best of all spans that may be one, and always an exact slice of the context."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_words import word_tokenizer
from numpy.typing import NDArray

from electralab.model.task_model import HeadConfig
from electralab.tasks.features import FeatureEncoder, RowLogits, SpanConfig
from electralab.tasks.kind import NetworkOutputs
from electralab.tasks.kinds.qa import KIND, AnswerPrediction, QuestionWindow, split_context
from electralab.tasks.squad import Answer, QAExample
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

TOKENIZER = word_tokenizer()
Rows = list[NDArray[np.float32]]


def ask(context: str, id: str = "q") -> QAExample:
    return QAExample(id, "who sat", context, (), False)


def cut(question: QAExample, sequence_length: int, config: SpanConfig) -> list[QuestionWindow]:
    return split_context(question, 0, FeatureEncoder(TOKENIZER, (), sequence_length, config), is_labelled=False)


def rows_for(windows: Sequence[QuestionWindow], **logits: float) -> Rows:
    """A row of zeros for each window, except at the words named; `cls` is the first position."""
    rows = []
    for window in windows:
        pieces = [TOKENIZER.token(index).strip("[]").lower() for index in window.ids]
        in_context = [*(["cls"]), *[""] * (window.context_start - 1), *pieces[window.context_start :]]
        rows.append(np.array([logits.get(piece, 0.0) for piece in in_context], dtype=np.float32))
    return rows


def decode_answers(
    questions: Sequence[QAExample],
    windows: Sequence[Sequence[QuestionWindow]],
    starts: Sequence[NDArray[Any]],
    ends: Sequence[NDArray[Any]],
    answerable: Sequence[float] | None,
    config: SpanConfig,
) -> list[AnswerPrediction]:
    features = [replace(window, example=index) for index, group in enumerate(windows) for window in group]
    doubts = [float("nan")] * len(features) if answerable is None else answerable
    rows = [RowLogits(np.stack([s, e], axis=-1), doubt) for s, e, doubt in zip(starts, ends, doubts, strict=True)]
    head = HeadConfig(kind="qa", has_answerability=answerable is not None)
    return KIND.decode(NetworkOutputs(head, questions, features, rows, config, float("inf")))


def decode(context: str, start: dict[str, float], end: dict[str, float], **config: int) -> AnswerPrediction:
    settings = SpanConfig(**config)
    windows = cut(ask(context), 64, settings)
    starts, ends = rows_for(windows, **start), rows_for(windows, **end)
    return decode_answers([ask(context)], [windows], starts, ends, None, settings)[0]


def test_the_best_span_is_a_slice_of_the_original_text() -> None:
    answer = decode("The  CAT\tSat on the mat", {"cat": 5}, {"sat": 4})
    assert (answer.text, answer.best.start, answer.best.end) == ("CAT\tSat", 5, 12)
    assert answer.best.score == 9


def test_a_span_does_not_end_before_it_starts() -> None:
    answer = decode("cat sat on", {"on": 5}, {"cat": 5})
    assert answer.best.score == 5
    assert (answer.text, answer.best.start) == ("cat", 0)  # the start at "cat" counts 0, the end 5; first of equals


def test_a_span_is_no_longer_than_allowed() -> None:
    assert decode("cat a b c mat", {"cat": 5}, {"mat": 4, "c": 3}, max_answer=5).text == "cat a b c mat"
    assert decode("cat a b c mat", {"cat": 5}, {"mat": 4, "c": 3}, max_answer=4).text == "cat a b c"


def test_the_question_and_the_special_tokens_are_never_the_answer() -> None:
    settings = SpanConfig()
    windows = cut(ask("the cat"), 64, settings)
    logits = [np.array([9, 9, 9, 9, 1, 2, 9], dtype=np.float32)]  # [CLS] who sat [SEP] the cat [SEP]
    assert decode_answers([ask("the cat")], [windows], logits, logits, None, settings)[0].text == "cat"


def test_without_a_head_silence_is_compared_with_the_best_span() -> None:
    answer = decode("the cat", {"cat": 5, "cls": 3}, {"cat": 4, "cls": 4})
    assert answer.no_answer_score == (3 + 4) - (5 + 4)


def test_one_window_that_believes_in_an_answer_is_enough() -> None:
    settings = SpanConfig()
    context = " ".join(["a", "b", "c"] * 10)
    windows = cut(ask(context), 25, settings)
    assert len(windows) == 2
    starts = rows_for(windows)
    starts[0][0], starts[1][0] = 4, 1
    plain = decode_answers([ask(context)], [windows], starts, rows_for(windows), None, settings)
    assert plain[0].no_answer_score == 1
    headed = decode_answers([ask(context)], [windows], starts, rows_for(windows), [-3.0, 2.0], settings)
    assert headed[0].no_answer_score == -2


def test_each_question_takes_its_own_rows_and_padding_is_ignored() -> None:
    settings = SpanConfig()
    questions = [ask("the cat"), ask(" ".join(["a", "b", "c"] * 10)), ask("a dog")]
    windows = [cut(question, 25, settings) for question in questions]
    flat = [window for group in windows for window in group]
    logits = [np.append(row, np.full(9, 99, dtype=np.float32)) for row in rows_for(flat, cat=3, dog=3, c=2)]
    answers = decode_answers(questions, windows, logits, logits, np.arange(4.0).tolist(), settings)
    assert [answer.text for answer in answers] == ["cat", "c", "dog"]
    assert [answer.no_answer_score for answer in answers] == [0, -2, -3]


def test_alternatives_are_other_slices_from_good_to_bad() -> None:
    answer = decode("the cat sat", {"cat": 5, "the": 3}, {"cat": 5, "sat": 1})
    assert [(span.text, span.score) for span in answer.alternatives] == [
        ("the cat", 8),
        ("cat sat", 6),
        ("the cat sat", 4),
        ("the", 3),
    ]


def test_a_context_without_tokens_has_an_empty_answer() -> None:
    answer = decode(" \u200b ", {}, {})
    assert (answer.text, answer.best.start, answer.best.end, answer.alternatives) == ("", 0, 0, ())


def brute_force(windows: Sequence[QuestionWindow], starts: Rows, ends: Rows, config: SpanConfig) -> float | None:
    """Every pair of positions, tried one by one."""
    best = None
    for window, start, end in zip(windows, starts, ends, strict=True):
        for first in range(len(window.offsets)):
            for last in range(first, min(len(window.offsets), first + config.max_answer)):
                if window.has_most_context[first]:
                    score = float(start[window.context_start + first]) + float(end[window.context_start + last])
                    best = score if best is None else max(best, score)
    return best


@pytest.mark.parametrize("best", [1, 20])
@given(
    words=st.lists(st.sampled_from(["a", "b", "c", "the", "cats", "é", "中"]), min_size=1, max_size=50),
    sequence_length=st.integers(16, 48),
    max_answer=st.integers(1, 8),
    seed=st.integers(0, 999),
)
def test_the_best_span_is_that_of_trying_every_one(
    best: int, words: list[str], sequence_length: int, max_answer: int, seed: int
) -> None:
    config = SpanConfig(max_answer=max_answer, best=best)
    question = ask(" ".join(words))
    windows = cut(question, sequence_length, config)
    rng = np.random.default_rng(seed)
    starts, ends = ([rng.integers(-9, 9, len(window.ids)).astype(np.float32) for window in windows] for _ in range(2))
    (answer,) = decode_answers([question], [windows], starts, ends, None, config)
    assert answer.best.score == brute_force(windows, starts, ends, config)
    assert len(answer.text.split()) <= max_answer


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def spaced_tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """One that counts the space before a word to the word."""
    texts = ["the cat sat on the mat and the dog sat on the log"] * 9
    return train_tokenizer(texts, TokenizerConfig(kind=request.param, vocab_size=400))


@given(context=st.text(max_size=60) | st.text(" \ncat", max_size=30), seed=st.integers(0, 99))
def test_every_answer_is_an_exact_slice_of_any_text(spaced_tokenizer: Tokenizer, context: str, seed: int) -> None:
    for tokenizer in (TOKENIZER, spaced_tokenizer):
        check_slices(tokenizer, context, seed)


def check_slices(tokenizer: Tokenizer, context: str, seed: int) -> None:
    config = SpanConfig(max_answer=4)
    windows = split_context(ask(context), 0, FeatureEncoder(tokenizer, (), 16, config), is_labelled=False)
    rng = np.random.default_rng(seed)
    starts, ends = ([rng.normal(size=len(window.ids)) for window in windows] for _ in range(2))
    (answer,) = decode_answers([ask(context)], [windows], starts, ends, None, config)
    for span in (answer.best, *answer.alternatives):
        assert context[span.start : span.end] == span.text
        assert span.text == span.text.strip()
    assert sorted((span.score for span in answer.alternatives), reverse=True) == [
        span.score for span in answer.alternatives
    ]


def test_the_space_before_a_word_is_not_part_of_the_answer(spaced_tokenizer: Tokenizer) -> None:
    question = QAExample("q", "who", "the cat sat", (Answer("cat", 4),), False)
    windows = split_context(question, 0, FeatureEncoder(spaced_tokenizer, (), 32), is_labelled=True)
    first, last, _ = windows[0].targets
    starts, ends = np.zeros((2, 1, 32), dtype=np.float32)
    starts[0, first] = ends[0, last] = 5
    (answer,) = decode_answers([question], [windows], list(starts), list(ends), None, SpanConfig())
    assert (answer.text, answer.best.start, answer.best.end) == ("cat", 4, 7)
