"""The features of a word are of that word, the same however texts are batched, and there without a generator too."""

from collections.abc import Sequence

import numpy as np
import pytest
from little_models import TOKENIZER, build_pair

from electralab.detection.lexicon import Lexicon
from electralab.detection.words import FEATURES, ScoredText, WordFrequencies, WordReader, split_words
from electralab.model.electra import Generator

TEXTS = ("The cat sat on the mat.", "the dog and the cat", "the " * 60 + "catdogmat")
FREQUENCIES = WordFrequencies.count(["the cat sat on the mat and the dog sat"] * 3)


def scored(text: str) -> ScoredText:
    encoded = TOKENIZER.encode(text)
    return ScoredText(text, encoded.ids, encoded.offsets, np.linspace(-3.0, 3.0, len(encoded.ids)))


def reader_of(*, has_generator: bool = True) -> WordReader:
    generator = build_pair().generator
    assert isinstance(generator, Generator)
    return WordReader(TOKENIZER, generator if has_generator else None, FREQUENCIES)


def column(features: np.ndarray[tuple[int, ...], np.dtype[np.float64]], name: str) -> Sequence[float]:
    values: list[float] = features[:, FEATURES.index(name)].tolist()
    return values


def test_words_are_read_alone_as_together() -> None:
    together = reader_of().read([scored(text) for text in TEXTS])
    for text, words in zip(TEXTS, together, strict=True):
        (alone,) = reader_of().read([scored(text)])
        assert alone.spans == words.spans
        np.testing.assert_allclose(alone.features, words.features, atol=1e-4)


def test_spans_cover_every_token_once() -> None:
    for text in TEXTS:
        encoded = TOKENIZER.encode(text)
        spans = split_words(text, encoded.ids, encoded.offsets, TOKENIZER)
        assert [token for span in spans for token in range(span.first, span.after)] == list(range(len(encoded.ids)))
        assert all(text[span.start : span.end].strip() for span in spans)


def test_features_say_what_they_are_named_after() -> None:
    (words,) = reader_of().read([scored("The cat sat on Xylo")])
    assert column(words.features, "capital") == [1, 0, 0, 0, 1]
    assert column(words.features, "unseen") == [0, 0, 0, 0, 1]
    rarity = column(words.features, "rarity")
    assert rarity[0] == pytest.approx(FREQUENCIES.rarity("the"))
    assert rarity.index(min(rarity)) == 0
    assert max(rarity) == rarity[4]
    # The first word is frequent and surely original: the generator is not asked about it.
    surprises = column(words.features, "surprise")
    assert surprises[0] == 0
    assert all(surprise > 0 for surprise in surprises[1:])


def test_letters_with_a_digit_among_them_are_no_number() -> None:
    (words,) = reader_of().read([scored("cat 1990 c4t")])
    assert column(words.features, "number") == [0, 1, 0]


def test_without_a_generator_its_features_are_zero() -> None:
    (words,) = reader_of(has_generator=False).read([scored(TEXTS[0])])
    assert set(column(words.features, "surprise")) == {0.0}
    assert len(set(column(words.features, "replaced"))) > 1


def test_slip_is_how_much_likelier_a_close_word_is() -> None:
    lexicon = Lexicon(TOKENIZER)
    cat = next(index for index, word in lexicon.words.items() if word == "cat")
    log_probs = np.full(TOKENIZER.vocab_size, -10.0)
    log_probs[cat] = -1.0
    slip = lexicon.find_slip("caat", log_probs, -12.0)
    assert slip.word == "cat"
    assert slip.gain == pytest.approx(-1 - 3 + 14)
    assert lexicon.find_slip("cat", log_probs, -12.0).gain < 0
    assert lexicon.find_slip("zzzzzzzzzzzz", log_probs, -12.0) == (-12.0, "")


def test_counts_are_case_aside_and_bounded() -> None:
    frequencies = WordFrequencies.count(["a a b b b c"], most_words=2)
    assert frequencies.counts == {"b": 3, "a": 2}
    assert frequencies.total == 6
    assert frequencies.is_seen("A")
    assert not frequencies.is_seen("c")
