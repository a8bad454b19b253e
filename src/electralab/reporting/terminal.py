"""Blocks on a terminal: tables, tokens in the colour of their suspicion, a curve in one line.

Block... -> rich
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import assert_never

from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from electralab.reporting import blocks as b
from electralab.terminal import tame

_STYLES: dict[b.TextStyle, str] = {
    **{"plain": "", "lead": "", "note": "dim", "strong": "bold"},
    **{"warning": "yellow", "good": "green", "bad": "red"},
}
_VERDICTS: dict[str, b.TextStyle] = {"holds": "good", "does not hold": "bad"}
_LONGEST_WORDS = 28
"""Columns of longer cells are prose, which is wrapped; numbers are never cut."""


def print_blocks(console: Console, blocks: Sequence[b.Block]) -> None:
    for block in blocks:
        for part in render(block, console.width):
            console.print(part)


def render(block: b.Block, width: int = 80) -> Iterator[RenderableType]:
    match block:
        case b.Paragraph(text=text, style=style):
            yield _text(text, style)
        case b.Bullets(items=items, style=style):
            yield from (_text(item, style) for item in items)
        case b.Heading(text=text):
            yield _text(text, "strong")
        case b.Table():
            yield from _render_table(block, width)
        case b.Matrix(title=title, names=names, counts=counts):
            rows = [[name, *map(str, row)] for name, row in zip(names, counts, strict=True)]
            yield from _render_table(b.Table(title, ["", *names], rows), width)
        case b.Absent(what=what, needed=needed):
            yield _text(f"{what}. {needed}", "note")
        case b.MarkedText():
            yield color_tokens(block)
        case b.ClaimCard():
            yield _text(f"{block.number} {block.sentence}")
            yield _text(f"  {block.verdict}", _VERDICTS.get(block.verdict, "warning"))
            yield from (_text(f"  {note}", "note") for note in block.notes)
        case _:
            assert_never(block)


def _text(text: str, style: b.TextStyle = "plain") -> Text:
    return Text(tame(text), style=_STYLES[style])


def _render_table(table: b.Table, width: int) -> Iterator[RichTable]:
    """As many tables as it takes for no number to be cut in a narrow terminal; each repeats the first column."""
    head, rows, is_number = table.head, table.texts(), table.is_number_column()
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    is_prose = any(longest > _LONGEST_WORDS for longest in widths[1:])
    title, first = table.title, 1
    while first < len(head) or (first == 1 and len(head) == 1):
        last = first + 1
        while last < len(head) and (
            is_prose or 1 + sum(w + 3 for w in (widths[0], *widths[first : last + 1])) <= width
        ):
            last += 1
        made = RichTable(title=Text(tame(title)) if title else None, title_justify="left", show_header=any(head))
        for column in (0, *range(first, min(last, len(head)))):
            made.add_column(Text(tame(head[column])), justify="right" if is_number[column] else "left")
        for number, row in enumerate(rows):
            cells = [row[0], *row[first:last]]
            made.add_row(*map(_text, cells), style="bold" if number == table.marked else "")
        yield made
        title, first = "", last


def color_tokens(tokens: b.MarkedText) -> Text:
    """The text as it is, each token in the colour of its suspicion; those marked for another reason underlined."""
    text = _text(tokens.text)
    for span in tokens.spans:
        if span.p_replaced is not None:
            text.stylize(suspicion_style(span.p_replaced), span.start, span.end)
        if span.mark == "hidden":
            text.stylize("strike", span.start, span.end)
        elif span.mark:
            text.stylize("underline", span.start, span.end)
    return text


def suspicion_style(p_replaced: float) -> str:
    """Green up to what any token has: in training about one in seven is replaced, so 0.2 is already news."""
    if p_replaced > 0.5:
        return "bold white on red"
    if p_replaced > 0.3:
        return "bold red"
    return "yellow" if p_replaced > 0.2 else "green"


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """The curve in one line, each bar the mean of its part of the run.

    >>> sparkline([8, 7, 6, 5, 4, 3, 2, 1])
    '█▇▆▅▄▃▂▁'
    """
    bars = "▁▂▃▄▅▆▇█"
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    return "".join(bars[int((mean - low) / (high - low or 1) * (len(bars) - 1))] for mean in means)
