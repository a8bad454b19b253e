"""Blocks as Markdown, for reports and model cards.

Block... -> text
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from electralab.reporting import blocks as b


def render_markdown(blocks: Sequence[b.Block]) -> str:
    """One blank line between blocks, and a line end behind the last."""
    return "\n\n".join(text for block in blocks for text in _render(block) if text) + "\n"


def _render(block: b.Block) -> Iterator[str]:
    match block:
        case b.Paragraph(text=text, style=style):
            yield f"**{text}**" if style == "strong" else text
        case b.Bullets(items=items):
            yield "\n".join(f"- {item}" for item in items)
        case b.Heading(text=text, level=level):
            yield f"{'#' * level} {text}"
        case b.Table(title=title):
            yield title and f"{title}:"
            yield render_table(block)
        case b.Matrix(title=title, names=names, counts=counts):
            # Its corner says how to read it, and its title says the same at length.
            rows = [[name, *map(str, row)] for name, row in zip(names, counts, strict=True)]
            yield render_table(b.Table("", ["true, predicted as", *names], rows))
        case b.Code(text=text, language=language):
            yield f"```{language}\n{text}\n```"
        case b.Picture(title=title, address=address, meaning=meaning):
            yield f"![{title}]({address})"
            yield meaning
        case b.Absent(what=what, needed=needed):
            yield f"**{what}.** {needed}"
        case b.MarkedText(text=text):
            yield text
        case b.Tiles(tiles=tiles):
            yield "\n".join(f"- {tile.name}: {tile.value}{f' ({tile.beside})' * bool(tile.beside)}" for tile in tiles)
        case b.Definitions(words=words):
            yield "\n".join(f"- *{word}*: {text}" for word, text in words.items())
        case b.Fold(blocks=inner) | b.Group(blocks=inner):
            for part in inner:
                yield from _render(part)
        case b.ClaimCard():
            yield f"**{block.number}: {block.verdict}.** {block.sentence}"
            yield "\n".join(f"- {note}" for note in block.notes)
        case b.Chart() | b.Scatter() | b.CloudFigure() | b.Links() | b.StepsTaken():
            # What moves, or is drawn, has a picture of its own in a folder of Markdown.
            pass
        case _:
            assert_never(block)


def render_table(table: b.Table) -> str:
    lines = [
        " | ".join(map(escape_cell, table.head)),
        "|".join("---:" if is_number else "---" for is_number in table.is_number_column()),
        *(" | ".join(map(escape_cell, row)) for row in table.texts()),
    ]
    return "\n".join(f"| {line} |" if number != 1 else f"|{line}|" for number, line in enumerate(lines))


def escape_cell(text: str) -> str:
    """A bar would end the cell, also behind a backslash, and a line break the row."""
    return " ".join(text.replace("|", "&#124;").split())
