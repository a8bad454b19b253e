"""Where a curve crosses a score, and how groups are paired."""

import pytest

from electralab.experiments.results import find_crossing, pair_groups


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
