"""Rows on disk -> the batch of a step, as a pure function of (seed, step): nothing to remember, nothing to resume.

Rows -> Batch

Shapes, here and everywhere: B rows, T positions, M masked positions, V vocabulary, E embedding, D hidden, H heads,
K per head.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.randomness import permute
from electralab.tokens.shards import PreparedData, Rows
from electralab.tokens.tokenizer import SpecialIds, Tokenizer


@dataclass(frozen=True, slots=True)
class Batch:
    """Original text: what was written, before anything is hidden or replaced."""

    row_numbers: NDArray[np.int64]  # (B,) place within the step's batch; keys the row's randomness
    original_ids: Tensor  # (B, T)
    segment_ids: Tensor  # (B, T)
    is_pad: Tensor  # (B, T)
    is_ordinary: Tensor  # (B, T) neither special nor padding: may be masked
    has_padding: bool
    dataset_rows: NDArray[np.int64]  # (B,) place within the data set; keys what stays the same in every epoch

    @property
    def attention_pad(self) -> Tensor | None:
        """What the encoders take: None says that no row has padding, which spares them the attention mask."""
        return self.is_pad if self.has_padding else None

    @property
    def token_count(self) -> int:
        return int((~self.is_pad).sum())

    def to(self, device: torch.device) -> "Batch":
        tensors = {name: getattr(self, name).to(device) for name in _TENSORS}
        return replace(self, **tensors)

    def split(self, size: int) -> list["Batch"]:
        """Micro-batches of at most `size` rows; a row keeps its number, so its masks do not depend on the split."""
        names = (*_TENSORS, "row_numbers", "dataset_rows")
        starts = range(0, len(self.row_numbers), size)
        return [
            replace(self, **{name: getattr(self, name)[start : start + size] for name in names}) for start in starts
        ]


_TENSORS = ("original_ids", "segment_ids", "is_pad", "is_ordinary")


def make_batch(
    ids: NDArray[np.int64], tokenizer: Tokenizer, *, is_pairs: bool, dataset_rows: NDArray[np.int64] | None = None
) -> Batch:
    """Rows of ids as stored -> a batch; in pairs the second segment begins after the first [SEP].

    Rows that are the whole data set need no `dataset_rows`.
    """
    is_pad = ids == tokenizer.special.pad
    segments = np.zeros_like(ids)
    if is_pairs:
        is_sep = ids == tokenizer.special.sep
        # Less itself: the first [SEP] still belongs to the first segment.
        segments = ((np.cumsum(is_sep, axis=1) - is_sep > 0) & ~is_pad).astype(np.int64)
    row_numbers = np.arange(len(ids), dtype=np.int64)
    return Batch(
        row_numbers=row_numbers,
        original_ids=torch.from_numpy(ids),
        segment_ids=torch.from_numpy(segments),
        is_pad=torch.from_numpy(is_pad),
        is_ordinary=torch.from_numpy(tokenizer.is_ordinary[ids] & ~is_pad),
        has_padding=bool(is_pad.any()),
        dataset_rows=row_numbers if dataset_rows is None else dataset_rows,
    )


def rows_from(start: int, count: int, *, row_count: int, seed: int) -> NDArray[np.int64]:
    """`count` rows from a place in the order of a run: every epoch visits each row once, in an order of its own."""
    draws = np.arange(start, start + count, dtype=np.int64)
    epochs, places = np.divmod(draws, row_count)
    rows = np.empty_like(places)
    # A step may begin in one epoch and end in the next, and each epoch has its own permutation.
    for epoch in np.unique(epochs):
        of_epoch = epochs == epoch
        rows[of_epoch] = permute(places[of_epoch], row_count, seed=seed, epoch=int(epoch))
    return rows


def batch_at(data: PreparedData, start: int, count: int, *, seed: int, is_halved: bool = False) -> Batch:
    """The rows from a place in the order of a run, each as two of half its length where asked for."""
    rows = rows_from(start, count, row_count=len(data.train), seed=seed)
    ids = data.train.take(rows)
    if data.packing == "documents":
        # Where a document is a row most rows are short: what is padding in all of them need not be computed.
        ids = np.ascontiguousarray(ids[:, : int((ids != data.tokenizer.special.pad).sum(axis=1).max())])
    if is_halved:
        ids, rows = halve_rows(ids, rows, data.tokenizer)
    return make_batch(ids, data.tokenizer, is_pairs=data.packing == "pairs", dataset_rows=rows)


def halve_rows(
    ids: NDArray[np.int64], rows: NDArray[np.int64], tokenizer: Tokenizer
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(B, T) -> (up to 2B, T / 2), with the number of the row that each half is of.

    The token at the end of the first half gives way to [SEP], the one at the beginning of the second to [CLS]. A half
    with no ordinary token is left out: there would be nothing to learn from it.
    """
    length = ids.shape[1] // 2
    first, second = ids[:, :length].copy(), ids[:, length : 2 * length].copy()
    # A row whose first half ends in padding has its [SEP] already.
    is_cut = first[:, -1] != tokenizer.special.pad
    first[is_cut, -1] = tokenizer.special.sep
    second[:, 0] = np.where(second[:, 0] == tokenizer.special.pad, second[:, 0], tokenizer.special.cls)
    halves = np.stack([first, second], axis=1).reshape(-1, length)
    is_kept = tokenizer.is_ordinary[halves].any(axis=1)
    return halves[is_kept], np.repeat(rows, 2)[is_kept]


def heldout_batches(data: PreparedData, rows: Rows, *, limit: int, batch_size: int) -> list[Batch]:
    """At most `limit` held-out rows, always the same, spread evenly over all of them: every source has its share."""
    # Unique: rounding may name a row twice.
    places = np.unique(np.linspace(0, len(rows) - 1, min(limit, len(rows))).astype(np.int64))
    batch = make_batch(rows.take(places), data.tokenizer, is_pairs=data.packing == "pairs", dataset_rows=places)
    return batch.split(batch_size)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows of about one length, so that little of the batch is padding."""

    rows: NDArray[np.int64]  # (B,) which of those that were given
    input_ids: Tensor  # (B, T)
    is_pad: Tensor  # (B, T)

    @property
    def attention_pad(self) -> Tensor | None:
        return self.is_pad if bool(self.is_pad.any()) else None


def batch_by_length(
    rows: Sequence[NDArray[np.int64]], special: SpecialIds, batch_tokens: int, device: torch.device
) -> Iterator[RowBatch]:
    """All rows, longest first, in batches of at most `batch_tokens` padding included, but at least one row."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        # The first row of a batch is its longest, so its length is the width of all.
        width = int(lengths[order[start]])
        chosen = order[start : start + max(1, batch_tokens // width)]
        ids = np.full((len(chosen), width), special.pad, dtype=np.int64)
        for padded, row in zip(ids, chosen, strict=True):
            padded[: lengths[row]] = rows[row]
        is_pad = np.arange(width) >= lengths[chosen, None]
        yield RowBatch(chosen, torch.from_numpy(ids).to(device), torch.from_numpy(is_pad).to(device))
        start += len(chosen)
