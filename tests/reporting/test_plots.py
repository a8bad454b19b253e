"""Pictures show all that can be drawn, are the same for the same work, and never warn."""

import math
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from electralab.records.findings import Analysis, AnalyzedModel, FindingRecord
from electralab.reporting.plots import mean_over_seeds, plot_claim, plot_learning_curve, smooth_losses

Points = list[tuple[int, float]]
LOSS, SCORE = (0x3B, 0x4A, 0x6B), (0x0B, 0x72, 0x85)
FALLING: Points = [(step, 1 / (1 + step / 100) + 0.1 * math.sin(step)) for step in range(1, 400)]
RISING: Points = [(100, 0.6), (200, 0.7), (300, 0.8)]

ANALYSIS = Analysis(
    seed=0,
    models=(AnalyzedModel(name="a"), AnalyzedModel(name="a, untrained", control_of="a")),
    findings=(),
    missing=(),
)


def row(name: str, value: float, model: str = "a", **more: Any) -> FindingRecord:
    known = {"name": name, "unit": "nats", "model": model, "claim": "M38"}
    return FindingRecord.model_validate({**known, "value": value, "low": value - 1, "high": value + 1, **more})


def draw(rows: list[FindingRecord]) -> Figure:
    return plot_claim("title", rows, ANALYSIS)


def test_widths_are_one_line_in_a_panel_of_its_own_and_the_rest_have_theirs() -> None:
    widths = [row(f"loss, {part}", 3 - place, series="loss", part=part) for place, part in enumerate(("0", "1", "all"))]
    before = [width.model_copy(update={"model": "a, untrained", "value": 5.0}) for width in widths]
    wide, narrow = draw([*widths, *before, row("reach", 4.0)]).axes
    assert wide.get_title(loc="left") == "loss, nats"
    assert [label.get_text() for label in wide.get_xticklabels()] == ["0", "1", "all"]
    model, twin = wide.get_lines()
    assert np.asarray(model.get_ydata()).tolist() == [3, 2, 1]
    assert (model.get_linestyle(), twin.get_linestyle()) == ("-", "--")
    assert narrow.get_title(loc="left") == "reach, nats"


def test_domains_are_dots_beside_each_other_without_a_line() -> None:
    domains = [row(f"loss on {part}", 2.0, series="loss", part=part) for part in ("news", "novels")]
    [panel] = draw([*domains, *(domain.model_copy(update={"model": "a, untrained"}) for domain in domains)]).axes
    model, twin = panel.get_lines()
    assert {model.get_linestyle(), twin.get_linestyle()} == {"None"}
    (here, _), (there, _) = np.asarray(model.get_xdata()), np.asarray(twin.get_xdata())
    assert -0.5 < here < 0 < there < 0.5


def test_a_figure_without_an_interval_is_drawn_all_the_same() -> None:
    [panel] = draw([row("loss on news", 2.0, series="loss", part="news", low=None, high=None)]).axes
    assert np.asarray(panel.get_lines()[0].get_ydata()).tolist() == [2]


def plot_curve(
    folder: Path, title: str = "CoLA", losses: dict[int, Points] | None = None, scores: dict[int, Points] | None = None
) -> list[bool]:
    """Whether the loss and the score can be seen."""
    seeds = {0: FALLING, 1: FALLING}, {0: RISING, 1: RISING}
    plot_learning_curve(
        folder, title, "accuracy", seeds[0] if losses is None else losses, seeds[1] if scores is None else scores
    )
    assert ElementTree.fromstring((folder / "learning-curve.svg").read_text("utf-8")).tag.endswith("svg")
    picture = imread(BytesIO((folder / "learning-curve.png").read_bytes()))
    assert picture.shape[1] == 1600, "twice 800 pixels"
    return [bool((np.abs(picture[..., :3] * 255 - colour).max(axis=-1) < 1).sum() > 50) for colour in (LOSS, SCORE)]


def test_the_same_run_gives_the_same_pictures(tmp_path: Path) -> None:
    assert plot_curve(tmp_path / "a") == plot_curve(tmp_path / "b") == [True, True]
    for name in ("learning-curve.png", "learning-curve.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    ("losses", "scores", "shown"),
    [
        ({}, {}, [False, False]),
        ({0: []}, {0: []}, [False, False]),
        ({0: [(1, 0.5)]}, {}, [True, False]),
        ({0: [(1, math.nan)]}, {0: [(1, math.nan), (2, 0.5)]}, [False, True]),
        ({0: [(1, 0.7), (2, math.inf), (3, 0.7)]}, {0: [(3, 0.0)]}, [True, True]),
    ],
)
def test_little_or_nothing_measured_is_drawn_as_such(
    tmp_path: Path, losses: dict[int, Points], scores: dict[int, Points], shown: list[bool]
) -> None:
    assert plot_curve(tmp_path, losses=losses, scores=scores) == shown


@pytest.mark.parametrize("title", ["", "$x_$ costs $5", "영화 리뷰\n中文 🎬 \ud800", "<a & b>"])
def test_any_title_can_be_drawn(tmp_path: Path, title: str) -> None:
    plot_curve(tmp_path, title)


def test_smoothing_keeps_a_constant_and_calms_the_rest() -> None:
    assert smooth_losses(np.full(500, 2.0)).tolist() == pytest.approx([2.0] * 500)
    assert np.ptp(smooth_losses(np.tile([0.0, 1.0], 500))[100:]) < 0.1
    assert smooth_losses(np.array([3.0, 1.0])).tolist() == [3.0, 1.0]


def test_the_mean_is_over_the_seeds_measured_at_a_step() -> None:
    curves = [np.array([[1.0, 0.2], [2.0, 0.4]]), np.array([[2.0, 0.8], [3.0, 0.5]])]
    assert mean_over_seeds(curves) == pytest.approx(np.array([[1, 0.2], [2, 0.6], [3, 0.5]]))
