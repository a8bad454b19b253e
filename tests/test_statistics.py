"""Intervals, tests and corrections: against scipy, against theory, and against answers that can be checked by eye."""

import copy
import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from electralab import statistics
from electralab.statistics import (
    Interval,
    bootstrap_indices,
    bootstrap_interval,
    correct_holm,
    expanded_tail,
    mean_interval,
    null_interval,
    paired_bootstrap,
    paired_t,
    percentile_interval,
    permutation_test,
    shuffle_interval,
    spearman,
    subsample,
)

Indices = np.typing.NDArray[np.int64]
VALUES = [0.61, 0.64, 0.58, 0.66, 0.60]


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(statistics).failed == 0


def test_an_interval_is_students() -> None:
    interval = mean_interval(VALUES)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(VALUES), scale=stats.sem(VALUES))
    assert [interval.value, interval.low, interval.high] == pytest.approx([0.618, low, high])
    # Two seeds have a very wide interval: Student's t with one degree of freedom is 12.7.
    interval = mean_interval([0.5, 0.6])
    assert interval.high - interval.value == pytest.approx(12.706 * 0.05, rel=1e-3)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8))
def test_the_paired_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = (np.array(side) for side in zip(*pairs, strict=True))
    p = paired_t((ours - theirs).tolist())
    if np.std(ours - theirs) > 1e-6:
        assert p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-6)


def test_equal_differences_leave_nothing_to_test_against() -> None:
    assert paired_t([0.1, 0.1, 0.1]) is None
    assert paired_t([0.0, 0.0]) is None
    assert paired_t([0.2]) is None


def test_groups_that_all_agree_are_no_accident() -> None:
    result = paired_bootstrap([0.1, 0.2, 0.1, 0.3, 0.2])
    assert result.p == pytest.approx(2 / 10_001)
    assert 0.1 <= result.mean.low < 0.18 < result.mean.high <= 0.3
    assert paired_bootstrap([0.1, -0.1, 0.2, -0.2]).p > 0.5, "groups that cancel out tell nothing"


def test_the_bootstrap_is_near_scipys() -> None:
    rng = np.random.default_rng(0)
    differences = rng.normal(0.05, 0.2, 67)
    ours = paired_bootstrap(differences.tolist())
    theirs = stats.bootstrap((differences,), np.mean, method="percentile", rng=rng).confidence_interval
    assert [ours.mean.low, ours.mean.high] == pytest.approx([theirs.low, theirs.high], abs=0.004)
    assert ours.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.02)
    assert paired_bootstrap(VALUES) == paired_bootstrap(VALUES), "the same every time"


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    # 0.01 x 4; 0.02 x 3; 0.03 x 2 is below what came before; 0.5 x 1.
    assert correct_holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    # Only tests that were made count.
    assert correct_holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]
    assert correct_holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_lies_between_no_correction_and_bonferronis(p_values: list[float]) -> None:
    for p, corrected in zip(p_values, correct_holm(p_values), strict=True):
        assert corrected is not None
        assert p <= corrected <= min(1.0, p * len(p_values)) + 1e-12


def test_the_interval_of_a_mean_is_that_of_theory() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    interval = bootstrap_interval(lambda indices: float(values[indices].mean()), 400, 2000, np.random.default_rng(1))
    assert interval.value == values.mean()
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)
    assert interval.low < 3.0 < interval.high


def test_intervals_of_few_rows_hold_the_truth_as_often_as_they_say() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        values = rng.normal(size=8)
        interval = bootstrap_interval(lambda indices: float(values[indices].mean()), 8, 200, rng)  # noqa: B023
        held += interval.low < 0 < interval.high
    # Without the correction 0.88.
    assert held / 300 == pytest.approx(0.95, abs=0.03)


def test_many_units_leave_out_the_usual_tails_and_one_tells_nothing() -> None:
    assert expanded_tail(100_000) == pytest.approx(0.025, abs=1e-4)
    assert expanded_tail(5) < 0.005
    assert np.isnan(bootstrap_interval(lambda _: 1.0, 1, 10, np.random.default_rng(0)).low)


