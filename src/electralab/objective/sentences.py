"""Two segments per row, and for about half of the rows a wrong pair: what the sentence tasks ask about.

    Batch -> PairedBatch

Of a row with two segments they are taken as they are; of any other the text is cut in the middle.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import SpecialIds

SentenceTask = Literal["next-sentence", "sentence-order"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PairedBatch:
    """Rows [CLS] A [SEP] B [SEP]; a row without room for two segments is left as it was."""

    batch: Batch
    is_odd: Tensor  # (B,) B is another row's, or comes before A
    has_pair: Tensor  # (B,) False where there is nothing to ask

    def to(self, device: torch.device) -> "PairedBatch":
        return PairedBatch(self.batch.to(device), self.is_odd.to(device), self.has_pair.to(device))

    def split(self, size: int) -> list["PairedBatch"]:
        starts = range(0, len(self.is_odd), size)
        return [
            PairedBatch(part, self.is_odd[start : start + size], self.has_pair[start : start + size])
            for start, part in zip(starts, self.batch.split(size), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Segments:
    """One run of tokens for each row of the batch, which may lie in another row."""

    rows: Ints  # (B,)
    starts: Ints  # (B,)
    sizes: Ints  # (B,)

    def where(self, condition: Flags, other: "_Segments") -> "_Segments":
        return _Segments(
            np.where(condition, self.rows, other.rows),
            np.where(condition, self.starts, other.starts),
            np.where(condition, self.sizes, other.sizes),
        )

    def places(self, columns: Ints) -> tuple[Flags, Ints]:
        """For (B, T) columns counted from the segment's first token: which are inside, and where in the flat batch."""
        is_inside = (columns >= 0) & (columns < self.sizes[:, None])
        length = columns.shape[1]
        return is_inside, (self.rows * length + self.starts)[:, None] + np.where(is_inside, columns, 0)


def arrange_pairs(batch: Batch, special: SpecialIds, task: SentenceTask, rng: Rng) -> PairedBatch:
    """The step's whole batch before it is split: the wrong B of "next-sentence" is another row's, half a batch on.

    The next row would not do: held-out rows are in order, and it may go on with the same text. "sentence-order" swaps A
    and B instead. Each row's own luck decides which pairs are wrong.
    """
    first, second = _find_segments(batch)
    has_pair = (first.sizes > 0) & (second.sizes > 0)
    is_odd = has_pair & (rng.uniforms(task, batch.row_numbers, 1)[:, 0] < 0.5)
    if task == "sentence-order":
        first, second = second.where(is_odd, first), first.where(is_odd, second)
    else:
        others = np.roll(np.arange(len(has_pair)), -(len(has_pair) // 2))
        is_odd &= has_pair[others] & (others != np.arange(len(has_pair)))
        room = batch.original_ids.shape[1] - 3 - first.sizes
        foreign = _Segments(second.rows[others], second.starts[others], np.minimum(second.sizes[others], room))
        second = foreign.where(is_odd, second)
    paired = _lay_out(batch, special, first, second, has_pair)
    return PairedBatch(paired, torch.from_numpy(is_odd), torch.from_numpy(has_pair))


def _find_segments(batch: Batch) -> tuple[_Segments, _Segments]:
    """A and B of each row without their [CLS] and last [SEP]; a full row gives a token for the [SEP] it lacks."""
    row_count, length = batch.original_ids.shape
    rows = np.arange(row_count)
    used = (~batch.is_pad.numpy()).sum(axis=1)
    in_second = (batch.segment_ids.numpy() == 1).sum(axis=1)
    is_two = in_second > 0
    body = np.clip(used - 2, 0, length - 3)
    first = np.where(is_two, used - in_second - 2, body // 2)
    second = np.where(is_two, in_second - 1, body - body // 2)
    return (
        _Segments(rows, np.ones_like(rows), first),
        _Segments(rows, np.where(is_two, used - in_second, 1 + first), second),
    )


def _lay_out(batch: Batch, special: SpecialIds, first: _Segments, second: _Segments, has_pair: Flags) -> Batch:
    row_count, length = batch.original_ids.shape
    columns = np.broadcast_to(np.arange(length), (row_count, length))
    second_start = first.sizes[:, None] + 2
    end = second_start + second.sizes[:, None]  # where the last [SEP] is
    in_first, first_places = first.places(columns - 1)
    in_second, second_places = second.places(columns - second_start)
    is_text, places = in_first | in_second, np.where(in_first, first_places, second_places)

    specials = np.select([columns == 0, columns <= end], [special.cls, special.sep], special.pad)
    keep, old_ids = ~has_pair[:, None], batch.original_ids.numpy()
    old_ordinary = batch.is_ordinary.numpy()
    ids = np.where(keep, old_ids, np.where(is_text, old_ids.ravel()[places], specials))
    is_pad = np.where(keep, batch.is_pad.numpy(), columns > end)
    segments = np.where(keep, batch.segment_ids.numpy(), (columns >= second_start) & (columns <= end))
    return replace(
        batch,
        original_ids=torch.from_numpy(ids),
        segment_ids=torch.from_numpy(segments.astype(np.int64)),
        is_pad=torch.from_numpy(is_pad),
        is_ordinary=torch.from_numpy(np.where(keep, old_ordinary, is_text & old_ordinary.ravel()[places])),
        has_padding=bool(is_pad.any()),
    )
