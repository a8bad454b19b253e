"""How odd points are: by those before them only, with the threshold that was asked for."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from electralab.corpus.series import TimeSeries
from electralab.detection.series import (
    PLANTED,
    SeriesScorer,
    describe_detection,
    find_windows,
    measure_statistics,
    plant_stretches,
    rank,
    thin_reference,
)
from electralab.records.series import PlantedScores, SeriesCalibration
from electralab.tokens.series import SeriesConfig, learn_symbols
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab


def make_table(values: NDArray[np.float64]) -> TimeSeries:
    times = [str(place) for place in range(len(values))]
    seconds = np.arange(len(values), dtype=np.float64)
    seconds *= 60
    return TimeSeries("a.csv", times, seconds, ("v",), values[:, None], 60.0, ())


@pytest.fixture
def scorer() -> SeriesScorer:
    normal = make_table(np.random.default_rng(0).normal(20, 1, 1000))
    symbols = learn_symbols([normal], SeriesConfig(season=-1), 8)
    return SeriesScorer(symbols, train_symbol_vocab(Counter(["0:0.0"]), TokenizerConfig()))


def test_the_share_of_points_that_are_called_odd_is_what_was_asked_for(scorer: SeriesScorer) -> None:
    scores = scorer.score(make_table(np.random.default_rng(1).normal(20, 1, 5000)))
    for rate in (0.05, 0.01):
        assert (scores.p_odd[500:] >= 1 - rate).mean() == pytest.approx(rate, rel=0.4)


def test_a_score_does_not_change_with_what_comes_after(scorer: SeriesScorer) -> None:
    values = np.random.default_rng(2).normal(20, 1, 600)
    whole, part = scorer.score(make_table(values)), scorer.score(make_table(values[:400]))
    assert whole.p_odd[:400] == pytest.approx(part.p_odd)


def test_a_jump_that_comes_in_every_season_is_no_odd_change_and_is_missed_where_it_fails_to_come() -> None:
    values = np.tile(np.repeat([20.0, 80.0], 10), 20) + np.random.default_rng(4).normal(0, 1, 400)
    symbols = learn_symbols([make_table(values)], SeriesConfig(), 8)
    again = np.tile(np.repeat([20.0, 80.0], 10), 20)
    again[310:320] = 20.0
    found = measure_statistics(make_table(again), symbols)
    jumps = np.arange(10, 300, 10)
    assert found["change"][jumps, 0].max() < 2
    assert found["season"][310:320, 0].min() > 8
    plain = measure_statistics(make_table(again), learn_symbols([make_table(values)], SeriesConfig(season=-1), 8))
    assert plain["change"][jumps, 0].min() > 2, "without a season every jump is a large change"


def test_a_spike_is_a_window_with_its_reasons_and_a_missing_value_has_no_score(scorer: SeriesScorer) -> None:
    values = np.random.default_rng(3).normal(20, 1, 1000)
    values[700:703], values[50] = 40.0, np.nan
    scores = scorer.score(make_table(values))
    detection = describe_detection(scores, scorer, false_alarm_rate=0.001, join=10)
    assert (detection.points[50].p_odd, detection.points[50].values) == (None, (None,))
    (window,) = [window for window in detection.windows if window.first >= 690]
    assert window.first == 700
    assert 700 <= window.last <= 710
    assert window.reasons[0].startswith("value 40 above anything seen (at most ")
    assert any(reason.startswith("changes by +") for reason in window.reasons)


def test_any_change_of_a_constant_series_is_odd() -> None:
    symbols = learn_symbols([make_table(np.full(300, 0.1))], SeriesConfig(), 8)
    values = np.full(500, 0.1)
    values[400] = 0.2
    scores = SeriesScorer(symbols, train_symbol_vocab(Counter(["0:0.0"]), TokenizerConfig())).score(make_table(values))
    assert int(np.argmax(scores.oddness)) == 400
    assert scores.oddness[:400].max() == scores.oddness[0]


def test_deviations_are_those_of_the_points_before(scorer: SeriesScorer) -> None:
    values = np.random.default_rng(4).normal(20, 1, 50)
    measured = measure_statistics(make_table(values), scorer.symbols)["value"][:, 0]
    column = scorer.symbols.columns[0]
    assert measured[0] == pytest.approx(abs(values[0] - column.mean) / column.deviation, abs=1e-5)


def test_rarity_is_the_share_of_points_before_that_show_as_much() -> None:
    assert np.exp(-rank(np.array([5.0, 1.0, 9.0, 5.0]))).tolist() == pytest.approx([1, 1, 1 / 3, 3 / 4])
    # One of two known points and it itself, of three.
    assert np.exp(-rank(np.array([2.0]), reference=[1.0, 3.0])).tolist() == pytest.approx([2 / 3])
    assert np.isnan(rank(np.array([np.nan, 1.0]))[0])


def test_odd_points_with_few_others_between_them_are_one_window(scorer: SeriesScorer) -> None:
    scores = scorer.score(make_table(np.full(30, 20.0)))
    scores.p_odd[:] = 0
    scores.p_odd[[3, 6, 20]] = 0.9999
    assert find_windows(scores, 0.001, join=3) == [(3, 6), (20, 20)]
    assert find_windows(scores, 0.001, join=2) == [(3, 3), (6, 6), (20, 20)]


def test_planted_stretches_are_wrong_where_they_are_said_to_be_and_nowhere_else() -> None:
    table = make_table(np.random.default_rng(5).normal(20, 1, 1000))
    planted, stretches = plant_stretches(table, 100, Random(0))
    is_planted = np.zeros(1000, dtype=bool)
    for _, start, after in stretches:
        is_planted[start:after] = True
    differs = (planted.values != table.values).any(axis=1)
    assert not (differs & ~is_planted).any()
    assert {kind for kind, start, after in stretches if differs[start:after].any()} == set(PLANTED)
    assert min(start for _, start, _ in stretches) == 325, "not before enough is known to judge by"
    (_, start, after), *_ = [stretch for stretch in stretches if stretch[0] == "order"]
    assert sorted(planted.values[start:after, 0]) == sorted(table.values[start:after, 0])


def test_a_reference_keeps_its_quantiles_and_lets_the_first_points_be_judged(scorer: SeriesScorer) -> None:
    values = np.random.default_rng(6).normal(0, 1, 20_000)
    thinned = np.array(thin_reference(values.tolist()))
    assert len(thinned) == 5000
    assert np.quantile(thinned, [0.5, 0.99]) == pytest.approx(np.quantile(values, [0.5, 0.99]), abs=0.02)
    normal = scorer.score(make_table(np.random.default_rng(7).normal(20, 1, 2000)))
    references = {f"{name} 0": thin_reference(shown[:, 0].tolist()) for name, shown in normal.evidence.items()}
    references["oddness"] = thin_reference(normal.oddness[500:].tolist())
    informed = SeriesScorer(scorer.symbols, scorer.tokenizer, references=references)
    values = np.array([20.0, 20.5, 30.0, 20.0])
    assert scorer.score(make_table(values)).p_odd.max() < 0.99
    assert informed.score(make_table(values)).p_odd[2] > 0.999


def test_the_calibration_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    planted = {"spike": PlantedScores(stretches=3, auc={"statistics": 1.0, "networks": 0.5, "all": 0.9})}
    stored = SeriesCalibration(points=9, references={"value 0": (1.0, 2.0)}, planted=planted, evidence="statistics")
    stored.write(tmp_path)
    assert SeriesCalibration.read(tmp_path) == stored
