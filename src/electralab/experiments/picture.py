"""What a study found as a picture: score against compute where there are snapshots, else the arms side by side.

results -> curves.png, curves.svg
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.artifacts import write_file
from electralab.records.study import StudyResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _PALE, _RULE = "#1f2933", "#7b8794", "#e4e7eb"
_BASELINE = "#52606d"
_COLOURS = ("#0b7285", "#d9480f", "#7048a8", "#5c7a1f", "#b5179e", "#1864ab", "#c08a00", "#862e2e")
# Once all colours are taken, the next round has another shape.
_SHAPES = ("o", "s", "^", "D", "v", "P")
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class _Style:
    colour: str
    shape: str


def draw_study(out: Path, results: StudyResults) -> list[Path]:
    """The PNG and the SVG beside each other; nothing where nothing is measured."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    names = [name for name, lines in results.curves.items() if any(lines.values())]
    if not names:
        return []
    columns = min(_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    curved = [any(len(points) > 1 for points in results.curves[name].values()) for name in names]
    heights = [2.9 if is_curve else 0.9 + 0.3 * len(results.table) for is_curve in curved]
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.05, hspace=0.08)
    figure = Figure(figsize=(3.4 * columns + 0.8, max(heights) * rows + 0.8), facecolor="white", layout=layout)
    figure.suptitle(results.title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=_INK, parse_math=False)
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
    written = []
    # Without a salt of our own every drawing would get other ids, and equal studies other files.
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            figure.savefig(picture, format=kind, dpi=200, metadata=facts)
            written.append(out / f"curves.{kind}")
            write_file(written[-1], picture.getvalue())
    return written


def choose_styles(results: StudyResults) -> dict[str, _Style]:
    """By line. The baseline is grey: what stands out is what differs from it."""
    lines = list(dict.fromkeys(row.line for row in results.table))
    grey = results.baseline_line
    others = [line for line in lines if line != grey]
    styles = {grey: _Style(_BASELINE, _SHAPES[0])}
    for place, line in enumerate(others):
        rounds, colour = divmod(place, len(_COLOURS))
        styles[line] = _Style(_COLOURS[colour], _SHAPES[rounds % len(_SHAPES)])
    return styles


def _frame(axes: "Axes", heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=10, color=_INK, pad=8)
    axes.tick_params(length=0, which="both", labelsize=8.5, labelcolor=_PALE, pad=5)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)


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
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"{'tokens' if x == 'tokens' else 'FLOPs'} of pre-training", fontsize=8.5, color=_PALE)
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
    axes.tick_params(axis="y", labelcolor=_INK)
    axes.grid(axis="x", color=_RULE, linewidth=0.8)
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
        labelcolor=_INK,
    )
