"""Texts -> rows that fit the model, each different one once.

texts -> Sentences
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from electralab.tokens.tokenizer import Tokenizer

_TEXTS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Sentences:
    """Rows [CLS] … [SEP], not padded, each different one once however often it was asked for."""

    rows: list[NDArray[np.int64]]
    places: NDArray[np.int64]  # (N,) the row of each text
    truncated: int
    """How many of the texts were too long and lost their end."""


def encode_sentences(tokenizer: Tokenizer, texts: Sequence[str], sequence_length: int) -> Sentences:
    special = tokenizer.special
    found: dict[bytes, int] = {}
    rows: list[NDArray[np.int64]] = []
    places = np.empty(len(texts), dtype=np.int64)
    truncated = 0
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        for place, ids in enumerate(tokenizer.encode_many(texts[start : start + _TEXTS_AT_ONCE]), start):
            truncated += len(ids) > sequence_length - 2
            row = np.concatenate([[special.cls], ids[: sequence_length - 2], [special.sep]])
            places[place] = found.setdefault(row.tobytes(), len(rows))
            if places[place] == len(rows):
                rows.append(row)
    return Sentences(rows, places, truncated)
