"""Text -> HTML that says the same: everything that comes from a file is escaped here.

rows -> table; words -> paragraphs
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from electralab.reporting.wording import is_number, say_value

Cell = Any
"""A number stands to the right; anything else is text."""


def paragraph(text: str, kind: str = "") -> str:
    unbroken = text.replace(" %", "\N{NO-BREAK SPACE}%")
    return f"<p{_class(kind)}>{escape(unbroken)}</p>"


def bullets(texts: Sequence[str], kind: str = "") -> str:
    return f"<ul{_class(kind)}>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def absent(what: str, needed: str) -> str:
    """Said where a figure would be."""
    return f'<p class="absent"><strong>{escape(what)}.</strong> {escape(needed)}</p>'


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], marked: int = -1) -> str:
    """The first cell of a row names it; the row numbered `marked` stands out."""
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(_row(row, number == marked) for number, row in enumerate(rows))
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(cells: Sequence[Cell], is_marked: bool) -> str:
    first, *rest = cells
    return (
        f'<tr{_class("marked" if is_marked else "")}><th scope="row">{escape(say_value(first))}</th>'
        + "".join(f"<td{_class('number' if _is_numeric(one) else '')}>{escape(say_value(one))}</td>" for one in rest)
        + "</tr>"
    )


def _is_numeric(cell: Cell) -> bool:
    return is_number(cell) or cell is None or (isinstance(cell, str) and cell[:1].strip("−+-").isdigit())


def section(name: str, title: str, *parts: str, is_folded: bool = False) -> str:
    """Nothing where there is nothing to say."""
    inner = "\n".join(part for part in parts if part)
    if not inner:
        return ""
    if is_folded:
        inner = f"<details><summary>Show</summary>{inner}</details>"
    head = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{inner}</section>'


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
