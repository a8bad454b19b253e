"""Pictures as data: what a measure says of one model, to be drawn by `reporting`.

measure -> Figure -> PNG, SVG
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScatterFigure:
    """The same points in several views, coloured by category."""

    title: str
    name: str
    """Becomes part of the file's name, after that of the model."""
    meaning: str
    views: Mapping[str, Points]  # (N, 2) each
    categories: Sequence[str]


@dataclass(frozen=True, slots=True)
class LineFigure:
    """Curves over 1, 2, 3, ..., from 0 to 1, in their order."""

    title: str
    name: str
    meaning: str
    heading: str
    x_label: str
    curves: Mapping[str, Points]  # (K,) each


@dataclass(frozen=True, slots=True)
class HeatmapFigure:
    """A table of cells for each panel; NaN leaves a cell empty."""

    title: str
    name: str
    meaning: str
    x_label: str
    y_label: str
    panels: Mapping[str, Points]  # (rows from below, columns) each


Figure = ScatterFigure | LineFigure | HeatmapFigure


@dataclass(frozen=True, slots=True)
class Projection:
    """Points in space that a page can turn, each with its category and the word that it stands for."""

    title: str
    meaning: str
    coordinates: Points  # (N, 3)
    categories: tuple[str, ...]
    words: tuple[str, ...]
