"""A chart as a still picture: what the page shows before, and without, its script, and what is printed.

Chart -> SVG

Colours are classes, so that the page's themes hold for it.
"""

import math
from collections.abc import Iterator, Sequence
from html import escape

from electralab.reporting.curves import AXES, Chart, Line, smooth

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 12, 34
_WEIGHT = 0.8
COLORS = 8

_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))

Range = tuple[float, float]


def draw_still(chart: Chart, axis: str = "step") -> str:
    """Over this axis, or the first that its lines have; noisy lines smoothed a little."""
    axis = next((axis for axis in (axis, *AXES) if any(axis in line.x for line in chart.lines)), "step")
    curves = [(line, list(_points(line, axis))) for line in chart.lines]
    flat = [point for _, points in curves for point in points]
    if not flat:
        return ""
    across = (min(x for x, _ in flat), max(x for x, _ in flat))
    heights = [y for _, y in flat] + [level.y for level in chart.levels]
    upward = pad((min(heights), max(heights)))
    scale = _Scale(across, upward)
    inner = [*_grid(scale, axis)]
    for level in chart.levels:
        y = scale.y(level.y)
        inner.append(
            f'<line class="level c{level.color % COLORS}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
    for line, points in curves:
        path = "M" + "L".join(f"{scale.x(x):.1f} {scale.y(y):.1f}" for x, y in points) if points else ""
        inner.append(f'<path class="line c{line.color % COLORS} d{line.dash}" d="{path}"/>')
        if line.has_dots:
            dots = (f'<circle cx="{scale.x(x):.1f}" cy="{scale.y(y):.1f}" r="3"/>' for x, y in points)
            inner.append(f'<g class="dots c{line.color % COLORS}">{"".join(dots)}</g>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(describe(chart))}">{"".join(inner)}</svg>'
    )


def describe(chart: Chart) -> str:
    """The chart for those who do not see it: where each line begins and ends."""
    ends = []
    for line in chart.lines:
        seen = [value for value in line.y if value is not None]
        if seen:
            ends.append(f"{line.name} from {seen[0]:.4g} to {seen[-1]:.4g}")
    ends += [f"{level.name} {level.y:.4g}" for level in chart.levels]
    return f"{chart.title}: {'; '.join(ends)}"


class _Scale:
    def __init__(self, across: Range, upward: Range) -> None:
        self.across, self.upward = across, upward

    def x(self, value: float) -> float:
        low, high = self.across
        return LEFT + (WIDTH - LEFT - RIGHT) * ((value - low) / (high - low) if high > low else 0.5)

    def y(self, value: float) -> float:
        low, high = self.upward
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)


def _points(line: Line, axis: str) -> Iterator[tuple[float, float]]:
    values = smooth(line.y, _WEIGHT) if line.is_noisy else line.y
    for x, y in zip(line.x.get(axis, []), values, strict=False):
        if x is not None and y is not None:
            yield x, y


def pad(span: Range) -> Range:
    """Room above and below, also where a line is level but for the last places of its numbers."""
    low, high = span
    low = high if high - low <= 1e-9 * abs(high) else low
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - room, high + room


def _grid(scale: _Scale, axis: str) -> Iterator[str]:
    heights, places = find_ticks(scale.upward, 5), find_ticks(scale.across, 5, is_whole=axis == "step")
    for value in heights:
        y = scale.y(value)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick end" x="{LEFT - 8}" y="{y + 4:.1f}">{shorten(value, _distance(heights))}</text>'
    for value in places:
        text = f"{value / 60:.3g} min" if axis == "seconds" else shorten(value, _distance(places), axis == "flops")
        # The last label must not leave the picture.
        is_last = scale.x(value) > WIDTH - 34
        where = f'class="tick end" x="{WIDTH - 2}"' if is_last else f'class="tick middle" x="{scale.x(value):.1f}"'
        yield f'<text {where} y="{HEIGHT - BOTTOM + 18}">{text}</text>'
    yield f'<text class="tick end" x="{WIDTH - RIGHT}" y="{HEIGHT - 2}">{AXES[axis]}</text>'


def find_ticks(span: Range, count: int, *, is_whole: bool = False) -> Sequence[float]:
    """Round values inside the span, about so many; there is no half of a step."""
    low, high = span
    if not high > low:
        return [low]
    rough = max((high - low) / count, 1.0 if is_whole else 0.0)
    power = 10 ** math.floor(math.log10(rough))
    units = (1, 2, 5, 10) if is_whole else (1, 2, 2.5, 5, 10)
    step = next(power * unit for unit in units if power * unit >= 0.75 * rough)
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)]


def _distance(ticks: Sequence[float]) -> float:
    return ticks[1] - ticks[0] if len(ticks) > 1 else 0.0


def shorten(value: float, distance: float = 0.0, is_exponential: bool = False) -> str:
    """12000 -> 12k, 3e13 -> 3e13: what fits beside an axis, with as many digits as tell it from its neighbours."""
    size = abs(value)
    if size <= 1e-12:
        return "0"
    if size >= 1e12 or is_exponential:
        power = math.floor(math.log10(size) + 1e-12)
        return f"{_round(value / 10**power, distance / 10**power)}e{power}"
    unit, letter = next(((limit, letter) for limit, letter in _UNITS if size >= limit), (1.0, ""))
    return _round(value / unit, distance / unit) + letter


def _round(value: float, distance: float) -> str:
    if not distance:
        return f"{value:.3g}"
    digits = next((one for one in range(9) if abs(distance * 10**one - round(distance * 10**one)) < 1e-6), 9)
    said = f"{value:.{digits}f}"
    return said.rstrip("0").rstrip(".") if "." in said else said
