"""Charts as SVG. The page's script shows other parts of the same drawing and reads values from it; it draws none.

Chart -> SVG

A chart has no size of its own: places are percentages, so that it fits any width with letters of one size. Curves lie
in an inner picture of 1000 × 1000 units that is stretched, with strokes that are not. Colours are classes, so that the
page's themes hold for them.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from electralab.reporting.blocks import Chart, Line, Scatter
from electralab.reporting.format import format_value

AXES = {"step": "steps", "tokens": "tokens", "flops": "FLOPs", "seconds": "time", "rows": "labelled rows"}
COLORS = 8
SMOOTHING = 0.8
MOST_DOTS = 60

_INNER = 1000
_THINNEST = 3
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_ROUND_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_ROUND_DAYS = (2, 5, 10, 20, 50, 100, 200, 500)
_MANY_DAYS = 5 * 86400
# Of a row of the figures of a claim, in units of the picture: the name, the interval, the figure.
_NAME, _RIGHT, _WIDTH, _LINE = 140, 300, 500, 22
_MODEL_COLORS = {
    **{"electra (paper)": 0, "electra (one encoder)": 3, "electra": 0},
    **{"mlm": 1, "causal": 2, "xlnet": 4, "untrained": 7},
}
_SIDE, _EDGE = 300, 44

Range = tuple[float, float]
Figure = tuple[float, float | None, float | None]
"""A value, and the ends of its interval."""


def smooth(values: Sequence[float | None], weight: float) -> list[float | None]:
    """The running mean whose memory fades by `weight` a point, without the pull of its beginning at zero.

    >>> smooth([4.0, None, 1.0], 0.5)
    [4.0, None, 2.0]
    """
    means: list[float | None] = []
    total = count = 0.0
    for value in values:
        if value is None:
            means.append(None)
            continue
        total, count = weight * total + value, weight * count + 1
        means.append(total / count)
    return means


def has_dots(line: Line) -> bool:
    return not line.is_noisy and len(line.y) <= MOST_DOTS


def render_chart(chart: Chart) -> str:
    """Over its axis, noisy lines smoothed a little; the frames of other axes and scales lie hidden beside."""
    shown = [smooth(line.y, SMOOTHING) if line.is_noisy else line.y for line in chart.lines]
    axis = next((axis for axis in (chart.axis, *AXES) if any(axis in line.x for line in chart.lines)), "step")
    places = [line.x.get(axis, []) for line in chart.lines]
    points = [_known(x, y) for x, y in zip(places, shown, strict=True)]
    if not any(points):
        return ""
    frames_across = {}
    for name in AXES:
        if known := [x for line in chart.lines for x in line.x.get(name, []) if x is not None]:
            frames_across[name] = (min(known), max(known))
    frames_upward = _frames_upward(chart, shown)
    across, upward = frames_across[axis], frames_upward["linear"]
    parts = [_draw_frame(name, span, is_hidden=name != axis) for name, span in frames_across.items()]
    parts += [_draw_frame(name, span, is_hidden=name != "linear") for name, span in frames_upward.items()]
    for level in chart.levels:
        y = _percent(1 - _fraction(level.y, upward))
        parts.append(f'<line class="level c{level.color % COLORS}" x1="0" x2="100%" y1="{y}" y2="{y}"/>')

    def path(points: Sequence[tuple[float, float]]) -> str:
        steps = (f"{_INNER * _fraction(x, across):.0f} {_INNER * (1 - _fraction(y, upward)):.0f}" for x, y in points)
        return f"M{'L'.join(steps)}" if points else ""

    curves, dots = [], []
    for band in chart.bands if axis == chart.axis else ():
        start, end = (_INNER * _fraction(place, across) for place in (band.start, band.end))
        # A band of a single point is still to be seen.
        box = f'x="{start:.1f}" width="{max(end - start, _THINNEST):.1f}" y="0" height="{_INNER}"'
        curves.append(f'<rect class="band c{band.color % COLORS}" {box}/>')
    is_crowded = sum(line.is_noisy for line in chart.lines) > 2
    for line, x, drawn in zip(chart.lines, places, points, strict=True):
        color = f"c{line.color % COLORS}"
        if line.is_noisy:
            curves.append(f'<path class="raw {color}" d="{"" if is_crowded else path(_known(x, line.y))}"/>')
        curves.append(f'<path class="line {color} d{line.dash}" d="{path(drawn)}"/>')
        circles = [
            f'<circle cx="{_percent(_fraction(x, across))}" cy="{_percent(1 - _fraction(y, upward))}" r="3"/>'
            for x, y in (drawn if has_dots(line) else ())
        ]
        dots.append(f'<g class="dots {color}">{"".join(circles)}</g>')
    inner = f'<svg class="curves" viewBox="0 0 {_INNER} {_INNER}" preserveAspectRatio="none">{"".join(curves)}</svg>'
    # For those who do not see it: where each line begins and ends.
    seen = {line.name: [value for value in line.y if value is not None] for line in chart.lines}
    ends = [f"{name} from {values[0]:.4g} to {values[-1]:.4g}" for name, values in seen.items() if values]
    ends += [f"{level.name} {level.y:.4g}" for level in chart.levels]
    label = escape(f"{chart.title}: {'; '.join(ends)}")
    return f'<svg class="frame" role="img" aria-label="{label}">{"".join(parts)}{inner}{"".join(dots)}</svg>'


def _known(x: Sequence[float | None], y: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(here, value) for here, value in zip(x, y, strict=False) if here is not None and value is not None]


def _frames_upward(chart: Chart, shown: Sequence[Sequence[float | None]]) -> dict[str, Range]:
    """What is shown with smoothing and without it, each on both scales; a logarithm has no place for 0 and less."""
    levels = [level.y for level in chart.levels]
    smoothed = levels + [y for values in shown for y in values if y is not None]
    raw = levels + [y for line in chart.lines for y in line.y if y is not None]
    frames = {"linear": pad((min(smoothed), max(smoothed))), "linear-raw": pad((min(raw), max(raw)))}
    for name, values in (("log", smoothed), ("log-raw", raw)):
        if positive := [y for y in values if y > 0]:
            room = max(positive) / min(positive)
            # Sums of floating-point numbers that should be equal differ in their last places.
            room = room**0.05 if room > 1 + 1e-9 else 1.05
            frames[name] = (min(positive) / room, max(positive) * room)
    return {name: span for name, span in frames.items() if "raw" not in name or raw != smoothed}


def pad(span: Range) -> Range:
    """Room above and below, also where a line is level but for the last places of its numbers."""
    low, high = span
    low = high if high - low <= 1e-9 * abs(high) else low
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - room, high + room


def _fraction(value: float, span: Range, is_log: bool = False) -> float:
    low, high, value = (math.log(number) if is_log else number for number in (*span, value))
    return (value - low) / (high - low) if high > low else 0.5


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}%"


def _draw_frame(name: str, span: Range, *, is_hidden: bool) -> str:
    """Ticks of one axis or scale, and between which values they stand: what the script needs to place others."""
    is_across, is_log = name in AXES, name.startswith("log")
    ticks = find_log_ticks(span) if is_log else find_ticks(span, 5, axis=name)
    distance = ticks[1] - ticks[0] if len(ticks) > 1 and not is_log else 0.0
    parts = []
    for value in ticks:
        place = _fraction(value, span, is_log)
        if not is_across:
            y = _percent(1 - place)
            parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
            parts.append(f'<text class="tick end" x="-8" y="{y}" dy="4">{shorten(value, distance)}</text>')
            continue
        # Seconds as people say them, operations as powers of ten.
        text = shorten(value, distance, is_exponential=name == "flops")
        if name == "seconds":
            text = f"{value / 60:.3g} min" if value < 5400 else f"{value / 3600:.3g} h"
            text = f"{value / 86400:.3g} d" if span[1] > _MANY_DAYS and value else text
            text = f"{value:.2g} s" if value < 90 else text
        parts.append(f'<text class="tick middle" x="{_percent(place)}" y="100%" dy="18">{text}</text>')
    if is_across:
        parts.append(f'<text class="tick end" x="100%" y="100%" dy="34">{AXES[name]}</text>')
    kind, ends = "across" if is_across else "upward", f'data-from="{span[0]:.9g}" data-to="{span[1]:.9g}"'
    return f'<g class="{kind}{" hidden" if is_hidden else ""}" data-name="{name}" {ends}>{"".join(parts)}</g>'


def find_ticks(span: Range, count: int, *, axis: str = "") -> list[float]:
    """Round values inside the span, about so many; there is no half of a step, and an hour has 60 minutes."""
    low, high = span
    if not high > low:
        return [low]
    is_whole = axis == "step"
    rough = max((high - low) / count, 1.0 if is_whole else 0.0)
    power = 10 ** math.floor(math.log10(rough))
    units = (1, 2, 5, 10) if is_whole else (1, 2, 2.5, 5, 10)
    step: float = next(power * unit for unit in units if power * unit >= 0.75 * rough)
    if axis == "seconds":
        days = (86400 * number for number in _ROUND_DAYS)
        step = next((seconds for seconds in (*_ROUND_SECONDS, *days) if seconds >= rough), step)
    return [index * step for index in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def find_log_ticks(span: Range) -> list[float]:
    low, high = span
    units = (1, 1.5, 2, 3, 5, 7) if high / low <= 20 else (1, 3) if high / low <= 300 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [unit * 10.0**power for power in powers for unit in units if low <= unit * 10.0**power <= high]
    return ticks if len(ticks) > 1 else [tick for tick in find_ticks(span, 4) if tick > 0]


def shorten(value: float, distance: float = 0.0, is_exponential: bool = False) -> str:
    """What fits beside an axis, with as many digits as tell it from its neighbours.

    >>> shorten(12000), shorten(3e13)
    ('12k', '3e13')
    """
    size = abs(value)
    if size <= 1e-12:
        return "0"
    unit, letter = next(((limit, letter) for limit, letter in _UNITS if size >= limit), (1.0, ""))
    if size >= 1e12 or is_exponential:
        power = math.floor(math.log10(size) + 1e-12)
        unit, letter = 10.0**power, f"e{power}"
    value, distance = value / unit, distance / unit
    if not distance:
        return f"{value:.3g}{letter}"
    digits = next((count for count in range(9) if abs(distance * 10**count - round(distance * 10**count)) < 1e-6), 9)
    text = f"{value:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + letter


def render_intervals(figures: Mapping[str, Figure]) -> str:
    """A dot with its interval for each model; the picture is as wide as the dots and most of their intervals need."""
    if not figures:
        return ""
    values = [value for value, *_ in figures.values()]
    ends = [end for _, *interval in figures.values() for end in interval if end is not None]
    # Of an interval no more than what is no further from the values than they are apart.
    if apart := max(values) - min(values):
        ends = [min(max(end, min(values) - apart), max(values) + apart) for end in ends]
    low, high = pad((min(values + ends), max(values + ends)))

    def place(value: float) -> str:
        return f"{_NAME + (_RIGHT - _NAME) * (min(max(value, low), high) - low) / (high - low):.1f}"

    rows, labels = [], []
    for number, (name, (value, start, end)) in enumerate(figures.items()):
        y, color, text = _LINE * (number + 0.5), _MODEL_COLORS.get(name, 6), f"{value:.3g}"
        if start is not None and end is not None:
            text += f" [{start:.3g}, {end:.3g}]"
            rows.append(f'<line class="span c{color}" x1="{place(start)}" x2="{place(end)}" y1="{y}" y2="{y}"/>')
        text = text.replace("-", "\N{MINUS SIGN}")
        rows.append(f'<circle class="at c{color}" cx="{place(value)}" cy="{y}" r="4.5"/>')
        rows.append(f'<text class="tick" x="0" y="{y + 4}">{escape(name)}</text>')
        rows.append(f'<text class="tick" x="{_RIGHT + 12}" y="{y + 4}">{text}</text>')
        labels.append(f"{name} {text}")
    label, height = escape("; ".join(labels)), _LINE * len(figures)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">{"".join(rows)}</svg>'


def render_scatter(scatter: Scatter) -> str:
    """Truth across, prediction upward, and the diagonal on which they are equal."""
    numbers = [number for point in scatter.points for number in point]
    low, high = min(numbers), max(numbers)

    def place(value: float) -> float:
        return _EDGE + (value - low) / (high - low or 1.0) * (_SIDE - 2 * _EDGE)

    near, far = place(low), place(high)
    parts = [f'<line class="grid" x1="{near:.1f}" y1="{_SIDE - near:.1f}" x2="{far:.1f}" y2="{_SIDE - far:.1f}"/>']
    for truth, prediction in scatter.points:
        parts.append(f'<circle class="dots c0" cx="{place(truth):.1f}" cy="{_SIDE - place(prediction):.1f}" r="2.5"/>')
    for value in (low, high):
        text, x, y = format_value(value), place(value), _SIDE - place(value) + 4
        parts.append(f'<text class="tick middle" x="{x:.1f}" y="{_SIDE - _EDGE + 16}">{text}</text>')
        parts.append(f'<text class="tick end" x="{_EDGE - 6}" y="{y:.1f}">{text}</text>')
    parts.append(f'<text class="tick middle" x="{_SIDE / 2:.0f}" y="{_SIDE - 8}">gold</text>')
    parts.append(f'<text class="tick" x="{_EDGE}" y="{_EDGE - 14}">predicted</text>')
    return f'<svg viewBox="0 0 {_SIDE} {_SIDE}" role="img" aria-label="{escape(scatter.title)}">{"".join(parts)}</svg>'
