"""Logits and targets -> a sum to go backward through, and how many targets it is the sum of.

TaskBatch, logits -> loss
"""

import torch.nn.functional as F
from torch import Tensor

from electralab.finetuning.batches import TaskBatch
from electralab.finetuning.features import IGNORED
from electralab.model.task_model import SpanLogits, TaskKind

# The released code's weight of the classifier that says whether a question can be answered.
ANSWERABLE_WEIGHT = 0.5


def count_targets(kind: TaskKind, batch: TaskBatch) -> int:
    """Rows, or tagged words: micro-batches of a step are weighted by them."""
    return int((batch.targets != IGNORED).sum()) if kind == "label" else len(batch.targets)


def task_loss(kind: TaskKind, logits: Tensor | SpanLogits, batch: TaskBatch, unit: float = 1.0) -> Tensor:
    """Summed over the targets, in float32 whatever the network computes in; errors of numbers count in `unit`s."""
    if isinstance(logits, SpanLogits):
        return _span_loss(logits, batch)
    match kind:
        case "regress":
            return F.mse_loss(logits.float().squeeze(-1) / unit, batch.targets[:, 0] / unit, reduction="sum")
        case "label":
            return F.cross_entropy(
                logits.float().flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED, reduction="sum"
            )
        case _:
            return F.cross_entropy(logits.float(), batch.targets[:, 0], reduction="sum")


def hide_question(batch: TaskBatch) -> Tensor:
    """(B, T) An answer lies in the context, or on [CLS] where there is none: the question itself is no choice."""
    is_hidden = batch.is_pad | (batch.segment_ids == 0)
    is_hidden[:, 0] = False
    return is_hidden


def _span_loss(logits: SpanLogits, batch: TaskBatch) -> Tensor:
    first, last, is_answerable = batch.targets.unbind(1)
    is_hidden = hide_question(batch)
    start = logits.start.float().masked_fill(is_hidden, float("-inf"))
    end = logits.end.float().masked_fill(is_hidden, float("-inf"))
    loss = (F.cross_entropy(start, first, reduction="sum") + F.cross_entropy(end, last, reduction="sum")) / 2
    if logits.answerable is None:
        return loss
    doubt = F.binary_cross_entropy_with_logits(logits.answerable.float(), is_answerable.float(), reduction="sum")
    return loss + ANSWERABLE_WEIGHT * doubt
