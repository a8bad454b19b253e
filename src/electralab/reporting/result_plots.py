"""Pictures of results: a study's scores against compute, or its arms side by side; how fast and how good variants are.

StudyResults -> curves.png, curves.svg; Tradeoff -> tradeoff.png, tradeoff.svg
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.records.compression import Tradeoff
from electralab.records.study import StudyResults
from electralab.reporting.plots import COLOURS, INK, PALE, RULE, save_canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BASELINE = "#52606d"
# Once all colours are taken, the next round has another shape.
_SHAPES = ("o", "s", "^", "D", "v", "P")
_COLUMNS = 3
_STORED, _PRUNED, _GRAPH = "#52606d", "#0b7285", "#d9480f"
# Of the axes: what a label takes, and how near points are that have one label together.
_LABEL_HEIGHT, _LETTER_WIDTH, _NEAR = 0.05, 0.0125, 0.04
# How far from its point a label may stand, the nearest first.
_WAYS = (0.0, *(sign * 0.01 * step for step in range(1, 60) for sign in (1, -1)))


@dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    shape: str


def plot_study(out: Path, results: StudyResults) -> None:
    """Nothing where nothing is measured."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    names = [name for name, lines in results.curves.items() if any(lines.values())]
    if not names:
        return
    columns = min(_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    curved = [any(len(points) > 1 for points in results.curves[name].values()) for name in names]
    heights = [2.9 if is_curve else 0.9 + 0.3 * len(results.table) for is_curve in curved]
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.05, hspace=0.08)
    figure = Figure(figsize=(3.4 * columns + 0.8, max(heights) * rows + 0.8), facecolor="white", layout=layout)
    figure.suptitle(results.title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK, parse_math=False)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    styles = choose_styles(results)
    for place, (panel, name) in enumerate(zip(panels, names, strict=False)):
        metric = results.scores.get(name, "")
        _frame(panel, f"{name}, {metric.replace('_', ' ')}" if metric else name)
        if curved[place]:
            _draw_curves(panel, results, name, styles)
        else:
            is_first = place % columns == 0 or curved[place - 1]
            _draw_dots(panel, results, name, styles, is_named=is_first)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    if any(curved):
        _add_legend(figure, [panel for panel, is_curve in zip(panels, curved, strict=False) if is_curve])
    save_canvas(out, "curves", figure)


def choose_styles(results: StudyResults) -> dict[str, _Style]:
    """By line. The baseline is grey: what stands out is what differs from it."""
    lines = list(dict.fromkeys(row.line for row in results.table))
    grey = results.baseline_line
    others = [line for line in lines if line != grey]
    styles = {grey: _Style(_BASELINE, _SHAPES[0])}
    for place, line in enumerate(others):
        rounds, colour = divmod(place, len(COLOURS))
        styles[line] = _Style(COLOURS[colour], _SHAPES[rounds % len(_SHAPES)])
    return styles


def _frame(axes: "Axes", heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=10, color=INK, pad=8)
    axes.tick_params(length=0, which="both", labelsize=8.5, labelcolor=PALE, pad=5)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(RULE)


def _draw_curves(axes: "Axes", results: StudyResults, name: str, styles: dict[str, _Style]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    axes.set_xscale("log")
    x, lines, baseline = results.x, results.curves[name], results.baseline_line
    there = {line: lines[line] for line in styles if lines.get(line)}
    for line, points in there.items():
        colour, shape = styles[line].colour, styles[line].shape
        for seed in range(max(len(point.values) for point in points)):
            seen = [(getattr(point, x), 100 * point.values[seed]) for point in points if seed < len(point.values)]
            axes.plot(
                *zip(*seen, strict=True), color=colour, alpha=0.3, linewidth=0.8, marker=shape, markersize=2.5, mew=0
            )
        amounts, means = [getattr(point, x) for point in points], [100 * point.mean for point in points]
        style = "--" if line == baseline else "-"
        axes.plot(amounts, means, style, color=colour, linewidth=2, marker=shape, markersize=5, mec="white", label=line)
        for point in points:
            if point.arm == results.baseline and point.share == 1.0:
                axes.axhline(100 * point.mean, color=_BASELINE, linewidth=0.8, linestyle=":")
    marked = there.get(baseline) or max(there.values(), key=len)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"{'tokens' if x == 'tokens' else 'FLOPs'} of pre-training", fontsize=8.5, color=PALE)
    axes.set_xticks([getattr(point, x) for point in marked][-4:])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.1e}".replace("e+", "e")))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_dots(axes: "Axes", results: StudyResults, name: str, styles: dict[str, _Style], *, is_named: bool) -> None:
    """Each seed a pale dot, their mean a strong one on its interval, the baseline's mean a line through all."""
    from matplotlib.ticker import MaxNLocator

    points = {point.arm: point for points in results.curves[name].values() for point in points}
    arms = [row.arm for row in results.table]
    seen: list[float] = []
    for place, row in enumerate(results.table):
        if row.arm not in points:
            continue
        point, colour = points[row.arm], styles[row.line].colour
        values, mean = [100 * value for value in point.values], 100 * point.mean
        seen += values
        if point.low is not None and point.high is not None:
            interval = (100 * point.low, 100 * point.high)
            axes.plot(interval, (place, place), color=colour, alpha=0.35, linewidth=3, solid_capstyle="round")
        axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.45, markersize=3.5, mew=0)
        axes.plot([mean], [place], "o", color=colour, markersize=8, mec="white")
        if row.arm == results.baseline:
            axes.axvline(mean, color=_BASELINE, linewidth=0.8, linestyle=":")
    # An interval over two seeds can be wider than all scores together: the scores decide what is shown.
    room = 0.6 * (max(seen) - min(seen)) or 1.0
    axes.set_xlim(min(seen) - room, max(seen) + room)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.set_yticks(range(len(arms)), arms if is_named else [""] * len(arms))
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _add_legend(figure: "Figure", panels: "Sequence[Axes]") -> None:
    shown = [pair for panel in panels for pair in zip(*panel.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in reversed(shown)}
    labels = list(dict.fromkeys(label for _, label in shown))
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower left",
        ncols=min(len(labels), 5),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )


