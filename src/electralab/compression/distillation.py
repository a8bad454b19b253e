"""How far a student's logits are from its teacher's, whatever the truth.

logits, the teacher's logits -> loss

With a temperature t both sides are softened by it and the loss is multiplied by t², so that gradients keep their size
(Hinton et al., 2015).
"""

import torch.nn.functional as F
from torch import Tensor

from electralab.finetuning.batches import TaskBatch
from electralab.finetuning.features import IGNORED
from electralab.finetuning.losses import ANSWERABLE_WEIGHT, hide_question
from electralab.model.task_model import SpanLogits, TaskKind

# Where no answer can lie; finite, so that 0 times it is 0.
_IMPOSSIBLE = -1e4


def distillation_loss(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """The Kullback-Leibler divergence over (N, L) classes, summed over N."""
    ours, theirs = (F.log_softmax(side.float() / temperature, dim=-1) for side in (logits, teacher_logits))
    return F.kl_div(ours, theirs, reduction="sum", log_target=True) * temperature**2


def rtd_distillation_loss(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """The same for yes and no, plus a constant: the cross-entropy with the teacher's probability of yes, summed."""
    probs = (teacher_logits.float() / temperature).sigmoid()
    return F.binary_cross_entropy_with_logits(logits.float() / temperature, probs, reduction="sum") * temperature**2


def task_distillation_loss(
    kind: TaskKind,
    logits: Tensor | SpanLogits,
    teacher_logits: Tensor | SpanLogits,
    batch: TaskBatch,
    unit: float,
    temperature: float,
) -> Tensor:
    if isinstance(logits, SpanLogits):
        assert isinstance(teacher_logits, SpanLogits)
        return _span_distance(logits, teacher_logits, batch, temperature)
    assert isinstance(teacher_logits, Tensor)
    match kind:
        case "regress":
            return F.mse_loss(logits.float() / unit, teacher_logits.float() / unit, reduction="sum")
        case "label":
            is_tagged = batch.targets != IGNORED  # (B, T)
            return distillation_loss(logits[is_tagged], teacher_logits[is_tagged], temperature)
        case _:
            return distillation_loss(logits, teacher_logits, temperature)


def _span_distance(logits: SpanLogits, teacher_logits: SpanLogits, batch: TaskBatch, temperature: float) -> Tensor:
    is_hidden = hide_question(batch)
    start, end = (
        distillation_loss(
            ours.masked_fill(is_hidden, _IMPOSSIBLE), theirs.masked_fill(is_hidden, _IMPOSSIBLE), temperature
        )
        for ours, theirs in ((logits.start, teacher_logits.start), (logits.end, teacher_logits.end))
    )
    distance = (start + end) / 2
    if logits.answerable is None or teacher_logits.answerable is None:
        return distance
    return distance + ANSWERABLE_WEIGHT * rtd_distillation_loss(
        logits.answerable, teacher_logits.answerable, temperature
    )
