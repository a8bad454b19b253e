"""Domains as hard as home, and domains that are harder by a known amount."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_analysis import draws
from scipy.stats import wasserstein_distance

from electralab.analysis.finding import measure_correlation
from electralab.analysis.measures import transfer

RNG = np.random.default_rng


def make_losses(mean: float, seed: int, rows: int = 40) -> transfer.TokenScores:
    return transfer.TokenScores(RNG(seed).normal(mean, 1, size=rows * 10), np.repeat(np.arange(rows), 10))


def test_a_domain_that_costs_two_nats_more_is_found_so() -> None:
    found = transfer.measure_rise(make_losses(1, 1), make_losses(3, 2), draws(0))
    assert found.estimate.low < 2 < found.estimate.high
    assert found.estimate.high - found.estimate.low < 0.6
    assert found.control.high < found.estimate.low


def test_home_away_from_home_is_like_its_halves() -> None:
    found = transfer.measure_rise(make_losses(1, 1), make_losses(1, 2), draws(0))
    assert found.estimate.low < 0 < found.estimate.high
    assert found.control.low < 0 < found.control.high


def test_a_judge_that_sees_nothing_away_loses_half() -> None:
    truth = np.tile([True, False], 100)
    rows = np.repeat(np.arange(20), 10)
    home = transfer.TokenScores(truth.astype(np.float64), rows, truth)
    away = transfer.TokenScores(np.zeros(200), rows, truth)
    found = transfer.measure_rise(home, away, draws(0))
    assert found.estimate.value == 0.5
    assert found.control.value == 0


def test_two_gaussians_that_commute_differ_in_means_and_deviations() -> None:
    # Axis by axis: 3 and 4 in the means, 1 - 2 and 5 - 5 in the deviations.
    found = transfer.gaussian_w2(np.zeros(2), np.diag([1.0, 25]), np.array([3.0, 4]), np.diag([4.0, 25]))
    assert found == pytest.approx(np.sqrt(9 + 16 + 1))


def test_two_gaussians_that_do_not_commute_are_as_by_the_slow_root() -> None:
    from scipy.linalg import sqrtm

    one, two = (rows.T @ rows / 9 for rows in RNG(0).normal(size=(2, 9, 4)))
    root = sqrtm(one)
    slow = np.trace(one + two - 2 * np.real(sqrtm(root @ two @ root)))
    assert transfer.gaussian_w2(np.zeros(4), one, np.zeros(4), two) == pytest.approx(np.sqrt(slow))


def test_samples_of_two_gaussians_are_as_far_as_the_gaussians() -> None:
    rng = RNG(0)
    one, two = rng.normal(size=(4000, 3)), rng.normal(size=(4000, 3)) * 2 + [3, 0, 0]
    truth = np.sqrt(9 + 3)
    found = transfer.measure_w2(one, two, rng)
    assert found.estimate.low < truth < found.estimate.high
    assert found.control.high < 0.3
    assert transfer.exact_w2(one[:400], two[:400]) == pytest.approx(truth, rel=0.1)


@given(st.integers(0, 1000))
def test_every_distance_is_symmetric_and_zero_for_the_same_cloud(seed: int) -> None:
    rng = RNG(seed)
    one, two = rng.normal(size=(2, 12, 3))
    sphere = transfer.sample_directions(20, 3, rng)
    for distance in (transfer.fit_gaussian_w2, transfer.exact_w2, lambda a, b: transfer.sliced_w2(a, b, sphere)):
        assert distance(one, two) == pytest.approx(distance(two, one))
        assert distance(one, rng.permutation(one)) == pytest.approx(0, abs=1e-6)
    assert transfer.sliced_w2(one, two, sphere) <= transfer.exact_w2(one, two) + 1e-12
    assert transfer.fit_gaussian_w2(one, two) <= transfer.exact_w2(one, two) + 1e-9  # Gelbrich's lower bound


def test_a_shift_is_its_length_and_sliced_its_length_by_root_dimensions() -> None:
    cloud, shift = RNG(0).normal(size=(50, 4)), np.array([2.0, 0, 0, 0])
    assert transfer.exact_w2(cloud, cloud + shift) == pytest.approx(2)
    assert transfer.fit_gaussian_w2(cloud, cloud + shift) == pytest.approx(2)
    assert transfer.sliced_w2(cloud, cloud + shift, transfer.sample_directions(20_000, 4, RNG(1))) == pytest.approx(
        1, rel=0.01
    )


def test_clouds_of_other_sizes_are_as_far_as_with_every_point_repeated() -> None:
    one, two, sphere = RNG(0).normal(size=(4, 3)), RNG(1).normal(size=(6, 3)), transfer.sample_directions(5, 3, RNG(2))
    same = transfer.sliced_w2(np.repeat(one, 3, axis=0), np.repeat(two, 2, axis=0), sphere)
    assert transfer.sliced_w2(one, two, sphere) == pytest.approx(same)
    # Along a line where one cloud lies right of the other W1 is a mean difference, and W2 at least that.
    assert transfer.sliced_w2(one[:, :1], two[:, :1] + 9, np.ones((1, 1))) >= wasserstein_distance(
        one[:, 0], two[:, 0] + 9
    )


@pytest.mark.parametrize("distance", ["gaussian", "sliced", "exact"])
def test_one_domain_is_as_far_from_itself_as_chance(distance: transfer.Distance) -> None:
    rng = RNG(0)
    one, two = rng.normal(size=(60, 5)), rng.normal(size=(80, 5))
    found = transfer.measure_w2(one, two, rng, distance=distance, num_resamples=20)
    assert found.control.value * 0.8 < found.estimate.value < found.control.value * 1.25
    assert found.estimate.low <= found.estimate.value <= found.estimate.high


def test_a_relative_distance_does_not_depend_on_the_scale() -> None:
    one, two = RNG(0).normal(size=(2, 40, 3))
    near, far = (transfer.measure_w2(one * k, two * k + k, RNG(1), relative=True, num_resamples=5) for k in (1, 1000))
    assert near.estimate.value == pytest.approx(far.estimate.value)
    # Two points each, one apart: half of it from the common middle.
    poles = transfer.measure_w2(np.zeros((2, 1)), np.ones((2, 1)), RNG(0), relative=True, num_resamples=5)
    assert poles.estimate.value == pytest.approx(2)


def test_losses_that_grow_with_the_distance_are_found_and_few_of_them_say_little() -> None:
    distances = np.arange(12.0)
    rho, p = measure_correlation(distances, distances**3, draws(0))
    assert rho.estimate.value == pytest.approx(1)
    assert p < 0.01
    assert rho.control.value == pytest.approx(0, abs=0.03)
    # Of 24 orders of four, two are as straight.
    rho, p = measure_correlation(distances[:4], distances[:4], draws(0))
    assert p == pytest.approx(2 / 24)
    assert np.isnan(rho.estimate.low), "drawn again, four in perfect order are always in perfect order"


def test_a_column_that_does_not_vary_says_nothing() -> None:
    rho, p = measure_correlation(np.ones(5), np.arange(5.0), draws(0))
    assert np.isnan(rho.estimate.value)
    assert p == 1
