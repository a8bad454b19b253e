"""What a record gives to be seen: text, tables, pictures, tokens. Renderers know blocks and nothing else.

record -> Block... -> terminal, Markdown, HTML

A block says what stands there, never how it is drawn. All its text may come from a file that somebody else wrote: each
renderer makes it harmless in its own way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from electralab.reporting.format import format_value, is_number

TextStyle = Literal["plain", "lead", "note", "strong", "warning", "good", "bad"]
"""`lead` opens a page or a report; a `note` may be passed over."""


@dataclass(frozen=True, slots=True)
class Best:
    """A cell that is the best of its row."""

    value: object


Cell = object
"""A number, text, nothing, or the best of its row."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    style: TextStyle = "plain"


@dataclass(frozen=True, slots=True)
class Bullets:
    items: Sequence[str]
    style: TextStyle = "plain"


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    anchor: str = ""
    """What a link to it says."""
    level: int = 2


@dataclass(frozen=True, slots=True)
class Table:
    """The first cell of a row names it; columns of numbers stand to the right; the row `marked` stands out."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    marked: int = -1

    def is_number_column(self) -> list[bool]:
        """For each column of the head. A cell that says nothing does not decide."""
        columns = list(zip_longest(*(row[: len(self.head)] for row in self.rows), fillvalue=None))[1:]
        rest = [all(map(_looks_like_number, column)) for column in columns]
        return [False, *rest, *[False] * len(self.head)][: len(self.head)]

    def texts(self) -> list[list[str]]:
        """The rows as they are read, each as long as the head."""
        return [
            [*(format_cell(cell) for cell in row), *[""] * (len(self.head) - len(row))][: len(self.head)]
            for row in self.rows
        ]


def format_cell(cell: Cell) -> str:
    return format_value(cell.value if isinstance(cell, Best) else cell)


def _looks_like_number(cell: Cell) -> bool:
    value = cell.value if isinstance(cell, Best) else cell
    if value in (None, "", "–"):
        return True
    return is_number(value) or (isinstance(value, str) and value.lstrip("−+-<≤ ")[:1].isdigit())


@dataclass(frozen=True, slots=True)
class Matrix:
    """A row and a column for each name; the diagonal is what should be."""

    title: str
    names: Sequence[str]
    counts: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Code:
    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    address: str
    """A file beside the text, or a data: address."""
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """Stands where a figure would be: what is not there, and what it takes."""

    what: str
    needed: str


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token, or another part of a text that is marked."""

    start: int
    end: int
    p_replaced: float | None = None
    """How likely the discriminator holds it to be replaced; None where it was not asked."""
    mark: Literal["", "hidden", "replaced", "restored"] = ""
    """Hidden from the model; put there by the generator and wrong, or right."""
    note: str = ""
    """Said behind it."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text as it is, with marked parts in order."""

    text: str
    spans: Sequence[TokenSpan]
    style: TextStyle = "plain"


@dataclass(frozen=True, slots=True)
class Tile:
    """One of the few numbers that a reader looks for first, with what to hold it against."""

    name: str
    value: str
    beside: str


@dataclass(frozen=True, slots=True)
class Tiles:
    tiles: Sequence[Tile]


@dataclass(frozen=True, slots=True)
class Definitions:
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Links:
    """Anchor of a heading -> what to say of it."""

    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StepsTaken:
    taken: int
    total: int


@dataclass(frozen=True, slots=True)
class Fold:
    """More than a reader takes in at once, behind its title."""

    title: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks that belong together."""

    kind: Literal["beside", "cards", "card", "charts", "clouds", "example", "claims"]
    blocks: "Sequence[Block]"


@dataclass(frozen=True, slots=True)
class ClaimCard:
    """A claim, what was found of it, and the figures that the verdict rests on."""

    number: str
    verdict: str
    sentence: str
    measure: str
    figures: Mapping[str, tuple[float, float | None, float | None]]
    """By model: a value and the ends of its 95 % interval, where there is one."""
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Scatter:
    """Gold and predicted numbers: what is right lies on the diagonal."""

    title: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class CloudFigure:
    """Points in space that the reader may turn, each with a category and a word."""

    name: str
    title: str
    points: Sequence[Sequence[float]]
    categories: Sequence[str]
    words: Sequence[str]

    def names(self) -> list[str]:
        """The categories, the most frequent first."""
        return sorted(set(self.categories), key=lambda name: (-self.categories.count(name), name))


@dataclass(frozen=True, slots=True)
class Line:
    """A curve. It carries every x that its records have; the page chooses among them."""

    name: str
    color: int
    x: Mapping[str, Sequence[float | None]]
    y: Sequence[float | None]
    dash: int = 0
    """Tells lines of one run apart where colours tell runs apart."""
    is_noisy: bool = False
    """Single batches, which smoothing may average; scores of held-out rows are shown as they are."""


@dataclass(frozen=True, slots=True)
class ReferenceLine:
    """What a trivial answer reaches: a line across."""

    name: str
    color: int
    y: float


@dataclass(frozen=True, slots=True)
class Chart:
    name: str
    title: str
    unit: str
    section: Literal["learning", "balance", "pace", "study"]
    lines: Sequence[Line]
    levels: Sequence[ReferenceLine] = ()
    note: str = ""
    axis: str = "step"
    """Over what it is drawn before a reader chooses."""

    @property
    def is_zero(self) -> bool:
        """Nothing happened yet that it would show."""
        return not any(value for line in self.lines for value in line.y)


Block = (
    Paragraph
    | Bullets
    | Heading
    | Table
    | Matrix
    | Code
    | Picture
    | Absent
    | MarkedText
    | Tiles
    | Definitions
    | Links
    | StepsTaken
    | Fold
    | Group
    | ClaimCard
    | Scatter
    | CloudFigure
    | Chart
)

MOST_ROWS = 12


def long_table(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Block:
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
