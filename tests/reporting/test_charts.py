"""Charts: what is drawn, over what, and that the script can place lines where Python put them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_folders import make_record, make_run, make_steps

from electralab.reporting.artifact import Artifact, read_artifact
from electralab.reporting.blocks import Band, Chart, Line, ReferenceLine, Scatter
from electralab.reporting.charts import (
    find_log_ticks,
    find_ticks,
    pad,
    render_chart,
    render_intervals,
    render_scatter,
    shorten,
    smooth,
)
from electralab.reporting.curves import plot_logs

HERE = Path("here")


def test_smoothing_is_a_mean_whose_memory_fades() -> None:
    assert smooth([4.0, None, 1.0], 0.5) == [4.0, None, 2.0]
    assert smooth([4.0, 1.0], 0.0) == [4.0, 1.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 0.99))
def test_smoothing_is_the_weighted_mean_of_all_before(values: list[float], weight: float) -> None:
    weights = [weight ** (len(values) - 1 - i) for i in range(len(values))]
    slow = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert smooth(values, weight)[-1] == pytest.approx(slow, abs=1e-3, rel=1e-6)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_ticks_are_few_and_inside_and_no_two_read_alike(low: float, width: float) -> None:
    ticks = find_ticks((low, low + width), 5)
    assert len(ticks) <= 9
    assert all(low - width * 1e-6 <= tick <= low + width * (1 + 1e-6) for tick in ticks)
    ticks = find_ticks((low, low + max(width, abs(low) * 1e-4)), 5)
    distance = ticks[1] - ticks[0] if len(ticks) > 1 else 0.0
    assert len({shorten(tick, distance) for tick in ticks}) == len(ticks)


def test_ticks_suit_their_axis() -> None:
    assert [shorten(value, 50) for value in (1000, 1050, 1100)] == ["1k", "1.05k", "1.1k"]
    assert [shorten(value, 5e8, is_exponential=True) for value in (0, 5e8, 1e9, 1.5e9)] == ["0", "5e8", "1e9", "1.5e9"]
    assert find_ticks((1, 4), 5, axis="step") == [1, 2, 3, 4]
    assert find_ticks((1, 12), 5, axis="step") == [2, 4, 6, 8, 10, 12]
    assert find_ticks((0, 7200), 5, axis="seconds") == [0, 1800, 3600, 5400, 7200]
    assert find_log_ticks((0.5, 900)) == [1, 10, 100]
    assert find_log_ticks((4.0, 4.4)) == pytest.approx([4.0, 4.1, 4.2, 4.3, 4.4])


def test_a_level_line_has_room_though_its_last_places_differ() -> None:
    assert pad((0.001, 0.001 + 2e-19)) == pytest.approx((0.00095, 0.00105))
    assert pad((0.0, 0.0)) == (-1.0, 1.0)


def test_numbers_beside_an_axis_are_short() -> None:
    assert [shorten(value) for value in (0.0, 0.25, 1500, 2.5e6, 3e13)] == ["0", "0.25", "1.5k", "2.5M", "3e13"]


def test_lines_levels_and_dots_stand_in_the_frame_that_is_shown() -> None:
    x = {"step": [0, 10], "tokens": [0, 1000]}
    lines = [Line("kept <b>", 0, x, [1.0, 3.0]), Line("noisy", 1, x, [0.0, 8.0], is_noisy=True)]
    svg = render_chart(Chart("c", "Title", "", "learning", lines, [ReferenceLine("base", 2, 2.0)]))
    assert "<b>" not in svg
    assert re.findall(r'<g class="(\w+ ?\w*)" data-name="([\w-]+)"', svg) == [
        ("across", "step"),
        ("across hidden", "tokens"),
        ("upward", "linear"),
        ("upward hidden", "linear-raw"),
        ("upward hidden", "log"),
        ("upward hidden", "log-raw"),
    ]
    low, high = map(float, re.findall(r'data-name="linear" data-from="([\d.-]+)" data-to="([\d.-]+)"', svg)[0])
    level = float(re.findall(r'<line class="level c2" x1="0" x2="100%" y1="([\d.]+)%"', svg)[0])
    assert level == pytest.approx(100 * (high - 2.0) / (high - low), abs=0.1)
    dots = re.findall(r'<circle cx="([\d.]+)%" cy="([\d.]+)%"', svg)
    assert [float(across) for across, _ in dots] == [0, 100]  # the noisy line has none
    assert svg.count("<path") == 3  # two lines, and the noisy one as it was measured


def test_a_band_is_drawn_from_its_start_to_its_end_and_one_of_a_single_point_can_be_seen() -> None:
    line = Line("load", 0, {"seconds": [0.0, 100.0]}, [1.0, 2.0])
    bands = [Band(1, 20.0, 50.0), Band(1, 70.0, 70.0)]
    drawn = render_chart(Chart("load", "load", "", "series", [line], axis="seconds", bands=bands))
    assert '<rect class="band c1" x="200.0" width="300.0" y="0" height="1000"/>' in drawn
    assert '<rect class="band c1" x="700.0" width="3.0" y="0" height="1000"/>' in drawn


def test_a_chart_without_points_is_empty() -> None:
    assert render_chart(Chart("c", "t", "", "learning", [Line("a", 0, {"step": [1]}, [None])])) == ""


def test_training_and_held_out_rows_share_a_chart_with_the_baseline(tmp_path: Path) -> None:
    charts = {chart.name: chart for chart in plot_logs([read_artifact(make_run(tmp_path / "run"))])}
    chart = charts["guessing-loss"]
    assert [(line.name, line.is_noisy, len(line.y)) for line in chart.lines] == [
        ("training", True, 40),
        ("held out", False, 4),
    ]
    assert [(level.name, level.y) for level in chart.levels] == [("baseline", 6.9)]
    assert chart.lines[1].x["tokens"] == [1000, 2000, 3000, 4000]
    assert not charts["rate"].lines[0].is_noisy


def test_a_run_keeps_its_colour_over_all_charts_of_a_comparison(tmp_path: Path) -> None:
    first, second = (read_artifact(make_run(tmp_path / name), name) for name in ("a", "b"))
    without = [{key: value for key, value in record.to_json().items() if key != "auc"} for record in first.logs[""]]
    first.logs[""] = make_steps(*without)
    charts = {chart.name: chart for chart in plot_logs([first, second])}
    assert {line.color for line in charts["loss"].lines if line.name.startswith("b")} == {1}
    assert {line.color for line in charts["auc"].lines if line.name == "b, training"} == {1}
    assert [level.name for level in charts["guessing-loss"].levels] == ["baseline of a, b"]


def test_a_long_log_is_thinned_to_means() -> None:
    records = make_steps(*({"step": step, "loss": float(step % 2)} for step in range(1, 4001)))
    [chart] = plot_logs([Artifact("run", "run", HERE, logs={"": records})])
    assert len(chart.lines[0].y) == 800
    assert chart.lines[0].x["step"][-1] == 4000
    assert chart.lines[0].y[1] == pytest.approx(0.4)


def test_dev_scores_are_drawn_in_points() -> None:
    logs = {"seed-0": make_steps(*(make_record(step, dev_mcc=step / 10) for step in (1, 2)))}
    artifact = Artifact("fine-tuning run", "tuned", HERE, logs=logs)
    chart = next(chart for chart in plot_logs([artifact]) if chart.name == "key-dev_mcc")
    assert (chart.title, chart.unit, chart.lines[0].y) == ("Dev MCC", "points", [10.0, 20.0])


def test_dots_stand_in_the_order_of_their_values() -> None:
    svg = render_intervals({"electra": (1.0, None, None), "mlm": (3.0, None, None), "causal": (2.0, 1.5, 2.5)})
    across = [float(place) for place in re.findall(r'cx="([\d.]+)"', svg)]
    assert across[0] < across[2] < across[1]
    assert svg.count("<line") == 1


def test_an_interval_that_leaves_the_picture_is_cut_at_its_edge() -> None:
    svg = render_intervals({"electra": (1.0, -1e6, 1e6), "mlm": (2.0, None, None)})
    [(start, end)] = re.findall(r'x1="([\d.]+)" x2="([\d.]+)"', svg)
    dots = [float(place) for place in re.findall(r'cx="([\d.]+)"', svg)]
    assert float(start) < dots[0] < dots[1] < float(end) <= 300


def test_one_figure_is_a_dot_and_none_is_nothing() -> None:
    assert "<circle" in render_intervals({"electra": (0.0, None, None)})
    assert render_intervals({}) == ""


def test_a_right_number_lies_on_the_diagonal() -> None:
    svg = render_scatter(Scatter("t", [(0.0, 0.0), (5.0, 5.0)]))
    assert [(300 - float(y)) == pytest.approx(float(x)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', svg)]