def plot_tradeoff(out: Path, tradeoff: Tradeoff) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), facecolor="white", layout="constrained")
    axes = figure.subplots()
    _frame_tradeoff(axes, tradeoff)
    _draw_front(axes, tradeoff)
    _draw_points(axes, tradeoff)
    save_canvas(out, "tradeoff", figure)


def _frame_tradeoff(axes: "Axes", tradeoff: Tradeoff) -> None:
    points = tradeoff.variants
    scores, speeds = [100 * point.score for point in points], [point.speedup for point in points]
    floor = tradeoff.floor.points
    room = max(0.12 * (max(scores) - min(scores)), 0.6 * floor, 0.1)
    low, high = min(*scores, scores[0] - floor) - room, max(scores) + room
    width = max(speeds) - min(speeds) or 1.0
    axes.set_ylim(low, high)
    axes.set_xlim(min(speeds) - 0.06 * width, max(speeds) + 0.2 * width)
    axes.axhspan(scores[0] - floor, scores[0], color=RULE, alpha=0.6, linewidth=0)
    name = tradeoff.metric_name
    title = f"{name[:1].upper()}{name[1:]} against speed"
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=22)
    legend = "filled: nothing else is both faster and better; grey band: within the standard deviation of the score"
    axes.text(0, 1.025, legend, transform=axes.transAxes, fontsize=8, color=PALE)
    axes.set_xlabel(f"speed-up over {tradeoff.baseline}, {tradeoff.speedup_rows}", fontsize=9, color=PALE)
    axes.set_ylabel("points", fontsize=9, color=PALE)
    axes.tick_params(length=0, labelsize=8.5, labelcolor=PALE, pad=5)
    axes.grid(color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(RULE)


def _draw_front(axes: "Axes", tradeoff: Tradeoff) -> None:
    best = sorted((point.speedup, 100 * point.score) for point in tradeoff.variants if point.is_best)
    if len(best) > 1:
        axes.plot(*zip(*best, strict=True), color=PALE, linewidth=1.2, linestyle="--", zorder=1)


def _draw_points(axes: "Axes", tradeoff: Tradeoff) -> None:
    from matplotlib.patheffects import withStroke

    for point in reversed(tradeoff.variants):
        name = point.name
        colour = _GRAPH if "onnx" in name else _PRUNED if "pruned" in name else _STORED
        inside, edge = (colour, "white") if point.is_best else ("white", colour)
        axes.plot([point.speedup], [100 * point.score], "o", markersize=8, mfc=inside, mec=edge)
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    places = [
        ((point.speedup - left) / (right - left), (100 * point.score - low) / (high - low), point.name)
        for point in tradeoff.variants
    ]
    # Heights and stretches that are taken: by the points first, then by every label that found its place.
    taken = [(y, x - 0.015, x + 0.015) for x, y, _ in places]
    for x, y, names in _join_near(places):
        text = ", ".join(names)
        width = _LETTER_WIDTH * len(text)
        # To the left of a point that is too far to the right for its name.
        begin = x + 0.02 if x + 0.02 + width < 1 else max(x - 0.02 - width, 0.0)
        free = (y + away for away in _WAYS if _is_free(taken, y + away, begin, begin + width))
        height = next(free, y)
        nearer = begin if begin > x else begin + width
        if height != y:
            axes.plot([x, nearer], [y, height], color=PALE, linewidth=0.6, transform=axes.transAxes, zorder=1)
        taken.append((height, begin, begin + width))
        axes.text(
            nearer,
            height,
            text,
            transform=axes.transAxes,
            fontsize=8.5,
            color=INK,
            va="center",
            ha="left" if begin > x else "right",
            fontweight="bold" if tradeoff.picked in names else "normal",
            path_effects=[withStroke(linewidth=2.5, foreground="white", alpha=0.8)],
        )


def _is_free(taken: Sequence[tuple[float, float, float]], height: float, begin: float, end: float) -> bool:
    return 0 < height < 1 and not any(
        abs(height - other) < _LABEL_HEIGHT and begin < last and first < end for other, first, last in taken
    )


def _join_near(places: list[tuple[float, float, str]]) -> list[tuple[float, float, list[str]]]:
    """Points that lie on each other have one label, at the first of them; from the top down."""
    joined: list[tuple[float, float, list[str]]] = []
    for x, y, name in places:
        near = [names for at, height, names in joined if abs(at - x) < _NEAR and abs(height - y) < _NEAR]
        if near:
            near[0].append(name)
        else:
            joined.append((x, y, [name]))
    return sorted(joined, key=lambda place: -place[1])
