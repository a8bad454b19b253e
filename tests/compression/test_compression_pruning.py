"""The least important go, by the size of a mask's gradient; what is left learns again, and goes on if stopped."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from little_compression import make_run, open_pair, open_task
from torch import Tensor

from electralab.compression.pruning import _STEP, RecoveryTask, choose_kept, measure_importance, recover
from electralab.compression.settings import ImportanceConfig, RecoveryConfig
from electralab.compression.task import CompressionTask, Network
from electralab.errors import Stopped
from electralab.events import Progress
from electralab.model.encoder import EncoderLayer
from electralab.model.task_model import HeadConfig, SpanLogits
from electralab.model.weight_transfer import PrunedLayer, prune
from electralab.records.compression import ImportanceRecord
from electralab.stopping import StopSignal
from electralab.tasks.features import TaskBatch, soft_binary_cross_entropy, soft_cross_entropy
from electralab.tasks.kinds import KINDS


def measure(task: CompressionTask, rows: int, batch_size: int) -> ImportanceRecord:
    steps = measure_importance(task, ImportanceConfig(rows=rows, batch_size=batch_size))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: ImportanceRecord = end.value
            return found


def measure_by_masks(task: CompressionTask, rows: int) -> tuple[list[list[float]], list[list[float]]]:
    """The slow twin: each row alone, and the loss differentiated by a factor before every head and neuron."""
    layers = [layer for layer in task.network.encoder.layers if isinstance(layer, EncoderLayer)]
    size = task.network.config.head_size
    totals = [[0.0] * layer.attention.num_heads for layer in layers], [[0.0] * 32 for _ in layers]
    for place in range(rows):
        heads = [torch.ones(layer.attention.num_heads, requires_grad=True) for layer in layers]
        neurons = [torch.ones(32, requires_grad=True) for _ in layers]
        hooks = []
        for layer, head, neuron in zip(layers, heads, neurons, strict=True):
            wide = head.repeat_interleave(size)
            hooks.append(layer.attention.output.register_forward_pre_hook(lambda _, x, by=wide: x[0] * by))
            hooks.append(layer.feedforward.down.register_forward_pre_hook(lambda _, x, by=neuron: x[0] * by))
        question = task.make_inputs(np.array([place]), _STEP - place)
        loss, _ = task.loss(task.forward(task.network, question), question)
        loss.backward()  # type: ignore[no-untyped-call]
        for hook in hooks:
            hook.remove()
        for total, masks in zip(totals, (heads, neurons), strict=True):
            for of_layer, mask in zip(total, masks, strict=True):
                assert mask.grad is not None
                of_layer[:] = [so_far + abs(float(g)) for so_far, g in zip(of_layer, mask.grad, strict=True)]
    return totals


def test_importance_is_the_gradient_of_a_mask(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    task.network.double()
    count = len(task.lengths)
    found = measure(task, rows=count, batch_size=1)
    heads, neurons = measure_by_masks(task, count)
    np.testing.assert_allclose(found.heads, heads, rtol=1e-6)
    np.testing.assert_allclose(found.neurons, neurons, rtol=1e-6)
    assert np.ptp(found.heads) > 0


def test_a_head_that_writes_nothing_has_no_importance(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    layer = task.network.encoder.layers[1]
    assert isinstance(layer, EncoderLayer)
    with torch.no_grad():
        layer.attention.output.weight[:, :8] = 0.0
        layer.feedforward.down.weight[:, 5] = 0.0
    found = measure(task, rows=4, batch_size=4)
    assert found.heads[1][0] == 0.0 < found.heads[1][1]
    assert list(np.flatnonzero(np.array(found.neurons[1]) == 0)) == [5]


def test_the_least_important_of_all_layers_go() -> None:
    """A third of six heads: 1 and 2. Of six neurons: 10 and 20."""
    importance = ImportanceRecord(heads=[[3, 1, 5], [9, 2, 4]], neurons=[[30, 10, 50], [90, 20, 40]])
    assert choose_kept(importance, 1 / 3, drop_layers=0) == [
        PrunedLayer(0, (0, 2), (0, 2)),
        PrunedLayer(1, (0, 2), (0, 2)),
    ]


def test_a_layer_keeps_its_best_however_little_it_is_worth() -> None:
    importance = ImportanceRecord(heads=[[1, 2], [8, 9]], neurons=[[1, 2], [8, 9]])
    assert choose_kept(importance, 0.9, drop_layers=0) == [PrunedLayer(0, (1,), (1,)), PrunedLayer(1, (1,), (1,))]


def test_the_least_important_layer_goes_but_never_the_first() -> None:
    importance = ImportanceRecord(heads=[[1], [9], [2], [5]], neurons=[[1], [9], [2], [5]])
    kept = choose_kept(importance, 0.1, drop_layers=2)
    assert [layer.index for layer in kept] == [0, 1]


@given(st.floats(0.01, 0.99), st.integers(0, 2), st.integers(0, 10**6))
def test_so_many_go_as_were_asked_for(share: float, drop: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    importance = ImportanceRecord(heads=rng.random((3, 4)).tolist(), neurons=rng.random((3, 10)).tolist())
    kept = choose_kept(importance, share, drop)
    assert len(kept) == 3 - drop
    for parts, size in (([layer.heads for layer in kept], 4), ([layer.neurons for layer in kept], 10)):
        total = size * len(kept)
        assert sum(map(len, parts)) == total - min(round(share * total), total - len(kept))
        assert all(first < second for part in parts for first, second in pairwise(part))


@pytest.mark.parametrize("batch_size", [1, 3])
def test_importance_does_not_depend_on_the_neighbours(tmp_path: Path, batch_size: int) -> None:
    """Of a tuned network, whose rows hold no chance: the same whatever the batches."""
    task = open_task(*make_run(tmp_path))
    alone, together = measure(task, rows=6, batch_size=6), measure(task, rows=6, batch_size=batch_size)
    for part, same in zip(alone.heads + alone.neurons, together.heads + together.neurons, strict=True):
        np.testing.assert_allclose(np.sum(part), np.sum(same), rtol=1e-4)


KEPT = [PrunedLayer(at, (1,), tuple(range(0, 32, 3))) for at in range(2)]
STEPS = RecoveryConfig(steps=6, batch_size=4)


def shrink(task: CompressionTask) -> Network:
    return prune(task.network, KEPT)


def weights_of(network: Network) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def loss_of(task: CompressionTask, network: Network, config: RecoveryConfig) -> float:
    (part,) = RecoveryTask(task, network.eval(), task.network, config, seed=0).micro_losses(1)
    return float(part.detach())


def test_the_whole_network_is_at_no_distance_from_itself(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    whole = loss_of(task, task.network, RecoveryConfig(distillation=1.0))
    pruned = loss_of(task, shrink(task), RecoveryConfig(distillation=1.0))
    assert whole < pruned


def test_the_loss_is_mixed_of_truth_and_teacher_as_the_setting_says(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    student = shrink(task)
    truth, mixed, taught = (loss_of(task, student, RecoveryConfig(distillation=share)) for share in (0.0, 0.25, 1.0))
    assert mixed == pytest.approx(0.75 * truth + 0.25 * taught, rel=1e-5)


def test_recovery_brings_the_answers_nearer_and_leaves_the_teacher_as_it_was(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    student, before = shrink(task), weights_of(task.network).clone()
    config = RecoveryConfig(steps=30, batch_size=8, learning_rate=3e-3, distillation=1.0)
    far = loss_of(task, student, config)
    list(recover(tmp_path / "run", task, student, config, 0, StopSignal()))
    assert not student.training
    assert loss_of(task, student, config) < far
    assert torch.equal(weights_of(task.network), before)
    assert not (tmp_path / "run" / "checkpoints").exists()


def recover_until(step: int, run_dir: Path, task: CompressionTask) -> None:
    stop = StopSignal()
    for event in recover(run_dir, task, shrink(task), STEPS, 0, stop):
        if isinstance(event, Progress) and event.values and event.done == step:
            stop.number = 15


def test_stopped_and_begun_again_it_ends_where_it_would_have(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    whole = shrink(task)
    list(recover(tmp_path / "whole", task, whole, STEPS, 0, StopSignal()))
    with pytest.raises(Stopped):
        recover_until(3, tmp_path / "parts", task)
    again = shrink(task)
    list(recover(tmp_path / "parts", task, again, STEPS, 0, StopSignal()))
    assert torch.equal(weights_of(again), weights_of(whole))


def test_classes_are_apart_by_the_divergence_of_kullback_and_leibler() -> None:
    said, wanted = torch.tensor([[0.0, 1.0], [2.0, 0.5]]), torch.tensor([[1.0, 0.0], [2.0, 0.5]])
    p, q = (wanted / 2).softmax(-1), (said / 2).softmax(-1)
    assert soft_cross_entropy(said, wanted, 2.0).item() == pytest.approx(4 * (p * (p / q).log()).sum().item(), abs=1e-6)
    assert soft_cross_entropy(said, said, 2.0).item() == pytest.approx(0.0, abs=1e-6)


def test_verdicts_are_apart_by_the_cross_entropy_with_the_teachers_chances() -> None:
    said, wanted = torch.tensor([0.3, -1.0]), torch.tensor([2.0, -1.0])
    p, q = wanted.sigmoid(), said.sigmoid()
    by_hand = -(p * q.log() + (1 - p) * (1 - q).log()).sum()
    assert soft_binary_cross_entropy(said, wanted, 1.0).item() == pytest.approx(by_hand.item(), rel=1e-6)


def distil(kind: str, logits: Any, teacher: Any, batch: TaskBatch, *, unit: float) -> Tensor:
    labels = ("O", "B") if kind == "label" else ()
    return KINDS[kind].distillation_loss(logits, teacher, batch, HeadConfig(kind=kind, labels=labels, unit=unit), 1.0)


def make_batch(targets: list[list[int]], segments: list[list[int]]) -> TaskBatch:
    ids = torch.ones(len(segments), len(segments[0]), dtype=torch.long)
    return TaskBatch(
        ids, torch.tensor(segments), torch.zeros_like(ids, dtype=torch.bool), torch.tensor(targets), False, 8
    )


def test_words_without_a_tag_say_nothing() -> None:
    said, wanted = torch.zeros(1, 3, 2), torch.tensor([[[9.0, 0.0], [1.0, 0.0], [9.0, 0.0]]])
    batch = make_batch([[-1, 0, -1]], [[0, 0, 0]])
    only = soft_cross_entropy(said[0, 1:2], wanted[0, 1:2], 1.0)
    assert distil("label", said, wanted, batch, unit=1.0).item() == pytest.approx(only.item())


def test_numbers_are_apart_in_units() -> None:
    said, wanted = torch.tensor([[1.0], [2.0]]), torch.tensor([[5.0], [2.0]])
    assert distil("regress", said, wanted, make_batch([[0], [0]], [[0], [0]]), unit=2.0).item() == 4.0


def test_an_answer_cannot_lie_in_the_question() -> None:
    """The first row of three is the question's first token, [CLS]; the second of the question does not count."""
    batch = make_batch([[0, 0, 0]], [[0, 0, 1]])
    wanted = SpanLogits(torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[1.0, -9.0, 2.0]]), torch.tensor([0.5]))
    said = SpanLogits(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([[0.0, 5.0, 0.0]]), torch.tensor([0.5]))
    places = soft_cross_entropy(torch.zeros(1, 2), torch.tensor([[1.0, 2.0]]), 1.0)
    doubt = F.binary_cross_entropy_with_logits(torch.tensor(0.5), torch.tensor(0.5).sigmoid())
    found = distil("qa", said, wanted, batch, unit=1.0)
    assert found.item() == pytest.approx((places + 0.5 * doubt).item(), rel=1e-5)
