"""A rock, a house of cards, and one that falls evenly."""

import numpy as np
import pytest
from little_analysis import draws

from electralab.analysis.measures.robustness import compare_robustness, mean_height, measure_robustness
from electralab.statistics import Interval

RNG = np.random.default_rng
SHARES = (0.0, 0.1, 0.3)
ALWAYS = np.ones((3, 100), dtype=bool)
# Falls to chance (half) at the first damage.
CARDS = np.stack([np.ones(100, dtype=bool), *[np.arange(100) % 2 == 0] * 2])


def test_a_rock_retains_all() -> None:
    scores, retained = measure_robustness(ALWAYS, SHARES, 0.5, draws(0))
    assert scores == [Interval(1.0, 1.0, 1.0)] * 3
    assert retained == Interval(1.0, 1.0, 1.0)


def test_a_house_of_cards_retains_only_the_way_down() -> None:
    # From 1 to 0 over the first third of the shares: a triangle of 0.1 x 1/2 of 0.3.
    scores, retained = measure_robustness(CARDS, SHARES, 0.5, draws(0))
    assert retained.value == pytest.approx(1 / 6)
    assert retained.low < 1 / 6 < retained.high
    assert scores[1].value == 0.5


def test_the_rock_is_more_robust_than_the_cards_and_not_than_itself() -> None:
    found = compare_robustness(ALWAYS, CARDS, SHARES, 0.5, draws(0))
    assert found.estimate.value == pytest.approx(5 / 6)
    assert found.control.low < 0 < found.control.high < found.estimate.low
    assert compare_robustness(CARDS, CARDS, SHARES, 0.5, draws(0)).estimate == Interval(0.0, 0.0, 0.0)


def test_a_model_at_chance_has_nothing_to_retain() -> None:
    assert np.isnan(measure_robustness(CARDS[[1, 1, 1]], SHARES, 0.5, draws(0))[1].value)


def test_the_area_does_not_depend_on_where_levels_lie() -> None:
    assert mean_height(np.array([0.0, 0.1, 1.0]), np.array([1.0, 0.9, 0.0])) == pytest.approx(0.5)
