"""Maps that are exactly linear, only an offset, or no map at all."""

import numpy as np
import pytest
from little_analysis import draws

from electralab.analysis.finding import Resampler
from electralab.analysis.measures.equivariance import choose_penalty, fit_linear, group_pairs, measure_equivariance
from electralab.analysis.probe_sets import SentencePair, read_pairs

RNG = np.random.default_rng


def test_an_exactly_equivariant_map_has_no_error() -> None:
    rng = RNG(0)
    before = rng.normal(size=(200, 12))
    after = before @ rng.normal(size=(12, 12)) + 3
    found = measure_equivariance(before, after, Resampler(rng))
    assert found.error.estimate.high < 1e-6
    assert found.retrieval.estimate.value == 1
    assert found.penalty == 0
    assert found.error.control.value > 0.9
    assert found.retrieval.control.value < 0.1
    assert found.unchanged.value > 1
    assert found.unchanged_retrieval.value < 0.1


def test_a_step_that_is_always_the_same_needs_no_map() -> None:
    before = RNG(0).normal(size=(60, 5))
    found = measure_equivariance(before, before + 2.0, draws(1), groups=np.arange(60) // 3)
    assert found.moved.value == pytest.approx(0, abs=1e-9)
    assert found.error.estimate.value < 1e-6
    assert found.unchanged.low > 1


def test_a_sentence_that_keeps_its_words_is_retrieved_without_any_map() -> None:
    before = RNG(0).normal(size=(40, 6))
    found = measure_equivariance(before, before + RNG(1).normal(size=(40, 6)) * 0.01, draws(2))
    assert found.unchanged_retrieval.value == 1
    assert found.unchanged.high < 0.02


def test_vectors_that_have_nothing_to_do_with_each_other_are_not_mapped() -> None:
    before, after = RNG(0).normal(size=(2, 300, 8))
    found = measure_equivariance(before, after, draws(1))
    assert 0.95 < found.error.estimate.value < 1.1
    assert found.error.estimate.high > 0.97
    assert found.retrieval.estimate.value < 0.05


def test_noise_asks_for_a_penalty_and_gets_the_error_of_the_noise() -> None:
    rng = RNG(0)
    before = rng.normal(size=(400, 10))
    after = before + rng.normal(size=(400, 10)) * 0.5
    found = measure_equivariance(before, after, Resampler(rng))
    # The noise is 0.25 of a variance of 1.25.
    assert found.error.estimate.value == pytest.approx(np.sqrt(0.2), abs=0.03)
    few = rng.permutation(400)[:14]
    assert choose_penalty(before[few], after[few], np.arange(14), Resampler(rng), (0.0, 1.0)) == 1.0


def test_the_map_is_that_of_the_normal_equations() -> None:
    rng = RNG(0)
    before, after = rng.normal(size=(30, 4)), rng.normal(size=(30, 3))
    x, y = before - before.mean(axis=0), after - after.mean(axis=0)
    strict = 0.1 * np.trace(x.T @ x) / 4
    slow = x @ np.linalg.solve(x.T @ x + strict * np.eye(4), x.T @ y) + after.mean(axis=0)
    assert fit_linear(before, after, 0.1)(before) == pytest.approx(slow)


def test_pairs_of_one_changed_word_stay_together() -> None:
    pairs = [
        SentencePair("She writes a letter.", "She wrote a letter."),
        SentencePair("He runs home.", "He ran home."),
        SentencePair("Anna writes to us.", "Anna wrote to us."),
        SentencePair("They laugh.", "They laugh."),
    ]
    groups = group_pairs(pairs).tolist()
    assert groups[0] == groups[2]
    assert len(set(groups)) == 3


def test_a_word_of_many_pairs_does_not_tie_them_together() -> None:
    nouns = [f"noun{chr(97 + i)}" for i in range(26)]
    pairs = [SentencePair(f"The {noun} is old.", f"The {noun} was old.") for noun in nouns for _ in range(2)]
    groups = group_pairs(pairs)
    assert len(set(groups.tolist())) == 26
    assert (groups[::2] == groups[1::2]).all()


@pytest.mark.parametrize("kind", tuple(read_pairs()))
def test_no_group_of_our_pairs_is_more_than_a_tenth(kind: str) -> None:
    groups = group_pairs(read_pairs()[kind])
    assert np.bincount(groups).max() <= 300 // 10
