"""Both networks on held-out rows, always against the same masks and the same luck, beside trivial baselines.

Batch... -> HeldoutScores
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electralab.model.electra import Electra
from electralab.objective.corruption import SamplingConfig
from electralab.objective.electra import hold_trial
from electralab.objective.masking import MaskedBatch
from electralab.objective.unigram import unigram_log_shares
from electralab.objective.verdicts import Verdicts, join_verdicts, read_verdicts
from electralab.tokens.shards import PreparedData


@dataclass(frozen=True, slots=True)
class HeldoutScores:
    generator_loss: float
    generator_accuracy: float
    """On truly masked positions: where the original is still visible it would be flattered."""
    discriminator_loss: float
    auc: float
    precision: float
    recall: float
    called_replaced: float
    replaced_share: float


@torch.no_grad()
def judge_heldout(
    model: Electra, masked_batches: Sequence[MaskedBatch], prohibition: Tensor, sampling: SamplingConfig
) -> HeldoutScores:
    was_training = model.training
    model.eval()
    generator_loss = discriminator_loss = 0.0
    guessed = hits = hidden = tokens = 0
    parts: list[Verdicts] = []
    for masked in masked_batches:
        trial = hold_trial(model, masked, prohibition, sampling)
        generator_loss += float(trial.losses.generator_sum)
        discriminator_loss += float(trial.losses.discriminator_sum)
        is_hit = (trial.guesses.argmax(dim=-1) == masked.target_ids) & masked.is_hidden
        hits += int(is_hit.sum())
        hidden += int(masked.is_hidden.sum())
        guessed += len(masked.target_ids)
        tokens += masked.batch.token_count
        parts.append(read_verdicts(trial))
    model.train(was_training)
    verdicts = join_verdicts(parts)
    return HeldoutScores(
        generator_loss=generator_loss / max(guessed, 1),
        generator_accuracy=hits / max(hidden, 1),
        discriminator_loss=discriminator_loss / max(tokens, 1),
        auc=verdicts.auc,
        precision=verdicts.precision,
        recall=verdicts.recall,
        called_replaced=verdicts.called_replaced,
        replaced_share=verdicts.replaced_share,
    )


@dataclass(frozen=True, slots=True)
class Baselines:
    """What knowing only frequencies achieves: the numbers that a network must beat to have learned anything."""

    generator_loss: float
    generator_accuracy: float
    discriminator_loss: float


def measure_baselines(data: PreparedData, masked_batches: Sequence[MaskedBatch], replaced_share: float) -> Baselines:
    """Unigram frequencies of the training rows on the same held-out targets; the entropy of the replaced share."""
    sample = np.linspace(0, len(data.train) - 1, min(len(data.train), 20_000)).astype(np.int64)
    log_share = unigram_log_shares(data.train.take(sample), data.tokenizer)
    targets = np.concatenate([masked.target_ids.cpu().numpy() for masked in masked_batches])
    p = min(max(replaced_share, 1e-9), 1 - 1e-9)
    return Baselines(
        generator_loss=float(-log_share[targets].mean()),
        generator_accuracy=float((targets == log_share.argmax()).mean()),
        discriminator_loss=float(-p * np.log(p) - (1 - p) * np.log(1 - p)),
    )


def diagnose(scores: HeldoutScores, progress: float) -> list[str]:
    """What a score means and what to do about it, in words; silent while a run is young."""
    warnings = []
    if progress > 0.3 and scores.called_replaced < 1e-4 and scores.auc < 0.55:
        warnings.append(
            f"the discriminator calls every token original (AUC {scores.auc:.2f}): it has not begun to learn; "
            "train longer, try smaller batches (--batch.size) or a smaller generator (--generator.width-share)"
        )
    if progress > 0.3 and scores.generator_accuracy > 0.6 and scores.auc < 0.65:
        warnings.append(
            f"the generator is too strong (it restores {scores.generator_accuracy:.0%} of the masked tokens, "
            f"AUC {scores.auc:.2f}): make it smaller (--generator.width-share) or raise --sampling.temperature"
        )
    if scores.called_replaced > 0.5 and scores.replaced_share < 0.3:
        warnings.append(
            f"the discriminator calls {scores.called_replaced:.0%} of the tokens replaced, "
            f"{scores.replaced_share:.0%} are: the learning rate is probably too high (--optimizer.learning-rate)"
        )
    return warnings
