from math import isnan, nan

import pytest
from scipy.stats import ttest_ind

from electralab.analysis.claims.verdicts import all_of, compare, is_above, is_below, pool, subtract
from electralab.statistics import Interval


def exactly(value: float, margin: float = nan) -> Interval:
    return Interval(value, value - margin, value + margin)


def test_one_run_has_the_interval_that_its_examples_give() -> None:
    assert pool([exactly(3.0, 0.5)]) == Interval(3.0, 2.5, 3.5)


def test_one_score_without_an_interval_decides_nothing() -> None:
    found = compare([exactly(80.0)], [exactly(20.0)])
    assert found.value == 60.0
    assert isnan(found.low)
    assert is_above(found) == is_below(found) == "undecided"


def test_seeds_that_differ_widen_the_interval_by_students_t() -> None:
    # Two values 1 apart: sd 0.7071, standard error 0.5, t of one degree of freedom 12.706.
    found = pool([exactly(2.0), exactly(3.0)])
    assert found.value == 2.5
    assert found.high == pytest.approx(2.5 + 12.706 * 0.5, abs=1e-3)


def test_seeds_that_agree_do_not_narrow_what_few_examples_leave_open() -> None:
    assert pool([exactly(2.0, 0.5)] * 3) == Interval(2.0, 1.5, 2.5)


def test_two_figures_of_a_model_are_held_against_each_other_model_by_model() -> None:
    """The difference is 1 in each, however far the models are apart."""
    found = subtract([exactly(1.0), exactly(11.0)], [exactly(0.0), exactly(10.0)])
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)


def test_models_of_two_objectives_are_two_groups() -> None:
    # Both sums of squares 0.5: variance 1 / 2 with 2 degrees of freedom, standard error 0.7071, t 4.3027.
    found = compare([exactly(4.0), exactly(5.0)], [exactly(2.0), exactly(3.0)])
    assert found.value == 2.0
    assert found.high == pytest.approx(2.0 + 4.3027 * 0.7071, abs=1e-3)


def test_two_groups_have_the_interval_of_scipys_t_test() -> None:
    ours, theirs = [1.0, 1.5, 2.5], [0.5, 0.75]
    interval = ttest_ind(ours, theirs).confidence_interval(0.95)
    found = compare([exactly(one) for one in ours], [exactly(one) for one in theirs])
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_errors_of_two_models_add_as_squares() -> None:
    assert subtract([exactly(5.0, 3.0)], [exactly(1.0, 4.0)]) == Interval(4.0, -1.0, 9.0)
    assert compare([exactly(5.0, 3.0)] * 2, [exactly(1.0, 4.0)] * 2) == Interval(4.0, -1.0, 9.0)


def test_one_run_of_each_says_nothing_of_their_objectives() -> None:
    """However many examples there were: another seed may turn it round."""
    found = compare([exactly(5.0, 0.001)], [exactly(1.0, 0.001)])
    assert found.value == 4.0
    assert is_above(found) == "undecided"


def test_errors_of_seeds_and_of_examples_add_as_squares() -> None:
    # Over seeds 12.706 * 0.5, of examples 3.
    found = pool([exactly(2.0, 3.0), exactly(3.0, 3.0)])
    assert found.high - found.value == pytest.approx((6.353**2 + 3**2) ** 0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("estimate", "bound", "above", "below"),
    [
        (Interval(1.0, 0.5, 1.5), 0.0, "holds", "does not hold"),
        (Interval(-1.0, -1.5, -0.5), 0.0, "does not hold", "holds"),
        (Interval(1.0, -0.5, 2.5), 0.0, "undecided", "undecided"),
        (Interval(1.0, 0.5, 1.5), 2.0, "does not hold", "holds"),
        (Interval(0.0, 0.0, 0.0), 0.0, "undecided", "undecided"),
    ],
)
def test_a_bound_inside_the_interval_is_undecided(estimate: Interval, bound: float, above: str, below: str) -> None:
    assert (is_above(estimate, bound), is_below(estimate, bound)) == (above, below)


def test_a_claim_of_several_parts_falls_with_any_of_them() -> None:
    assert all_of(["holds", "undecided", "does not hold"]) == "does not hold"
    assert all_of(["holds", "undecided"]) == "undecided"
    assert all_of(["holds", "holds"]) == "holds"
    assert all_of([]) == "undecided"
