"""Auxiliary tasks: more losses for the discriminator, beside the pair's own.

AuxiliaryInputs -> a loss summed over its targets

    correction   name the original token at masked positions of the corrupted row (COCO-LM's corrective LM)
    selection    tell the original token there from others that the generator finds likely (MC-BERT)
    contrast     a state there is like the one in the original row, unlike those of replaced tokens
    sequence     a corrupted row is like most of its original, unlike other rows (COCO-LM)
    bag          name the tokens of the original row by the mean state of the corrupted one
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from electralab.errors import UsageError
from electralab.model.electra import Discriminator, copy_log_probs
from electralab.model.encoder import MLMHead
from electralab.model.flops import encoder_flops, first_state_flops, mlm_head_flops
from electralab.model.settings import EncoderConfig
from electralab.model.weights import linear
from electralab.objective.corruption import CorruptedBatch, invert_cumulative
from electralab.objective.losses import LossConfig, lm_loss
from electralab.objective.masking import MaskedBatch
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class AuxiliaryInputs:
    """What the discriminator read and computed, in the one pass that its own loss needed."""

    discriminator: Discriminator
    corrupted: CorruptedBatch
    states: Tensor  # (B, T, D) of the corrupted rows
    generator_logits: Tensor  # (M, V)
    logit_bias: Tensor  # (V,) to be added to generator_logits

    def at_masked(self, values: Tensor) -> Tensor:
        """(B, T, ...) -> (M, ...)"""
        return values.flatten(0, 1).index_select(0, self.corrupted.masked.positions)


class AuxiliaryTask(nn.Module):
    """One more task for the discriminator, with the weights that only this task needs."""

    def count_targets(self, masked: MaskedBatch) -> int:
        return len(masked.positions)

    def forward(self, inputs: AuxiliaryInputs) -> Tensor:
        """The loss summed over its targets, in float32."""
        raise NotImplementedError

    def count_flops(self, discriminator: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        """Of one step, forward and backward, beyond what the pair costs; a step counts as one micro-batch."""
        raise NotImplementedError


# Guesses of which all are looked at while negatives are drawn: few enough to stay in cache.
_CHUNK = 64
# A logit as good as minus infinity that still leaves something to draw where all else is drawn already.
_HARDLY = -1e4


class CorrectiveLM(AuxiliaryTask):
    """p(x) = c [x is shown] + (1 - c) softmax(x): the shown token is kept with probability c, or another named.

    Without the gate c a plain language-model loss: p(x) = softmax(x).
    """

    def __init__(self, config: EncoderConfig, *, has_gate: bool = True) -> None:
        super().__init__()
        self.guess = MLMHead(config)
        self.gate = linear(config.hidden_size, 1, bias=True, std=config.init_std) if has_gate else None

    def forward(self, inputs: AuxiliaryInputs) -> Tensor:
        states, target_ids = inputs.at_masked(inputs.states), inputs.corrupted.masked.target_ids
        logits = self.guess(states, inputs.discriminator.encoder.embeddings).float()  # (M, V)
        if self.gate is None:
            return lm_loss(logits, target_ids)
        shown_ids = inputs.at_masked(inputs.corrupted.input_ids)
        return -copy_log_probs(logits, self.gate(states).squeeze(-1).float(), shown_ids, target_ids).sum()

    def count_flops(self, discriminator: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        del rows, length
        gate = 0 if self.gate is None else 2 * masked_count * discriminator.hidden_size
        return 3 * (mlm_head_flops(discriminator, masked_count) + gate)


class MultiChoiceCloze(AuxiliaryTask):
    """The token that was hidden, among negatives that the generator found likely; never all tokens."""

    def __init__(self, config: EncoderConfig, negatives: int) -> None:
        super().__init__()
        self.negatives = negatives
        size, has_bias, std = config.hidden_size, not config.is_modern, config.init_std
        self.projection = linear(size, config.embedding_size, bias=has_bias, std=std)

    def forward(self, inputs: AuxiliaryInputs) -> Tensor:
        masked = inputs.corrupted.masked
        negatives = sample_negatives(
            inputs.generator_logits, masked.selection_uniforms, inputs.logit_bias, masked.target_ids
        )
        candidates = torch.cat([masked.target_ids[:, None], negatives], dim=1)  # (M, 1 + N)
        vectors = inputs.discriminator.encoder.embeddings.tokens(candidates)  # (M, 1 + N, E)
        states = self.projection(inputs.at_masked(inputs.states))  # (M, E)
        scores = torch.bmm(vectors, states[:, :, None]).squeeze(-1)  # (M, 1 + N)
        return F.cross_entropy(scores.float(), torch.zeros_like(masked.target_ids), reduction="sum")

    def count_flops(self, discriminator: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        del rows, length
        return 3 * 2 * masked_count * discriminator.embedding_size * (discriminator.hidden_size + 1 + self.negatives)


@torch.no_grad()
def sample_negatives(generator_logits: Tensor, uniforms: Tensor, logit_bias: Tensor, target_ids: Tensor) -> Tensor:
    """(M, N) ids, distinct and none the target, one after the other by softmax(logits) over those that are left."""
    drawn = torch.zeros(uniforms.shape, dtype=torch.int64, device=generator_logits.device)
    for start in range(0, len(generator_logits), _CHUNK):
        rows = slice(start, start + _CHUNK)
        logits = generator_logits[rows].float().clamp(min=_HARDLY) + logit_bias  # (C, V)
        logits.scatter_(1, target_ids[rows, None], -torch.inf)
        for number, draw in enumerate(uniforms[rows].unbind(1)):
            ids = invert_cumulative(logits, draw[:, None])
            logits.scatter_(1, ids[:, None], -torch.inf)
            drawn[rows, number] = ids
    return drawn


# Of a row's tokens in its cropped view, as in COCO-LM.
_KEPT_SHARE = 0.9


class TokenContrast(AuxiliaryTask):
    """A state at a masked position is drawn to the original row's there, and away from those of replaced tokens."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, inputs: AuxiliaryInputs) -> Tensor:
        batch, encoder = inputs.corrupted.masked.batch, inputs.discriminator.encoder
        with torch.no_grad():
            originals = encoder(batch.original_ids, batch.segment_ids, batch.attention_pad)  # (B, T, D)
        is_replaced = inputs.at_masked(inputs.corrupted.is_replaced)
        return contrast_loss(
            inputs.at_masked(inputs.states), inputs.at_masked(originals), is_replaced, self.temperature
        )

    def count_flops(self, discriminator: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        similarities = 3 * 2 * masked_count**2 * discriminator.hidden_size
        return encoder_flops(discriminator, rows, length) + similarities  # nothing goes back through the second pass


def contrast_loss(states: Tensor, positives: Tensor, is_replaced: Tensor, temperature: float) -> Tensor:
    """InfoNCE with cosines: each of (M, D) states against its positive and all replaced states but itself, summed."""
    anchors = F.normalize(states.float(), dim=-1)
    own = (anchors * F.normalize(positives.float(), dim=-1)).sum(dim=-1, keepdim=True)  # (M, 1)
    # All with all and then hidden: how many are replaced must not decide the shape.
    others = (anchors @ anchors.T).float()  # (M, M)
    is_negative = is_replaced & ~torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    logits = torch.cat([own, others.masked_fill(~is_negative, -torch.inf)], dim=1) / temperature  # (M, 1 + M)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device), reduction="sum")


class SequenceContrast(AuxiliaryTask):
    """A corrupted row, by its first state, is drawn to a cropped view of its original, and away from other rows."""

    def __init__(self, temperature: float, pad_id: int) -> None:
        super().__init__()
        self.temperature, self.pad_id = temperature, pad_id

    def count_targets(self, masked: MaskedBatch) -> int:
        return len(masked.input_ids)

    def forward(self, inputs: AuxiliaryInputs) -> Tensor:
        masked = inputs.corrupted.masked
        cropped = crop_rows(masked.batch, masked.sequence_uniforms, self.pad_id)
        views = inputs.discriminator.encoder(*cropped, first_only=True).squeeze(1)  # (B, D)
        return sequence_loss(inputs.states[:, 0], views, self.temperature)

    def count_flops(self, discriminator: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        del masked_count
        return 3 * (first_state_flops(discriminator, rows, length) + 2 * rows * 2 * rows * discriminator.hidden_size)


def sequence_loss(corrupted: Tensor, cropped: Tensor, temperature: float) -> Tensor:
    """InfoNCE with cosines: each corrupted row against its crop, with both views of all other rows, summed."""
    anchors = F.normalize(corrupted.float(), dim=-1)  # (B, D)
    views = torch.cat([F.normalize(cropped.float(), dim=-1), anchors])  # (2B, D)
    rows = torch.arange(len(anchors), device=anchors.device)
    is_self = rows[:, None] + len(anchors) == torch.arange(len(views), device=anchors.device)  # (B, 2B)
    logits = (anchors @ views.T).float().masked_fill(is_self, -torch.inf) / temperature
    return F.cross_entropy(logits, rows, reduction="sum")


def crop_rows(batch: Batch, uniforms: Tensor, pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """ids, segments, is_pad: the first and last token of a row, and of those between a random run of nine tenths."""
    lengths = (~batch.is_pad).sum(dim=1, keepdim=True)  # (B, 1)
    between = (lengths - 2).clamp(min=0)
    kept = (_KEPT_SHARE * between + 0.5).floor().long()
    starts = (uniforms[:, None] * (between - kept + 1)).floor().long()
    columns = torch.arange(batch.is_pad.shape[1], device=batch.is_pad.device)  # (T,)
    is_first, is_last = columns == 0, columns == kept + 1
    sources = torch.where(is_first, 0, torch.where(is_last, lengths - 1, columns + starts))  # (B, T)
    is_pad = columns >= torch.minimum(kept + 2, lengths)
    sources = sources.masked_fill(is_pad, 0)
    ids = batch.original_ids.gather(1, sources).masked_fill(is_pad, pad_id)
    return ids, batch.segment_ids.gather(1, sources).masked_fill(is_pad, 0), is_pad


class BagOfWords(AuxiliaryTask):
    """The distinct tokens of the original row, named by the mean of the corrupted row's states.

    The head's bias learns how frequent each token is, so that the mean has to carry what is special about the row:
    what a linear model of single texts reads, and what telling replaced tokens alone does not ask for.
    """

    def __init__(self, config: EncoderConfig, is_ordinary: NDArray[np.bool_]) -> None:
        super().__init__()
        self.is_ordinary: Tensor
        self.guess = MLMHead(config)
        self.register_buffer("is_ordinary", torch.from_numpy(is_ordinary.copy()), persistent=False)

    def count_targets(self, masked: MaskedBatch) -> int:
        return len(masked.input_ids)

    def forward(self, inputs: AuxiliaryInputs) -> Tensor:
        batch = inputs.corrupted.masked.batch
        is_token = ~batch.is_pad[:, :, None]
        means = (inputs.states * is_token).sum(dim=1) / is_token.sum(dim=1)  # (B, D)
        logits = self.guess(means, inputs.discriminator.encoder.embeddings).float()  # (B, V)
        bags = torch.zeros_like(logits).scatter_(1, batch.original_ids, 1.0)
        # Special tokens, and padding where there is any, stand in every row.
        bags[:, : len(self.is_ordinary)] *= self.is_ordinary
        bags /= bags.sum(dim=1, keepdim=True).clamp(min=1)
        return -(bags * F.log_softmax(logits, dim=-1)).sum()

    def count_flops(self, discriminator: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        del length, masked_count
        return 3 * mlm_head_flops(discriminator, rows)


def build_auxiliaries(
    config: LossConfig, discriminator: EncoderConfig, tokenizer: Tokenizer
) -> dict[str, AuxiliaryTask]:
    """Those whose weight is not 0."""
    num_ordinary = int(tokenizer.is_ordinary.sum())
    if "selection" in config.auxiliary and config.selection_negatives >= num_ordinary:
        raise UsageError(
            f"loss.selection_negatives: {config.selection_negatives} tokens beside the true one, of "
            f"{num_ordinary} that the vocabulary has; give at most {num_ordinary - 1}"
        )
    makers: dict[str, Callable[[], AuxiliaryTask]] = {
        "correction": lambda: CorrectiveLM(discriminator, has_gate=config.correction_gate),
        "selection": lambda: MultiChoiceCloze(discriminator, config.selection_negatives),
        "contrast": lambda: TokenContrast(config.contrast_temperature),
        "sequence": lambda: SequenceContrast(config.sequence_temperature, tokenizer.special.pad),
        "bag": lambda: BagOfWords(discriminator, tokenizer.is_ordinary),
    }
    return {name: makers[name]() for name in config.auxiliary}
