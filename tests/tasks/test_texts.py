"""Rows of ten positions over a vocabulary of a few words, so that every frame can be read by eye."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_kinds import encode
from little_words import word_tokenizer

from electralab.tasks.features import IGNORED, EncodedSplit, Feature, FeatureEncoder, SpanConfig
from electralab.tasks.kind import AnyKind
from electralab.tasks.kinds import KINDS
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.qa import Answer, QAExample
from electralab.tasks.kinds.regression import RegressionExample
from electralab.tasks.kinds.tagging import TaggingExample, split_words
from electralab.tasks.texts import TextExample, fit_parts, split_symbols, swap_pairs
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab

TOKENIZER = word_tokenizer()


def framer(*labels: str, length: int = 10, tokenizer: Tokenizer = TOKENIZER) -> FeatureEncoder:
    return FeatureEncoder(tokenizer, labels, length, SpanConfig(stride=2))


def pieces(feature: Feature, tokenizer: Tokenizer = TOKENIZER) -> str:
    return " ".join(tokenizer.token(int(index)) for index in feature.ids)


def encode_texts(*texts: str, length: int = 10) -> EncodedSplit[Any]:
    return encode(framer(length=length), [ClassificationExample("0", texts, "")], is_labelled=False)


# One text, or two


def test_a_text_stands_between_cls_and_sep() -> None:
    (feature,) = encode_texts("The cat sat").features
    assert pieces(feature) == "[CLS] the cat sat [SEP]"
    assert feature.segment_ids.tolist() == [0, 0, 0, 0, 0]
    assert feature.targets.size == 0


def test_the_second_text_of_a_pair_and_its_sep_are_segment_one() -> None:
    (feature,) = encode_texts("the cat", "dogs").features
    assert pieces(feature) == "[CLS] the cat [SEP] dog ##s [SEP]"
    assert feature.segment_ids.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_a_text_that_says_sep_does_not_end_its_segment() -> None:
    (feature,) = encode_texts("cat [SEP] cat", length=24).features
    assert list(feature.ids).count(TOKENIZER.special.sep) == 1


def test_a_long_text_is_cut_and_counted() -> None:
    encoded = encode_texts("a " * 9, length=10)
    assert pieces(encoded.features[0]) == "[CLS] a a a a a a a a [SEP]"
    assert encoded.truncated == [0]
    assert encode_texts("a " * 8, length=10).truncated == []


def test_of_a_pair_the_longer_text_is_cut() -> None:
    encoded = encode_texts("the cat", "a b c a b c a b c")
    assert pieces(encoded.features[0]) == "[CLS] the cat [SEP] a b c a b [SEP]"
    assert encoded.truncated == [0]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=2), st.integers(2, 40))
def test_parts_fit_and_no_more_is_dropped_than_must_be(lengths: list[int], room: int) -> None:
    kept = fit_parts(lengths, room)
    assert all(0 <= k <= length for k, length in zip(kept, lengths, strict=True))
    assert sum(kept) == min(sum(lengths), room)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 40))
def test_what_is_cut_comes_off_the_longer_part_token_by_token(first: int, second: int, room: int) -> None:
    left, right = first, second
    while left + right > room:
        if left >= right:
            left -= 1
        else:
            right -= 1
    assert fit_parts([first, second], room) == [left, right]


def test_targets_are_the_number_of_the_class_or_the_score() -> None:
    told = encode(framer("no", "yes"), [ClassificationExample("0", ("cat",), "yes")], is_labelled=True).features[0]
    assert (told.targets.tolist(), str(told.targets.dtype)) == ([1], "int64")
    scored = encode(framer(), [RegressionExample("0", ("cat",), 2.5)], is_labelled=True).features[0]
    assert (scored.targets.tolist(), str(scored.targets.dtype)) == ([2.5], "float32")


def test_features_know_the_place_of_their_example() -> None:
    examples = [ClassificationExample("x", (text,), "") for text in ("a", "b", "c")]
    encoded = encode(framer(), examples, is_labelled=False)
    assert [(feature.example, pieces(feature)[6:7]) for feature in encoded.features] == [(0, "a"), (1, "b"), (2, "c")]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_nothing_becomes_nothing(kind: AnyKind) -> None:
    assert kind.encode(framer(), [], is_labelled=True) == EncodedSplit([], [])


@pytest.mark.parametrize(
    "examples",
    [
        [ClassificationExample("0", ("the cat", "a dog"), "yes"), ClassificationExample("1", ("on", "mat"), "no")],
        [RegressionExample("0", ("the cat", "a dog"), 1.5), RegressionExample("1", ("on", "mat"), 0.5)],
    ],
)
def test_swapped_pairs_follow_the_pairs_with_the_same_targets(examples: Sequence[TextExample]) -> None:
    frame = framer("no", "yes")
    once = encode(frame, examples, is_labelled=True).features
    both = [*once, *encode(frame, swap_pairs(examples), is_labelled=True).features]
    assert [pieces(feature) for feature in both] == [
        "[CLS] the cat [SEP] a dog [SEP]",
        "[CLS] on [SEP] mat [SEP]",
        "[CLS] a dog [SEP] the cat [SEP]",
        "[CLS] mat [SEP] on [SEP]",
    ]
    assert [feature.targets.tolist() for feature in both[2:]] == [feature.targets.tolist() for feature in once]


# Words with tags


def tagged(*words: str) -> TaggingExample:
    return TaggingExample("0", words, tuple("XO"[word in ("the", "on")] for word in words))


def test_a_tag_stands_on_the_first_piece_of_its_word() -> None:
    encoded = encode(framer("O", "X"), [tagged("the", "cats", "on", "abc")], is_labelled=True)
    (feature,) = encoded.features
    assert pieces(feature) == "[CLS] the cat ##s on a ##b ##c [SEP]"
    assert feature.targets.tolist() == [IGNORED, 0, 1, IGNORED, 0, 1, IGNORED, IGNORED, IGNORED]
    assert encoded.features[0].word_starts.tolist() == [1, 2, 4, 5]


def test_a_long_sentence_goes_on_in_another_row() -> None:
    encoded = encode(framer("O", "X", length=6), [tagged("the", "cats", "on", "dogs"), tagged("a")], is_labelled=True)
    assert [pieces(feature) for feature in encoded.features] == [
        "[CLS] the cat ##s on [SEP]",
        "[CLS] dog ##s [SEP]",
        "[CLS] a [SEP]",
    ]
    assert [feature.example for feature in encoded.features] == [0, 0, 1]
    assert [feature.word_starts.tolist() for feature in encoded.features] == [[1, 2, 4], [1], [1]]
    assert encoded.truncated == [0]


def test_a_word_longer_than_a_row_has_a_row_of_its_own() -> None:
    encoded = encode(framer("O", "X", length=8), [tagged("the", "a" + "b" * 20, "on")], is_labelled=True)
    assert [pieces(feature) for feature in encoded.features] == [
        "[CLS] the [SEP]",
        "[CLS] a ##b ##b ##b ##b ##b [SEP]",
        "[CLS] on [SEP]",
    ]


def test_a_word_without_pieces_is_unknown_and_keeps_its_tag() -> None:
    encoded = encode(framer("O", "X"), [tagged("cat", "\x01", "on")], is_labelled=True)
    assert pieces(encoded.features[0]) == "[CLS] cat [UNK] on [SEP]"
    assert encoded.features[0].targets.tolist() == [IGNORED, 1, 1, 0, IGNORED]


@given(
    st.lists(st.sampled_from(["the", "cats", "abcbc", "\x01", "é", "xyz"]), min_size=1, max_size=30), st.integers(8, 14)
)
def test_every_word_has_one_place_however_long_the_sentence(words: list[str], length: int) -> None:
    encoded = encode(framer("O", "X", length=length), [tagged(*words)], is_labelled=True)
    assert sum(len(feature.word_starts) for feature in encoded.features) == len(words)
    for feature in encoded.features:
        assert len(feature.ids) <= length
        assert np.flatnonzero(feature.targets != IGNORED).tolist() == feature.word_starts.tolist()
    targets = np.concatenate([feature.targets for feature in encoded.features])
    assert ["OX"[number] for number in targets[targets != IGNORED]] == list(tagged(*words).tags)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(4, 12))
def test_stretches_of_words_are_whole_and_as_few_as_can_be(lengths: list[int], room: int) -> None:
    stretches = list(split_words(lengths, room))
    assert [place for start, end in stretches for place in range(start, end)] == list(range(len(lengths)))
    for start, end in stretches:
        assert sum(lengths[start:end]) <= room or end - start == 1
    for (start, _), (_, end) in pairwise(stretches):
        assert sum(lengths[start:end]) > room


# Questions


def test_a_long_context_becomes_several_windows_of_one_question() -> None:
    context = "the cat sat on the mat . a b c " * 3
    question = QAExample("0", "who sat", context, (Answer("cat", 4),), is_impossible=False)
    encoded = encode(framer(length=16), [question], is_labelled=True)
    assert len(encoded.features) > 1
    assert encoded.truncated == [0]
    assert {feature.example for feature in encoded.features} == {0}
    assert pieces(encoded.features[0]).startswith("[CLS] who sat [SEP] the cat sat")
    assert encoded.features[0].targets.tolist() == [5, 5, 1]


# Symbols

SYMBOLS = train_symbol_vocab(Counter({"10": 3, "open": 2, "cl ose": 1}), TokenizerConfig(vocab_size=64))


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ('["cl ose", 10]', ["cl ose", 10]),
        ("open 10", ["open", "10"]),
        ("10", ["10"]),
        ("[open 10", ["[open", "10"]),
        ("[true, 1]", ["[true,", "1]"]),
        ("[1.5]", ["[1.5]"]),
        ("[" * 100_000, ["[" * 100_000]),
    ],
)
def test_symbols_are_a_json_list_or_stand_between_spaces(text: str, symbols: list[str | int]) -> None:
    assert split_symbols(text) == symbols


def test_a_model_of_symbols_looks_them_up_as_they_are() -> None:
    frame = framer(tokenizer=SYMBOLS)
    encoded = encode(frame, [ClassificationExample("0", ('["cl ose", 10, "Open"]',), "")], is_labelled=False)
    assert pieces(encoded.features[0], SYMBOLS) == "[CLS] cl ose 10 [UNK] [SEP]"


def test_tags_of_symbols_stand_on_the_symbols() -> None:
    example = TaggingExample("0", ("cl ose", "10", "never"), ("X", "O", "X"))
    encoded = encode(framer("O", "X", tokenizer=SYMBOLS), [example], is_labelled=True)
    assert pieces(encoded.features[0], SYMBOLS) == "[CLS] cl ose 10 [UNK] [SEP]"
    assert encoded.features[0].targets.tolist() == [IGNORED, 1, 0, 1, IGNORED]
