"""Intervals, tests and corrections against scipy, and against answers that can be checked by eye."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from electralab.study.statistics import (
    bootstrap_differences,
    compare_paired,
    correct_holm,
    estimate_mean,
    find_crossing,
    pair_groups,
)

VALUES = [0.61, 0.64, 0.58, 0.66, 0.60]


def test_an_interval_is_students() -> None:
    found = estimate_mean(VALUES)
    low, high = stats.t.interval(0.95, 4, loc=np.mean(VALUES), scale=stats.sem(VALUES))
    assert found.n == 5
    assert [found.mean, found.low, found.high] == pytest.approx([0.618, low, high])


def test_two_seeds_have_a_very_wide_interval() -> None:
    # Student's t with one degree of freedom is 12.7.
    found = estimate_mean([0.5, 0.6])
    assert found.high is not None
    assert found.high - found.mean == pytest.approx(12.706 * 0.05, rel=1e-3)


def test_one_seed_has_no_interval() -> None:
    found = estimate_mean([0.7])
    assert (found.mean, found.sd, found.low, found.high) == (0.7, None, None, None)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=8))
def test_the_paired_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = (np.array(side) for side in zip(*pairs, strict=True))
    found = compare_paired((ours - theirs).tolist())
    if np.std(ours - theirs) > 1e-6:
        assert found == pytest.approx(stats.ttest_rel(ours, theirs).pvalue, rel=1e-6)


def test_equal_differences_leave_nothing_to_test_against() -> None:
    assert compare_paired([0.1, 0.1, 0.1]) is None
    assert compare_paired([0.0, 0.0]) is None
    assert compare_paired([0.2]) is None


def test_groups_that_all_agree_are_no_accident() -> None:
    found = bootstrap_differences([0.1, 0.2, 0.1, 0.3, 0.2])
    assert found.p == pytest.approx(2 / 10_001)
    assert 0.1 <= found.low < 0.18 < found.high <= 0.3


def test_groups_that_cancel_out_tell_nothing() -> None:
    assert bootstrap_differences([0.1, -0.1, 0.2, -0.2]).p > 0.5


def test_the_bootstrap_is_near_scipys() -> None:
    rng = np.random.default_rng(0)
    differences = rng.normal(0.05, 0.2, 67)
    ours = bootstrap_differences(differences.tolist())
    theirs = stats.bootstrap((differences,), np.mean, method="percentile", rng=rng).confidence_interval
    assert [ours.low, ours.high] == pytest.approx([theirs.low, theirs.high], abs=0.004)
    assert ours.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.02)


def test_the_bootstrap_is_the_same_every_time() -> None:
    assert bootstrap_differences(VALUES) == bootstrap_differences(VALUES)


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    # 0.01 x 4; 0.02 x 3; 0.03 x 2 is below what came before; 0.5 x 1.
    assert correct_holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])


def test_holm_counts_only_tests_that_were_made() -> None:
    assert correct_holm([None, 0.01, None, 0.04]) == [None, 0.02, None, 0.04]
    assert correct_holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_lies_between_no_correction_and_bonferronis(p_values: list[float]) -> None:
    for p, corrected in zip(p_values, correct_holm(p_values), strict=True):
        assert corrected is not None
        assert p <= corrected <= min(1.0, p * len(p_values)) + 1e-12


def test_a_curve_crosses_half_way_in_log_compute() -> None:
    assert find_crossing([(1e10, 0.5), (1e12, 0.7)], 0.6) == pytest.approx(1e11)
    assert find_crossing([(1e12, 0.7), (1e10, 0.5)], 0.6) == pytest.approx(1e11)


def test_a_curve_that_stays_below_never_crosses() -> None:
    assert find_crossing([(1e10, 0.5), (1e12, 0.59)], 0.6) is None
    assert find_crossing([], 0.6) is None


def test_the_first_crossing_counts() -> None:
    assert find_crossing([(1.0, 0.0), (10.0, 1.0), (100.0, 0.0), (1000.0, 1.0)], 1.0) == pytest.approx(10.0)


def test_a_curve_that_begins_above_has_crossed_by_its_first_point() -> None:
    assert find_crossing([(1e10, 0.7), (1e12, 0.9)], 0.6) == 1e10


def test_groups_are_paired_by_name_and_averaged_over_seeds() -> None:
    ours = [{"a": 0.6, "b": 0.8}, {"a": 0.8, "b": 0.8}]
    theirs = [{"b": 0.5, "a": 0.5, "c": 1.0}, {"a": 0.7, "b": 0.7}]
    assert pair_groups(ours, theirs) == pytest.approx([0.1, 0.2])
