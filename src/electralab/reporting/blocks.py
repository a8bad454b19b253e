"""What a record gives to be seen: text, tables, pictures, tokens. Renderers know blocks and nothing else.

record -> Block... -> terminal, Markdown, HTML

A block says what stands there, never how it is drawn. All its text may come from a file that somebody else wrote: each
renderer makes it harmless in its own way.
"""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

from electralab.reporting.format import escape_cell, format_value, is_number

TextStyle = Literal["plain", "lead", "note", "strong", "warning", "good", "bad"]
"""`lead` opens a page or a report; a `note` may be passed over."""


class Best(NamedTuple):
    """A cell that is the best of its row."""

    value: object


Cell = object
"""A number, text, nothing, or the best of its row."""


class Paragraph(NamedTuple):
    text: str
    style: TextStyle = "plain"


class Bullets(NamedTuple):
    items: Sequence[str]
    style: TextStyle = "plain"


class Heading(NamedTuple):
    text: str
    anchor: str = ""
    """What a link to it says."""
    level: int = 2


class Table(NamedTuple):
    """The first cell of a row names it; columns of numbers stand to the right; the row `marked` stands out."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    marked: int = -1

    def is_number_column(self) -> list[bool]:
        """For each column of the head. A cell that says nothing does not decide."""

        def is_numeric(cell: Cell) -> bool:
            value = cell.value if isinstance(cell, Best) else cell
            if value in (None, "", "–"):
                return True
            return is_number(value) or (isinstance(value, str) and value.lstrip("−+-<≤ ")[:1].isdigit())

        columns = list(zip_longest(*(row[: len(self.head)] for row in self.rows), fillvalue=None))[1:]
        rest = [all(map(is_numeric, column)) for column in columns]
        return [False, *rest, *[False] * len(self.head)][: len(self.head)]

    def texts(self) -> list[list[str]]:
        """The rows as they are read, each as long as the head."""
        return [
            [*(format_cell(cell) for cell in row), *[""] * (len(self.head) - len(row))][: len(self.head)]
            for row in self.rows
        ]

    def markdown(self) -> str:
        lines = [
            " | ".join(map(escape_cell, self.head)),
            "|".join("---:" if is_number else "---" for is_number in self.is_number_column()),
            *(" | ".join(map(escape_cell, row)) for row in self.texts()),
        ]
        return "\n".join(f"| {line} |" if number != 1 else f"|{line}|" for number, line in enumerate(lines))


def format_cell(cell: Cell) -> str:
    return format_value(cell.value if isinstance(cell, Best) else cell)


class Matrix(NamedTuple):
    """A row and a column for each name; the diagonal is what should be."""

    title: str
    names: Sequence[str]
    counts: Sequence[Sequence[int]]


class Code(NamedTuple):
    text: str
    language: str = ""


class Picture(NamedTuple):
    title: str
    address: str
    """A file beside the text, or a data: address."""
    meaning: str = ""


class Absent(NamedTuple):
    """Stands where a figure would be: what is not there, and what it takes."""

    what: str
    needed: str


class TokenSpan(NamedTuple):
    """A token, or another part of a text that is marked."""

    start: int
    end: int
    p_replaced: float | None = None
    """How likely the discriminator holds it to be replaced; None where it was not asked."""
    mark: Literal["", "hidden", "replaced", "restored"] = ""
    """Hidden from the model; put there by the generator and wrong, or right."""
    note: str = ""
    """Said behind it."""


class MarkedText(NamedTuple):
    """A text as it is, with marked parts in order."""

    text: str
    spans: Sequence[TokenSpan]
    style: TextStyle = "plain"


class Tile(NamedTuple):
    """One of the few numbers that a reader looks for first, with what to hold it against."""

    name: str
    value: str
    beside: str


class Tiles(NamedTuple):
    tiles: Sequence[Tile]


class Definitions(NamedTuple):
    words: Mapping[str, str]


class Links(NamedTuple):
    """Anchor of a heading -> what to say of it."""

    texts: Mapping[str, str]


class StepsTaken(NamedTuple):
    taken: int
    total: int


class Fold(NamedTuple):
    """More than a reader takes in at once, behind its title."""

    title: str
    blocks: "Sequence[PageBlock]"


class Group(NamedTuple):
    """Blocks that belong together."""

    kind: Literal["beside", "cards", "card", "charts", "clouds", "example", "claims"]
    blocks: "Sequence[PageBlock]"


class ClaimCard(NamedTuple):
    """A claim, what was found of it, and the figures that the verdict rests on."""

    number: str
    verdict: str
    sentence: str
    measure: str
    figures: Mapping[str, tuple[float, float | None, float | None]]
    """By model: a value and the ends of its 95 % interval, where there is one."""
    notes: Sequence[str]


class Scatter(NamedTuple):
    """Gold and predicted numbers: what is right lies on the diagonal."""

    title: str
    points: Sequence[tuple[float, float]]


class CloudFigure(NamedTuple):
    """Points in space that the reader may turn, each with a category and a word."""

    name: str
    title: str
    points: Sequence[Sequence[float]]
    categories: Sequence[str]
    words: Sequence[str]

    def names(self) -> list[str]:
        """The categories, the most frequent first."""
        return sorted(set(self.categories), key=lambda name: (-self.categories.count(name), name))


class Line(NamedTuple):
    """A curve. It carries every x that its records have; the page chooses among them."""

    name: str
    color: int
    x: Mapping[str, Sequence[float | None]]
    y: Sequence[float | None]
    dash: int = 0
    """Tells lines of one run apart where colours tell runs apart."""
    is_noisy: bool = False
    """Single batches, which smoothing may average; scores of held-out rows are shown as they are."""


class ReferenceLine(NamedTuple):
    """What a trivial answer reaches: a line across."""

    name: str
    color: int
    y: float


class Band(NamedTuple):
    """A stretch of the axis that is marked from bottom to top."""

    color: int
    start: float
    end: float


class Chart(NamedTuple):
    name: str
    title: str
    unit: str
    section: Literal["learning", "balance", "pace", "study", "series"]
    lines: Sequence[Line]
    levels: Sequence[ReferenceLine] = ()
    note: str = ""
    axis: str = "step"
    """Over what it is drawn before a reader chooses."""
    bands: Sequence[Band] = ()
    """Of that axis."""

    @property
    def is_zero(self) -> bool:
        """Nothing happened yet that it would show."""
        return not any(value for line in self.lines for value in line.y)


# fmt: off
PageBlock = (
    Paragraph | Bullets | Heading | Table | Matrix | Code | Picture | Absent | MarkedText | Tiles | Definitions | Links
    | StepsTaken | Fold | Group | ClaimCard | Scatter | CloudFigure | Chart
)
# fmt: on

Block = Paragraph | Bullets | Heading | Table | Matrix | Absent | MarkedText | ClaimCard
"""What a terminal shows as well as a page."""

MOST_ROWS = 12


def long_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> PageBlock:
    """Folded where it is more than a reader takes in."""
    table = Table(title, head, rows)
    return Fold(f"{title}: {len(rows)} rows", [table]) if len(rows) > MOST_ROWS else table


def join_tokens(
    tokens: Sequence[str], spans: Sequence[tuple[float | None, Literal["", "hidden", "replaced", "restored"]]]
) -> MarkedText:
    """WordPiece tokens as a text: one that begins with ## goes on with a word. A token without a mark has no span."""
    text, marked = "", []
    for token, (p_replaced, mark) in zip(tokens, spans, strict=True):
        continues = token.startswith("##") and len(token) > 2
        text += "" if continues or not text else " "
        start, text = len(text), text + (token[2:] if continues else token)
        if mark or p_replaced is not None:
            marked.append(TokenSpan(start, len(text), p_replaced, mark))
    return MarkedText(text, marked)
