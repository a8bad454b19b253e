"""Texts -> batches of rows of about one length, so that little of a batch is padding.

texts -> Sentences -> SentenceBatch...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.tokens.tokenizer import SpecialIds, Tokenizer

_TEXTS_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Sentences:
    """Rows [CLS] … [SEP], not padded, each different one once however often it was asked for."""

    rows: list[NDArray[np.int64]]
    places: NDArray[np.int64]  # (N,) the row of each text
    truncated: int
    """How many of the texts were too long and lost their end."""


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    rows: NDArray[np.int64]  # (B,) which of the sentences' rows
    input_ids: Tensor  # (B, T)
    is_pad: Tensor  # (B, T)

    @property
    def attention_pad(self) -> Tensor | None:
        return self.is_pad if bool(self.is_pad.any()) else None


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


def batch_by_length(
    rows: Sequence[NDArray[np.int64]], special: SpecialIds, batch_tokens: int, device: torch.device
) -> Iterator[SentenceBatch]:
    """All rows, longest first, in batches of at most `batch_tokens` padding included, but at least one row."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        width = int(lengths[order[start]])
        chosen = order[start : start + max(1, batch_tokens // width)]
        ids = np.full((len(chosen), width), special.pad, dtype=np.int64)
        for padded, row in zip(ids, chosen, strict=True):
            padded[: lengths[row]] = rows[row]
        is_pad = np.arange(width) >= lengths[chosen, None]
        yield SentenceBatch(chosen, torch.from_numpy(ids).to(device), torch.from_numpy(is_pad).to(device))
        start += len(chosen)
