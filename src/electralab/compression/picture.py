"""The trade-off as a picture: how fast each variant is, and how good.

Tradeoff -> tradeoff.png, tradeoff.svg
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.artifacts import write_file
from electralab.records.compression import Tradeoff

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _PALE, _RULE = "#1f2933", "#7b8794", "#e4e7eb"
_STORED, _PRUNED, _GRAPH = "#52606d", "#0b7285", "#d9480f"
# Of the axes: what a label takes, and how near points are that have one label together.
_LABEL_HEIGHT, _LETTER_WIDTH, _NEAR = 0.05, 0.0125, 0.04
# How far from its point a label may stand, the nearest first.
_WAYS = (0.0, *(sign * 0.01 * step for step in range(1, 60) for sign in (1, -1)))


def draw_tradeoff(out: Path, tradeoff: Tradeoff) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), facecolor="white", layout="constrained")
    axes = figure.subplots()
    _frame(axes, tradeoff)
    _draw_front(axes, tradeoff)
    _draw_points(axes, tradeoff)
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            figure.savefig(picture, format=kind, dpi=200, metadata=facts)
            write_file(out / f"tradeoff.{kind}", picture.getvalue())


def _frame(axes: "Axes", tradeoff: Tradeoff) -> None:
    points = tradeoff.variants
    scores, speeds = [100 * point.score for point in points], [point.speedup for point in points]
    floor = tradeoff.floor.points
    room = max(0.12 * (max(scores) - min(scores)), 0.6 * floor, 0.1)
    low, high = min(*scores, scores[0] - floor) - room, max(scores) + room
    width = max(speeds) - min(speeds) or 1.0
    axes.set_ylim(low, high)
    axes.set_xlim(min(speeds) - 0.06 * width, max(speeds) + 0.2 * width)
    axes.axhspan(scores[0] - floor, scores[0], color=_RULE, alpha=0.6, linewidth=0)
    name = tradeoff.metric_name
    title = f"{name[:1].upper()}{name[1:]} against speed"
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=_INK, pad=22)
    legend = "filled: nothing else is both faster and better; grey band: within the standard deviation of the score"
    axes.text(0, 1.025, legend, transform=axes.transAxes, fontsize=8, color=_PALE)
    axes.set_xlabel(f"speed-up over {tradeoff.baseline}, {tradeoff.speedup_rows}", fontsize=9, color=_PALE)
    axes.set_ylabel("points", fontsize=9, color=_PALE)
    axes.tick_params(length=0, labelsize=8.5, labelcolor=_PALE, pad=5)
    axes.grid(color=_RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)


def _draw_front(axes: "Axes", tradeoff: Tradeoff) -> None:
    best = sorted((point.speedup, 100 * point.score) for point in tradeoff.variants if point.is_best)
    if len(best) > 1:
        axes.plot(*zip(*best, strict=True), color=_PALE, linewidth=1.2, linestyle="--", zorder=1)


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
            axes.plot([x, nearer], [y, height], color=_PALE, linewidth=0.6, transform=axes.transAxes, zorder=1)
        taken.append((height, begin, begin + width))
        axes.text(
            nearer,
            height,
            text,
            transform=axes.transAxes,
            fontsize=8.5,
            color=_INK,
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
