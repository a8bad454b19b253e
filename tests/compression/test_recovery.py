"""A pruned network learns again, from the truth, from the whole network, or from both; stopped, it goes on."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from little_compression import open_pair
from torch import Tensor

from electralab.compression.pruning import RecoveryTask, recover
from electralab.compression.settings import RecoveryConfig
from electralab.compression.task import CompressionTask, Network
from electralab.errors import Stopped
from electralab.events import Progress
from electralab.model.task_model import HeadConfig, SpanLogits
from electralab.model.weight_transfer import PrunedLayer, prune
from electralab.stopping import StopSignal
from electralab.tasks.features import TaskBatch, soft_binary_cross_entropy, soft_cross_entropy
from electralab.tasks.kinds import KINDS

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
