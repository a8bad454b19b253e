"""Each claim as a picture: its measures over the layers, or model by model, with intervals and controls.

results -> M33.png, M33.svg
"""

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from electralab.analysis.drawing import COLOURS, INK, PALE, RULE, frame, make_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
_COLUMNS = 3
_NARROW = 32
_HOLLOW: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4, "markerfacecolor": "white"}
_MEANING = (
    "Over layers, widths or shares, solid with its 95 % interval: the model; dashed: the same network before training; "
    "dotted grey: the measure's own control. Model by model or domain by domain, a dot with its interval: the model; a "
    "hollow one: before training; a grey tick: the control."
)


def draw_claims(out: Path, results: Record, titles: Mapping[str, str]) -> list[Record]:
    """`titles` by claim."""
    drawn = []
    for claim in dict.fromkeys(one["claim"] for one in results["findings"]):
        rows = [one for one in results["findings"] if one["claim"] == claim and one["value"] is not None]
        if rows:
            title = f"{claim} {titles.get(claim, '')}".strip()
            file = save_figure(out, claim, draw_claim(title, rows, results["models"]))
            drawn.append({"claim": claim, "model": None, "title": title, "file": file, "meaning": _MEANING})
    return drawn


def draw_claim(title: str, rows: list[Record], models: list[Record]) -> "Figure":
    """A panel for each measure; one that is asked of several domains or widths has a row of its own."""
    panels: dict[str, list[Record]] = {}
    for one in rows:
        panels.setdefault(one["series"] or one["name"], []).append(one)
    order = list(dict.fromkeys(one["unit"] for one in rows))
    names = sorted(panels, key=lambda name: order.index(panels[name][0]["unit"]))
    wide = [name for name in names if panels[name][0]["series"]]
    narrow = [name for name in names if name not in wide]
    columns = _COLUMNS if wide else 2 if len(names) == 4 else min(_COLUMNS, len(names))
    height = len(wide) - (-len(narrow) // columns)
    figure = make_figure(3.5 * columns + 0.6, 2.6 * height + 0.9)
    figure.suptitle(title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK)
    grid = figure.add_gridspec(height, columns)
    mains = [model["name"] for model in models if model["control_of"] is None]
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(mains)}
    twins = {model["name"]: model["control_of"] for model in models if model["control_of"]}
    for place, name in enumerate(wide):
        panel = figure.add_subplot(grid[place, :])
        _head(panel, name, panels[name][0]["unit"])
        _draw_series(panel, panels[name], colours, twins)
    for place, name in enumerate(narrow):
        panel = figure.add_subplot(grid[len(wide) + place // columns, place % columns])
        _head(panel, name, panels[name][0]["unit"], _NARROW)
        has_layers = any(one["layer"] is not None for one in panels[name])
        (_draw_layers if has_layers else _draw_models)(panel, panels[name], colours, twins)
    found = {
        label: line for panel in figure.axes for line, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    if found:
        legend = figure.legend(
            found.values(), found.keys(), loc="outside lower left", frameon=False, fontsize=8.5, ncols=4
        )
        for text in legend.get_texts():
            text.set_color(PALE)
            text.set_parse_math(False)
    return figure


def _head(axes: "Axes", name: str, unit: str, most: int = 200) -> None:
    """In lines of at most so many characters. A name may say its unit already: "bits per GFLOP", bits/GFLOP."""
    is_said = unit.rpartition("/")[2] in name.replace(",", "").split()
    frame(axes, fill(name if is_said else f"{name}, {unit}", most))


def _draw_series(axes: "Axes", rows: list[Record], colours: dict[str, str], twins: dict[str, str]) -> None:
    """Widths and shares have an order, and lines; domains have none, and dots beside each other."""
    parts = list(dict.fromkeys(one["part"] for one in rows))
    models = list(dict.fromkeys(one["model"] for one in rows))
    is_ordered = all(part[:1].isdigit() or part == "all" for part in parts)
    for place, model in enumerate(models):
        of_model = sorted((one for one in rows if one["model"] == model), key=lambda one: parts.index(one["part"]))
        beside = 0.0 if is_ordered else ((place + 0.5) / len(models) - 0.5) * 0.75
        steps, values = [parts.index(one["part"]) + beside for one in of_model], [one["value"] for one in of_model]
        colour, is_twin = colours[twins.get(model, model)], model in twins
        if is_twin:
            faint: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2, "alpha": 0.7}
            axes.plot(steps, values, color=colour, label=model, **(faint if is_ordered else _HOLLOW))
            continue
        lows, highs = _find_ends(of_model)
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


def _find_ends(line: list[Record]) -> tuple[list[float], list[float]]:
    """Lows and highs; the value itself where there is no interval."""
    lows, highs = ([one[end] if one[end] is not None else one["value"] for one in line] for end in ("low", "high"))
    return lows, highs


def _draw_layers(axes: "Axes", rows: list[Record], colours: dict[str, str], twins: dict[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    for model in dict.fromkeys(one["model"] for one in rows):
        line = sorted((one for one in rows if one["model"] == model), key=lambda one: one["layer"])
        layers, values = [one["layer"] for one in line], [one["value"] for one in line]
        colour = colours[twins.get(model, model)]
        if model in twins:
            axes.plot(layers, values, "--", color=colour, linewidth=1.2, alpha=0.7, label=model)
            continue
        lows, highs = _find_ends(line)
        axes.fill_between(layers, lows, highs, color=colour, alpha=0.15, linewidth=0)
        axes.plot(layers, values, "-", color=colour, linewidth=2, marker="o", markersize=4, mec="white", label=model)
        if all(one["control"] and one["control"]["value"] is not None for one in line):
            controls = [one["control"]["value"] for one in line]
            axes.plot(layers, controls, ":", color=PALE, linewidth=1.2, label="control of the measure")
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.set_xlabel("layer", fontsize=8.5, color=PALE)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))


def _draw_models(axes: "Axes", rows: list[Record], colours: dict[str, str], twins: dict[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    labels = []
    for place, one in enumerate(rows):
        model = str(one["model"])
        colour, is_twin = colours[twins.get(model, model)], model in twins
        if one["low"] is not None and one["high"] is not None:
            axes.plot([one["low"], one["high"]], [place, place], color=colour, linewidth=2, alpha=0.45)
        face = "white" if is_twin else colour
        axes.plot([one["value"]], [place], "o", color=face, mec=colour, markersize=6)
        if one["control"] and one["control"]["value"] is not None:
            axes.plot([one["control"]["value"]], [place], "|", color=PALE, markersize=11, mew=1.6)
        labels.append(model)
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", color=RULE, linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(5))
