"""Rademacher complexity where it is known exactly."""

from itertools import product

import numpy as np
import pytest

from electralab.analysis.complexity import Ball, bound_rademacher, estimate_rademacher, measure_rademacher

RNG = np.random.default_rng


def test_orthonormal_rows_have_bound_over_root_n_whatever_the_signs() -> None:
    rows = np.linalg.qr(RNG(0).normal(size=(40, 25)))[0].T  # (25, 40)
    found = estimate_rademacher(rows, RNG(1), bound=3.0, draws=300)
    assert (found.value, found.low, found.high) == pytest.approx((3 / 5, 3 / 5, 3 / 5))
    assert bound_rademacher(rows, bound=3.0) == pytest.approx(3 / 5)


each_ball = pytest.mark.parametrize("ball", ["l2", "l1"])


@each_ball
def test_the_interval_holds_the_mean_over_all_signs(ball: Ball) -> None:
    rows = RNG(0).normal(size=(8, 3))
    sums = np.array(list(product([-1.0, 1.0], repeat=8))) @ rows
    norms = np.sqrt((sums**2).sum(axis=1)) if ball == "l2" else np.abs(sums).max(axis=1)
    found = estimate_rademacher(rows, RNG(1), ball=ball, bound=2.0, draws=4000)
    assert found.low < norms.mean() * 2 / 8 < found.high
    assert found.high - found.low < 0.05 * found.value


def test_axes_of_the_l1_ball_fit_one_row_at_most() -> None:
    # Each coordinate is 1 in one row only: the largest of |sum| is always 1.
    assert estimate_rademacher(np.eye(10), RNG(0), ball="l1", draws=50).value == pytest.approx(0.1)


@each_ball
def test_theory_is_not_exceeded_and_scale_goes_straight_through(ball: Ball) -> None:
    rows = RNG(0).normal(size=(50, 7))
    found = estimate_rademacher(rows, RNG(1), ball=ball)
    assert found.value < bound_rademacher(rows, ball=ball)
    assert estimate_rademacher(rows * 5, RNG(1), ball=ball).value == pytest.approx(found.value * 5)


def test_a_line_of_features_fits_less_noise_than_random_directions() -> None:
    # Along a line E|sum of signs| = sqrt(2 n / pi); in many directions it is nearly sqrt(n).
    line = np.outer(np.resize([1.0, -1.0], 400), np.ones(64)) * 9 + 4
    found = measure_rademacher(line, RNG(0), draws=4000)
    assert found.estimate.low < np.sqrt(2 / np.pi / 400) < found.estimate.high
    assert found.control.value == pytest.approx(1 / 20, rel=0.02)
    assert measure_rademacher(line * 100, RNG(0), draws=4000).estimate.value == pytest.approx(found.estimate.value)
