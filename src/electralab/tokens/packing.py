"""Token ids of documents -> rows of a fixed length, (N, T), each [CLS] … [SEP] and padded with [PAD].

list[ids] -> NDArray
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.randomness import mix
from electralab.tokens.tokenizer import SpecialIds

PackingKind = Literal["contiguous", "pairs"]
Ids = NDArray[np.integer]

# A padded last row with less than this teaches nothing.
_MIN_TOKENS = 4

_SHORT_SHARE = 0.05
_SINGLE_SHARE = 0.1


class PackingConfig(Settings):
    sequence_length: int = Field(default=128, ge=8, le=65_536)
    kind: PackingKind = "contiguous"


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


def pack_pairs(documents: Iterable[Sequence[Ids]], length: int, special: SpecialIds, *key: int) -> Ids:
    """The paper's examples from each document's lines: [CLS] A [SEP] B [SEP], at times one segment or a short row."""
    rows = [row for number, lines in enumerate(documents) for row in _examples(lines, length, special, (*key, number))]
    return np.stack(rows) if rows else np.empty((0, length), dtype=np.int64)


def _examples(lines: Sequence[Ids], length: int, special: SpecialIds, key: tuple[int, ...]) -> Iterator[Ids]:
    """Lines gather until they reach the target length; the target of each example is drawn anew."""
    held: list[Ids] = []
    number = 0
    target = _target_length(length, key, number)
    for ids in lines:
        if not len(ids):
            continue
        held.append(ids)
        if sum(map(len, held)) >= target:
            yield _example(held, target, length, special, (*key, number))
            held, number = [], number + 1
            target = _target_length(length, key, number)
    if held:
        yield _example(held, target, length, special, (*key, number))


def _target_length(length: int, key: tuple[int, ...], number: int) -> int:
    is_short, size = _uniforms(2, *key, number, 0)
    return 5 + int(size * (length - 4)) if is_short < _SHORT_SHARE else length


def _example(lines: Sequence[Ids], target: int, length: int, special: SpecialIds, key: tuple[int, ...]) -> Ids:
    draws = _uniforms(len(lines) + 1, *key, 1)
    first_target = np.inf if draws[0] < _SINGLE_SHARE else (target - 3) // 2
    first: list[Ids] = []
    second: list[Ids] = []
    size = 0
    for ids, coin in zip(lines, draws[1:], strict=True):
        # The line that crosses the middle goes to either side, as the coin falls.
        fits = size + len(ids) < first_target or (not second and size < first_target and coin < 0.5)
        if not first or (fits and not second):
            first.append(ids)
            size += len(ids)
        else:
            second.append(ids)
    a = np.concatenate(first)[: length - 2]
    b = np.concatenate(second)[: max(0, length - len(a) - 3)] if second else np.empty(0, dtype=np.int64)
    row = np.full(length, special.pad, dtype=np.int64)
    parts = [[special.cls], a, [special.sep], *([b, [special.sep]] if len(b) else [])]
    filled = np.concatenate(parts)
    row[: len(filled)] = filled
    return row


def _uniforms(count: int, *key: int) -> NDArray[np.float64]:
    words = mix(*key, np.arange(count))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
