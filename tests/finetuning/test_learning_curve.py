"""Pictures show every curve that can be drawn, are the same for the same run, and never warn."""

import math
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread
from numpy.typing import NDArray

from electralab.finetuning.learning_curve import Points, _mean_over_seeds, _smooth, draw_learning_curve

LOSS, FIRST, SECOND = (0x3B, 0x4A, 0x6B), (0x0B, 0x72, 0x85), (0xD9, 0x48, 0x0F)
FALLING: Points = [(step, 1 / (1 + step / 100) + 0.1 * math.sin(step)) for step in range(1, 400)]
RISING: Points = [(100, 0.6), (200, 0.7), (300, 0.8)]


def has_colour(picture: NDArray[np.float32], colour: tuple[int, int, int]) -> bool:
    return bool((np.abs(picture[..., :3] * 255 - colour).max(axis=-1) < 1).sum() > 50)


def draw(folder: Path, title: str = "CoLA", **kwargs: object) -> tuple[NDArray[np.float32], str]:
    given = {"losses": {0: FALLING, 1: FALLING}, "scores": {"accuracy": {0: RISING, 1: RISING}}} | kwargs
    png, svg = draw_learning_curve(folder / "curve", title, **given)  # type: ignore[arg-type]
    assert [png.name, svg.name] == ["curve.png", "curve.svg"]
    return imread(BytesIO(png.read_bytes())), svg.read_text("utf-8")


def test_the_picture_is_twice_800_pixels_wide_and_shows_loss_and_scores(tmp_path: Path) -> None:
    scores = {"accuracy": {0: RISING}, "f1": {0: [(step, score + 0.1) for step, score in RISING]}}
    picture, drawing = draw(tmp_path, scores=scores)
    assert picture.shape[1] == 1600
    assert [has_colour(picture, colour) for colour in (LOSS, FIRST, SECOND)] == [True, True, True]
    assert ElementTree.fromstring(drawing).tag.endswith("svg")


def test_the_same_run_gives_the_same_files(tmp_path: Path) -> None:
    first, second = draw(tmp_path / "a"), draw(tmp_path / "b")
    assert (tmp_path / "a/curve.png").read_bytes() == (tmp_path / "b/curve.png").read_bytes()
    assert first[1] == second[1]


@pytest.mark.parametrize(
    ("losses", "scores", "shown"),
    [
        ({}, {}, [False, False]),
        ({0: []}, {"f1": {0: []}}, [False, False]),
        ({0: [(1, 0.5)]}, {"f1": {}}, [True, False]),
        ({0: [(1, math.nan)]}, {"f1": {0: [(1, math.nan), (2, 0.5)]}}, [False, True]),
        ({0: [(1, 0.7), (2, math.inf), (3, 0.7)]}, {"f1": {0: [(3, 0.0)]}}, [True, True]),
    ],
)
def test_little_or_nothing_measured_is_drawn_as_such(
    tmp_path: Path, losses: dict[int, Points], scores: dict[str, dict[int, Points]], shown: list[bool]
) -> None:
    picture, _ = draw(tmp_path, losses=losses, scores=scores)
    assert [has_colour(picture, LOSS), has_colour(picture, FIRST)] == shown


@pytest.mark.parametrize("title", ["", "$x_$ costs $5", "영화 리뷰\n中文 🎬 \ud800", "<a & b>"])
def test_any_title_can_be_drawn(tmp_path: Path, title: str) -> None:
    _, drawing = draw(tmp_path, title)
    assert ElementTree.fromstring(drawing).tag.endswith("svg")


def test_smoothing_keeps_a_constant_and_calms_the_rest() -> None:
    assert _smooth(np.full(500, 2.0)).tolist() == pytest.approx([2.0] * 500)
    noisy = np.tile([0.0, 1.0], 500)
    assert np.ptp(_smooth(noisy)[100:]) < 0.1
    assert _smooth(np.array([3.0, 1.0])).tolist() == [3.0, 1.0]


def test_the_mean_is_over_the_seeds_measured_at_a_step() -> None:
    curves = [(np.array([1.0, 2.0]), np.array([0.2, 0.4])), (np.array([2.0, 3.0]), np.array([0.8, 0.5]))]
    steps, means = _mean_over_seeds(curves)
    assert steps.tolist() == [1, 2, 3]
    assert means.tolist() == pytest.approx([0.2, 0.6, 0.5])
