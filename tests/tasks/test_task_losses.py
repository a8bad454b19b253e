"""Each loss against a slow, obvious twin; micro-batches that add up to the whole."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from electralab.model.task_model import HeadConfig, SpanLogits
from electralab.tasks.features import IGNORED, Feature, TaskBatch, collate
from electralab.tasks.kinds import KINDS

CPU = torch.device("cpu")
LENGTHS = (5, 3, 4, 2)
# Of questions: the first row asks with one token, the others with none.
SEGMENTS = ([0, 0, 1, 1, 1], [0, 1, 1], [0, 1, 1, 1], [0, 1])
TARGETS: dict[str, list[list[Any]]] = {
    "classify": [[2], [0], [1], [2]],
    "regress": [[0.5], [-1.0], [3.0], [2.0]],
    "label": [
        [IGNORED, 1, IGNORED, 2, IGNORED],
        [IGNORED, 0, IGNORED],
        [IGNORED, 2, 1, IGNORED],
        [IGNORED, IGNORED],
    ],
    "qa": [[2, 3, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0]],
}


def make_features(kind: str) -> list[Feature]:
    dtype: Any = np.float32 if kind == "regress" else np.int64
    return [
        Feature(row, np.arange(length), np.array(segments), np.array(targets, dtype=dtype))
        for row, (length, segments, targets) in enumerate(zip(LENGTHS, SEGMENTS, TARGETS[kind], strict=True))
    ]


def make_logits(kind: str, *, has_judge: bool = True) -> Tensor | SpanLogits:
    rng = torch.Generator().manual_seed(5)
    if kind == "qa":
        start, end = torch.randn(2, 4, 5, generator=rng)
        return SpanLogits(start, end, torch.randn(4, generator=rng) if has_judge else None)
    shape = {"classify": (4, 3), "regress": (4, 1)}.get(kind, (4, 5, 3))
    return torch.randn(shape, generator=rng)


def log_chance(logits: list[float], right: int) -> float:
    return logits[right] - math.log(sum(math.exp(logit) for logit in logits))


def slow_loss(kind: str, logits: Tensor | SpanLogits) -> float:
    if isinstance(logits, SpanLogits):
        total = 0.0
        for row, (segments, (first, last, is_answerable)) in enumerate(zip(SEGMENTS, TARGETS["qa"], strict=True)):
            choices = [place for place, segment in enumerate(segments) if place == 0 or segment == 1]
            for said, right in ((logits.start[row], first), (logits.end[row], last)):
                total -= log_chance([said.tolist()[place] for place in choices], choices.index(right)) / 2
            if logits.answerable is not None:
                chance = 1 / (1 + math.exp(-float(logits.answerable[row])))
                total -= 0.5 * math.log(chance if is_answerable else 1 - chance)
        return total
    rows = list(zip(logits.tolist(), TARGETS[kind], strict=True))
    if kind == "regress":
        return math.fsum((values[0] - target[0]) ** 2 for values, target in rows)
    if kind == "classify":
        return -sum(log_chance(values, target[0]) for values, target in rows)
    places = [pair for values, targets in rows for pair in zip(values, targets, strict=False)]
    return -sum(log_chance(values, target) for values, target in places if target != IGNORED)


def make_batch(kind: str, rows: slice = slice(None)) -> TaskBatch:
    return collate(make_features(kind)[rows], 0, CPU)


LABELS = {"classify": ("a", "b", "c"), "label": ("a", "b", "c")}


def task_loss(kind: str, logits: Tensor | SpanLogits, batch: TaskBatch, unit: float = 1.0) -> Tensor:
    return KINDS[kind].loss(logits, batch, HeadConfig(kind=kind, labels=LABELS.get(kind, ()), unit=unit))


def count_targets(kind: str, batch: TaskBatch) -> int:
    return KINDS[kind].count_targets(batch)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_is_the_sum_over_its_targets(kind: str) -> None:
    logits = make_logits(kind)
    assert float(task_loss(kind, logits, make_batch(kind))) == pytest.approx(slow_loss(kind, logits), rel=1e-5)


def test_without_a_judge_spans_alone_are_learned() -> None:
    logits = make_logits("qa", has_judge=False)
    assert float(task_loss("qa", logits, make_batch("qa"))) == pytest.approx(slow_loss("qa", logits), rel=1e-5)


def take(logits: Tensor | SpanLogits, rows: slice, width: int) -> Tensor | SpanLogits:
    if isinstance(logits, SpanLogits):
        assert logits.answerable is not None
        return SpanLogits(logits.start[rows, :width], logits.end[rows, :width], logits.answerable[rows])
    return logits[rows, :width] if logits.ndim == 3 else logits[rows]


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_add_up_to_the_whole(kind: str) -> None:
    logits, whole = make_logits(kind), make_batch(kind)
    parts = [(rows, make_batch(kind, rows)) for rows in (slice(0, 1), slice(1, 4))]
    assert sum(count_targets(kind, part) for _, part in parts) == count_targets(kind, whole)
    added = sum(
        float(task_loss(kind, take(logits, rows, part.input_ids.shape[1]), part)) / count_targets(kind, whole)
        for rows, part in parts
    )
    assert added == pytest.approx(float(task_loss(kind, logits, whole)) / count_targets(kind, whole), rel=1e-5)


def test_errors_of_numbers_count_in_their_unit() -> None:
    logits, batch = make_logits("regress"), make_batch("regress")
    assert float(task_loss("regress", logits, batch, unit=2.0)) == pytest.approx(slow_loss("regress", logits) / 4)


def test_targets_are_rows_or_tagged_words() -> None:
    assert {kind: count_targets(kind, make_batch(kind)) for kind in KINDS} == {
        "classify": 4,
        "regress": 4,
        "label": 5,
        "qa": 4,
    }


def test_a_place_without_a_tag_has_no_gradient() -> None:
    logits = make_logits("label")
    assert isinstance(logits, Tensor)
    logits.requires_grad_()
    batch = make_batch("label")
    torch.autograd.backward(task_loss("label", logits, batch))
    assert logits.grad is not None
    assert torch.equal(logits.grad.abs().sum(-1) > 0, batch.targets != IGNORED)


def test_no_answer_is_believed_to_lie_in_the_padding() -> None:
    logits = make_logits("qa")
    assert isinstance(logits, SpanLogits)
    batch = make_batch("qa")
    logits.start[batch.is_pad] = 1e4
    logits.end[batch.is_pad] = 1e4
    logits.start.requires_grad_()
    loss = task_loss("qa", logits, batch)
    assert loss.item() == pytest.approx(slow_loss("qa", logits), rel=1e-5)
    torch.autograd.backward(loss)
    assert logits.start.grad is not None
    assert not logits.start.grad[batch.is_pad].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_is_in_float32_whatever_the_logits_are(kind: str) -> None:
    logits = make_logits(kind)
    if isinstance(logits, SpanLogits):
        assert logits.answerable is not None
        half: Tensor | SpanLogits = SpanLogits(logits.start.half(), logits.end.half(), logits.answerable.half())
    else:
        half = logits.half()
    assert task_loss(kind, half, make_batch(kind)).dtype == torch.float32
