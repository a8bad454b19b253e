"""Blocks as Markdown, for reports and model cards.

Block... -> text
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from electralab.reporting.blocks import (
    Absent,
    Block,
    Bullets,
    Chart,
    ClaimCard,
    CloudFigure,
    Code,
    Definitions,
    Fold,
    Group,
    Heading,
    Links,
    MarkedText,
    Matrix,
    Paragraph,
    Picture,
    Scatter,
    StepsTaken,
    Table,
    Tiles,
)


def render_markdown(blocks: Sequence[Block]) -> str:
    """One blank line between blocks, and a line end behind the last."""
    return "\n\n".join(text for block in blocks for text in _render(block) if text) + "\n"


def _render(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text=text, style=style):
            yield f"**{text}**" if style == "strong" else text
        case Bullets(items=items):
            yield "\n".join(f"- {item}" for item in items)
        case Heading(text=text, level=level):
            yield f"{'#' * level} {text}"
        case Table(title=title):
            yield title and f"{title}:"
            yield render_table(block)
        case Matrix(title=title, names=names, counts=counts):
            # Its corner says how to read it, and its title says the same at length.
            rows = [[name, *map(str, row)] for name, row in zip(names, counts, strict=True)]
            yield render_table(Table("", ["true, predicted as", *names], rows))
        case Code(text=text, language=language):
            yield f"```{language}\n{text}\n```"
        case Picture(title=title, address=address, meaning=meaning):
            yield f"![{title}]({address})"
            yield meaning
        case Absent(what=what, needed=needed):
            yield f"**{what}.** {needed}"
        case MarkedText(text=text):
            yield text
        case Tiles(tiles=tiles):
            yield "\n".join(f"- {tile.name}: {tile.value}{f' ({tile.beside})' * bool(tile.beside)}" for tile in tiles)
        case Definitions(words=words):
            yield "\n".join(f"- *{word}*: {text}" for word, text in words.items())
        case Fold(blocks=inner) | Group(blocks=inner):
            for part in inner:
                yield from _render(part)
        case ClaimCard():
            yield f"**{block.number}: {block.verdict}.** {block.sentence}"
            yield "\n".join(f"- {note}" for note in block.notes)
        case Chart() | Scatter() | CloudFigure() | Links() | StepsTaken():
            # What moves, or is drawn, has a picture of its own in a folder of Markdown.
            pass
        case _:
            assert_never(block)


def render_table(table: Table) -> str:
    lines = [
        " | ".join(map(escape_cell, table.head)),
        "|".join("---:" if is_number else "---" for is_number in table.is_number_column()),
        *(" | ".join(map(escape_cell, row)) for row in table.texts()),
    ]
    return "\n".join(f"| {line} |" if number != 1 else f"|{line}|" for number, line in enumerate(lines))


def escape_cell(text: str) -> str:
    """A bar would end the cell, also behind a backslash, and a line break the row."""
    return " ".join(text.replace("|", "&#124;").split())
