"""Domains as hard as home, and domains that are harder by a known amount."""

import numpy as np
import pytest
from little_specimens import draws

from electralab.analysis.measures.transfer import TokenScores, measure_rise
from electralab.errors import InputError

RNG = np.random.default_rng


def make_losses(mean: float, seed: int, rows: int = 40) -> TokenScores:
    return TokenScores(RNG(seed).normal(mean, 1, size=rows * 10), np.repeat(np.arange(rows), 10))


def test_a_domain_that_costs_two_nats_more_is_found_so() -> None:
    found = measure_rise(make_losses(1, 1), make_losses(3, 2), TokenScores.mean_loss, draws(0))
    assert found.estimate.low < 2 < found.estimate.high
    assert found.estimate.high - found.estimate.low < 0.6
    assert found.control.high < found.estimate.low


def test_home_away_from_home_is_like_its_halves() -> None:
    found = measure_rise(make_losses(1, 1), make_losses(1, 2), TokenScores.mean_loss, draws(0))
    assert found.estimate.low < 0 < found.estimate.high
    assert found.control.low < 0 < found.control.high


def test_a_judge_that_sees_nothing_away_loses_half() -> None:
    truth = np.tile([True, False], 100)
    rows = np.repeat(np.arange(20), 10)
    home = TokenScores(truth.astype(np.float64), rows, truth)
    away = TokenScores(np.zeros(200), rows, truth)
    found = measure_rise(home, away, TokenScores.lost_auc, draws(0))
    assert found.estimate.value == 0.5
    assert found.control.value == 0


def test_few_rows_are_said() -> None:
    with pytest.raises(InputError, match="transfer: needs at least 4 rows of each domain, got 2"):
        measure_rise(make_losses(1, 1), make_losses(1, 1, rows=2), TokenScores.mean_loss, draws(0))
