"""Blocks as HTML, and the page around them: one file that fetches nothing.

Section... -> HTML

The templates in `page/` have the markup; Jinja escapes whatever comes from a file. The page's own policy allows nothing
but the one style and the one script that it carries.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from electralab.reporting import blocks as b
from electralab.reporting.charts import AXES, has_dots, render_chart, render_intervals, render_scatter
from electralab.reporting.format import format_percent, read_asset


class Section(NamedTuple):
    """A part of the page, which is left out where it has no blocks."""

    name: str
    title: str
    blocks: Sequence[b.PageBlock]
    link: str = ""
    """What the navigation calls it, if not by its title."""
    is_folded: bool = False
    has_controls: bool = False
    """Those of the charts stand above them."""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(read_asset), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {
        "cell": b.format_cell,
        "percent": format_percent,
        "pieces": _cut,
        "unbroken": lambda text: text.replace(" %", "\N{NO-BREAK SPACE}%"),
        # Names such as optimizer.learning_rate may be broken where a person would.
        "breakable": lambda text: Markup(re.sub(r"([._])(?=[a-z])", r"\1<wbr>", str(escape(text)))),
        "intervals": lambda figures: Markup(render_intervals(figures)),
        "chart": lambda chart: Markup(render_chart(chart)),
        "scatter": lambda scatter: Markup(render_scatter(scatter)),
        "section": lambda section: render_section(section),
    }
    environment.tests |= {"best": lambda cell: isinstance(cell, b.Best), "dotted": has_dots}
    environment.globals["show_all"] = render_blocks
    return environment


def render_blocks(blocks: Sequence[b.PageBlock]) -> Markup:
    markup = _environment().get_template("blocks.html").module
    return Markup("").join(getattr(markup, type(block).__name__)(block) for block in blocks)


def _cut(marked: b.MarkedText) -> Iterator[tuple[str, b.TokenSpan | None]]:
    """The whole text, part by part: with its span what is marked, without one what lies between."""
    end = 0
    for span in marked.spans:
        yield marked.text[end : span.start], None
        yield marked.text[span.start : span.end], span
        end = span.end
    yield marked.text[end:], None


def render_section(section: Section) -> Markup:
    inner = (Markup(read_asset("controls.html")) if section.has_controls else Markup("")) + render_blocks(
        section.blocks
    )
    if section.is_folded:
        inner = Markup("<details><summary>Show</summary>{}</details>").format(inner)
    frame = Markup('<section id="{0}" aria-labelledby="{0}-title"><h2 id="{0}-title">{1}</h2>{2}</section>')
    return frame.format(section.name, section.title, inner)


def render_page(
    title: str, kind: str, sections: Sequence[Section], *, axis: str, state: str, live_seconds: float
) -> str:
    """`state`: of a page that is served while work goes on; `live_seconds`: how often it asks for news, 0 for never."""
    blocks = [block for section in sections for block in section.blocks]
    for block in blocks:  # grows while it is walked: what is inside comes behind what it is in
        blocks += block.blocks if isinstance(block, b.Fold | b.Group) else []
    clouds = {}
    for block in blocks:
        if isinstance(block, b.CloudFigure):
            names = block.names()
            kinds = [names.index(category) for category in block.categories]
            clouds[block.name] = {"points": block.points, "kinds": kinds, "names": names, "words": block.words}
    data = {
        "axes": AXES,
        "charts": {block.name: describe_data(block) for block in blocks if isinstance(block, b.Chart)},
        "clouds": clouds,
        "live": live_seconds,
        "axis": axis,
    }
    page = _environment().get_template("page.html")
    return page.render(
        title=title,
        kind=kind,
        sections=sections,
        state=state,
        style=_style(),
        script=_script(),
        policy=write_policy(is_live=bool(state)),
        data=json_in_html(data),
    )


def describe_data(chart: b.Chart) -> dict[str, list[dict[str, object]]]:
    """What the script needs to read values, to smooth lines and to change axes."""
    return {"lines": [line._asdict() for line in chart.lines], "levels": [level._asdict() for level in chart.levels]}


def json_in_html(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _style() -> str:
    return read_asset("report.css")


def _script() -> str:
    return read_asset("report.js") + read_asset("cloud.js")


def write_policy(*, is_live: bool) -> str:
    # By their hashes: whatever a file of a run could smuggle into the page is neither style nor script of ours.
    style, script = (b64encode(sha256(text.encode()).digest()).decode() for text in (_style(), _script()))
    connect = "'self'" if is_live else "'none'"
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
