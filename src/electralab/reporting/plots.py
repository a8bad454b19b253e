"""Pictures of an analysis: findings by claim over layers or models, and the figures that a measure makes of a model.

Analysis, Figure -> NAME.png, NAME.svg
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from electralab.artifacts import write_file
from electralab.records.figures import Figure, HeatmapFigure, LineFigure, ScatterFigure
from electralab.records.findings import Analysis, FindingRecord, PictureRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK, PALE, RULE = "#1f2933", "#7b8794", "#e4e7eb"
COLOURS = ("#0b7285", "#d9480f", "#7048a8", "#5c7a1f", "#b5179e", "#1864ab", "#c08a00", "#862e2e")
# Once all colours are taken, the next round has another shape.
SHAPES = ("o", "^", "s", "D", "v", "P")
_COLUMNS = 3
_NARROW = 32
_HOLLOW: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4, "markerfacecolor": "white"}
_MEANING = (
    "Over layers, widths or shares, solid with its 95 % interval: the model; dashed: the same network before training; "
    "dotted grey: the measure's own control. Model by model or domain by domain, a dot with its interval: the model; a "
    "hollow one: before training; a grey tick: the control."
)


def plot_claims(out: Path, analysis: Analysis, titles: dict[str, str]) -> list[PictureRecord]:
    """A picture of each claim's findings in `out`; `titles` by claim."""
    pictures = []
    for claim in dict.fromkeys(finding.claim for finding in analysis.findings):
        rows = [finding for finding in analysis.findings if finding.claim == claim and finding.value is not None]
        if rows:
            title = f"{claim} {titles.get(claim, '')}".strip()
            file = save_canvas(out, claim, plot_claim(title, rows, analysis))
            pictures.append(PictureRecord(claim=claim, model=None, title=title, file=file, meaning=_MEANING))
    return pictures


@dataclass(frozen=True, slots=True)
class _Legend:
    """How models are told apart: colours by model, and the untrained control of each in its colour."""

    colours: dict[str, str]
    controls: dict[str, str]

    def colour(self, model: str) -> str:
        return self.colours[self.controls.get(model, model)]


