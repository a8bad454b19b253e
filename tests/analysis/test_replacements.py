"""A generator that knows the place, one that knows nothing, and categories that are kept."""

import numpy as np
import pytest
from little_analysis import draws

from electralab.analysis.finding import Resampler
from electralab.analysis.measures.replacements import measure_agreement, measure_plausibility, score_replacements

RNG = np.random.default_rng


def test_log_probability_and_rank_by_hand() -> None:
    logits = np.log(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]]))
    found = score_replacements(logits + 7, np.array([1, 2, 2]), np.array([0, 2, 0]), draws(0))
    # The second guess is the original: nothing is replaced.
    assert found.is_kept.tolist() == [True, False, True]
    assert np.exp(found.log_probs) == pytest.approx([0.3, 0.1])
    assert found.ranks.tolist() == [2, 3]


def test_draws_meant_for_their_place_are_more_plausible_than_those_of_others() -> None:
    rng = RNG(0)
    sampled = rng.integers(1, 50, size=200)
    logits = rng.normal(size=(200, 50))
    logits[np.arange(200), sampled] += 6
    judged = score_replacements(logits, sampled, np.zeros(200, dtype=int), Resampler(rng))
    log_prob, median_rank = measure_plausibility(judged, Resampler(rng), rows=np.arange(200) // 10)
    assert median_rank.estimate.value == 1
    assert median_rank.control.low > 10
    assert log_prob.control.high < log_prob.estimate.low


def test_a_generator_that_knows_nothing_gives_every_token_its_share() -> None:
    judged = score_replacements(np.zeros((30, 8)), np.ones(30, dtype=int), np.zeros(30, dtype=int), draws(0))
    log_prob, _ = measure_plausibility(judged, draws(1))
    assert log_prob.estimate.value == pytest.approx(-np.log(8))
    assert log_prob.control == log_prob.estimate


def test_categories_that_are_kept_agree_and_shuffled_ones_by_chance() -> None:
    tags = np.tile(np.arange(4), 100)
    found = measure_agreement(tags, tags, draws(0))
    assert (found.estimate.value, found.estimate.low) == (1.0, 1.0)
    assert found.control.low < 0.25 < found.control.high
