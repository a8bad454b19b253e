"""Windows hold the whole context between them, and their targets point at the answer's own characters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_words import word_tokenizer
from numpy.typing import NDArray

from electralab.errors import UsageError
from electralab.model.task_model import HeadConfig
from electralab.tasks.features import FeatureEncoder, RowLogits, SpanConfig
from electralab.tasks.kind import NetworkOutputs
from electralab.tasks.kinds.qa import KIND, Answer, AnswerPrediction, QAExample, QuestionWindow, split_context
from electralab.tokens.tokenizer import Encoded, SpecialTokens, Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

TOKENIZER = word_tokenizer()


def ask(context: str, answer: str | None = None, start: int = -1, question: str = "who sat") -> QAExample:
    if answer is None:
        return QAExample("q", question, context, (), True)
    return QAExample("q", question, context, (Answer(answer, context.index(answer) if start < 0 else start),), False)


def cut(
    question: QAExample, sequence_length: int = 64, *, is_labelled: bool = True, **config: int
) -> list[QuestionWindow]:
    encoder = FeatureEncoder(TOKENIZER, (), sequence_length, SpanConfig(**config))
    return split_context(question, 7, encoder, is_labelled=is_labelled)


def pieces(window: QuestionWindow) -> str:
    return " ".join(TOKENIZER.token(index) for index in window.ids)


def test_a_short_context_is_one_row() -> None:
    (window,) = cut(ask("The cats  sat.", "cats"))
    assert pieces(window) == "[CLS] who sat [SEP] the cat ##s sat . [SEP]"
    assert window.example == 7
    assert window.segment_ids.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert window.targets.tolist() == [5, 6, 1]
    assert (window.context_start, window.first_token) == (4, 0)
    assert window.offsets.tolist() == [[0, 3], [4, 7], [7, 8], [10, 13], [13, 14]]
    assert window.has_most_context.all()
    assert window.is_aligned


def test_an_impossible_question_points_at_the_first_token() -> None:
    (window,) = cut(ask("the cat sat"))
    assert window.targets.tolist() == [0, 0, 0]


def test_an_unlabelled_question_has_no_targets() -> None:
    (window,) = cut(ask("the cat sat", "cat"), is_labelled=False)
    assert window.targets.shape == (0,)


def test_the_answer_is_found_where_it_stands_and_not_where_its_words_stand_first() -> None:
    (window,) = cut(ask("the cat sat on the cat", "the cat", start=15))
    assert window.targets.tolist() == [8, 9, 1]


def test_an_answer_inside_a_token_takes_the_whole_token() -> None:
    (window,) = cut(ask("the mat sat", "at s"))
    assert window.targets.tolist() == [5, 6, 1]
    assert not window.is_aligned


def test_an_answer_the_tokenizer_drops_is_not_to_be_found() -> None:
    (window,) = cut(ask("the \u200b cat", "\u200b"))
    assert window.targets.tolist() == [0, 0, 0]


def test_special_tokens_written_by_strangers_are_text() -> None:
    (window,) = cut(ask("the [SEP] cat", question="who [MASK]"))
    ids = window.ids.tolist()
    assert ids.count(TOKENIZER.special.sep) == 2
    assert TOKENIZER.special.mask not in ids


def test_a_long_context_is_cut_into_windows_that_overlap_by_half() -> None:
    words = ["a", "b", "c", "."] * 10
    windows = cut(ask(" ".join(words), "c", start=2 * 18), 25)  # the nineteenth word
    # A row of 25 has room for 20 tokens of the context beside [CLS] who sat [SEP] and [SEP].
    assert [window.first_token for window in windows] == [0, 10, 20]
    assert [len(window.offsets) for window in windows] == [20, 20, 20]
    assert [window.targets.tolist() for window in windows] == [[22, 22, 1], [12, 12, 1], [0, 0, 0]]
    # Tokens 10..14 are nearer to the end of the first window than 15..19 are to the beginning of the second.
    most = [np.flatnonzero(window.has_most_context) + window.first_token for window in windows]
    assert [(first[0], first[-1]) for first in most] == [(0, 14), (15, 24), (25, 39)]


def test_an_answer_across_the_edge_is_not_in_the_window() -> None:
    windows = cut(ask(" ".join(["a", "b", "c", "."] * 10), "c . a b", start=2 * 18), 25)
    assert [window.targets[2] for window in windows] == [0, 1, 0]


def test_a_long_question_leaves_half_of_the_row_to_the_context() -> None:
    windows = cut(ask("the cat sat", question="who sat " * 99), 16)
    assert all(len(window.ids) <= 16 for window in windows)
    assert windows[0].context_start == 1 + 6 + 1


def test_the_setting_for_questions_cuts_earlier() -> None:
    assert cut(ask("the cat", question="who sat on the mat"), max_question=2)[0].context_start == 4


def test_an_empty_context_is_still_a_row() -> None:
    (window,) = cut(ask(""))
    assert pieces(window) == "[CLS] who sat [SEP] [SEP]"
    assert window.offsets.shape == (0, 2)


def test_a_row_too_short_is_refused() -> None:
    with pytest.raises(UsageError, match="a row of 8 tokens has no room"):
        cut(ask("the cat"), 8)


@given(
    size=st.integers(1, 150),
    sequence_length=st.integers(16, 70),
    stride=st.integers(1, 40),
    first=st.integers(0, 149),
    length=st.integers(1, 5),
)
def test_every_token_has_most_context_in_exactly_one_window_and_targets_point_at_the_answer(
    size: int, sequence_length: int, stride: int, first: int, length: int
) -> None:
    first = min(first, size - 1)
    words = (["a", "b", "c", "cat", "the", "é", "中"] * 22)[:size]
    context = " ".join(words)
    start = len(" ".join(words[:first])) + (first > 0)
    text = " ".join(words[first : first + length])
    windows = cut(QAExample("q", "who sat", context, (Answer(text, start),), False), sequence_length, stride=stride)
    times = np.zeros(size, dtype=int)
    for window in windows:
        assert len(window.ids) <= sequence_length
        times[window.first_token : window.first_token + len(window.offsets)] += window.has_most_context
        begin, end, is_inside = window.targets - [window.context_start, window.context_start, 0]
        if is_inside:
            assert context[window.offsets[begin, 0] : window.offsets[end, 1]] == text
    assert times.tolist() == [1] * size
    # Windows overlap by half or more, so that an answer shorter than that is whole in one of them.
    assert any(window.targets[2] for window in windows) or length > len(windows[0].offsets) // 2


class CountingTokenizer(Tokenizer):
    """Remembers what it was asked."""

    def encode_literal(self, text: str) -> Encoded:
        self.asked = [*getattr(self, "asked", []), text]
        return super().encode_literal(text)


def test_a_context_is_encoded_once_for_its_questions() -> None:
    tokenizer = CountingTokenizer(word_tokenizer()._backend, SpecialTokens())
    for question in ("who sat", "the cat", "on"):
        split_context(ask("the cat sat", question=question), 0, FeatureEncoder(tokenizer, (), 64), is_labelled=True)
    assert tokenizer.asked == ["who sat", "the cat sat", "the cat", "on"]


Rows = list[NDArray[np.float32]]


def ask_it(context: str, id: str = "q") -> QAExample:
    return QAExample(id, "who sat", context, (), False)


def cut_context(question: QAExample, sequence_length: int, config: SpanConfig) -> list[QuestionWindow]:
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
    windows = cut_context(ask_it(context), 64, settings)
    starts, ends = rows_for(windows, **start), rows_for(windows, **end)
    return decode_answers([ask_it(context)], [windows], starts, ends, None, settings)[0]


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
    windows = cut_context(ask_it("the cat"), 64, settings)
    logits = [np.array([9, 9, 9, 9, 1, 2, 9], dtype=np.float32)]  # [CLS] who sat [SEP] the cat [SEP]
    assert decode_answers([ask_it("the cat")], [windows], logits, logits, None, settings)[0].text == "cat"


def test_without_a_head_silence_is_compared_with_the_best_span() -> None:
    answer = decode("the cat", {"cat": 5, "cls": 3}, {"cat": 4, "cls": 4})
    assert answer.no_answer_score == (3 + 4) - (5 + 4)


def test_one_window_that_believes_in_an_answer_is_enough() -> None:
    settings = SpanConfig()
    context = " ".join(["a", "b", "c"] * 10)
    windows = cut_context(ask_it(context), 25, settings)
    assert len(windows) == 2
    starts = rows_for(windows)
    starts[0][0], starts[1][0] = 4, 1
    plain = decode_answers([ask_it(context)], [windows], starts, rows_for(windows), None, settings)
    assert plain[0].no_answer_score == 1
    headed = decode_answers([ask_it(context)], [windows], starts, rows_for(windows), [-3.0, 2.0], settings)
    assert headed[0].no_answer_score == -2


def test_each_question_takes_its_own_rows_and_padding_is_ignored() -> None:
    settings = SpanConfig()
    questions = [ask_it("the cat"), ask_it(" ".join(["a", "b", "c"] * 10)), ask_it("a dog")]
    windows = [cut_context(question, 25, settings) for question in questions]
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
    question = ask_it(" ".join(words))
    windows = cut_context(question, sequence_length, config)
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
    windows = split_context(ask_it(context), 0, FeatureEncoder(tokenizer, (), 16, config), is_labelled=False)
    rng = np.random.default_rng(seed)
    starts, ends = ([rng.normal(size=len(window.ids)) for window in windows] for _ in range(2))
    (answer,) = decode_answers([ask_it(context)], [windows], starts, ends, None, config)
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
