"""Text -> HTML that says the same: everything that comes from a file is escaped here.

rows -> table; words -> paragraphs
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import Any

from electralab.reporting.format import format_value, is_number

Cell = Any
"""A number or text, or one that is the best of its row."""


@dataclass(frozen=True, slots=True)
class Best:
    value: Any


MOST_ROWS = 12


def paragraph(text: str, kind: str = "") -> str:
    unbroken = text.replace(" %", "\N{NO-BREAK SPACE}%")
    return f"<p{_class(kind)}>{escape(unbroken)}</p>"


def bullets(texts: Sequence[str], kind: str = "") -> str:
    return f"<ul{_class(kind)}>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def absent(what: str, needed: str) -> str:
    """Said where a figure would be."""
    return f'<p class="absent"><strong>{escape(what)}.</strong> {escape(needed)}</p>'


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], marked: int = -1) -> str:
    """The first cell of a row names it; columns of numbers stand to the right; the row `marked` stands out."""
    numbers = [False, *(_is_numeric(column) for column in list(zip_longest(*rows))[1:])]
    kinds = ["number" if one else "" for one in numbers] + [""] * len(head)
    top = "".join(f'<th scope="col"{_class(kind)}>{escape(name)}</th>' for name, kind in zip(head, kinds, strict=False))
    body = "".join(_row(row, kinds, number == marked) for number, row in enumerate(rows))
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def matrix(caption: str, names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """A row and a column for each name; the diagonal stands out, the rest is shaded by its share of the row."""
    top = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(_count_cell(count, sum(row), is_diagonal=column == place) for column, count in enumerate(row))
        + "</tr>"
        for place, (name, row) in enumerate(zip(names, counts, strict=True))
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0"><table class="matrix">'
        f"<caption>{escape(caption)}</caption><thead><tr><td></td>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _count_cell(count: int, total: int, *, is_diagonal: bool) -> str:
    heat = -(-9 * count // max(total, 1))
    kinds = "number marked" if is_diagonal else f"number heat-{heat}" if count else "number none"
    return f'<td class="{kinds}">{format_value(count)}</td>'


def fold(summary: str, inner: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inner}</details>"


def long_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Folded where it is more than a reader takes in."""
    shown = table(caption, head, rows)
    return fold(f"{caption}: {len(rows)} rows", shown) if len(rows) > MOST_ROWS else shown


def _row(cells: Sequence[Cell], kinds: Sequence[str], is_marked: bool) -> str:
    first, *rest = cells
    # Names such as optimizer.learning_rate may be broken where a person would.
    name = re.sub(r"([._])(?=[a-z])", r"\1<wbr>", escape(format_value(first)))
    return (
        f'<tr{_class("marked" if is_marked else "")}><th scope="row">{name}</th>'
        + "".join(f"<td{_class(kind)}>{_cell(one)}</td>" for one, kind in zip(rest, kinds[1:], strict=False))
        + "</tr>"
    )


def _cell(cell: Cell) -> str:
    return (
        f"<strong>{escape(format_value(cell.value))}</strong>" if isinstance(cell, Best) else escape(format_value(cell))
    )


def _is_numeric(column: Sequence[Cell]) -> bool:
    values = (one.value if isinstance(one, Best) else one for one in column)
    said = [one for one in values if one not in (None, "", "–")]
    return all(is_number(one) or (isinstance(one, str) and one.lstrip("−+-")[:1].isdigit()) for one in said)


def section(name: str, title: str, *parts: str, is_folded: bool = False) -> str:
    """Nothing where there is nothing to say."""
    inner = "\n".join(part for part in parts if part)
    if not inner:
        return ""
    if is_folded:
        inner = fold("Show", inner)
    head = f'<h2 id="{name}-title">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{inner}</section>'


def heading(text: str, name: str = "") -> str:
    """`name`: what a link to it says."""
    place = f' id="{escape(name)}"' if name else ""
    return f"<h3{place}>{escape(text)}</h3>"


def links(names: Mapping[str, str]) -> str:
    """name of a heading -> what to say of it"""
    items = "".join(f'<li><a href="#{escape(name)}">{escape(text)}</a></li>' for name, text in names.items())
    return f'<ul class="links">{items}</ul>'


def picture(title: str, address: str, meaning: str = "") -> str:
    """As large as it is drawn; where the page is narrower it scrolls."""
    told = f"<strong>{escape(title)}</strong> {escape(meaning)}" if meaning else escape(title)
    return (
        f'<figure class="picture"><div class="view" role="group" tabindex="0" aria-label="{escape(title)}">'
        f'<img src="{address}" alt="{escape(title)}"></div><figcaption>{told}</figcaption></figure>'
    )


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
