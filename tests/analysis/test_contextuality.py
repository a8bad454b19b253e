"""Words that are the same everywhere, words that are their sentence, and curves that bend or do not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from little_analysis import draws, save_one

from electralab.analysis.data import load_analysis_model
from electralab.analysis.finding import Resampler
from electralab.analysis.measures import contextuality
from electralab.analysis.measures.geometry import anisotropy
from electralab.analysis.outputs import TokenStates
from electralab.errors import InputError
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

RNG = np.random.default_rng
# 30 sentences of the same 8 words.
WORDS, SENTENCES = np.tile(np.arange(8), 30), np.repeat(np.arange(30), 8)


def test_a_static_word_is_the_same_everywhere() -> None:
    found = contextuality.measure_contextuality(RNG(0).normal(size=(8, 64))[WORDS], WORDS, SENTENCES, draws(1))
    assert found.self_similarity.estimate.value == pytest.approx(1)
    assert found.explainable.estimate.value == pytest.approx(1)
    assert found.self_similarity_corrected.low > 0.8
    assert found.explainable_corrected.low > 0.5


def test_a_state_that_is_its_sentence_tells_no_words_apart() -> None:
    found = contextuality.measure_contextuality(RNG(0).normal(size=(30, 64))[SENTENCES], WORDS, SENTENCES, draws(1))
    assert found.intra_sentence.estimate.value == pytest.approx(1)
    assert found.intra_sentence_corrected.low > 0.3
    assert found.self_similarity_corrected.high < 0.02


def test_noise_in_a_narrow_cone_is_corrected_to_nothing() -> None:
    found = contextuality.measure_contextuality(RNG(0).normal(size=(240, 32)) + 2, WORDS, SENTENCES, draws(1))
    assert found.self_similarity.estimate.value == pytest.approx(0.8, abs=0.02)
    for corrected in (found.self_similarity_corrected, found.intra_sentence_corrected, found.explainable_corrected):
        assert corrected.value == pytest.approx(0, abs=0.01)


def test_the_measures_by_hand() -> None:
    right, up = [1.0, 0.0], [0.0, 1.0]
    assert anisotropy(np.array([right, right, up])) == pytest.approx(1 / 3)
    assert contextuality.intra_sentence_similarity(np.array([right, up])) == pytest.approx(np.sqrt(0.5))
    assert contextuality.maximum_explainable_variance(np.array([right, right, right, up])) == pytest.approx(3 / 4)


def test_smooth_is_straight_and_rough_is_a_jump_or_a_zigzag() -> None:
    assert contextuality.smoothness(np.array([1.0, 2, 3, 4])) == 1
    assert contextuality.smoothness(np.array([0.0, 0, 1, 1])) == 0
    assert contextuality.smoothness(np.array([0.0, 1, 0, 1, 0])) == pytest.approx(1 - 6 / 8)
    assert contextuality.smoothness(np.ones(4)) == 1


def test_curves_of_words_fall_with_the_layers_and_shuffled_layers_are_rougher() -> None:
    rng = RNG(0)
    words, contexts = rng.normal(size=(8, 64))[WORDS], rng.normal(size=(240, 64))
    layers = [np.sqrt(1 - share) * words + np.sqrt(share) * contexts for share in (0.0, 0.2, 0.4, 0.6, 0.8)]
    found = contextuality.measure_smoothness(list(layers), WORDS, Resampler(rng))
    assert found.estimate.low > 0.9 > 0.7 > found.control.value


# 10 words of two senses, each in four sentences.
OWNERS, SENSES = np.repeat(np.arange(10), 8), np.repeat(np.arange(20), 4)


def test_states_that_are_their_sense_tell_it() -> None:
    found = contextuality.measure_senses(
        RNG(0).normal(size=(20, 32))[SENSES] + RNG(1).normal(size=(80, 32)) / 9, OWNERS, SENSES, draws(2)
    )
    assert found.estimate.value == found.estimate.low == 1
    # Three of the seven others have the same sense.
    assert found.control.low < 3 / 7 < found.control.high < 0.6


def test_states_of_a_word_that_know_no_sense_do_no_better_than_senses_dealt_anew() -> None:
    shares = [
        contextuality.measure_senses(
            RNG(seed).normal(size=(10, 32))[OWNERS] + RNG(seed + 50).normal(size=(80, 32)), OWNERS, SENSES, draws(2)
        )
        for seed in range(20)
    ]
    assert np.mean([one.estimate.value for one in shares]) == pytest.approx(3 / 7, abs=0.04)
    assert sum(one.estimate.low < 3 / 7 < one.estimate.high for one in shares) >= 17


def test_a_sense_that_occurs_once_is_not_asked_about() -> None:
    cloud = np.eye(6)[[0, 0, 1, 1, 2, 3, 3, 4, 4, 5]]
    words = np.repeat([0, 1], 5)
    found = contextuality.measure_senses(cloud, words, np.array([0, 0, 1, 1, 2, 3, 3, 4, 4, 5]), draws(0))
    assert found.estimate.value == 1
    with pytest.raises(
        InputError, match="senses: needs at least 2 words with two senses that occur twice, got 1; give"
    ):
        contextuality.measure_senses(cloud, words, np.array([0, 0, 1, 1, 2, 3, 3, 3, 3, 5]), draws(0))


def test_a_sentence_ends_with_its_mark_or_its_row(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["the cat sat ."] * 20, TokenizerConfig(vocab_size=64, character_coverage=1.0))
    specimen = replace(load_analysis_model(save_one(tmp_path / "mlm")), tokenizer=tokenizer)
    ids = np.concatenate(tokenizer.encode_many(["the cat . the cat", "the"]))
    sentences = contextuality.number_sentences(specimen, TokenStates([], ids, np.array([0, 0, 0, 0, 0, 1])))
    assert sentences.tolist() == [1, 1, 1, 2, 2, 3]