def plot_claim(title: str, rows: Sequence[FindingRecord], analysis: Analysis) -> "Canvas":
    """A panel for each finding; one that is measured for several domains or widths has a row of its own."""
    panels: dict[str, list[FindingRecord]] = {}
    for row in rows:
        panels.setdefault(row.series or row.name, []).append(row)
    order = list(dict.fromkeys(row.unit for row in rows))
    names = sorted(panels, key=lambda name: order.index(panels[name][0].unit))
    wide = [name for name in names if panels[name][0].series]
    narrow = [name for name in names if name not in wide]
    columns = _COLUMNS if wide else 2 if len(names) == 4 else min(_COLUMNS, len(names))
    height = len(wide) - (-len(narrow) // columns)
    canvas = _make_canvas(3.5 * columns + 0.6, 2.6 * height + 0.9)
    canvas.suptitle(title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK)
    grid = canvas.add_gridspec(height, columns)
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(analysis.model_names)}
    legend = _Legend(colours, analysis.controls)
    for index, name in enumerate(wide):
        panel = canvas.add_subplot(grid[index, :])
        _head(panel, name, panels[name][0].unit)
        _plot_series(panel, panels[name], legend)
    for index, name in enumerate(narrow):
        panel = canvas.add_subplot(grid[len(wide) + index // columns, index % columns])
        _head(panel, name, panels[name][0].unit, _NARROW)
        has_layers = any(row.layer is not None for row in panels[name])
        (_plot_layers if has_layers else _plot_models)(panel, panels[name], legend)
    lines = {
        label: line for panel in canvas.axes for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if lines:
        _place_legend(canvas, list(lines.values()), list(lines), ncols=4)
    return canvas


def _place_legend(canvas: "Canvas", handles: list[Any], labels: list[str], **style: Any) -> None:
    legend = canvas.legend(handles, labels, loc="outside lower left", frameon=False, fontsize=8.5, **style)
    for text in legend.get_texts():
        text.set_color(PALE)
        text.set_parse_math(False)


def _head(axes: "Axes", name: str, unit: str, most: int = 200) -> None:
    """In lines of at most so many characters. A name may say its unit already: "bits per GFLOP", bits/GFLOP."""
    has_unit = unit.rpartition("/")[2] in name.replace(",", "").split()
    _frame(axes, fill(name if has_unit else f"{name}, {unit}", most))


def _plot_series(axes: "Axes", rows: list[FindingRecord], legend: _Legend) -> None:
    """Widths and shares have an order, and lines; domains have none, and dots beside each other."""
    parts = list(dict.fromkeys(row.part for row in rows))
    models = list(dict.fromkeys(row.model for row in rows))
    is_ordered = all(part[:1].isdigit() or part == "all" for part in parts)
    for index, model in enumerate(models):
        line = sorted((row for row in rows if row.model == model), key=lambda row: parts.index(row.part))
        beside = 0.0 if is_ordered else ((index + 0.5) / len(models) - 0.5) * 0.75
        steps, values = [parts.index(row.part) + beside for row in line], _values(line)
        colour = legend.colour(model)
        if model in legend.controls:
            faint: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2, "alpha": 0.7}
            axes.plot(steps, values, color=colour, label=model, **(faint if is_ordered else _HOLLOW))
            continue
        lows, highs = _ends(line)
        if is_ordered:
            axes.fill_between(steps, lows, highs, color=colour, alpha=0.12, linewidth=0)
        else:
            axes.vlines(steps, lows, highs, color=colour, alpha=0.45, linewidth=2)
        look: dict[str, Any] = (
            {"linestyle": "-", "markersize": 4, "mec": "white"} if is_ordered else {"linestyle": "", "markersize": 5}
        )
        axes.plot(steps, values, "o", color=colour, linewidth=2, label=model, **look)
    axes.set_xticks(range(len(parts)), parts, parse_math=False)
    axes.grid(axis="y", color=RULE, linewidth=0.8)


def _values(line: Sequence[FindingRecord]) -> list[float]:
    """Rows without a value were left out before."""
    return [row.value for row in line if row.value is not None]


def _ends(line: Sequence[FindingRecord]) -> tuple[list[float], list[float]]:
    """Lows and highs; the value itself where there is no interval."""
    values = _values(line)
    lows = [value if row.low is None else row.low for value, row in zip(values, line, strict=True)]
    return lows, [value if row.high is None else row.high for value, row in zip(values, line, strict=True)]


def _plot_layers(axes: "Axes", rows: list[FindingRecord], legend: _Legend) -> None:
    from matplotlib.ticker import MaxNLocator

    for model in dict.fromkeys(row.model for row in rows):
        line = sorted((row for row in rows if row.model == model), key=lambda row: row.layer or 0)
        layers, values, colour = [row.layer or 0 for row in line], _values(line), legend.colour(model)
        if model in legend.controls:
            axes.plot(layers, values, "--", color=colour, linewidth=1.2, alpha=0.7, label=model)
            continue
        lows, highs = _ends(line)
        axes.fill_between(layers, lows, highs, color=colour, alpha=0.15, linewidth=0)
        axes.plot(layers, values, "-", color=colour, linewidth=2, marker="o", markersize=4, mec="white", label=model)
        controls = [row.control.value for row in line if row.control and row.control.value is not None]
        if len(controls) == len(line):
            axes.plot(layers, controls, ":", color=PALE, linewidth=1.2, label="control of the measure")
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_xlabel("layer", fontsize=8.5, color=PALE)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))


