"""The course of a training as a picture: loss on the left, scores on the right, seeds pale and their mean strong.

losses, scores -> learning-curve.png, learning-curve.svg
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[int, float]]
"""(step, value)"""

_INK, _PALE, _RULE = "#1f2933", "#7b8794", "#e4e7eb"
_LOSS = "#3b4a6b"
_METRICS = ("#0b7285", "#d9480f", "#7048a8", "#5c7a1f")
_NAMES = {
    "f1": "F1",
    "macro_f1": "macro F1",
    "mcc": "Matthews",
    "exact_match": "exact match",
    "pearson": "Pearson",
    "spearman": "Spearman",
}
_SPARSE = 40
"""Up to this many losses there is nothing to smooth."""


def draw_learning_curve(
    path: Path, title: str, losses: Mapping[int, Points], scores: Mapping[str, Mapping[int, Points]]
) -> list[Path]:
    """`losses` by seed, `scores` by metric and seed; the PNG and the SVG beside each other, named after `path`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shown = {name: seeds for name, seeds in list(scores.items())[: len(_METRICS)] if any(seeds.values())}
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.06)
    figure = Figure(figsize=(8.0, 3.7), facecolor="white", layout=layout)  # inches: 800 pixels on a plain screen
    figure.suptitle(_drawable(title), x=0.014, ha="left", fontsize=13, fontweight="bold", color=_INK, parse_math=False)
    left, right = figure.subplots(1, 2)
    _frame(left, "training loss")
    _draw_losses(left, losses)
    _frame(right, "development score")
    _draw_scores(right, shown)
    written = []
    # Without a salt of our own every drawing would get other ids, and equal runs other files.
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            figure.savefig(picture, format=kind, dpi=200, metadata=facts)
            written.append(path.with_suffix(f".{kind}"))
            write_file(written[-1], picture.getvalue())
    return written


def _frame(axes: "Axes", heading: str) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.set_title(heading, loc="left", fontsize=10, color=_INK, pad=8)
    axes.set_xlabel("step", fontsize=9, color=_PALE)
    axes.tick_params(length=0, labelsize=9, labelcolor=_PALE, pad=5)
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_locator(MaxNLocator(5))


def _draw_losses(axes: "Axes", losses: Mapping[int, Points]) -> None:
    curves = [_as_arrays(points) for points in losses.values()]
    curves = [(steps, values) for steps, values in curves if steps.size]
    if not curves:
        return _say_nothing_measured(axes)
    smooth = [(steps, _smooth(values)) for steps, values in curves]
    for steps, values in curves:
        axes.plot(steps, values, color=_LOSS, alpha=0.28 / len(curves) ** 0.5, linewidth=0.7)
    if len(curves) > 1:
        for steps, values in smooth:
            axes.plot(steps, values, color=_LOSS, alpha=0.35, linewidth=0.9)
    steps, values = _mean_over_seeds(smooth)
    axes.plot(steps, values, color=_LOSS, linewidth=2.0, solid_capstyle="round")
    _say_at_end(axes, steps[-1], values[-1], f"{values[-1]:.3g}", _LOSS)
    # A single spike must not flatten all the rest.
    raw = np.concatenate([values for _, values in curves])
    low, high = min(raw.min(), 0.0), max(float(np.quantile(raw, 0.995)), *(values.max() for _, values in smooth))
    axes.set_ylim(low, low + (high - low or 1.0) * 1.05)
    axes.set_xlim(left=0)
    return None


def _draw_scores(axes: "Axes", scores: Mapping[str, Mapping[int, Points]]) -> None:
    """Each metric ends in its name and last mean; names that would meet are moved apart."""
    ends = []
    for colour, (metric, seeds) in zip(_METRICS, scores.items(), strict=False):
        curves = [_as_arrays(points) for points in seeds.values()]
        curves = [(steps, values) for steps, values in curves if steps.size]
        if not curves:
            continue
        for steps, values in curves if len(curves) > 1 else []:
            axes.plot(steps, values, color=colour, alpha=0.3, linewidth=0.8, marker="o", markersize=3.2, mew=0)
        steps, values = _mean_over_seeds(curves)
        axes.plot(steps, values, color=colour, linewidth=2.0, marker="o", markersize=5.5, mec="white", mew=1.0)
        ends.append((float(values[-1]), float(steps[-1]), _NAMES.get(metric, metric.replace("_", " ")), colour))
    if not ends:
        return _say_nothing_measured(axes)
    axes.margins(y=0.12)
    axes.set_xlim(left=0)
    low, high = axes.get_ylim()
    floor = -np.inf
    for value, step, name, colour in sorted(ends):
        floor = max(value, floor + 0.1 * (high - low))
        _say_at_end(axes, step, floor, f"{_drawable(name)}\n{value:.3f}", colour)
        floor += 0.06 * (high - low)
    return None


def _say_at_end(axes: "Axes", step: float, value: float, text: str, colour: str) -> None:
    axes.annotate(
        text,
        (step, value),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=colour,
        fontweight="bold",
        linespacing=1.15,
        annotation_clip=False,
        parse_math=False,
    )


def _say_nothing_measured(axes: "Axes") -> None:
    axes.text(0.5, 0.5, "nothing measured", transform=axes.transAxes, ha="center", va="center", color=_PALE, fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])


def _as_arrays(points: Iterable[tuple[int, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and values in order; what is not finite cannot be drawn."""
    table = np.array(sorted(points), dtype=np.float64).reshape(-1, 2)
    table = table[np.isfinite(table).all(axis=1)]
    return table[:, 0], table[:, 1]


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A running mean that forgets over a fortieth of the run, corrected for its beginning."""
    if values.size <= _SPARSE:
        return values
    keep = 1.0 - _SPARSE / values.size
    total = weight = 0.0
    means = np.empty_like(values)
    for place, value in enumerate(values.tolist()):
        total, weight = keep * total + value, keep * weight + 1.0
        means[place] = total / weight
    return means


def _mean_over_seeds(
    curves: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """At each step the mean of the seeds that were measured there."""
    at: dict[float, list[float]] = defaultdict(list)
    for steps, values in curves:
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            at[step].append(value)
    steps = np.array(sorted(at))
    return steps, np.array([np.mean(at[step]) for step in steps])


def _drawable(text: str) -> str:
    """A character that the font lacks would be a warning and an empty box; one that it has stands for it."""
    known = _font_characters()
    return "".join(character if ord(character) in known else "?" for character in text.replace("\n", " "))


@cache
def _font_characters() -> frozenset[int]:
    from matplotlib import font_manager, ft2font

    return frozenset(ft2font.FT2Font(font_manager.findfont("DejaVu Sans")).get_charmap())
