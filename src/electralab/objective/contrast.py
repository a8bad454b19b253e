"""Which state is like which: a token's and its original's, a row's and its original's.

states of corrupted and original rows -> losses "contrast" and "sequence"
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.model.encoder import EncoderConfig
from electralab.model.flops import encoder_flops, first_state_flops
from electralab.objective.masking import MaskedBatch
from electralab.objective.scene import Auxiliary, Scene
from electralab.randomness import Rng
from electralab.tokens.batches import Batch

# Of a row's tokens in its cropped view, as in COCO-LM.
_KEPT_SHARE = 0.9


class Contrast(Auxiliary):
    """A state at a masked position is drawn to the original row's there, and away from those of replaced tokens."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scene: Scene) -> Tensor:
        batch = scene.masked.batch
        with torch.no_grad():
            originals = scene.judge.encoder(batch.original_ids, batch.segment_ids, batch.attention_pad)  # (B, T, D)
        positives = originals.flatten(0, 1).index_select(0, scene.masked.positions)  # (M, D)
        return contrast_loss(scene.masked_states, positives, scene.is_replaced, self.temperature)

    def count_flops(self, judge: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        similarities = 3 * 2 * masked_count**2 * judge.hidden_size
        return encoder_flops(judge, rows, length) + similarities  # nothing goes back through the second pass


def contrast_loss(states: Tensor, positives: Tensor, is_replaced: Tensor, temperature: float) -> Tensor:
    """InfoNCE with cosines: each of (M, D) states against its positive and all replaced states but itself, summed."""
    anchors = F.normalize(states.float(), dim=-1)
    own = (anchors * F.normalize(positives.float(), dim=-1)).sum(dim=-1, keepdim=True)  # (M, 1)
    # All with all and then hidden: how many are replaced must not decide the shape.
    others = (anchors @ anchors.T).float()  # (M, M)
    is_negative = is_replaced & ~torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    logits = torch.cat([own, others.masked_fill(~is_negative, -torch.inf)], dim=1) / temperature  # (M, 1 + M)
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device), reduction="sum")


class SequenceContrast(Auxiliary):
    """A corrupted row, by its first state, is drawn to a cropped view of its original, and away from other rows."""

    def __init__(self, temperature: float, pad_id: int) -> None:
        super().__init__()
        self.temperature, self.pad_id = temperature, pad_id

    def draw_luck(self, masked: MaskedBatch, rng: Rng) -> Tensor:
        return torch.from_numpy(rng.uniforms("sequence", masked.batch.row_numbers, 1)).float().squeeze(1)  # (B,)

    def count_targets(self, masked: MaskedBatch) -> int:
        return len(masked.input_ids)

    def forward(self, scene: Scene) -> Tensor:
        cropped = crop_rows(scene.masked.batch, scene.masked.luck["sequence"], self.pad_id)
        views = scene.judge.encoder(*cropped, first_only=True).squeeze(1)  # (B, D)
        return sequence_loss(scene.states[:, 0], views, self.temperature)

    def count_flops(self, judge: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        del masked_count
        return 3 * (first_state_flops(judge, rows, length) + 2 * rows * 2 * rows * judge.hidden_size)


def sequence_loss(corrupted: Tensor, cropped: Tensor, temperature: float) -> Tensor:
    """InfoNCE with cosines: each corrupted row against its crop, with both views of all other rows, summed."""
    anchors = F.normalize(corrupted.float(), dim=-1)  # (B, D)
    views = torch.cat([F.normalize(cropped.float(), dim=-1), anchors])  # (2B, D)
    places = torch.arange(len(anchors), device=anchors.device)
    is_self = places[:, None] + len(anchors) == torch.arange(len(views), device=anchors.device)  # (B, 2B)
    logits = (anchors @ views.T).float().masked_fill(is_self, -torch.inf) / temperature
    return F.cross_entropy(logits, places, reduction="sum")


def crop_rows(batch: Batch, luck: Tensor, pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """ids, segments, is_pad: the first and last token of a row, and of those between a random run of nine tenths."""
    lengths = (~batch.is_pad).sum(dim=1, keepdim=True)  # (B, 1)
    between = (lengths - 2).clamp(min=0)
    kept = (_KEPT_SHARE * between + 0.5).floor().long()
    starts = (luck[:, None] * (between - kept + 1)).floor().long()
    columns = torch.arange(batch.is_pad.shape[1], device=batch.is_pad.device)  # (T,)
    is_first, is_last = columns == 0, columns == kept + 1
    sources = torch.where(is_first, 0, torch.where(is_last, lengths - 1, columns + starts))  # (B, T)
    is_pad = columns >= torch.minimum(kept + 2, lengths)
    sources = sources.masked_fill(is_pad, 0)
    ids = batch.original_ids.gather(1, sources).masked_fill(is_pad, pad_id)
    return ids, batch.segment_ids.gather(1, sources).masked_fill(is_pad, 0), is_pad