def test_rows_of_a_group_are_drawn_together() -> None:
    # Two groups, of ones and of zeros: a mean of groups can only be 0, 1/2 or 1.
    groups = np.array([5, 5, 5, 9, 9, 9])
    seen: set[float] = set()

    def watch(indices: Indices) -> float:
        seen.add(float((groups[indices] == 5).mean()))
        return 0.0

    bootstrap_interval(watch, 6, 50, np.random.default_rng(0), groups=groups)
    assert seen == {0.0, 0.5, 1.0}


def test_a_centred_interval_lies_about_a_statistic_that_repeated_rows_shift() -> None:
    values = np.arange(100)
    count = lambda indices: float(len(np.unique(values[indices])))  # noqa: E731
    plain = bootstrap_interval(count, 100, 100, np.random.default_rng(0))
    centred = bootstrap_interval(count, 100, 100, np.random.default_rng(0), centred=True)
    assert plain.high < plain.value == 100
    assert centred.low < 100 < centred.high


def test_draws_without_an_answer_do_not_count() -> None:
    answers = iter([1.0, float("nan"), 2.0, float("nan")])
    assert bootstrap_interval(lambda _: next(answers), 3, 3, np.random.default_rng(0)) == Interval(1.0, 2.0, 2.0)


def test_shuffling_takes_a_correlation_away() -> None:
    values = np.arange(30.0)
    interval = shuffle_interval(
        lambda order: float(np.corrcoef(values, values[order])[0, 1]), 30, 400, np.random.default_rng(0)
    )
    assert interval.value == pytest.approx(0, abs=0.03)
    assert interval.low < -0.2 < 0.2 < interval.high


def test_an_interval_can_be_put_in_another_unit() -> None:
    assert Interval(2.0, 1.0, 4.0).scale(-2) == Interval(-4.0, -8.0, -2.0)


def test_a_seed_draws_the_same_on_every_machine() -> None:
    assert bootstrap_indices(5, 2, 3).tolist() == [[4, 0, 4, 0, 1], [2, 0, 3, 0, 2]]
    values = np.array(VALUES)
    for seed in (3, np.random.default_rng(7)):
        rngs = (seed, copy.deepcopy(seed))
        first, again = (bootstrap_interval(lambda rows: float(values[rows].mean()), 5, 20, rng) for rng in rngs)
        assert first == again


def test_groups_are_drawn_by_a_seed_as_their_rows_would_be() -> None:
    # A group of one row is a row.
    values = np.array(VALUES)
    by_row = bootstrap_interval(lambda rows: float(values[rows].mean()), 5, 50, 3)
    assert by_row == bootstrap_interval(lambda rows: float(values[rows].mean()), 5, 50, 3, groups=np.arange(5))


def test_plain_tails_are_those_of_the_draws() -> None:
    assert percentile_interval(500.0, range(1001)) == null_interval(range(1001)) == Interval(500.0, 25.0, 975.0)
    assert np.isnan(percentile_interval(500.0, []).low)


def test_some_of_many_are_taken_in_their_order() -> None:
    assert subsample(3, 0, 1).tolist() == subsample(3, 5, 1).tolist() == [0, 1, 2]
    some = subsample(1000, 10, 1)
    assert len(set(some.tolist())) == 10
    assert some.tolist() == sorted(some.tolist())


def test_spearman_is_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (2, 30)).astype(np.float64)
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic)
    assert np.isnan(spearman(first, np.ones(30)))


def test_of_few_rows_every_order_is_tried() -> None:
    # Of the 24 orders of four rows, only the one given and its reverse agree so well.
    values = np.arange(4.0)
    result = permutation_test(lambda order: spearman(values, values[order]), 4, 0, np.random.default_rng(0))
    assert result.p == pytest.approx(2 / 24)
    assert result.null.value == pytest.approx(0, abs=1e-12)


def test_the_order_given_is_one_of_those_drawn() -> None:
    values = np.arange(40.0)
    result = permutation_test(lambda order: spearman(values, values[order]), 40, 99, np.random.default_rng(0))
    assert result.p == pytest.approx(1 / 100)
