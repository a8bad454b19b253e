"""Intervals hold what they should, groups stay together, and the same seed says the same."""

import numpy as np
import pytest

from electralab.analysis.finding import (
    Contrast,
    Estimate,
    bootstrap_estimate,
    find_tail,
    require,
    shuffle_estimate,
    summarise,
)
from electralab.errors import InputError


def test_the_interval_of_a_mean_is_that_of_theory() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    found = bootstrap_estimate(lambda places: float(values[places].mean()), 400, 2000, np.random.default_rng(1))
    assert found.value == values.mean()
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)
    assert found.low < 3.0 < found.high


def test_intervals_of_few_rows_hold_the_truth_as_often_as_they_say() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        values = rng.normal(size=8)
        found = bootstrap_estimate(lambda places: float(values[places].mean()), 8, 200, rng)  # noqa: B023
        held += found.low < 0 < found.high
    # Without the correction 0.88.
    assert held / 300 == pytest.approx(0.95, abs=0.03)


def test_many_units_leave_out_the_usual_tails_and_one_tells_nothing() -> None:
    assert find_tail(100_000, 1) == pytest.approx(0.025, abs=1e-4)
    assert find_tail(5, 1) < 0.005
    assert np.isnan(bootstrap_estimate(lambda _: 1.0, 1, 10, np.random.default_rng(0)).low)


def test_the_same_seed_says_the_same() -> None:
    first, again = (
        bootstrap_estimate(lambda places: float(places.mean()), 50, 20, np.random.default_rng(7)) for _ in range(2)
    )
    assert first == again


def test_rows_of_a_group_are_drawn_together() -> None:
    # Two groups, of ones and of zeros: a mean of groups can only be 0, 1/2 or 1.
    groups = np.array([5, 5, 5, 9, 9, 9])
    seen: set[float] = set()

    def watch(places: np.typing.NDArray[np.int64]) -> float:
        seen.add(float((groups[places] == 5).mean()))
        return 0.0

    bootstrap_estimate(watch, 6, 50, np.random.default_rng(0), groups=groups)
    assert seen == {0.0, 0.5, 1.0}


def test_a_centred_interval_lies_about_a_statistic_that_repeated_rows_shift() -> None:
    values = np.arange(100)
    count = lambda places: float(len(np.unique(values[places])))  # noqa: E731
    plain = bootstrap_estimate(count, 100, 100, np.random.default_rng(0))
    centred = bootstrap_estimate(count, 100, 100, np.random.default_rng(0), centred=True)
    assert plain.high < plain.value == 100
    assert centred.low < 100 < centred.high


def test_draws_without_an_answer_do_not_count() -> None:
    answers = iter([1.0, float("nan"), 2.0, float("nan")])
    assert bootstrap_estimate(lambda _: next(answers), 3, 3, np.random.default_rng(0)) == Estimate(1.0, 2.0, 2.0)


def test_shuffling_takes_a_correlation_away() -> None:
    values = np.arange(30.0)
    found = shuffle_estimate(
        lambda order: float(np.corrcoef(values, values[order])[0, 1]), 30, 400, np.random.default_rng(0)
    )
    assert found.value == pytest.approx(0, abs=0.03)
    assert found.low < -0.2 < 0.2 < found.high


def test_values_are_summarised_by_mean_and_middle() -> None:
    assert summarise(range(1001)) == Estimate(500.0, 25.0, 975.0)


def test_an_estimate_can_be_put_in_another_unit() -> None:
    assert Estimate(2.0, 1.0, 4.0).scale(-2) == Estimate(-4.0, -8.0, -2.0)
    assert Estimate(2.0, 1.0, 4.0).shift(1) == Estimate(3.0, 2.0, 5.0)


def test_a_contrast_is_told_as_a_finding_with_its_control() -> None:
    contrast = Contrast(Estimate(0.6, 0.5, 0.7), Estimate(0.1, 0.0, 0.2))
    told = contrast.tell("probe", "M33", "accuracy", "parts of speech told apart", "labels shuffled")
    assert (told.estimate, told.control) == (contrast.estimate, contrast.control)
    assert (told.claim, told.control_meaning, told.note) == ("M33", "labels shuffled", "")


def test_too_few_is_said_with_what_is_needed() -> None:
    with pytest.raises(InputError, match=r"^silhouette: needs at least 2 categories, got 1; give more$"):
        require("silhouette", 1, 2, "categories")
