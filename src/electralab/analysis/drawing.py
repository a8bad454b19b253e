"""Pictures of one model that a measure draws, and points that a page can turn.

Figure -> NAME.png, NAME.svg
"""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.analysis.finding import Floats
from electralab.artifacts import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PALE, RULE = "#1f2933", "#7b8794", "#e4e7eb"
COLOURS = ("#0b7285", "#d9480f", "#7048a8", "#5c7a1f", "#b5179e", "#1864ab", "#c08a00", "#862e2e")
# Once all colours are taken, the next round has another shape.
SHAPES = ("o", "^", "s", "D", "v", "P")


@dataclass(frozen=True, slots=True)
class Drawing:
    claim: str
    title: str
    name: str
    """Of the files, after that of the model."""
    meaning: str
    figure: "Figure"


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points in space, each with the category that colours it and the word it stands for."""

    claim: str
    title: str
    meaning: str
    coordinates: Floats  # (N, 3)
    categories: tuple[str, ...]
    words: tuple[str, ...]


def make_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1, wspace=0.05, hspace=0.08)
    return Figure(figsize=(width, height), facecolor="white", layout=layout)


def frame(axes: "Axes", heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=10, color=INK, pad=8, parse_math=False)
    axes.tick_params(length=0, which="both", labelsize=8.5, labelcolor=PALE, pad=5)
    axes.set_axisbelow(True)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(RULE)


def save_figure(out: Path, name: str, figure: "Figure") -> str:
    """Returns the name of the PNG; the SVG stands beside it."""
    from matplotlib import rc_context

    # Without a salt of our own every drawing would get other ids, and equal analyses other files.
    with rc_context({"svg.hashsalt": "electralab"}):
        for kind, facts in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            picture = BytesIO()
            figure.savefig(picture, format=kind, dpi=200, metadata=facts)
            write_file(out / f"{name}.{kind}", picture.getvalue())
    return f"{name}.png"
