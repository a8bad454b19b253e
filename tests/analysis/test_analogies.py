"""Parallelograms that were planted, and vectors that mean nothing."""

import numpy as np
import pytest
from little_analysis import draws

from electralab.analysis.arrays import normalise
from electralab.analysis.measures.analogies import measure_analogies, rank_answers

RNG = np.random.default_rng
PAIRS = 30
# WordStates 0..29 and their partners 30..59: each pair asks each next one.
QUADRUPLES = np.array([(i, PAIRS + i, (i + 1) % PAIRS, PAIRS + (i + 1) % PAIRS) for i in range(PAIRS)])


def plant() -> np.typing.NDArray[np.float64]:
    """Partners are one and the same step away, on the unit sphere."""
    rng = RNG(0)
    words = normalise(rng.normal(size=(PAIRS, 20)))
    one = np.ones((PAIRS, 1))
    return np.concatenate([np.hstack([words, one, 0 * one]), np.hstack([words, 0 * one, one])])


def test_planted_parallelograms_are_all_found() -> None:
    found = measure_analogies(plant(), QUADRUPLES, draws(1))
    assert (found.estimate.value, found.estimate.low, found.estimate.high) == (1.0, 1.0, 1.0)
    assert found.control.value < 0.1


def test_words_dealt_at_random_are_found_one_time_in_those_left() -> None:
    rng = RNG(0)
    quadruples = np.array([rng.permutation(13)[:4] for _ in range(2000)])
    found = np.mean([(rank_answers(rng.normal(size=(13, 8)), quadruples) == 1).mean() for _ in range(20)])
    # b - a + c is away from a: what is left is 1 of V - 3.
    assert found == pytest.approx(1 / 10, abs=0.02)


def test_ranks_are_those_of_a_slow_search() -> None:
    rng = RNG(0)
    units = normalise(rng.normal(size=(9, 4)))
    a, b, c, d = 2, 5, 7, 1
    asked = units[b] - units[a] + units[c]
    cosine = [float(asked @ unit / np.linalg.norm(asked)) for unit in units]
    better = [word for word in range(9) if word not in (a, b, c) and cosine[word] > cosine[d]]
    assert rank_answers(units * 3, np.array([[a, b, c, d]])).tolist() == [len(better) + 1]


def test_vectors_that_are_all_the_same_find_nothing() -> None:
    assert measure_analogies(np.ones((8, 3)), np.array([[0, 1, 2, 3]]), draws(0)).estimate.value == 0


def test_without_the_step_the_nearest_word_is_the_answer() -> None:
    vectors = np.array([[1.0, 0], [0, 1], [1, 1], [1, 1.1], [-1, 0]])
    assert rank_answers(vectors, np.array([[0, 1, 2, 3]]), with_step=False).tolist() == [1]
    assert rank_answers(vectors, np.array([[0, 1, 2, 4]]), with_step=False).tolist() == [2]
