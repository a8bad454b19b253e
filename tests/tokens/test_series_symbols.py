"""From values to symbols: bins are learned from what is given, and from nothing else."""

import json
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from electralab.corpus.series import TimeSeries
from electralab.errors import DamagedArtifact, InputError
from electralab.records.series import SeriesSymbols
from electralab.tokens.series import (
    SeriesConfig,
    cut_rows,
    encode_seasons,
    encode_series,
    find_season,
    learn_symbols,
    prepare_series,
)


def make_table(*columns: NDArray[np.float64]) -> TimeSeries:
    values = np.stack(columns, axis=1).astype(float)
    seconds = np.arange(len(values), dtype=np.float64)
    seconds *= 60
    return TimeSeries(
        "a.csv", [str(second) for second in seconds], seconds, ("v", "w")[: len(columns)], values, 60.0, ()
    )


def learn(table: TimeSeries, **settings: object) -> SeriesSymbols:
    return learn_symbols([table], SeriesConfig.model_validate(settings), 8)


def test_bins_hold_equally_many_values_and_a_value_at_an_edge_is_in_the_upper_one() -> None:
    table = make_table(np.arange(100.0))
    symbols = learn(table, bins=4, changes=2, season=-1)
    assert symbols.columns[0].edges == pytest.approx((24.75, 49.5, 74.25))
    assert (symbols.columns[0].low, symbols.columns[0].high, symbols.columns[0].count) == (0, 99, 100)
    shown = encode_series(make_table(np.array([-5.0, 24.75, 99.0, 500.0, np.nan])), symbols)
    assert [point[0].partition(".")[0] for point in shown] == ["0:0", "0:1", "0:3", "0:3", "0:none"]


def test_sax_has_bins_of_equal_probability_under_a_normal_distribution() -> None:
    values = np.random.default_rng(0).normal(10, 2, 5000)
    symbols = learn(make_table(values), kind="sax", bins=3, season=-1)
    assert symbols.columns[0].edges == pytest.approx((10 - 0.431 * 2, 10 + 0.431 * 2), abs=0.1)


def test_a_constant_series_has_a_single_bin() -> None:
    symbols = learn(make_table(np.full(50, 3.0)))
    assert (symbols.columns[0].edges, symbols.columns[0].season) == ((), ())
    assert {point[0] for point in encode_series(make_table(np.full(5, 3.0)), symbols)} == {"0:0.0"}


def test_a_season_is_found_and_rows_begin_with_the_place_in_it_by_their_time() -> None:
    table = make_table(np.sin(np.arange(200) * 2 * np.pi / 20))
    symbols = learn(table)
    assert len(symbols.columns[0].season) == 20
    assert encode_seasons(table, symbols)[:21] == [f"season {place}" for place in (*range(20), 0)]
    assert encode_seasons(table.take(7, 9), symbols) == ["season 7", "season 8"]


def test_a_day_need_be_seen_twice_only_as_clocks_make_it_likely() -> None:
    days = np.tile(np.repeat([20.0, 80.0], 48), 2)  # a point each quarter of an hour
    assert find_season(days, step_seconds=900) == 96
    assert find_season(days, step_seconds=600) == 0, "of any other length three are needed"
    assert find_season(np.tile(days, 2), step_seconds=600) == 96


def test_rows_overlap_by_half_and_end_with_the_last_point() -> None:
    table = make_table(np.arange(30.0), np.arange(30.0) % 3)
    rows = list(cut_rows(table, learn(table, season=-1)))
    points = encode_series(table, learn(table, season=-1))
    assert {len(row) for row in rows} == {16}
    assert rows[0] == [*chain.from_iterable(points[:8])]
    assert rows[1] == [*chain.from_iterable(points[4:12])]
    assert rows[-1] == [*chain.from_iterable(points[-8:])]


def test_files_may_have_bins_of_their_own(tmp_path: Path) -> None:
    for name, factor in (("a", 1), ("b", 1000)):
        lines = [f"{place},{factor * (place * 7 % 50)}" for place in range(100)]
        (tmp_path / f"{name}.csv").write_text("time,v\n" + "\n".join(lines) + "\n")
    inputs = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    rows = {}
    for scale in ("columns", "files"):
        config = SeriesConfig.model_validate({"scale": scale, "season": -1})
        prepare_series(inputs, config, 16, tmp_path / f"{scale}.jsonl")
        rows[scale] = [json.loads(line) for line in (tmp_path / f"{scale}.jsonl").read_text().splitlines()]
    assert rows["files"][: len(rows["files"]) // 2] == rows["files"][len(rows["files"]) // 2 :]
    assert rows["columns"][: len(rows["columns"]) // 2] != rows["columns"][len(rows["columns"]) // 2 :]


def test_too_few_points_and_too_many_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="12 points are too few to learn from; give at least 20"):
        learn(make_table(np.arange(12.0)))
    (tmp_path / "a.csv").write_text("time,a,b,c,d\n" + "".join(f"{place},1,2,3,4\n" for place in range(30)))
    with pytest.raises(InputError, match="its 4 columns of values fill a row of 16 tokens; give --sequence-length 19"):
        prepare_series([str(tmp_path / "a.csv")], SeriesConfig(), 16, tmp_path / "rows.jsonl")


def test_the_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    symbols = learn(make_table(np.sin(np.arange(100.0)), np.arange(100.0)))
    symbols.write(tmp_path)
    assert SeriesSymbols.read(tmp_path) == symbols
    (tmp_path / "series.json").write_text("{}")
    with pytest.raises(DamagedArtifact, match="not as electralab writes it"):
        SeriesSymbols.read(tmp_path)
