"""Each claim as a picture: its measures over the layers, or model by model, with intervals and controls.

results -> M33.png, M33.svg
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab.analysis.drawing import COLOURS, INK, PALE, RULE, frame, make_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Record = dict[str, Any]
_COLUMNS = 3
_MEANING = (
    "Over layers, solid with its 95 % interval: the model; dashed: the same network before training; dotted grey: the "
    "measure's own control. Model by model, a dot with its interval: the model; a hollow one: before training; a grey "
    "tick: the control."
)


def draw_claims(out: Path, results: Record, titles: Mapping[str, str]) -> list[Record]:
    """`titles` by claim."""
    drawn = []
    for claim in dict.fromkeys(one["claim"] for one in results["findings"]):
        rows = [one for one in results["findings"] if one["claim"] == claim and one["value"] is not None]
        if rows:
            title = f"{claim} {titles.get(claim, '')}".strip()
            file = save_figure(out, claim, _draw(title, rows, results["models"]))
            drawn.append({"claim": claim, "model": None, "title": title, "file": file, "meaning": _MEANING})
    return drawn


def _draw(title: str, rows: list[Record], models: list[Record]) -> "Figure":
    units = {one["name"]: one["unit"] for one in rows}
    order = list(dict.fromkeys(units.values()))
    names = sorted(units, key=lambda name: order.index(units[name]))
    columns = 2 if len(names) == 4 else min(_COLUMNS, len(names))
    height = -(-len(names) // columns)
    figure = make_figure(3.5 * columns + 0.6, 2.6 * height + 0.9)
    figure.suptitle(title, x=0.014, ha="left", fontsize=13, fontweight="bold", color=INK)
    panels = figure.subplots(height, columns, squeeze=False).flatten()
    mains = [model["name"] for model in models if model["control_of"] is None]
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(mains)}
    twins = {model["name"]: model["control_of"] for model in models if model["control_of"]}
    for panel, name in zip(panels, names, strict=False):
        of_name = [one for one in rows if one["name"] == name]
        # A name may say its unit already: "bits per GFLOP", bits/GFLOP.
        unit = units[name]
        frame(panel, name if name.endswith(unit.rpartition("/")[2]) else f"{name}, {unit}")
        if any(one["layer"] is not None for one in of_name):
            _draw_layers(panel, of_name, colours, twins)
        else:
            _draw_models(panel, of_name, colours, twins)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    found = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    if found:
        legend = figure.legend(
            found.values(), found.keys(), loc="outside lower left", frameon=False, fontsize=8.5, ncols=4
        )
        for text in legend.get_texts():
            text.set_color(PALE)
            text.set_parse_math(False)
    return figure


def _draw_layers(axes: "Axes", rows: list[Record], colours: dict[str, str], twins: dict[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    for model in dict.fromkeys(one["model"] for one in rows):
        line = sorted((one for one in rows if one["model"] == model), key=lambda one: one["layer"])
        layers, values = [one["layer"] for one in line], [one["value"] for one in line]
        colour = colours[twins.get(model, model)]
        if model in twins:
            axes.plot(layers, values, "--", color=colour, linewidth=1.2, alpha=0.7, label=model)
            continue
        lows, highs = ([one[end] if one[end] is not None else one["value"] for one in line] for end in ("low", "high"))
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
