"""Windows hold the whole context between them, and their targets point at the answer's own characters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_words import word_tokenizer

from electralab.errors import UsageError
from electralab.tasks.features import FeatureEncoder, SpanConfig
from electralab.tasks.kinds.qa import QuestionWindow, split_context
from electralab.tasks.squad import Answer, QAExample
from electralab.tokens.tokenizer import Encoded, SpecialTokens, Tokenizer

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
