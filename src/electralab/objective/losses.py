"""The logits of both networks against the truth.

generator_logits, discriminator_logits, MaskedBatch, CorruptedBatch -> Losses

Losses are kept as sums: the mean of a step is that of its targets, not of its micro-batches.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from electralab.config import Settings
from electralab.objective.corruption import CorruptedBatch
from electralab.objective.masking import MaskedBatch

# How many targets each loss has, by the loss's name; over a whole step, the divisors of its losses.
Counts = Mapping[str, int]


class LossConfig(Settings):
    generator_weight: float = Field(1.0, ge=0)
    discriminator_weight: float = Field(50.0, ge=0)
    sentence_weight: float = Field(1.0, ge=0)
    """Of telling whether the two segments of a row belong together, where sentence_task asks for it."""
    correction_weight: float = Field(0.0, ge=0)
    """Of naming the original token at masked positions of the corrupted row; 0 leaves the task out, as below."""
    correction_gate: bool = True
    """The shown token may be kept by a gate of its own; without, the original is always named among all tokens."""
    selection_weight: float = Field(0.0, ge=0)
    """Of telling the original token there from others that the generator drew."""
    selection_negatives: int = Field(4, ge=1)
    contrast_weight: float = Field(0.0, ge=0)
    """Of a state there being like the one in the original row, and unlike those of replaced tokens."""
    contrast_temperature: float = Field(0.1, gt=0)
    sequence_weight: float = Field(0.0, ge=0)
    """Of a corrupted row being like most of its original, and unlike other rows."""
    sequence_temperature: float = Field(1.0, gt=0)
    bag_weight: float = Field(0.0, ge=0)
    """Of naming the tokens of the original row by the mean state of the corrupted one."""

    @property
    def auxiliary(self) -> dict[str, float]:
        """The weights that are not 0 of the losses beside the pair's own, by their names."""
        weights = {
            "correction": self.correction_weight,
            "selection": self.selection_weight,
            "contrast": self.contrast_weight,
            "sequence": self.sequence_weight,
            "bag": self.bag_weight,
        }
        return {name: weight for name, weight in weights.items() if weight > 0}


@dataclass(frozen=True, slots=True)
class Losses:
    """Each loss by its name, summed over its targets."""

    sums: Mapping[str, Tensor]

    @property
    def learnable(self) -> "Losses":
        """Without the loss of a generator that has nothing to learn."""
        return Losses({name: total for name, total in self.sums.items() if total.requires_grad})

    def only(self, name: str) -> "Losses":
        return Losses({name: self.sums[name]})

    def weigh(self, counts: Counts, weights: Mapping[str, float]) -> Tensor:
        """This part's share of the step's loss, such as L_MLM + lambda * L_Disc, by the counts of the *whole* step."""
        first, *others = (weights[name] * (total / max(counts[name], 1)) for name, total in self.sums.items())
        for other in others:
            first = first + other
        return first


def add_counts(parts: Iterable[Counts]) -> Counts:
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def lm_loss(logits: Tensor, target_ids: Tensor) -> Tensor:
    """The cross-entropy of (M, V) logits, summed, in float32 whatever their type."""
    return F.cross_entropy(logits.float(), target_ids, reduction="sum")


def rtd_loss(discriminator_logits: Tensor, corrupted: CorruptedBatch, *, only_masked: bool = False) -> Tensor:
    """The binary cross-entropy of every token that is not padding, or of those at masked positions only, summed."""
    masked = corrupted.masked
    truth = corrupted.is_replaced.float()
    if only_masked:
        at_masked = discriminator_logits.float().flatten().index_select(0, masked.positions)
        wanted = truth.flatten().index_select(0, masked.positions)
        return F.binary_cross_entropy_with_logits(at_masked, wanted, reduction="sum")
    per_token = F.binary_cross_entropy_with_logits(discriminator_logits.float(), truth, reduction="none")
    if masked.batch.has_padding:
        per_token = per_token.masked_fill(masked.batch.is_pad, 0.0)
    return per_token.sum()


def electra_losses(
    generator_logits: Tensor,
    discriminator_logits: Tensor,
    masked: MaskedBatch,
    corrupted: CorruptedBatch,
    *,
    only_masked: bool = False,
) -> Losses:
    generator = lm_loss(generator_logits, masked.target_ids)
    discriminator = rtd_loss(discriminator_logits, corrupted, only_masked=only_masked)
    return Losses({"generator": generator, "discriminator": discriminator})
