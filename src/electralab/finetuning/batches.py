"""Features -> the batch of a step: rows of like length together, in an order that is a pure function of (seed, epoch).

Feature... -> TaskBatch
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.finetuning.features import IGNORED, Feature
from electralab.randomness import mix, permute

# Rows are sorted by length among this many batches: enough for little padding, few enough for epochs to differ.
_BATCHES_SORTED_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class TaskBatch:
    input_ids: Tensor  # (B, T)
    segment_ids: Tensor  # (B, T)
    is_pad: Tensor  # (B, T)
    targets: Tensor  # (B, T) of tagged words, else (B, number of targets)
    has_padding: bool
    token_count: int

    @property
    def attention_pad(self) -> Tensor | None:
        """What the encoder takes: None says that no row has padding, which spares it the attention mask."""
        return self.is_pad if self.has_padding else None


def order_epoch(lengths: NDArray[np.int64], batch_size: int, *, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """The batches of an epoch: every row once, neighbours in length together, batches in random order."""
    count = len(lengths)
    shuffled = np.argsort(permute(np.arange(count), count, seed=seed, epoch=epoch))
    chunk = batch_size * _BATCHES_SORTED_TOGETHER
    batches = []
    for start in range(0, count, chunk):
        rows = shuffled[start : start + chunk]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        batches += [rows[first : first + batch_size] for first in range(0, len(rows), batch_size)]
    order = permute(np.arange(len(batches)), len(batches), seed=int(mix(seed, 1)) >> 1, epoch=epoch)
    return [batches[place] for place in np.argsort(order)]


def collate(features: Sequence[Feature], pad_id: int, device: torch.device) -> TaskBatch:
    lengths = np.array([len(feature.ids) for feature in features])
    width = int(lengths.max())
    ids = np.full((len(features), width), pad_id, dtype=np.int64)
    segments = np.zeros_like(ids)
    for row, feature in enumerate(features):
        ids[row, : lengths[row]] = feature.ids
        segments[row, : lengths[row]] = feature.segment_ids
    is_pad = np.arange(width) >= lengths[:, None]
    return TaskBatch(
        torch.from_numpy(ids).to(device),
        torch.from_numpy(segments).to(device),
        torch.from_numpy(is_pad).to(device),
        torch.from_numpy(_stack_targets(features)).to(device),
        has_padding=bool(is_pad.any()),
        token_count=int(lengths.sum()),
    )


def _stack_targets(features: Sequence[Feature]) -> NDArray[np.int64] | NDArray[np.float32]:
    targets = [feature.targets for feature in features]
    stacked = np.full((len(targets), max(map(len, targets))), IGNORED, dtype=targets[0].dtype)
    for row, values in zip(stacked, targets, strict=True):
        row[: len(values)] = values
    return stacked


def group_by_length(features: Sequence[Feature], batch_tokens: int) -> Iterator[NDArray[np.int64]]:
    """Rows to predict together, longest first, so that what does not fit the memory shows at once."""
    lengths = np.array([len(feature.ids) for feature in features], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, batch_tokens // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size
