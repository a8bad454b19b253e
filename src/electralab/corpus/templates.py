"""Which event a line of a log reports: its words without what varies from line to line.

    message -> pieces -> (all messages together) templates -> TemplateTree: message -> event

What looks like a value (numbers, addresses, paths, dates, ids, what follows `=`) is masked first. Then templates that
differ in one word are merged, as far as that word is shown to be a value: by values in its place that hold digits, by
many different words there, or by words that are values elsewhere in the log. Nothing is set for a single log.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from electralab.records.logs import LogTemplate

ANY = "<*>"
Pieces = tuple[str, ...]

# Stands for a value inside of a word until the word is masked as a whole.
_VALUE = "\x00"
_VALUES = re.compile(
    "|".join(
        (
            r"[a-zA-Z][\w+.-]*://[^\s,;\])>]+",  # URL
            r"/?\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b",  # IPv4
            r"(?<![\w.:])(?:[0-9a-fA-F]{0,4}:){3,}[0-9a-fA-F]{1,4}(?!\w)",  # IPv6, MAC
            r"(?<![\w.-])[\w-]+(?:\.[\w-]+)+:\d+\b",  # host and port
            r"(?<!\w)[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # e-mail
            r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b[\w ]*\d\d:\d\d:\d\d(?: [A-Z]{3,4})?(?: \d{4})?",
            r"\b\d{1,4}[-/]\d{1,2}[-/]\d{1,4}\b",  # date
            r"\b\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?\b",  # time
            r"(?<![\w<])(?:/[\w.+$@%#~-]+)+/?",  # path
            r"\b0x[0-9a-fA-F]+\b",
            # A number and its unit.
            r"(?<![\w.])[-+]?\d+(?:[.,]\d+)*\s?(?:[KMGTP]i?B|[kMG]?bytes?|B|[mun]?s|secs?|seconds?|[kMG]?Hz|%)(?!\w)",
        )
    )
)
_SEPARATORS = frozenset("=:,;()[]{}<>\"'|")
_PIECE = re.compile(r"""[^\s=:,;()\[\]{}<>"'|]+|[=:,;()\[\]{}<>"'|]""")
_CLOSING = {"(": ")", "[": "]"}
# Lists in a message, whose parts are as many as they happen to be: the most pieces that a part may have.
_LONGEST_REPEATED = 5
# What comes after so many characters of a message does not decide what it is.
_MOST_CHARACTERS = 1000
# Messages whose event is remembered.
_REMEMBERED = 1 << 16
# So many different words in one place, all else being equal, are values.
_MANY_WORDS = 10


@dataclass(frozen=True, slots=True)
class SplitMessage:
    pieces: Pieces
    is_glued: tuple[bool, ...]
    """Whether there is no space before the piece, to write the template as the message is written."""
    values: frozenset[str]
    """Words that are written as values."""


def split_message(message: str) -> SplitMessage:
    """Words and punctuation, with <*> in the place of what looks like a value.

    >>> " ".join(split_message("session 31 opened for uid=root (from 10.0.0.7:22) in 3.5 ms").pieces)
    'session <*> opened for uid = <*> ( from <*> ) in <*>'
    """
    if len(message) > _MOST_CHARACTERS:
        message = message[: message.rfind(" ", 0, _MOST_CHARACTERS) % _MOST_CHARACTERS]
    masked = _VALUES.sub(_VALUE, message)
    pieces: list[str] = []
    glued: list[bool] = []
    values: set[str] = set()
    for match in _PIECE.finditer(masked):
        piece, start = match.group(), match.start()
        is_glued = start > 0 and not masked[start - 1].isspace()
        before = pieces[-1] if pieces and is_glued else ""
        if before == "=" and piece not in _SEPARATORS:
            values.add(piece)
            piece = ANY
        elif _VALUE in piece or any(map(str.isdigit, piece)):
            piece = ANY
        if before in _CLOSING and piece == _CLOSING[before]:  # what is empty here holds a value elsewhere
            pieces.append(ANY)
            glued.append(True)
        if piece == ANY and pieces:
            if pieces[-1] == ANY:
                continue
            # 01:3f:22 is one value, not three.
            if before == ":" and len(pieces) > 1 and pieces[-2] == ANY and glued[-1]:
                pieces.pop()
                glued.pop()
                continue
        pieces.append(piece)
        glued.append(is_glued)
        for size in range(2, _LONGEST_REPEATED + 1):
            if pieces[-size:] == pieces[-2 * size : -size] and ANY in pieces[-size:]:
                del pieces[-size:], glued[-size:]
                break
    return SplitMessage(tuple(pieces), tuple(glued), frozenset(values))


@dataclass(slots=True)
class _Seen:
    order: int
    lines: int
    message: str
    glued: tuple[bool, ...]


@dataclass(slots=True)
class TemplateMiner:
    """Messages, one after the other, then `find`: the templates of all of them."""

    _seen: dict[Pieces, _Seen] = field(default_factory=dict)
    _values: set[str] = field(default_factory=set)

    def add(self, message: str) -> Pieces:
        split = split_message(message)
        self._values |= split.values
        seen = self._seen.setdefault(split.pieces, _Seen(len(self._seen), 0, message, split.is_glued))
        seen.lines += 1
        return split.pieces

    def find(self) -> list[LogTemplate]:
        """In the order in which they first appear."""
        merged = _merge(set(self._seen), set(self._values))
        first: dict[Pieces, _Seen] = {}
        lines: Counter[Pieces] = Counter()
        for pieces, seen in self._seen.items():
            first.setdefault(merged[pieces], seen)
            lines[merged[pieces]] += seen.lines
        return [
            LogTemplate(
                event=f"E{number}",
                template="".join(
                    piece if glued else f" {piece}" for piece, glued in zip(pieces, seen.glued, strict=True)
                ).strip(),
                pieces=pieces,
                lines=lines[pieces],
                example=seen.message,
            )
            for number, (pieces, seen) in enumerate(first.items(), start=1)
        ]


def _merge(every: set[Pieces], values: set[str]) -> dict[Pieces, Pieces]:
    """What becomes of each: itself, or a more general one."""
    merged = {pieces: pieces for pieces in every}
    while True:
        words: defaultdict[tuple[Pieces, Pieces], set[str]] = defaultdict(set)
        for pieces in set(merged.values()):
            for place, word in enumerate(pieces):
                # What comes first in a message says what it is about.
                if word not in _SEPARATORS and any(before not in _SEPARATORS | {ANY} for before in pieces[:place]):
                    words[pieces[:place], pieces[place + 1 :]].add(word)
        clear = [
            (around, own)
            for around, own in words.items()
            if len(own) > 1 and (ANY in own or len(own) >= _MANY_WORDS or own & values)
        ]
        if not clear:
            return merged
        renamed: dict[Pieces, Pieces] = {}
        # The clearest first; the rest only where it is not the same line that is merged at another place.
        for (before, after), own in sorted(clear, key=lambda item: (-len(item[1]), item[0])):
            olds = [(*before, word, *after) for word in own]
            if not any(old in renamed for old in olds):
                renamed |= dict.fromkeys(olds, (*before, ANY, *after))
                if len(own) > 2 or ANY in own:
                    values |= own - {ANY}
        merged = {pieces: renamed.get(general, general) for pieces, general in merged.items()}


@dataclass(slots=True)
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict)
    event: str | None = None


class TemplateTree:
    """The templates as a tree of their pieces, in which a new message finds its event."""

    def __init__(self, templates: Iterable[LogTemplate]) -> None:
        self._root = _Node()
        self._known: dict[Pieces, str | None] = {}
        for template in templates:
            node = self._root
            for piece in template.pieces:
                node = node.children.setdefault(piece, _Node())
            node.event = template.event

    def find(self, message: str) -> str | None:
        """The event of the message, if it is one that is known."""
        return self.find_pieces(split_message(message).pieces)

    def find_pieces(self, pieces: Pieces) -> str | None:
        """Of several that fit, that with the longest common beginning."""
        if pieces not in self._known:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            self._known[pieces] = _walk(self._root, pieces)
        return self._known[pieces]


def _walk(node: _Node, pieces: Pieces, place: int = 0) -> str | None:
    if place == len(pieces):
        return node.event
    piece = pieces[place]
    for choice in (piece,) if piece in _SEPARATORS or piece == ANY else (piece, ANY):
        child = node.children.get(choice)
        event = None if child is None else _walk(child, pieces, place + 1)
        if event is not None:
            return event
    return None
