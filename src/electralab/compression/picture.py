"""The trade-off as a picture: how fast each variant is, and how good.

results -> tradeoff.png, tradeoff.svg
"""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab.artifacts import write_file
from electralab.compression.report import describe_batch, describe_metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Results = dict[str, Any]

_INK, _PALE, _RULE = "#1f2933", "#7b8794", "#e4e7eb"
_STORED, _PRUNED, _GRAPH = "#52606d", "#0b7285", "#d9480f"
_LABEL_HEIGHT = 0.055
"""Of the axes, so that no two labels lie on each other."""


def draw_tradeoff(out: Path, results: Results) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.6), facecolor="white", layout="constrained")
    axes = figure.subplots()
    _frame(axes, results)
    _draw_front(axes, results)
    _draw_points(axes, results)
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            figure.savefig(picture, format=kind, dpi=200, metadata=facts)
            write_file(out / f"tradeoff.{kind}", picture.getvalue())


def _frame(axes: "Axes", results: Results) -> None:
    points = results["variants"]
    scores, speeds = [100 * point["score"] for point in points], [point["speedup"] for point in points]
    floor = results["floor"]["points"]
    room = max(0.12 * (max(scores) - min(scores)), 0.6 * floor, 0.1)
    low, high = min(*scores, scores[0] - floor) - room, max(scores) + room
    width = max(speeds) - min(speeds) or 1.0
    axes.set_ylim(low, high)
    # Names stand to the right of their points.
    axes.set_xlim(min(speeds) - 0.08 * width, max(speeds) + 0.5 * width)
    axes.axhspan(scores[0] - floor, scores[0], color=_RULE, alpha=0.6, linewidth=0)
    axes.text(
        *(0.995, scores[0] - floor),
        "within the deviation of the score",
        transform=axes.get_yaxis_transform(),
        fontsize=7.5,
        color=_PALE,
        ha="right",
        va="bottom",
    )
    name = describe_metric(results)
    axes.set_title(
        f"{name[:1].upper()}{name[1:]} against speed", loc="left", fontsize=12, fontweight="bold", color=_INK
    )
    axes.set_xlabel(f"speed-up over {results['baseline']}, {describe_batch(results)}", fontsize=9, color=_PALE)
    axes.set_ylabel("points", fontsize=9, color=_PALE)
    axes.tick_params(length=0, labelsize=8.5, labelcolor=_PALE, pad=5)
    axes.grid(color=_RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)


def _draw_front(axes: "Axes", results: Results) -> None:
    best = sorted((point["speedup"], 100 * point["score"]) for point in results["variants"] if point["is_best"])
    if len(best) > 1:
        axes.plot(*zip(*best, strict=True), color=_PALE, linewidth=1.2, linestyle="--", zorder=1)


def _draw_points(axes: "Axes", results: Results) -> None:
    points = sorted(results["variants"], key=lambda point: -point["score"])
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    taken: list[tuple[float, float, float]] = []
    for point in points:
        x, y = point["speedup"], 100 * point["score"]
        colour = _GRAPH if "onnx" in point["name"] else _PRUNED if "pruned" in point["name"] else _STORED
        is_filled = point["is_best"]
        axes.plot(
            [x],
            [y],
            "o",
            color=colour,
            markersize=8,
            mec="white" if is_filled else colour,
            mfc=colour if is_filled else "white",
        )
        label = point["name"] + (", picked" if point["name"] == results["picked"] else "")
        begin = (x - left) / (right - left) + 0.018
        end = begin + 0.0125 * len(label)
        height = (y - low) / (high - low)
        # Downwards until no label is in the way.
        while any(abs(height - other) < _LABEL_HEIGHT and begin < last and first < end for other, first, last in taken):
            height -= 0.005
        taken.append((height, begin, end))
        axes.annotate(
            label,
            (x, y),
            (begin, height),
            textcoords="axes fraction",
            fontsize=8.5,
            color=_INK,
            va="center",
            fontweight="bold" if point["name"] == results["picked"] else "normal",
            arrowprops={"arrowstyle": "-", "color": _PALE, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 5},
        )
