"""How far a student's answers are from its teacher's, whatever the truth.

logits, the teacher's logits -> loss

With a temperature t both sides are softened by it and the loss is multiplied by t², so that gradients keep their size
(Hinton et al., 2015).
"""

import torch.nn.functional as F
from torch import Tensor

from electralab.finetuning.batches import TaskBatch
from electralab.finetuning.features import IGNORED
from electralab.finetuning.losses import ANSWERABLE_WEIGHT, hide_question
from electralab.model.tuned import SpanLogits, TaskKind

# Where no answer can lie; finite, so that 0 times it is 0.
_IMPOSSIBLE = -1e4


def distillation_loss(logits: Tensor, wanted: Tensor, temperature: float) -> Tensor:
    """Kullback and Leibler's, of (N, L) classes, summed over N."""
    said, truth = (F.log_softmax(side.float() / temperature, dim=-1) for side in (logits, wanted))
    return F.kl_div(said, truth, reduction="sum", log_target=True) * temperature**2


def rtd_distillation_loss(logits: Tensor, wanted: Tensor, temperature: float) -> Tensor:
    """The same of yes and no, plus a constant: the cross-entropy with the teacher's chance of yes, summed."""
    chances = (wanted.float() / temperature).sigmoid()
    return F.binary_cross_entropy_with_logits(logits.float() / temperature, chances, reduction="sum") * temperature**2


def task_distillation_loss(
    kind: TaskKind,
    logits: Tensor | SpanLogits,
    wanted: Tensor | SpanLogits,
    batch: TaskBatch,
    unit: float,
    temperature: float,
) -> Tensor:
    if isinstance(logits, SpanLogits):
        assert isinstance(wanted, SpanLogits)
        return _span_distance(logits, wanted, batch, temperature)
    assert isinstance(wanted, Tensor)
    match kind:
        case "regress":
            return F.mse_loss(logits.float() / unit, wanted.float() / unit, reduction="sum")
        case "label":
            is_tagged = batch.targets != IGNORED  # (B, T)
            return distillation_loss(logits[is_tagged], wanted[is_tagged], temperature)
        case _:
            return distillation_loss(logits, wanted, temperature)


def _span_distance(logits: SpanLogits, wanted: SpanLogits, batch: TaskBatch, temperature: float) -> Tensor:
    is_hidden = hide_question(batch)
    pairs = ((logits.start, wanted.start), (logits.end, wanted.end))
    start, end = (
        distillation_loss(said.masked_fill(is_hidden, _IMPOSSIBLE), of.masked_fill(is_hidden, _IMPOSSIBLE), temperature)
        for said, of in pairs
    )
    distance = (start + end) / 2
    if logits.answerable is None or wanted.answerable is None:
        return distance
    return distance + ANSWERABLE_WEIGHT * rtd_distillation_loss(logits.answerable, wanted.answerable, temperature)
