"""Rademacher complexity where it is known exactly."""

from itertools import product

import numpy as np
import pytest

from electralab.analysis.measures import complexity
from electralab.statistics import FloatArray

RNG = np.random.default_rng


def test_orthonormal_rows_have_one_over_root_n_whatever_the_signs() -> None:
    rows = np.linalg.qr(RNG(0).normal(size=(40, 25)))[0].T  # (25, 40)
    found = complexity.estimate_rademacher(rows, RNG(1), draws=300)
    assert (found.value, found.low, found.high) == pytest.approx((1 / 5, 1 / 5, 1 / 5))


each_ball = pytest.mark.parametrize("ball", ["l2", "l1"])


@each_ball
def test_the_interval_holds_the_mean_over_all_signs(ball: complexity.LinearClass) -> None:
    rows = RNG(0).normal(size=(8, 3))
    sums = np.array(list(product([-1.0, 1.0], repeat=8))) @ rows
    norms = np.sqrt((sums**2).sum(axis=1)) if ball == "l2" else np.abs(sums).max(axis=1)
    found = complexity.estimate_rademacher(rows, RNG(1), linear=ball, draws=4000)
    assert found.low < norms.mean() / 8 < found.high
    assert found.high - found.low < 0.05 * found.value


def test_axes_of_the_l1_ball_fit_one_row_at_most() -> None:
    # Each coordinate is 1 in one row only: the largest of |sum| is always 1.
    assert complexity.estimate_rademacher(np.eye(10), RNG(0), linear="l1", draws=50).value == pytest.approx(0.1)


def bound_by_theory(rows: FloatArray, ball: complexity.LinearClass) -> float:
    """Jensen's inequality for the l2 ball, Massart's lemma for the l1 ball."""
    squares = rows**2
    if ball == "l2":
        return float(np.sqrt(squares.sum()) / len(rows))
    return float(np.sqrt(squares.sum(axis=0).max() * 2 * np.log(2 * rows.shape[1])) / len(rows))


@each_ball
def test_theory_is_not_exceeded_and_scale_goes_straight_through(ball: complexity.LinearClass) -> None:
    rows = RNG(0).normal(size=(50, 7))
    found = complexity.estimate_rademacher(rows, RNG(1), linear=ball)
    assert found.value < bound_by_theory(rows, ball)
    assert complexity.estimate_rademacher(rows * 5, RNG(1), linear=ball).value == pytest.approx(found.value * 5)


def test_a_line_of_features_fits_less_noise_than_random_directions() -> None:
    # Along a line E|sum of signs| = sqrt(2 n / pi); in many directions it is nearly sqrt(n).
    line = np.outer(np.resize([1.0, -1.0], 400), np.ones(64)) * 9 + 4
    found = complexity.measure_rademacher(line, RNG(0), draws=4000)
    assert found.estimate.low < np.sqrt(2 / np.pi / 400) < found.estimate.high
    assert found.control.value == pytest.approx(1 / 20, rel=0.02)
    assert complexity.measure_rademacher(line * 100, RNG(0), draws=4000).estimate.value == pytest.approx(
        found.estimate.value
    )


def spread(variances: list[float], rows: int = 4000) -> FloatArray:
    """Rows whose variances along the axes are exactly these."""
    raw = RNG(0).normal(size=(rows, len(variances)))
    white = np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(rows)
    return np.asarray(white * np.sqrt(variances), dtype=np.float64)


def test_a_ball_is_its_own_local_class() -> None:
    rows = spread([1.0] * 8)
    everywhere = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(np.linalg.norm(complexity.flatten_axes(rows), axis=1), everywhere)


def test_k_of_d_axes_leave_root_k_over_d_of_the_local_complexity() -> None:
    turn = np.linalg.qr(RNG(1).normal(size=(16, 16)))[0]
    rows = spread([1.0] * 4 + [0.0] * 12) @ turn
    whole, local = (complexity.measure_rademacher(rows, RNG(0), linear=linear).estimate for linear in ("l2", "local"))
    assert local.value == pytest.approx(whole.value * np.sqrt(4 / 16))


def test_the_local_class_gives_long_axes_no_more_than_the_average() -> None:
    variances = [13.0, 1.0, 1.0, 1.0]
    flat = complexity.flatten_axes(spread(variances))
    np.testing.assert_allclose(sorted((flat**2).mean(axis=0)), [1, 1, 1, 4])
    found = complexity.measure_rademacher(spread(variances), RNG(0), linear="local")
    # At most the root of the sum of min(v, r) / n, with all variances 1 together.
    assert found.estimate.value < np.sqrt(7 / 16 / 4000) < found.control.value


def test_states_that_are_all_one_point_fit_nothing() -> None:
    for linear in ("l2", "l1", "local"):
        assert complexity.measure_rademacher(np.ones((9, 3)), RNG(0), linear=linear).estimate.value == 0
