"""The rule of the Numenta Anomaly Benchmark, on series small enough to score by hand."""

import math

import numpy as np
import pytest

from electralab.detection.nab import LabelledSeries, count_probation, score_gaussian, score_nab, weigh_points


def label(points: dict[int, float], *windows: tuple[int, int], count: int = 100) -> LabelledSeries:
    scores = np.zeros(count)
    scores[list(points)] = list(points.values())
    return LabelledSeries("a", scores, windows)


def test_a_window_is_worth_less_the_later_it_is_found() -> None:
    weights = weigh_points(100, [(50, 59)])
    first = 2 / (1 + math.exp(-5)) - 1
    assert weights[50] == 1
    assert weights[55] == pytest.approx((2 / (1 + math.exp(-2.5)) - 1) / first)
    assert weights[59] == pytest.approx((2 / (1 + math.exp(-0.5)) - 1) / first)


def test_a_false_alarm_costs_less_close_behind_a_window() -> None:
    weights = weigh_points(100, [(50, 59)])
    assert weights[10] == -0.11
    assert weights[60] == pytest.approx(0.11 * (2 / (1 + math.exp(5 / 9)) - 1))
    assert weights[59 + 27] == -0.11, "three widths behind it has nothing to do with it any more"


def test_only_the_earliest_alarm_of_a_window_counts() -> None:
    early = score_nab([label({52: 1.0}, (50, 59))], 0.5).score
    assert score_nab([label({52: 1.0, 57: 1.0}, (50, 59))], 0.5).score == early
    assert score_nab([label({57: 1.0}, (50, 59))], 0.5).score < early


def test_nothing_found_is_0_all_found_at_once_is_100_and_false_alarms_go_below_0() -> None:
    windows = ((30, 34), (70, 79))
    assert score_nab([label({}, *windows)], 0.5).score == 0
    assert score_nab([label({30: 1.0, 70: 1.0}, *windows)], 0.5).score == 100
    # One found of two: half the way from missing both to finding both.
    assert score_nab([label({30: 1.0}, *windows)], 0.5).score == 50
    # A false alarm costs .11 of the 4 that lie between.
    scored = score_nab([label({20: 1.0}, *windows)], 0.5)
    assert scored.score == pytest.approx(-100 * 0.11 / 4)
    assert (scored.alarms, scored.false_alarms, scored.found_windows) == (1, 1, 0)


def test_what_comes_in_the_first_seventh_is_not_scored() -> None:
    assert count_probation(22_695) == 750
    assert score_nab([label({3: 1.0, 50: 1.0}, (50, 59))], 0.5).score == 100


def test_one_threshold_is_found_for_all_series_and_missed_windows_may_be_cheaper_than_alarms() -> None:
    good = label({50: 0.9}, (50, 59))
    noisy = label({20: 0.8, 30: 0.8, 40: 0.8, 70: 0.7}, (70, 79))
    scored = score_nab([good, noisy])
    assert scored.threshold == 0.7
    assert scored.score == pytest.approx(100 * (4 - 3 * 0.11) / 4)
    hopeless = label(dict.fromkeys(range(20, 60), 0.8) | {70: 0.7}, (70, 79))
    assert score_nab([good, hopeless]).threshold == 0.9
    assert score_nab([label(dict.fromkeys(range(15, 60), 0.8), (70, 79))]).threshold is None


def test_the_profiles_weigh_alarms_and_misses() -> None:
    series = [label({20: 1.0, 30: 1.0}, (30, 34), (70, 79))]
    assert score_nab(series, 0.5, "low-false-alarms").score == pytest.approx(50 - 100 * 0.22 / 4)
    # Of both missed -4, of both found 2: one found and one missed is half the way.
    assert score_nab(series, 0.5, "low-misses").score == pytest.approx(50 - 100 * 0.11 / 6)


def test_the_gaussian_knows_the_points_before_and_moves_in_steps() -> None:
    values = np.random.default_rng(0).normal(5, 2, 60)
    scores = score_gaussian(values, size=20, step=5)
    for place, known in ((1, values[:1]), (12, values[:12]), (20, values[:20]), (24, values[:20]), (47, values[25:45])):
        deviation = known.std() or 1e-6
        tail = 0.5 * math.erfc(abs(values[place] - known.mean()) / deviation / math.sqrt(2))
        assert scores[place] == pytest.approx(1 - tail)
    assert scores[0] == 0
