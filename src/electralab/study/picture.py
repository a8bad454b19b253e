"""What a study found as a picture: score against compute where there are snapshots, else the arms side by side.

results -> curves.png, curves.svg
"""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.artifacts import write_file
from electralab.study.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _PALE, _RULE = "#1f2933", "#7b8794", "#e4e7eb"
_BASELINE = "#52606d"
_COLOURS = ("#0b7285", "#d9480f", "#7048a8", "#5c7a1f", "#b5179e", "#1864ab", "#c08a00", "#862e2e")
_COLUMNS = 3


def draw_study(out: Path, results: Results) -> list[Path]:
    """The PNG and the SVG beside each other; nothing where nothing is measured."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    names = [name for name, arms in results["curves"].items() if any(arms.values())]
    if not names:
        return []
    columns = min(_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    has_curves = any(len(points) > 1 for name in names for points in results["curves"][name].values())
    height = 2.9 if has_curves else 0.9 + 0.3 * len(results["table"])
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.05, hspace=0.08)
    figure = Figure(figsize=(3.4 * columns + 0.8, height * rows + 0.8), facecolor="white", layout=layout)
    figure.suptitle(results["title"], x=0.014, ha="left", fontsize=13, fontweight="bold", color=_INK, parse_math=False)
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    colours = choose_colours(results)
    for place, (panel, name) in enumerate(zip(panels, names, strict=False)):
        metric = results["scores"].get(name, "")
        _frame(panel, f"{name}, {metric.replace('_', ' ')}" if metric else name)
        if has_curves:
            _draw_curves(panel, results, name, colours)
        else:
            _draw_dots(panel, results, name, colours, is_named=place % columns == 0)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    if has_curves:
        _add_legend(figure, panels[0])
    written = []
    # Without a salt of our own every drawing would get other ids, and equal studies other files.
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            figure.savefig(picture, format=kind, dpi=200, metadata=facts)
            written.append(out / f"curves.{kind}")
            write_file(written[-1], picture.getvalue())
    return written


def choose_colours(results: Results) -> dict[str, str]:
    """The baseline is grey: what stands out is what differs from it."""
    lines = [line for curves in list(results["curves"].values())[:1] for line in curves]
    others = [line for line in lines if line != results["baseline"]]
    coloured = {arm: _COLOURS[place % len(_COLOURS)] for place, arm in enumerate(others)}
    return {results["baseline"]: _BASELINE} | coloured


def _frame(axes: "Axes", heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=10, color=_INK, pad=8)
    axes.tick_params(length=0, which="both", labelsize=8.5, labelcolor=_PALE, pad=5)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)


def _draw_curves(axes: "Axes", results: Results, name: str, colours: dict[str, str]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    axes.set_xscale("log")
    arms = results["curves"][name]
    marks: set[float] = set()
    for arm, colour in colours.items():
        points = arms.get(arm) or []
        compute = [point["flops"] for point in points]
        for seed in range(max((len(point["values"]) for point in points), default=0)):
            seen = [(point["flops"], 100 * point["values"][seed]) for point in points if seed < len(point["values"])]
            axes.plot(
                *zip(*seen, strict=True), color=colour, alpha=0.3, linewidth=0.8, marker="o", markersize=2.5, mew=0
            )
        means = [100 * point["mean"] for point in points]
        style = "--" if arm == results["baseline"] else "-"
        axes.plot(compute, means, style, color=colour, linewidth=2, marker="o", markersize=5, mec="white", label=arm)
        if arm == results["baseline"] and means:
            axes.axhline(means[-1], color=_BASELINE, linewidth=0.8, linestyle=":")
            marks = set(compute)
    axes.grid(axis="y", color=_RULE, linewidth=0.8)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("FLOPs of pre-training", fontsize=8.5, color=_PALE)
    axes.set_xticks(sorted(marks)[-4:])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.1e}".replace("e+", "e")))
    axes.xaxis.set_minor_locator(NullLocator())


def _draw_dots(axes: "Axes", results: Results, name: str, colours: dict[str, str], *, is_named: bool) -> None:
    """Each seed a pale dot, their mean a strong one on its interval, the baseline's mean a line through all."""
    from matplotlib.ticker import MaxNLocator

    arms = [row["arm"] for row in results["table"]]
    seen: list[float] = []
    for place, arm in enumerate(arms):
        for point in results["curves"][name].get(arm) or []:
            values, mean = [100 * value for value in point["values"]], 100 * point["mean"]
            seen += values
            if point["low"] is not None:
                interval = (100 * point["low"], 100 * point["high"])
                axes.plot(interval, (place, place), color=colours[arm], alpha=0.35, linewidth=3, solid_capstyle="round")
            axes.plot(values, [place] * len(values), "o", color=colours[arm], alpha=0.45, markersize=3.5, mew=0)
            axes.plot([mean], [place], "o", color=colours[arm], markersize=8, mec="white")
            if arm == results["baseline"]:
                axes.axvline(mean, color=_BASELINE, linewidth=0.8, linestyle=":")
    # An interval over two seeds can be wider than all scores together: the scores decide what is shown.
    room = 0.6 * (max(seen) - min(seen)) or 1.0
    axes.set_xlim(min(seen) - room, max(seen) + room)
    axes.set_ylim(len(arms) - 0.5, -0.5)
    axes.set_yticks(range(len(arms)), arms if is_named else [""] * len(arms))
    axes.tick_params(axis="y", labelcolor=_INK)
    axes.grid(axis="x", color=_RULE, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _add_legend(figure: "Figure", panel: "Axes") -> None:
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower left", ncols=min(len(labels), 5), frameon=False, fontsize=9, labelcolor=_INK
    )
