"""A model that ignores positions, one that sees only positions, and one in between."""

import numpy as np
import pytest
from little_analysis import draws

from electralab.analysis.measures.invariance import measure_invariance, rotate_row

RNG = np.random.default_rng


def test_states_that_do_not_move_are_invariant() -> None:
    states = RNG(0).normal(size=(80, 16)) + 1
    found = measure_invariance(states, states, draws(1), groups=np.arange(80) // 8)
    assert found.similarity.estimate.value == pytest.approx(1)
    assert found.similarity.control.value == pytest.approx(0.5, abs=0.05)
    assert (found.corrected.value, found.corrected.low) == pytest.approx((1, 1))
    assert found.recognised.estimate.value == 1
    assert found.recognised.control.value < 0.1


def test_states_of_positions_alone_are_no_more_alike_than_others() -> None:
    states, moved = RNG(0).normal(size=(2, 300, 16)) + 1
    found = measure_invariance(states, moved, draws(1))
    assert found.similarity.estimate.value == pytest.approx(0.5, abs=0.05)
    assert found.corrected.low < 0 < found.corrected.high
    assert found.recognised.estimate.value < 0.05


def test_unrelated_tokens_are_all_pairs_of_different_ones() -> None:
    states, moved = RNG(0).normal(size=(2, 7, 3))
    here, there = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (states, moved))
    slow = np.mean([here[i] @ there[j] for i in range(7) for j in range(7) if i != j])
    assert measure_invariance(states, moved, draws(1)).similarity.control.value == pytest.approx(slow)


def test_a_row_turns_between_its_special_tokens() -> None:
    turned = rotate_row(np.array([2, 10, 11, 12, 3, 0]), 1, special_ids=np.array([0, 2, 3]))
    assert turned.tolist() == [2, 12, 10, 11, 3, 0]
