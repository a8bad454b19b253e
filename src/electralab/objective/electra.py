"""The ELECTRA objective: the paper's figure, line by line.

Batch -> Trial
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electralab.model.electra import Electra
from electralab.objective.corruption import CorruptedBatch, SamplingConfig, corrupt, sample_ids
from electralab.objective.losses import Losses, Targets, electra_losses
from electralab.objective.masking import MaskedBatch, MaskVocabulary
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Trial:
    """One batch put before both networks, with everything that was said."""

    masked: MaskedBatch
    guesses: Tensor  # (M, V)
    corrupted: CorruptedBatch
    verdicts: Tensor  # (B, T) above 0 means "replaced"
    losses: Losses


def hold_trial(model: Electra, masked: MaskedBatch, prohibition: Tensor, sampling: SamplingConfig) -> Trial:
    batch = masked.batch
    guesses = model.generator(masked.input_ids, batch.segment_ids, batch.attention_pad, masked.positions)
    corrupted = corrupt(masked, sample_ids(guesses, masked.sampling_uniforms, prohibition, sampling))
    verdicts = model.discriminator(corrupted.input_ids, batch.segment_ids, batch.attention_pad)
    return Trial(masked, guesses, corrupted, verdicts, electra_losses(guesses, verdicts, masked, corrupted))


def count_targets(parts: Sequence[MaskedBatch]) -> Targets:
    counts = (Targets(len(part.positions), part.batch.token_count) for part in parts)
    return sum(counts, start=Targets(0, 0))


def mask_vocabulary(tokenizer: Tokenizer) -> MaskVocabulary:
    return MaskVocabulary(tokenizer.special.mask, np.flatnonzero(tokenizer.is_ordinary))


def sampling_prohibition(tokenizer: Tokenizer, device: torch.device) -> Tensor:
    """(V,) 0 where an id may be sampled, minus infinity where it is special or padding: to be added to logits."""
    return torch.from_numpy(np.where(tokenizer.is_ordinary, 0.0, -np.inf).astype(np.float32)).to(device)
