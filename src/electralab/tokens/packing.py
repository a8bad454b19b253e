"""Token ids of documents -> rows of a fixed length, (N, T), each [CLS] … [SEP] and padded with [PAD].

list[ids] -> NDArray
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.randomness import mix
from electralab.tokens.tokenizer import SpecialIds

PackingKind = Literal["contiguous", "pairs", "documents"]
Ids = NDArray[np.integer]

# A padded last row with less than this teaches nothing.
_MIN_TOKENS = 4

_SHORT_SHARE = 0.05
_SHORTEST = 5
_SINGLE_SHARE = 0.1


class PackingConfig(Settings):
    sequence_length: int = Field(default=128, ge=8, le=65_536)
    kind: PackingKind = "contiguous"
    """Documents end to end, the paper's pairs of segments, or each document in rows of its own, which is what --symbols
    takes where it is not set."""


def pack_contiguous(documents: Sequence[Ids], length: int, special: SpecialIds) -> Ids:
    """The documents joined by [SEP] and cut into rows; only the last row may be padded."""
    width = length - 2
    joined: list[Ids] = []
    for ids in documents:
        if len(ids):
            joined += [ids, np.array([special.sep], dtype=ids.dtype)]
    stream: Ids = np.concatenate(joined[:-1]) if joined else np.empty(0, dtype=np.int64)
    count, rest = divmod(len(stream), width)
    count += rest >= _MIN_TOKENS or (count == 0 and rest > 0)
    rows: Ids = np.full((count, length), special.pad, dtype=stream.dtype)
    rows[:, 0] = special.cls
    body = stream[: count * width]
    full = len(body) // width
    rows[:full, 1:-1] = body[: full * width].reshape(full, width)
    rows[:full, -1] = special.sep
    tail = body[full * width :]
    if len(tail):
        rows[-1, 1 : len(tail) + 1] = tail
        rows[-1, len(tail) + 1] = special.sep
    return rows


def pack_documents(documents: Sequence[Ids], length: int, special: SpecialIds) -> Ids:
    """Each document in a row of its own, padded; a longer one in several, of which the last goes back to be full.

    >>> special = SpecialIds(pad=0, unk=1, cls=2, sep=3, mask=4)
    >>> pack_documents([np.array([7, 8]), np.array([7, 8, 9, 10])], 5, special).tolist()
    [[2, 7, 8, 3, 0], [2, 7, 8, 9, 3], [2, 8, 9, 10, 3]]
    """
    width = length - 2
    pieces: list[Ids] = []
    for ids in documents:
        whole = len(ids) // width * width
        pieces += [ids[start : start + width] for start in range(0, whole, width)]
        if whole < len(ids):
            pieces.append(ids[-width:])
    rows: Ids = np.full((len(pieces), length), special.pad, dtype=pieces[0].dtype if pieces else np.int64)
    for row, piece in zip(rows, pieces, strict=True):
        row[0] = special.cls
        row[1 : len(piece) + 1] = piece
        row[len(piece) + 1] = special.sep
    return rows


def pack_pairs(documents: Iterable[Sequence[Ids]], length: int, special: SpecialIds, *key: int) -> Ids:
    """The paper's examples from each document's lines: [CLS] A [SEP] B [SEP], at times one segment or a short row."""
    full = [[ids for ids in lines if len(ids)] for lines in documents]
    # Each line's four numbers in [0, 1), from its index among the lines alone. (L, 4)
    words = mix(*key, np.arange(sum(map(len, full)))[:, None], np.arange(4)[None, :])
    draws = iter(((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).tolist())
    rows: list[Ids] = []
    for lines in full:
        held: list[_Line] = []
        size = 0
        for ids in lines:
            held.append(_Line(ids, *next(draws)))
            size += len(ids)
            if size >= _target_length(held[0], length):
                rows.append(_example(held, length, special))
                held, size = [], 0
        if held:
            rows.append(_example(held, length, special))
    return np.stack(rows) if rows else np.empty((0, length), dtype=np.int64)


class _Line(NamedTuple):
    """A line with its four numbers in [0, 1); the first three count where it begins an example."""

    ids: Ids
    short: float
    size: float
    single: float
    coin: float


def _target_length(first: _Line, length: int) -> int:
    return _SHORTEST + int(first.size * (length - _SHORTEST + 1)) if first.short < _SHORT_SHARE else length


def _example(lines: Sequence[_Line], length: int, special: SpecialIds) -> Ids:
    wanted = np.inf if lines[0].single < _SINGLE_SHARE else (_target_length(lines[0], length) - 3) // 2
    # At least one line forms the first segment; the line that crosses the middle goes as its coin falls.
    count, size = 1, len(lines[0].ids)
    for line in lines[1:]:
        if size + len(line.ids) >= wanted and not (size < wanted and line.coin < 0.5):
            break
        count += 1
        size += len(line.ids)
    first = np.concatenate([line.ids for line in lines[:count]])[: length - 2]
    row = np.full(length, special.pad, dtype=first.dtype)
    row[0] = special.cls
    row[1 : len(first) + 1] = first
    row[len(first) + 1] = special.sep
    room = length - len(first) - 3
    if count < len(lines) and room > 0:
        second = np.concatenate([line.ids for line in lines[count:]])[:room]
        row[len(first) + 2 : len(first) + 2 + len(second)] = second
        row[len(first) + 2 + len(second)] = special.sep
    return row
