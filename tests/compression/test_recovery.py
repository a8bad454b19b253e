"""A pruned network learns again, from the truth, from the whole network, or from both; stopped, it goes on."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from little_exams import open_pair
from torch import Tensor

from electralab.compression.distillation import class_distance, task_distance, verdict_distance
from electralab.compression.exam import Exam, Network
from electralab.compression.recovery import RecoveryWork, recover
from electralab.compression.settings import RecoveryConfig
from electralab.errors import Stopped
from electralab.finetuning.batches import TaskBatch
from electralab.model.pruning import KeptLayer, prune
from electralab.model.tuned import SpanLogits
from electralab.stopping import StopSignal
from electralab.training.session import StepLogged

KEPT = [KeptLayer(at, (1,), tuple(range(0, 32, 3))) for at in range(2)]
STEPS = RecoveryConfig(steps=6, batch_size=4)


def shrink(exam: Exam) -> Network:
    return prune(exam.network, KEPT)


def weights_of(network: Network) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def loss_of(exam: Exam, network: Network, config: RecoveryConfig) -> float:
    (part,) = RecoveryWork(exam, network.eval(), exam.network, config, seed=0).parts(1)
    return float(part.detach())


def test_the_whole_network_is_at_no_distance_from_itself(tmp_path: Path) -> None:
    exam = open_pair(tmp_path)
    whole = loss_of(exam, exam.network, RecoveryConfig(distillation=1.0))
    pruned = loss_of(exam, shrink(exam), RecoveryConfig(distillation=1.0))
    assert whole < pruned


def test_the_loss_is_mixed_of_truth_and_teacher_as_the_setting_says(tmp_path: Path) -> None:
    exam = open_pair(tmp_path)
    student = shrink(exam)
    truth, mixed, taught = (loss_of(exam, student, RecoveryConfig(distillation=share)) for share in (0.0, 0.25, 1.0))
    assert mixed == pytest.approx(0.75 * truth + 0.25 * taught, rel=1e-5)


def test_recovery_brings_the_answers_nearer_and_leaves_the_teacher_as_it_was(tmp_path: Path) -> None:
    exam = open_pair(tmp_path)
    student, before = shrink(exam), weights_of(exam.network).clone()
    config = RecoveryConfig(steps=30, batch_size=8, learning_rate=3e-3, distillation=1.0)
    far = loss_of(exam, student, config)
    list(recover(tmp_path / "run", exam, student, config, 0, StopSignal()))
    assert not student.training
    assert loss_of(exam, student, config) < far
    assert torch.equal(weights_of(exam.network), before)
    assert not (tmp_path / "run" / "checkpoints").exists()


def recover_until(step: int, run_dir: Path, exam: Exam) -> None:
    stop = StopSignal()
    for event in recover(run_dir, exam, shrink(exam), STEPS, 0, stop):
        if isinstance(event, StepLogged) and event.record["step"] == step:
            stop.number = 15


def test_stopped_and_begun_again_it_ends_where_it_would_have(tmp_path: Path) -> None:
    exam = open_pair(tmp_path)
    whole = shrink(exam)
    list(recover(tmp_path / "whole", exam, whole, STEPS, 0, StopSignal()))
    with pytest.raises(Stopped):
        recover_until(3, tmp_path / "parts", exam)
    again = shrink(exam)
    list(recover(tmp_path / "parts", exam, again, STEPS, 0, StopSignal()))
    assert torch.equal(weights_of(again), weights_of(whole))


def test_classes_are_apart_by_the_divergence_of_kullback_and_leibler() -> None:
    said, wanted = torch.tensor([[0.0, 1.0], [2.0, 0.5]]), torch.tensor([[1.0, 0.0], [2.0, 0.5]])
    p, q = (wanted / 2).softmax(-1), (said / 2).softmax(-1)
    assert class_distance(said, wanted, 2.0).item() == pytest.approx(4 * (p * (p / q).log()).sum().item(), abs=1e-6)
    assert class_distance(said, said, 2.0).item() == pytest.approx(0.0, abs=1e-6)


def test_verdicts_are_apart_by_the_cross_entropy_with_the_teachers_chances() -> None:
    said, wanted = torch.tensor([0.3, -1.0]), torch.tensor([2.0, -1.0])
    p, q = wanted.sigmoid(), said.sigmoid()
    by_hand = -(p * q.log() + (1 - p) * (1 - q).log()).sum()
    assert verdict_distance(said, wanted, 1.0).item() == pytest.approx(by_hand.item(), rel=1e-6)


def make_batch(targets: list[list[int]], segments: list[list[int]]) -> TaskBatch:
    ids = torch.ones(len(segments), len(segments[0]), dtype=torch.long)
    return TaskBatch(
        ids, torch.tensor(segments), torch.zeros_like(ids, dtype=torch.bool), torch.tensor(targets), False, 8
    )


def test_words_without_a_tag_say_nothing() -> None:
    said, wanted = torch.zeros(1, 3, 2), torch.tensor([[[9.0, 0.0], [1.0, 0.0], [9.0, 0.0]]])
    batch = make_batch([[-1, 0, -1]], [[0, 0, 0]])
    only = class_distance(said[0, 1:2], wanted[0, 1:2], 1.0)
    assert task_distance("label", said, wanted, batch, 1.0, 1.0).item() == pytest.approx(only.item())


def test_numbers_are_apart_in_units() -> None:
    said, wanted = torch.tensor([[1.0], [2.0]]), torch.tensor([[5.0], [2.0]])
    assert task_distance("regress", said, wanted, make_batch([[0], [0]], [[0], [0]]), 2.0, 1.0).item() == 4.0


def test_an_answer_cannot_lie_in_the_question() -> None:
    """The first row of three is the question's first token, [CLS]; the second of the question does not count."""
    batch = make_batch([[0, 0, 0]], [[0, 0, 1]])
    wanted = SpanLogits(torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[1.0, -9.0, 2.0]]), torch.tensor([0.5]))
    said = SpanLogits(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([[0.0, 5.0, 0.0]]), torch.tensor([0.5]))
    places = class_distance(torch.zeros(1, 2), torch.tensor([[1.0, 2.0]]), 1.0)
    doubt = F.binary_cross_entropy_with_logits(torch.tensor(0.5), torch.tensor(0.5).sigmoid())
    found = task_distance("qa", said, wanted, batch, 1.0, 1.0)
    assert found.item() == pytest.approx((places + 0.5 * doubt).item(), rel=1e-5)
