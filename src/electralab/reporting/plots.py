"""Pictures that work leaves in its folder: of an analysis, a study, a trade-off, and of the course of a fine-tuning.

Analysis, Figure, StudyResults, Tradeoff, logged points -> NAME.png, NAME.svg
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import write_file
from electralab.records.compression import Tradeoff
from electralab.records.findings import Analysis, FindingRecord, PictureRecord
from electralab.records.study import StudyResults
from electralab.reporting.charts import smooth
from electralab.reporting.format import format_key

if TYPE_CHECKING:  # matplotlib takes a second to import: only what draws pays for it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Points = NDArray[np.float64]
INK, PALE, RULE, GREY = "#1f2933", "#7b8794", "#e4e7eb", "#52606d"
COLOURS = ("#0b7285", "#d9480f", "#7048a8", "#5c7a1f", "#b5179e", "#1864ab", "#c08a00", "#862e2e")
# Once all colours are taken, the next round has another shape.
SHAPES = ("o", "^", "s", "D", "v", "P")
_LOSS = "#3b4a6b"
_COLUMNS = 3
_NARROW = 32
# Up to this many losses there is nothing to smooth.
_SPARSE = 40
_MEANING = (
    "Over layers, widths or shares, solid with its 95 % interval: the model; dashed: the same network before training; "
    "dotted grey: the measure's own control. Model by model or domain by domain, a dot with its interval: the model; a "
    "hollow one: before training; a grey tick: the control."
)


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
"""What a measure says of one model, as data: measures do not draw."""


@dataclass(frozen=True, slots=True)
class Projection:
    """Points in space that a page can turn, each with its category and the word that it stands for."""

    title: str
    meaning: str
    coordinates: Points  # (N, 3)
    categories: tuple[str, ...]
    words: tuple[str, ...]


def _canvas(width: float, height: float, title: str = "") -> "Canvas":
    # Not by pyplot, which keeps every figure in memory and looks for a screen.
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.05, hspace=0.08)
    canvas = Canvas(figsize=(width, height), facecolor="white", layout=layout)
    if title:
        # A character that the font lacks would be a warning and an empty box.
        shown = "".join(letter if ord(letter) in _font_characters() else "?" for letter in title.replace("\n", " "))
        canvas.suptitle(shown, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
    return canvas


@cache
def _font_characters() -> frozenset[int]:
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())


def _frame(axes: "Axes", heading: str, x_label: str = "", grid: str = "") -> None:
    """No lines but the one below; `grid` across the axis "x" or "y"."""
    axes.set_title(heading, loc="left", fontsize=10, color=INK, pad=8, parse_math=False)
    axes.tick_params(length=0, which="both", labelsize=8.5, labelcolor=PALE, pad=5)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines.bottom.set_color(RULE)
    if x_label:
        axes.set_xlabel(x_label, fontsize=8.5, color=PALE)
    if grid:
        axes.grid(axis=grid, color=RULE, linewidth=0.8)  # type: ignore[arg-type]


def _add_legend(canvas: "Canvas", panels: "Sequence[Axes]", **style: Any) -> None:
    """Every label of the panels once, below them."""
    lines: dict[str, Any] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, handle)
    if lines:
        place: dict[str, Any] = {"loc": "outside lower left", "frameon": False, "fontsize": 8.5, "labelcolor": PALE}
        legend = canvas.legend(list(lines.values()), list(lines), **place, **style)
        for text in legend.get_texts():
            text.set_parse_math(False)


def save_canvas(out: Path, name: str, canvas: "Canvas") -> str:
    """Write the PNG and the SVG beside it; gives the name of the PNG."""
    from matplotlib import rc_context

    # Without a salt of our own every drawing would get other ids, and equal work other files.
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            canvas.savefig(picture, format=kind, dpi=200, metadata=facts)
            write_file(out / f"{name}.{kind}", picture.getvalue())
    return f"{name}.png"


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
    canvas = _canvas(3.5 * columns + 0.6, 2.6 * height + 0.9, title)
    grid = canvas.add_gridspec(height, columns)
    cells = {name: (index, slice(None)) for index, name in enumerate(wide)}
    cells |= {name: (len(wide) + index // columns, index % columns) for index, name in enumerate(narrow)}  # type: ignore[misc]
    # The untrained control of a model has the model's colour.
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(analysis.model_names)}
    colours |= {control: colours[model] for control, model in analysis.controls.items()}
    for name, cell in cells.items():
        axes, unit = canvas.add_subplot(grid[cell]), panels[name][0].unit
        # A name may say its unit already: "bits per GFLOP", bits/GFLOP.
        has_unit = unit.rpartition("/")[2] in name.replace(",", "").split()
        heading = fill(name if has_unit else f"{name}, {unit}", 200 if name in wide else _NARROW)
        if name in wide or any(row.layer is not None for row in panels[name]):
            _frame(axes, heading, "" if name in wide else "layer", "y")
            _plot_lines_of_models(axes, panels[name], colours, analysis.controls)
        else:
            _frame(axes, heading, grid="x")
            _plot_dots_of_models(axes, panels[name], colours, analysis.controls)
    _add_legend(canvas, canvas.axes, ncols=4)
    return canvas


def _plot_lines_of_models(
    axes: "Axes", rows: list[FindingRecord], colours: Mapping[str, str], controls: Mapping[str, str]
) -> None:
    """Layers, widths and shares have an order, and lines; domains have none, and dots beside each other."""
    from matplotlib.ticker import MaxNLocator

    parts, models = (list(dict.fromkeys(getattr(row, key) for row in rows)) for key in ("part", "model"))
    is_series = bool(rows[0].series)
    has_order = not is_series or all(part[:1].isdigit() or part == "all" for part in parts)
    for index, model in enumerate(models):
        line = {parts.index(row.part) if is_series else row.layer or 0: row for row in rows if row.model == model}
        line = dict(sorted(line.items()))
        aside = 0.0 if has_order else ((index + 0.5) / len(models) - 0.5) * 0.75
        places, colour = [place + aside for place in line], colours[model]
        values, lows, highs = (
            np.array([getattr(row, key) for row in line.values()], dtype=np.float64) for key in ("value", "low", "high")
        )
        if model in controls:
            faint: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2, "alpha": 0.7}
            hollow: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4, "markerfacecolor": "white"}
            axes.plot(places, values, color=colour, label=model, **(faint if has_order else hollow))
            continue
        # Where there is no interval, it is the value itself: NaN would leave a hole in the band.
        lows, highs = (np.where(np.isnan(ends), values, ends) for ends in (lows, highs))
        if has_order:
            axes.fill_between(places, lows, highs, color=colour, alpha=0.15, linewidth=0)
            axes.plot(places, values, "o-", color=colour, linewidth=2, markersize=4, mec="white", label=model)
        else:
            axes.vlines(places, lows, highs, color=colour, alpha=0.45, linewidth=2)
            axes.plot(places, values, "o", color=colour, markersize=5, label=model)
        known = [row.control.value for row in line.values() if row.control and row.control.value is not None]
        if not is_series and len(known) == len(line):
            axes.plot(places, known, ":", color=PALE, linewidth=1.2, label="control of the measure")
    if is_series:
        axes.set_xticks(range(len(parts)), parts, parse_math=False)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))


def _plot_dots_of_models(
    axes: "Axes", rows: list[FindingRecord], colours: Mapping[str, str], controls: Mapping[str, str]
) -> None:
    from matplotlib.ticker import MaxNLocator

    for index, row in enumerate(rows):
        colour, value = colours[row.model], np.array([row.value], dtype=np.float64)
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [index, index], color=colour, linewidth=2, alpha=0.45)
        face = "white" if row.model in controls else colour
        axes.plot(value, [index], "o", color=face, mec=colour, markersize=6)
        if row.control and row.control.value is not None:
            axes.plot([row.control.value], [index], "|", color=PALE, markersize=11, mew=1.6)
    axes.set_yticks(range(len(rows)), [row.model for row in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def save_figure(out: Path, name: str, figure: Figure) -> str:
    """Draw and write a measure's figure; gives the name of the PNG, the SVG stands beside it."""
    from matplotlib import colormaps
    from matplotlib.ticker import PercentFormatter

    match figure:
        case ScatterFigure():
            canvas = _canvas(4.4 * len(figure.views) + 0.6, 5.0, figure.title)
            labels = np.array(figure.categories)
            names, counts = np.unique(labels, return_counts=True)
            # The most frequent category is first in the legend and below the others.
            ordered = [str(names[index]) for index in np.argsort(-counts, kind="stable")]
            panels = canvas.subplots(1, len(figure.views), squeeze=False).flatten()
            for panel, (view, points) in zip(panels, figure.views.items(), strict=True):
                _frame(panel, view)
                panel.spines.bottom.set_visible(False)
                panel.set_xticks([])
                panel.set_yticks([])
                for index, category in enumerate(ordered):
                    rounds, colour = divmod(index, len(COLOURS))
                    style = {"color": COLOURS[colour], "marker": SHAPES[rounds % len(SHAPES)], "alpha": 0.75}
                    panel.scatter(*points[labels == category].T, s=15, label=category, linewidths=0, **style)
            _add_legend(canvas, list(panels[:1]), ncols=min(len(ordered), 8), handletextpad=0.1, markerscale=1.6)
        case LineFigure():
            canvas = _canvas(6.4, 4.0, figure.title)
            axes = canvas.subplots()
            _frame(axes, figure.heading, figure.x_label, "y")
            # From the first curve (pale) to the last.
            shades = colormaps["viridis_r"](np.linspace(0.12, 0.95, len(figure.curves)))
            for (label, curve), shade in zip(figure.curves.items(), shades, strict=True):
                axes.plot(np.arange(1, len(curve) + 1), curve, color=shade, linewidth=1.8, label=label)
            axes.set_ylim(0, 1.02)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            columns = 1 + (len(figure.curves) > 7)
            axes.legend(loc="lower right", frameon=False, fontsize=8.5, labelcolor=PALE, ncols=columns)
        case HeatmapFigure():
            tables = list(figure.panels.values())
            num_rows = int((~np.isnan(tables[0])).any(axis=1).sum())
            canvas = _canvas(10.0, 2.0 + 0.5 * num_rows)
            panels = canvas.subplots(2, len(tables) // 2, squeeze=False).flatten()
            for (heading, table), axes in zip(figure.panels.items(), panels, strict=True):
                shown = axes.imshow(table, cmap="GnBu", origin="lower", aspect="auto", vmin=0)
                axes.set_title(heading, loc="left", fontsize=10, color=INK)
                axes.set_xticks(range(table.shape[1]))
                axes.set_yticks(range(len(table)))
                axes.tick_params(length=0, labelsize=8, labelcolor=PALE)
                axes.spines[:].set_visible(False)
                bar = canvas.colorbar(shown, ax=axes, shrink=0.85)
                bar.ax.tick_params(length=0, labelsize=7, labelcolor=PALE)
                bar.outline.set_visible(False)
            panels[0].set_ylabel(figure.y_label, fontsize=8.5, color=PALE)
            panels[len(tables) // 2].set_xlabel(figure.x_label, fontsize=8.5, color=PALE)
    return save_canvas(out, name, canvas)


def plot_study(out: Path, results: StudyResults) -> None:
    """curves.png: each score against compute, or its arms side by side. Nothing where nothing is measured."""
    names = [name for name, lines in results.curves.items() if any(lines.values())]
    if not names:
        return
    columns = min(_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    curved = [any(len(points) > 1 for points in results.curves[name].values()) for name in names]
    heights = [2.9 if is_curve else 0.9 + 0.3 * len(results.table) for is_curve in curved]
    canvas = _canvas(3.4 * columns + 0.8, max(heights) * rows + 0.8, results.title)
    panels = canvas.subplots(rows, columns, squeeze=False).flatten()
    for place, (panel, name) in enumerate(zip(panels, names, strict=False)):
        metric = results.scores.get(name, "")
        heading = f"{name}, {metric.replace('_', ' ')}" if metric else name
        if curved[place]:
            _frame(panel, heading, f"{'tokens' if results.x == 'tokens' else 'FLOPs'} of pre-training", "y")
            _plot_score_curves(panel, results, name)
        else:
            _frame(panel, heading, grid="x")
            _plot_score_dots(panel, results, name, has_names=place % columns == 0 or curved[place - 1])
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    with_curves = [panel for panel, is_curve in zip(panels, curved, strict=False) if is_curve]
    _add_legend(canvas, with_curves, ncols=5)
    save_canvas(out, "curves", canvas)


def choose_styles(results: StudyResults) -> dict[str, tuple[str, str]]:
    """Line -> colour and shape. The baseline is grey: what stands out is what differs from it."""
    lines = dict.fromkeys(row.line for row in results.table if row.line != results.baseline_line)
    styles = {results.baseline_line: (GREY, SHAPES[0])}
    for place, line in enumerate(lines):
        rounds, colour = divmod(place, len(COLOURS))
        styles[line] = COLOURS[colour], SHAPES[rounds % len(SHAPES)]
    return styles


def _plot_score_curves(axes: "Axes", results: StudyResults, name: str) -> None:
    """Seeds pale, their mean strong, the baseline dashed and its last score a line across."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    axes.set_xscale("log")
    x, lines, baseline = results.x, results.curves[name], results.baseline_line
    styles = choose_styles(results)
    there = {line: lines[line] for line in styles if lines.get(line)}
    for line, points in there.items():
        colour, shape = styles[line]
        pale: dict[str, Any] = {"color": colour, "alpha": 0.3, "linewidth": 0.8, "markersize": 2.5, "mew": 0}
        for seed in range(max(len(point.values) for point in points)):
            seen = [(getattr(point, x), 100 * point.values[seed]) for point in points if seed < len(point.values)]
            axes.plot(*zip(*seen, strict=True), marker=shape, **pale)
        amounts, means = [getattr(point, x) for point in points], [100 * point.mean for point in points]
        style = "--" if line == baseline else "-"
        axes.plot(amounts, means, style, color=colour, linewidth=2, marker=shape, markersize=5, mec="white", label=line)
        for point in points:
            if point.arm == results.baseline and point.share == 1.0:
                axes.axhline(100 * point.mean, color=GREY, linewidth=0.8, linestyle=":")
    marked = there.get(baseline) or max(there.values(), key=len)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xticks([getattr(point, x) for point in marked][-4:])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.1e}".replace("e+", "e")))
    axes.xaxis.set_minor_locator(NullLocator())


def _plot_score_dots(axes: "Axes", results: StudyResults, name: str, *, has_names: bool) -> None:
    """Each seed a pale dot, their mean a strong one on its interval, the baseline's mean a line through all."""
    from matplotlib.ticker import MaxNLocator

    points = {point.arm: point for points in results.curves[name].values() for point in points}
    arms, styles = [row.arm for row in results.table], choose_styles(results)
    seen: list[float] = []
    for place, row in enumerate(results.table):
        if row.arm not in points:
            continue
        point, (colour, _) = points[row.arm], styles[row.line]
        values, mean = [100 * value for value in point.values], 100 * point.mean
        seen += values
        if point.low is not None and point.high is not None:
            interval = (100 * point.low, 100 * point.high)
            axes.plot(interval, (place, place), color=colour, alpha=0.35, linewidth=3, solid_capstyle="round")
        axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.45, markersize=3.5, mew=0)
        axes.plot([mean], [place], "o", color=colour, markersize=8, mec="white")
        if row.arm == results.baseline:
            axes.axvline(mean, color=GREY, linewidth=0.8, linestyle=":")
    # An interval over two seeds can be wider than all scores together: the scores decide what is shown.
    room = 0.6 * (max(seen) - min(seen)) or 1.0
    axes.set_xlim(min(seen) - room, max(seen) + room)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.set_yticks(range(len(arms)), arms if has_names else [""] * len(arms))
    axes.tick_params(axis="y", labelcolor=INK)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def plot_tradeoff(out: Path, tradeoff: Tradeoff) -> None:
    """tradeoff.png: speed across, score upward, each variant with its name."""
    points, name = tradeoff.variants, tradeoff.metric_name
    scores, speeds, floor = [100 * point.score for point in points], [point.speedup for point in points], tradeoff.floor
    room = max(0.12 * (max(scores) - min(scores)), 0.6 * floor.points, 0.1)
    width = max(speeds) - min(speeds) or 1.0
    canvas = _canvas(7.6, 4.6, f"{name[:1].upper()}{name[1:]} against speed")
    axes = canvas.subplots()
    legend = "filled: nothing else is both faster and better; grey band: within the standard deviation of the score"
    _frame(axes, legend, f"speed-up over {tradeoff.baseline}, {tradeoff.speedup_rows}", "both")
    axes.set_title(legend, loc="left", fontsize=8, color=PALE)
    axes.set_ylabel("points", fontsize=8.5, color=PALE)
    axes.set_ylim(min(*scores, scores[0] - floor.points) - room, max(scores) + room)
    axes.set_xlim(min(speeds) - 0.06 * width, max(speeds) + 0.2 * width)
    axes.axhspan(scores[0] - floor.points, scores[0], color=RULE, alpha=0.6, linewidth=0)
    best = sorted((point.speedup, 100 * point.score) for point in points if point.is_best)
    if len(best) > 1:
        axes.plot(*zip(*best, strict=True), color=PALE, linewidth=1.2, linestyle="--", zorder=1)
    for point in reversed(points):
        colour = COLOURS[1] if "onnx" in point.name else COLOURS[0] if "pruned" in point.name else GREY
        inside, edge = (colour, "white") if point.is_best else ("white", colour)
        axes.plot([point.speedup], [100 * point.score], "o", markersize=8, mfc=inside, mec=edge)
    _name_variants(axes, tradeoff)
    save_canvas(out, "tradeoff", canvas)


def _name_variants(axes: "Axes", tradeoff: Tradeoff) -> None:
    """Beside each point its name, moved up or down from where another name or point is. All lengths are shares of the
    axes; points that lie on each other have one label, at the first of them."""
    from matplotlib.patheffects import withStroke

    label_height, letter_width, near = 0.05, 0.0125, 0.04
    (low, high), (left, right) = axes.get_ylim(), axes.get_xlim()
    labels: list[tuple[float, float, list[str]]] = []
    for point in tradeoff.variants:
        x, y = (point.speedup - left) / (right - left), (100 * point.score - low) / (high - low)
        same = [names for at, height, names in labels if abs(at - x) < near and abs(height - y) < near]
        if same:
            same[0].append(point.name)
        else:
            labels.append((x, y, [point.name]))
    # Heights and stretches that are taken: by the points first, then by every label that has its place.
    taken = [(y, x - 0.015, x + 0.015) for x, y, _ in labels]
    for x, y, names in sorted(labels, key=lambda label: -label[1]):
        text = ", ".join(names)
        width = letter_width * len(text)
        # To the left of a point that is too far to the right for its name.
        begin = x + 0.02 if x + 0.02 + width < 1 else max(x - 0.02 - width, 0.0)
        height = y
        for away in (0.0, *(sign * 0.01 * step for step in range(1, 60) for sign in (1, -1))):
            is_taken = any(
                abs(y + away - other) < label_height and begin < last and first < begin + width
                for other, first, last in taken
            )
            if 0 < y + away < 1 and not is_taken:
                height = y + away
                break
        nearer = begin if begin > x else begin + width
        if height != y:
            axes.plot([x, nearer], [y, height], color=PALE, linewidth=0.6, transform=axes.transAxes, zorder=1)
        taken.append((height, begin, begin + width))
        look: dict[str, Any] = {"va": "center", "ha": "left" if begin > x else "right", "color": INK, "fontsize": 8.5}
        look["fontweight"] = "bold" if tradeoff.picked in names else "normal"
        look["path_effects"] = [withStroke(linewidth=2.5, foreground="white", alpha=0.8)]
        axes.text(nearer, height, text, transform=axes.transAxes, **look)


def plot_learning_curve(
    out: Path,
    title: str,
    metric: str,
    losses: Mapping[int, Sequence[tuple[int, float]]],
    scores: Mapping[int, Sequence[tuple[int, float]]],
) -> None:
    """learning-curve.png: loss on the left, score on the right; points by seed, seeds pale and their mean strong."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    canvas = _canvas(8.0, 3.7, title)  # inches: 800 pixels on a plain screen
    left, right = canvas.subplots(1, 2)
    for axes, heading, seeds in ((left, "training loss", losses), (right, "development score", scores)):
        _frame(axes, heading, "step", "y")
        tables = [np.array(sorted(points), dtype=np.float64).reshape(-1, 2) for points in seeds.values()]
        # What is not finite cannot be drawn.
        curves = [curve for table in tables if len(curve := table[np.isfinite(table).all(axis=1)])]
        if not curves:
            nothing: dict[str, Any] = {"ha": "center", "va": "center", "color": PALE, "fontsize": 9}
            axes.text(0.5, 0.5, "nothing measured", transform=axes.transAxes, **nothing)
            axes.set_xticks([])
            axes.set_yticks([])
            continue
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        if axes is left:
            calm = [np.column_stack((curve[:, 0], smooth_losses(curve[:, 1]))) for curve in curves]
            for curve in curves:
                axes.plot(*curve.T, color=_LOSS, alpha=0.28 / len(curves) ** 0.5, linewidth=0.7)
            for curve in calm if len(calm) > 1 else ():
                axes.plot(*curve.T, color=_LOSS, alpha=0.35, linewidth=0.9)
            mean, colour = mean_over_seeds(calm), _LOSS
            axes.plot(*mean.T, color=_LOSS, linewidth=2.0, solid_capstyle="round")
            # A single spike must not flatten all the rest.
            raw = np.concatenate(curves)[:, 1]
            low, high = min(raw.min(), 0.0), max(float(np.quantile(raw, 0.995)), *(curve[:, 1].max() for curve in calm))
            axes.set_ylim(low, low + (high - low or 1.0) * 1.05)
            end = f"{mean[-1, 1]:.3g}"
        else:
            colour = COLOURS[0]
            for curve in curves if len(curves) > 1 else ():
                axes.plot(*curve.T, color=colour, alpha=0.3, linewidth=0.8, marker="o", markersize=3.2, mew=0)
            mean = mean_over_seeds(curves)
            axes.plot(*mean.T, color=colour, linewidth=2.0, marker="o", markersize=5.5, mec="white", mew=1.0)
            axes.margins(y=0.12)
            end = f"{format_key(metric)}\n{mean[-1, 1]:.3f}"
        axes.set_xlim(left=0)
        beside: dict[str, Any] = {"xytext": (7, 0), "textcoords": "offset points", "va": "center", "linespacing": 1.15}
        weight: dict[str, Any] = {"fontsize": 9, "color": colour, "fontweight": "bold"}
        axes.annotate(end, mean[-1], annotation_clip=False, parse_math=False, **beside, **weight)
    save_canvas(out, "learning-curve", canvas)


def smooth_losses(values: Points) -> Points:
    """A running mean that forgets over a fortieth of the run."""
    if values.size <= _SPARSE:
        return values
    return np.array(smooth(values.tolist(), 1.0 - _SPARSE / values.size), dtype=np.float64)


def mean_over_seeds(curves: Sequence[Points]) -> Points:
    """At each step the mean of the seeds that were measured there; rows of step and value."""
    points = np.concatenate(curves)
    steps, places = np.unique(points[:, 0], return_inverse=True)
    return np.column_stack((steps, np.bincount(places, points[:, 1]) / np.bincount(places)))
