"""What pruning left learns again, from the truth and from the network that it was taken from.

student, teacher, CompressionTask -> Progress, Note...
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electralab.compression.settings import RecoveryConfig
from electralab.compression.task import CompressionTask, Network
from electralab.events import Update
from electralab.finetuning.batches import order_epoch
from electralab.finetuning.settings import default_settings
from electralab.finetuning.tasks import find_task
from electralab.model.electra import parameter_depths
from electralab.model.encoder import EncoderConfig
from electralab.model.flops import encoder_flops
from electralab.randomness import Rng
from electralab.stopping import StopSignal
from electralab.training.checkpoint import Progress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.metrics import Record
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters
from electralab.training.schedule import follow
from electralab.training.session import Judgement, Pace, Session, spread

_LOGGED_STEPS = 20
_SAVE_EVERY = 200


class RecoveryTask:
    """A step: a batch of like length, the answers of both networks, their mixed loss."""

    def __init__(
        self, task: CompressionTask, student: Network, teacher: Network, config: RecoveryConfig, seed: int
    ) -> None:
        self.task, self.student, self.teacher = task, student, teacher.eval()
        self.config, self.seed = config, seed
        self._batches = -(-len(task.lengths) // config.batch_size)
        self._order = order_epoch(task.lengths, config.batch_size, seed=seed, epoch=0)
        self._epoch = 0
        self._tokens = self._flops = 0

    def parts(self, step: int) -> Iterator[Tensor]:
        epoch, place = divmod(step - 1, self._batches)
        if epoch != self._epoch:
            self._order = order_epoch(self.task.lengths, self.config.batch_size, seed=self.seed, epoch=epoch)
            self._epoch = epoch
        places = self._order[place]
        question = self.task.pose(places, step)
        lengths = self.task.lengths[places]
        self._tokens = int(lengths.sum())
        shape = (len(places), int(lengths.max()))
        self._flops = 3 * encoder_flops(self.student.config, *shape) + encoder_flops(self.teacher.config, *shape)
        torch.manual_seed(Rng(self.seed, step).torch_seed("dropout", 0))
        answer = self.task.answer(self.student, question)
        yield self._mix(answer, question) / max(self.task.count_targets(question), 1)

    def _mix(self, answer: Any, question: Any) -> Tensor:
        share = self.config.distillation
        if share == 0:
            return self.task.loss(answer, question)
        with torch.no_grad():
            wanted = self.task.answer(self.teacher, question)
        soft = self.task.soft_loss(answer, wanted, question, self.config.temperature)
        return soft if share == 1 else share * soft + (1 - share) * self.task.loss(answer, question)

    def count_tokens(self) -> int:
        return self._tokens

    def count_flops(self) -> int:
        return self._flops

    def describe(self) -> Record:
        return {}

    def judge(self, record: Record) -> Judgement:
        del record
        return Judgement({}, [])


def recover(
    run_dir: Path, task: CompressionTask, student: Network, config: RecoveryConfig, seed: int, stop: StopSignal
) -> Iterator[Update]:
    """Train the student in place; stopped, the same call goes on where it was. Checkpoints go when it is done."""
    optimizer = _choose_optimizer(student.config, config)
    depths = parameter_depths(student)
    groups = group_parameters(student.named_parameters(), depths, frozenset(), optimizer)
    state = TrainingState(student, Optimizer(groups, optimizer), LossScale(), Progress(), None)
    pace = Pace(config.steps, 0, log_every=spread(_LOGGED_STEPS, config.steps), save_every=_SAVE_EVERY, keep=1)
    work = RecoveryTask(task, student, task.network, config, seed)
    rate = follow(config.schedule, config.steps)
    yield from Session(run_dir, state, work, pace, optimizer, rate, stop).events()
    student.eval()
    shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)


def _choose_optimizer(encoder: EncoderConfig, config: RecoveryConfig) -> OptimizerConfig:
    usual = default_settings(find_task("classify"), encoder).values["optimizer"]
    rate = config.learning_rate or usual["learning_rate"]
    # All layers have lost something, so that none is held back.
    return OptimizerConfig(learning_rate=rate, weight_decay=0.0, beta2=0.999)