def _plot_models(axes: "Axes", rows: list[FindingRecord], legend: _Legend) -> None:
    from matplotlib.ticker import MaxNLocator

    for index, row in enumerate(rows):
        colour = legend.colour(row.model)
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [index, index], color=colour, linewidth=2, alpha=0.45)
        face = "white" if row.model in legend.controls else colour
        axes.plot(_values([row]), [index], "o", color=face, mec=colour, markersize=6)
        if row.control and row.control.value is not None:
            axes.plot([row.control.value], [index], "|", color=PALE, markersize=11, mew=1.6)
    axes.set_yticks(range(len(rows)), [row.model for row in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def save_figure(out: Path, name: str, figure: Figure) -> str:
    """Draw and write a measure's figure; returns the name of the PNG, the SVG stands beside it."""
    match figure:
        case ScatterFigure():
            canvas = _plot_scatter(figure)
        case LineFigure():
            canvas = _plot_lines(figure)
        case HeatmapFigure():
            canvas = _plot_heatmaps(figure)
    return save_canvas(out, name, canvas)


def save_canvas(out: Path, name: str, canvas: "Canvas") -> str:
    from matplotlib import rc_context

    # Without a salt of our own every drawing would get other ids, and equal analyses other files.
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            canvas.savefig(picture, format=kind, dpi=200, metadata=facts)
            write_file(out / f"{name}.{kind}", picture.getvalue())
    return f"{name}.png"


def _plot_scatter(figure: ScatterFigure) -> "Canvas":
    """The same points in each view, the most frequent category first in the legend and below the others."""
    canvas = _make_canvas(4.4 * len(figure.views) + 0.6, 5.0, figure.title)
    labels = np.array(figure.categories)
    names, counts = np.unique(labels, return_counts=True)
    ordered = [str(names[index]) for index in np.argsort(-counts, kind="stable")]
    panels = canvas.subplots(1, len(figure.views), squeeze=False).flatten()
    for panel, (view, points) in zip(panels, figure.views.items(), strict=True):
        _frame(panel, view)
        panel.spines["bottom"].set_visible(False)
        panel.set_xticks([])
        panel.set_yticks([])
        for index, name in enumerate(ordered):
            rounds, colour = divmod(index, len(COLOURS))
            style = {"color": COLOURS[colour], "marker": SHAPES[rounds % len(SHAPES)], "alpha": 0.75, "linewidths": 0}
            panel.scatter(*points[labels == name].T, s=15, label=name, **style)
    handles, shown = panels[0].get_legend_handles_labels()
    _place_legend(canvas, handles, shown, ncols=min(len(ordered), 8), handletextpad=0.1, markerscale=1.6)
    return canvas


def _plot_lines(figure: LineFigure) -> "Canvas":
    """From the first curve (pale) to the last."""
    from matplotlib import colormaps
    from matplotlib.ticker import PercentFormatter

    canvas = _make_canvas(6.4, 4.0, figure.title)
    axes = canvas.subplots()
    _frame(axes, figure.heading)
    shades = colormaps["viridis_r"](np.linspace(0.12, 0.95, len(figure.curves)))
    for (name, curve), shade in zip(figure.curves.items(), shades, strict=True):
        axes.plot(np.arange(1, len(curve) + 1), curve, color=shade, linewidth=1.8, label=name)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_xlabel(figure.x_label, fontsize=8.5, color=PALE)
    legend = axes.legend(loc="lower right", frameon=False, fontsize=8.5, ncols=1 + (len(figure.curves) > 7))
    for text in legend.get_texts():
        text.set_color(PALE)
    return canvas


def _plot_heatmaps(figure: HeatmapFigure) -> "Canvas":
    tables = list(figure.panels.values())
    num_rows = int((~np.isnan(tables[0])).any(axis=1).sum())
    canvas = _make_canvas(10.0, 2.0 + 0.5 * num_rows)
    panels = canvas.subplots(2, len(tables) // 2, squeeze=False).flatten()
    for (name, table), axes in zip(figure.panels.items(), panels, strict=True):
        shown = axes.imshow(table, cmap="GnBu", origin="lower", aspect="auto", vmin=0)
        axes.set_title(name, loc="left", fontsize=10, color=INK)
        axes.set_xticks(range(table.shape[1]))
        axes.set_yticks(range(len(table)))
        axes.tick_params(length=0, labelsize=8, labelcolor=PALE)
        axes.spines[:].set_visible(False)
        bar = canvas.colorbar(shown, ax=axes, shrink=0.85)
        bar.ax.tick_params(length=0, labelsize=7, labelcolor=PALE)
        bar.outline.set_visible(False)
    panels[0].set_ylabel(figure.y_label, fontsize=8.5, color=PALE)
    panels[len(tables) // 2].set_xlabel(figure.x_label, fontsize=8.5, color=PALE)
    return canvas


def _make_canvas(width: float, height: float, title: str = "") -> "Canvas":
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.05, hspace=0.08)
    canvas = Canvas(figsize=(width, height), facecolor="white", layout=layout)
    if title:
        canvas.suptitle(title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
    return canvas


def _frame(axes: "Axes", heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=10, color=INK, pad=8, parse_math=False)
    axes.tick_params(length=0, which="both", labelsize=8.5, labelcolor=PALE, pad=5)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(RULE)
