"""What seeds and examples leave open of a figure, and what an interval says about a claim."""

from math import hypot, nan

import pytest
from scipy.stats import ttest_ind

from electralab.analysis.claims.rules import all_of, compare, is_above, is_below, pool, subtract
from electralab.statistics import Interval


def seed(value: float, margin: float = nan) -> Interval:
    return Interval(value, value - margin, value + margin)


@pytest.mark.parametrize(
    ("interval", "value", "margin"),
    [
        # One run has the interval that its examples give.
        (pool([seed(3.0, 0.5)]), 3.0, 0.5),
        # Two values 1 apart: standard error 0.5, Student's t of one degree of freedom 12.706.
        (pool([seed(2.0), seed(3.0)]), 2.5, 12.706 * 0.5),
        # Seeds that agree do not narrow what few examples leave open.
        (pool([seed(2.0, 0.5)] * 3), 2.0, 0.5),
        # Errors of seeds and of examples add as squares.
        (pool([seed(2.0, 3.0), seed(3.0, 3.0)]), 2.5, hypot(6.353, 3.0)),
        # Two figures of a model, model by model: the difference is 1 in each, however far the models are apart.
        (subtract([seed(1.0), seed(11.0)], [seed(0.0), seed(10.0)]), 1.0, 0.0),
        # Errors of two models add as squares.
        (subtract([seed(5.0, 3.0)], [seed(1.0, 4.0)]), 4.0, 5.0),
        (compare([seed(5.0, 3.0)] * 2, [seed(1.0, 4.0)] * 2), 4.0, 5.0),
        # Models of two objectives are two groups: variance 1 / 2 with 2 degrees of freedom, t 4.3027.
        (compare([seed(4.0), seed(5.0)], [seed(2.0), seed(3.0)]), 2.0, 4.3027 * 0.7071),
        # One run of each says nothing of their objectives, however many examples there were.
        (compare([seed(80.0)], [seed(20.0)]), 60.0, nan),
        (compare([seed(5.0, 0.001)], [seed(1.0, 0.001)]), 4.0, nan),
    ],
)
def test_intervals_of_seeds_and_examples(interval: Interval, value: float, margin: float) -> None:
    ends = (interval.value, interval.low, interval.high)
    assert ends == pytest.approx((value, value - margin, value + margin), abs=1e-3, nan_ok=True)


def test_two_groups_have_the_interval_of_scipys_t_test() -> None:
    ours, theirs = [1.0, 1.5, 2.5], [0.5, 0.75]
    interval = ttest_ind(ours, theirs).confidence_interval(0.95)
    compared = compare(list(map(seed, ours)), list(map(seed, theirs)))
    assert (compared.low, compared.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(
    ("estimate", "bound", "above", "below"),
    [
        (Interval(1.0, 0.5, 1.5), 0.0, "holds", "does not hold"),
        (Interval(-1.0, -1.5, -0.5), 0.0, "does not hold", "holds"),
        (Interval(1.0, -0.5, 2.5), 0.0, "undecided", "undecided"),
        (Interval(1.0, 0.5, 1.5), 2.0, "does not hold", "holds"),
        (Interval(0.0, 0.0, 0.0), 0.0, "undecided", "undecided"),
        (Interval(60.0, nan, nan), 0.0, "undecided", "undecided"),
    ],
)
def test_a_bound_inside_the_interval_is_undecided(estimate: Interval, bound: float, above: str, below: str) -> None:
    assert (is_above(estimate, bound), is_below(estimate, bound)) == (above, below)


def test_a_claim_of_several_parts_falls_with_any_of_them() -> None:
    assert all_of(["holds", "undecided", "does not hold"]) == "does not hold"
    assert all_of(["holds", "undecided"]) == "undecided"
    assert all_of(["holds", "holds"]) == "holds"
    assert all_of([]) == "undecided"
