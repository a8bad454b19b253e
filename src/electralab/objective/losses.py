"""Guesses and verdicts against the truth.

guesses, verdicts, MaskedBatch, CorruptedBatch -> Losses

Losses are kept as sums: the mean of a step is that of its targets, not of its micro-batches.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from electralab.config import Settings
from electralab.objective.corruption import CorruptedBatch
from electralab.objective.masking import MaskedBatch


class LossConfig(Settings):
    generator_weight: float = Field(1.0, ge=0)
    discriminator_weight: float = Field(50.0, ge=0)


@dataclass(frozen=True, slots=True)
class Targets:
    """How many tokens each network is asked about: over a whole step, the divisors of its losses."""

    generator: int
    discriminator: int

    def __add__(self, other: "Targets") -> "Targets":
        return Targets(self.generator + other.generator, self.discriminator + other.discriminator)


@dataclass(frozen=True, slots=True)
class Losses:
    generator_sum: Tensor
    discriminator_sum: Tensor

    def weigh(self, targets: Targets, config: LossConfig) -> Tensor:
        """This part's share of the step's loss, L_MLM + lambda * L_Disc, given the targets of the *whole* step."""
        generator = self.generator_sum / max(targets.generator, 1)
        discriminator = self.discriminator_sum / max(targets.discriminator, 1)
        return config.generator_weight * generator + config.discriminator_weight * discriminator


def electra_losses(guesses: Tensor, verdicts: Tensor, masked: MaskedBatch, corrupted: CorruptedBatch) -> Losses:
    """Cross-entropy over the selected positions; binary cross-entropy over every token that is not padding."""
    generator = F.cross_entropy(guesses.float(), masked.target_ids, reduction="sum")
    per_token = F.binary_cross_entropy_with_logits(verdicts.float(), corrupted.is_replaced.float(), reduction="none")
    if masked.batch.has_padding:
        per_token = per_token.masked_fill(masked.batch.is_pad, 0.0)
    return Losses(generator, per_token.sum())
