"""What was found in a time series, as a page: its values and how rare each is, with the windows marked.

SeriesDetection -> blocks -> HTML
"""

import math
from collections.abc import Sequence

from electralab.records.series import SeriesDetection
from electralab.reporting import blocks as b
from electralab.reporting.format import format_number_of
from electralab.reporting.html import Section, render_page

# Points of a curve: more than a screen has columns.
_MOST_POINTS = 1500
_VALUE, _RARITY, _WINDOW, _THRESHOLD = 0, 3, 1, 2


def tabulate_windows(detection: SeriesDetection) -> b.Table:
    rows = [
        [window.start, window.end, f"{window.p_odd:.4f}", window.column, "; ".join(window.reasons)]
        for window in detection.windows
    ]
    return b.Table("windows that do not look normal", ["start", "end", "p_odd", "column", "reasons"], rows)


def render_detection(detection: SeriesDetection) -> str:
    """A page of its own, which fetches nothing."""
    count = len(detection.points)
    summary: list[b.PageBlock] = [
        b.Paragraph(
            f"{count:,} points from {detection.points[0].time} to {detection.points[-1].time}, "
            f"{format_number_of(len(detection.windows), 'window')} with odd points: no more than "
            f"{1 - detection.threshold:.2g} of normal points are as odd. Combined: {', '.join(detection.used)}.",
            "lead",
        )
    ]
    notes = (*detection.notes, *([detection.warning] if detection.warning else []))
    summary += [b.Bullets(notes, "note")] if notes else []
    sections = [
        Section("found", "What was found", summary),
        Section("plots", "Values and scores", [b.Group("charts", draw_series(detection))]),
        Section("windows", "Windows", [tabulate_windows(detection)] if detection.windows else []),
    ]
    name = detection.source.rpartition("/")[2]
    return render_page(name, "time series", sections, axis="seconds", state="", live_seconds=0.0)


def draw_series(detection: SeriesDetection) -> list[b.Chart]:
    """A chart for each column, and one of how rare each point is; a window is a band in all of them."""
    bands = [
        b.Band(_WINDOW, detection.points[window.first].seconds, detection.points[window.last].seconds)
        for window in detection.windows
    ]
    seconds = [point.seconds for point in detection.points]
    charts = []
    for index, name in enumerate(detection.columns):
        x, y = thin(seconds, [point.values[index] for point in detection.points])
        line = b.Line(name, _VALUE, {"seconds": x}, y)
        charts.append(b.Chart(f"column-{index}", name, "", "series", [line], axis="seconds", bands=bands))
    rarity = [None if point.p_odd is None else -math.log10(max(1 - point.p_odd, 1e-9)) for point in detection.points]
    x, y = thin(seconds, rarity)
    level = b.ReferenceLine("threshold", _THRESHOLD, -math.log10(1 - detection.threshold))
    note = "3 is a point in a thousand; windows are marked"
    line = b.Line("rarity", _RARITY, {"seconds": x}, y)
    charts.append(
        b.Chart("rarity", "How rare", "powers of ten", "series", [line], [level], note, axis="seconds", bands=bands)
    )
    return charts


def thin(x: Sequence[float], y: Sequence[float | None]) -> tuple[list[float | None], list[float | None]]:
    """At most about so many points as can be seen: of each stretch the lowest and the highest, in their order.

    >>> thin([0.0, 1.0, 2.0], [5.0, None, 7.0])
    ([0.0, 1.0, 2.0], [5.0, None, 7.0])
    """
    if len(x) <= _MOST_POINTS:
        return [*x], [*y]
    kept: list[int] = []
    size = math.ceil(2 * len(x) / _MOST_POINTS)
    for start in range(0, len(x), size):
        known = [(value, place) for place in range(start, min(start + size, len(x))) if (value := y[place]) is not None]
        kept += sorted({min(known)[1], max(known)[1]}) if known else [start]
    return [x[place] for place in kept], [y[place] for place in kept]
