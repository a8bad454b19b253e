"""The generator's guesses become replacements in the original row.

MaskedBatch, guesses -> CorruptedBatch
"""

from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from electralab.config import Settings
from electralab.objective.masking import MaskedBatch

# Rows of the vocabulary-wide softmax that are sampled at once: enough to fill the cores, few enough to stay in cache.
_CHUNK = 64


class SamplingConfig(Settings):
    temperature: float = Field(1.0, gt=0)


@dataclass(frozen=True, slots=True)
class CorruptedBatch:
    """The discriminator's question: the original rows with the generator's samples put in."""

    masked: MaskedBatch
    input_ids: Tensor  # (B, T)
    is_replaced: Tensor  # (B, T) a sample that equals the original is not a replacement


@torch.no_grad()
def sample_ids(guesses: Tensor, uniforms: Tensor, prohibition: Tensor, config: SamplingConfig) -> Tensor:
    """One id per row of (M, V) guesses by inverting the cumulative softmax at that row's uniform.

    In float32 whatever the guesses' type. `prohibition` (V,) is 0, or minus infinity at ids never to be drawn: special
    and padding ones. It acts before the softmax, so that what is left sums to 1 however likely they were.
    """
    drawn = torch.empty(len(guesses), dtype=torch.int64, device=guesses.device)
    for start in range(0, len(guesses), _CHUNK):
        rows = slice(start, start + _CHUNK)
        logits = guesses[rows].float() + prohibition
        if config.temperature != 1.0:
            logits = logits / config.temperature
        cumulative = torch.softmax(logits, dim=-1).cumsum(dim=-1)  # (C, V)
        total = cumulative[:, -1:]
        # Rounding must not push the target up to the total: the search would then run past the last allowed id.
        below_total = torch.nextafter(total, torch.zeros_like(total))
        target = torch.minimum(uniforms[rows, None] * total, below_total)
        found = torch.searchsorted(cumulative, target, right=True).squeeze(1)
        # Guesses that are not numbers lie below nothing; the step will be skipped, but must get that far.
        drawn[rows] = found.clamp_(max=guesses.shape[1] - 1)
    return drawn


def corrupt(masked: MaskedBatch, sampled_ids: Tensor) -> CorruptedBatch:
    original_ids = masked.batch.original_ids
    input_ids = original_ids.flatten().index_copy(0, masked.positions, sampled_ids).view_as(original_ids)
    return CorruptedBatch(masked, input_ids, input_ids != original_ids)
