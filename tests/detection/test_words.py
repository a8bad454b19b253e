"""The features of a word are of that word, the same however texts are batched, and there without a generator too."""

from collections.abc import Sequence

import numpy as np
import pytest
from little_models import TOKENIZER, build_pair

from electralab.detection.lexicon import Lexicon
from electralab.detection.words import (
    FEATURES,
    ScoredText,
    WordFrequencies,
    WordReader,
    WordSpan,
    cut_stretches,
    split_words,
)
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
    # A capital at the start of a sentence makes no name.
    assert column(words.features, "capital") == [0, 0, 0, 0, 1]
    assert column(words.features, "unseen") == [0, 0, 0, 0, 1]
    (named,) = reader_of().read([scored("the cat. Xylo sat on Xylo")])
    unseen = [column(named.features, name)[-1] for name in ("unseen_name", "unseen_first")]
    assert unseen == [1, 0]
    assert [max(column(named.features, name)[:4]) for name in ("unseen_name", "unseen_first")] == [0, 1]
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


def test_suggestions_are_counted_words_too() -> None:
    counted = WordFrequencies({"catdog": 90, "catdoq": 10, "zebra": 100, "the": 800}, 1000)
    lexicon, probs = Lexicon(TOKENIZER, counted), np.full(TOKENIZER.vocab_size, 1e-3)
    assert [word.text for word in lexicon.suggest("Catdogg", probs, 2)] == ["Catdog", "Catdoq"]
    # What a reason names comes first, and never twice.
    assert [word.text for word in lexicon.suggest("catdogg", probs, 2, "catdoq")] == ["catdoq", "catdog"]
    slip = lexicon.find_slip("catdogg", np.log(probs), -12.0)
    assert slip.word == "catdog"
    assert slip.gain > lexicon.find_slip("catdoq", np.log(probs), -12.0).gain
    assert Lexicon(TOKENIZER).find_slip("catdogg", np.log(probs), -12.0).word != "catdog"


def test_long_texts_are_read_in_stretches_with_context_at_both_edges() -> None:
    words = [WordSpan(index, index + 1, index, index + 1) for index in range(100)]
    asked: list[WordSpan] = []
    for stretch, inner in cut_stretches(words, 30, 5):
        assert len(stretch) <= 30
        chosen = stretch[inner]
        asked += chosen
        assert chosen[0] == words[0] or chosen[0].first - stretch[0].first == 5
        assert chosen[-1] == words[-1] or stretch[-1].after - chosen[-1].after >= 5
    assert asked == words
    wide = [WordSpan(0, 1, 0, 1), WordSpan(1, 90, 1, 90), WordSpan(90, 91, 90, 91)]
    assert [word for stretch, inner in cut_stretches(wide, 30, 5) for word in stretch[inner]] == wide


def test_words_are_counted_and_known_however_their_letters_are_written() -> None:
    frequencies = WordFrequencies.count(["caf\u00e9 efficient"])
    assert all(map(frequencies.is_seen, ("cafe\u0301", "e\ufb03cient", "effi\u00adcient", "CAF\u00c9")))
    assert WordFrequencies.count(["cafe\u0301 e\ufb03\u00adcient"]).counts == frequencies.counts


def test_counts_are_case_aside_and_bounded() -> None:
    frequencies = WordFrequencies.count(["a a b b b c"], most_words=2)
    assert frequencies.counts == {"b": 3, "a": 2}
    assert frequencies.total == 6
    assert frequencies.is_seen("A")
    assert not frequencies.is_seen("c")
    # What stood there less often is not told from what never did.
    assert frequencies.least == 2
    assert WordFrequencies.count(["a a b"]).least == 1
