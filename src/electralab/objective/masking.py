"""Which tokens the generator must guess, and what it sees in their place.

Batch -> MaskedBatch
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from electralab.config import Settings
from electralab.randomness import Rng
from electralab.tokens.batches import Batch

# Shares of the selected positions shown as [MASK], as they are, and as a random token.
APPEARANCES: dict[str, tuple[float, float, float]] = {
    "mask": (1.0, 0.0, 0.0),
    "mask-keep": (0.85, 0.15, 0.0),
    "mask-keep-random": (0.8, 0.1, 0.1),
}


class MaskingConfig(Settings):
    mask_share: float = Field(0.15, gt=0, lt=1)
    final_mask_share: float | None = Field(None, gt=0, lt=1)
    """Where the mask share ends, linearly over the run; unset means that it stays."""
    selection: Literal["fixed", "bernoulli"] = "fixed"
    appearance: Literal["mask", "mask-keep", "mask-keep-random"] = "mask"

    def share_at(self, progress: float) -> float:
        final = self.mask_share if self.final_mask_share is None else self.final_mask_share
        return self.mask_share + (final - self.mask_share) * progress


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """The generator's question: `input_ids` hide `target_ids` at `positions`."""

    batch: Batch
    input_ids: Tensor  # (B, T)
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)
    is_hidden: Tensor  # (M,) False where the generator sees the original after all
    sampling_uniforms: Tensor  # (M,) the luck of each position's draw

    def to(self, device: torch.device) -> "MaskedBatch":
        return MaskedBatch(
            self.batch.to(device),
            self.input_ids.to(device),
            self.positions.to(device),
            self.target_ids.to(device),
            self.is_hidden.to(device),
            self.sampling_uniforms.to(device),
        )


@dataclass(frozen=True, slots=True)
class MaskVocabulary:
    """The ids that masking needs to know; the rest of a vocabulary is none of its business."""

    mask_id: int
    ordinary_ids: NDArray[np.int64]  # ids that may be put into a row


def mask_tokens(batch: Batch, vocabulary: MaskVocabulary, config: MaskingConfig, share: float, rng: Rng) -> MaskedBatch:
    is_ordinary = batch.is_ordinary.numpy()
    row_count, length = is_ordinary.shape
    luck = rng.uniforms("select", batch.row_numbers, length)
    is_selected = (
        _select_fixed(is_ordinary, luck, share) if config.selection == "fixed" else is_ordinary & (luck < share)
    )

    positions = np.flatnonzero(is_selected)
    show_mask, show_kept, _ = APPEARANCES[config.appearance]
    dice = rng.uniforms("appearance", batch.row_numbers, length).ravel()[positions]
    is_random = dice >= show_mask + show_kept
    random_luck = rng.uniforms("random token", batch.row_numbers, length).ravel()[positions]
    random_ids = vocabulary.ordinary_ids[(random_luck * len(vocabulary.ordinary_ids)).astype(np.int64)]

    original_ids = batch.original_ids.numpy().ravel()
    shown = np.where(dice < show_mask, vocabulary.mask_id, np.where(is_random, random_ids, original_ids[positions]))
    input_ids = original_ids.copy()
    input_ids[positions] = shown
    sampling_uniforms = rng.uniforms("sample", batch.row_numbers, length).ravel()[positions]
    return MaskedBatch(
        batch=batch,
        input_ids=torch.from_numpy(input_ids.reshape(row_count, length)),
        positions=torch.from_numpy(positions),
        target_ids=torch.from_numpy(original_ids[positions]),
        is_hidden=torch.from_numpy(dice < show_mask),
        sampling_uniforms=torch.from_numpy(sampling_uniforms.astype(np.float32)),
    )


def _select_fixed(is_ordinary: NDArray[np.bool_], luck: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Exactly round(share * n) of each row's n ordinary tokens, at least one, drawn without replacement."""
    ordinary_counts = is_ordinary.sum(axis=1)
    wanted = np.minimum(ordinary_counts, np.maximum(1, np.floor(share * ordinary_counts + 0.5).astype(np.int64)))
    ranks = np.argsort(np.argsort(np.where(is_ordinary, luck, 2.0), axis=1, kind="stable"), axis=1, kind="stable")
    selected: NDArray[np.bool_] = ranks < wanted[:, None]
    return selected
