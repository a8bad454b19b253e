"""Clouds of states as pictures: points by category, and how much of the variance each axis holds.

coordinates, categories -> Figure
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from electralab.analysis.drawing import COLOURS, INK, PALE, RULE, SHAPES, frame, make_figure
from electralab.analysis.finding import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AXES_SHOWN = 64


def draw_clouds(title: str, views: Mapping[str, Floats], categories: Sequence[str]) -> "Figure":
    """The same points in each view (N, 2), the most frequent category first in the legend and below the others."""
    figure = make_figure(4.4 * len(views) + 0.6, 5.0)
    figure.suptitle(title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
    labels = np.array(categories)
    names, counts = np.unique(labels, return_counts=True)
    ordered = [str(names[place]) for place in np.argsort(-counts, kind="stable")]
    panels = figure.subplots(1, len(views), squeeze=False).flatten()
    for panel, (view, points) in zip(panels, views.items(), strict=True):
        frame(panel, view)
        panel.spines["bottom"].set_visible(False)
        panel.set_xticks([])
        panel.set_yticks([])
        for place, name in enumerate(ordered):
            is_here = labels == name
            rounds, colour = divmod(place, len(COLOURS))
            style = {"color": COLOURS[colour], "marker": SHAPES[rounds % len(SHAPES)], "alpha": 0.75, "linewidths": 0}
            panel.scatter(*points[is_here].T, s=15, label=name, **style)
    legend = figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside lower left",
        frameon=False,
        fontsize=8.5,
        ncols=min(len(ordered), 8),
        handletextpad=0.1,
        markerscale=1.6,
    )
    for text in legend.get_texts():
        text.set_color(PALE)
        text.set_parse_math(False)
    return figure


def draw_spectra(title: str, spectra: Sequence[Floats]) -> "Figure":
    """The share of variance that the first axes hold together, from the first layer (pale) to the last."""
    from matplotlib import colormaps
    from matplotlib.ticker import PercentFormatter

    figure = make_figure(6.4, 4.0)
    figure.suptitle(title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
    axes = figure.subplots()
    frame(axes, "share of the variance that the first axes hold")
    shades = colormaps["viridis_r"](np.linspace(0.12, 0.95, len(spectra)))
    for layer, (spectrum, shade) in enumerate(zip(spectra, shades, strict=True)):
        shown = np.cumsum(spectrum)[:_AXES_SHOWN]
        axes.plot(np.arange(1, len(shown) + 1), shown, color=shade, linewidth=1.8, label=f"layer {layer}")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_xlabel("principal axes", fontsize=8.5, color=PALE)
    legend = axes.legend(loc="lower right", frameon=False, fontsize=8.5, ncols=1 + (len(spectra) > 7))
    for text in legend.get_texts():
        text.set_color(PALE)
    return figure
