"""What a network would miss least goes, and what is left learns again from the truth and from the network as it was.

CompressionTask, network -> ImportanceRecord -> PrunedLayer...;  student, teacher -> Update...

If a head wrote nothing, the loss of an example would change by about sum_t a_t · dL/da_t, where a_t is what the head
hands to the output matrix at token t: its gradient with respect to a factor before a. The size of that change, summed
over examples, is the head's importance (Michel et al., 2019); a neuron's likewise, before the matrix that leads down.
"""

import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from electralab.compression.settings import ImportanceConfig, RecoveryConfig
from electralab.compression.task import CompressionTask, Network, evenly_spaced
from electralab.config import resolve
from electralab.events import Progress, Update
from electralab.finetuning.settings import FinetuneConfig, default_settings
from electralab.model.electra import parameter_depths
from electralab.model.encoder import EncoderLayer
from electralab.model.flops import encoder_flops
from electralab.model.weight_transfer import PrunedLayer
from electralab.randomness import Rng
from electralab.records.compression import ImportanceRecord
from electralab.records.run import StepRecord
from electralab.stopping import StopSignal
from electralab.tasks.catalog import find_task
from electralab.tasks.features import order_epoch
from electralab.training.checkpoint import TrainingProgress, TrainingState
from electralab.training.loop import LossScale
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters
from electralab.training.schedule import lr_schedule
from electralab.training.trainer import EvalRecord, LoopConfig, StepStats, Trainer, every_n_steps

# Rows are corrupted as if at this step, which training never reaches.
_STEP = -3
_LOGGED_STEPS = 20
_SAVE_EVERY = 200


def measure_importance(task: CompressionTask, config: ImportanceConfig) -> Generator[Update, None, ImportanceRecord]:
    network, phase = task.network, "importance of heads and neurons"
    chosen = evenly_spaced(len(task.lengths), config.rows)
    # Like lengths together: what a row says does not depend on its neighbours.
    chosen = chosen[np.argsort(task.lengths[chosen], kind="stable")]
    layers = [layer for layer in network.encoder.layers if isinstance(layer, EncoderLayer)]
    heads = [np.zeros(layer.attention.num_heads) for layer in layers]
    neurons = [np.zeros(layer.feedforward.down.in_features) for layer in layers]
    # What enters each layer's output matrix and its matrix down, in this order, as the network computes.
    activations: list[Tensor] = []
    watched = [module for layer in layers for module in (layer.attention.output, layer.feedforward.down)]
    for start in range(0, len(chosen), config.batch_size):
        task.stop.check()
        # A step of its own for each batch, or all would be corrupted by the same draws.
        inputs = task.make_inputs(chosen[start : start + config.batch_size], _STEP - start)
        activations.clear()
        with ExitStack() as hooks:
            for module in watched:
                hook = module.register_forward_pre_hook(lambda _, entering: activations.append(entering[0]))
                hooks.callback(hook.remove)
            loss, _ = task.loss(task.forward(network, inputs), inputs)
        # Of these alone: gradients of the weights would cost as much again, and nobody asks for them.
        gradients = torch.autograd.grad(loss, activations)
        products = [activation.detach() * gradient for activation, gradient in zip(activations, gradients, strict=True)]
        for index, layer in enumerate(layers):
            mixed, risen = products[2 * index], products[2 * index + 1]  # (B, T, H * K), (B, T, F)
            by_head = mixed.view(*mixed.shape[:2], layer.attention.num_heads, -1).sum(dim=(1, 3))  # (B, H)
            heads[index] += by_head.abs().sum(dim=0).double().cpu().numpy()
            neurons[index] += risen.sum(dim=1).abs().sum(dim=0).double().cpu().numpy()
        done = min(start + config.batch_size, len(chosen))
        yield Progress(phase, done, len(chosen), line=phase if done == len(chosen) else "")
    lists = [[scores.tolist() for scores in part] for part in (heads, neurons)]
    return ImportanceRecord(heads=lists[0], neurons=lists[1])


def choose_kept(importance: ImportanceRecord, share: float, drop_layers: int) -> list[PrunedLayer]:
    """Without the least important layers, and of the others' heads, and of their neurons, without this share.

    Heads of all layers stand in one line, as do neurons. A layer keeps its best head and its best neuron, and the
    first layer stays.
    """
    by_layer = [sum(map(np.sum, parts)) for parts in zip(importance.heads, importance.neurons, strict=True)]
    dropped_layers = set((1 + np.argsort(by_layer[1:], kind="stable"))[:drop_layers].tolist())
    layers = [index for index in range(len(importance.heads)) if index not in dropped_layers]
    kept = []
    for scores in (importance.heads, importance.neurons):
        line = sorted(
            (score, layer, number)
            for layer in layers
            for number, score in enumerate(scores[layer])
            if number != int(np.argmax(scores[layer]))
        )
        num_dropped = round(share * sum(len(scores[layer]) for layer in layers))
        dropped = {(layer, number) for _, layer, number in line[:num_dropped]}
        kept.append([tuple(n for n in range(len(scores[layer])) if (layer, n) not in dropped) for layer in layers])
    return [PrunedLayer(*parts) for parts in zip(layers, *kept, strict=True)]


class RecoveryTask:
    """A step: a batch of like length, the logits of both networks, their mixed loss."""

    def __init__(
        self, task: CompressionTask, student: Network, teacher: Network, config: RecoveryConfig, seed: int
    ) -> None:
        self.task, self.student, self.teacher = task, student, teacher.eval()
        self.config, self.seed = config, seed
        self._batches = -(-len(task.lengths) // config.batch_size)
        self._order = order_epoch(task.lengths, config.batch_size, seed=seed, epoch=0)
        self._epoch = 0
        self.stats = StepStats()
        self.part_metrics: dict[int, None] = {}

    def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
        epoch, index = divmod(step - 1, self._batches)
        if epoch != self._epoch:
            self._order = order_epoch(self.task.lengths, self.config.batch_size, seed=self.seed, epoch=epoch)
            self._epoch = epoch
        rows = self._order[index]
        inputs = self.task.make_inputs(rows, step)
        lengths = self.task.lengths[rows]
        shape = (len(rows), int(lengths.max()))
        # Forward and backward through the student, forward through the teacher.
        flops = 3 * encoder_flops(self.student.config, *shape) + encoder_flops(self.teacher.config, *shape)
        self.stats = StepStats(int(lengths.sum()), flops)
        for _ in choose(1):
            # Dropout is a function of the step, so that a resumed recovery is the same to the last bit.
            torch.manual_seed(Rng(self.seed, step).torch_seed("dropout", 0))
            logits = self.task.forward(self.student, inputs)
            share = self.config.distillation
            # A loss that does not count is not computed.
            truth, count = self.task.loss(logits, inputs) if share < 1 else (torch.zeros(()), 0)
            loss = (1 - share) * truth
            if share:
                with torch.no_grad():
                    teacher_logits = self.task.forward(self.teacher, inputs)
                taught, count = self.task.loss(logits, inputs, teacher_logits, self.config.temperature)
                loss = share * taught + loss
            yield loss / max(count, 1)

    def step_metrics(self) -> dict[str, float]:
        return {}

    def evaluate(self, record: StepRecord) -> EvalRecord:
        del record
        return EvalRecord({}, [])


def recover(
    run_dir: Path, task: CompressionTask, student: Network, config: RecoveryConfig, seed: int, stop: StopSignal
) -> Iterator[Update]:
    """Train the student in place; stopped, the same call goes on where it was. Checkpoints go when it is done."""
    usual = resolve(FinetuneConfig, [default_settings(find_task("classify"), student.config)]).optimizer
    # All layers have lost something, so that none is held back by a decay of the learning rate.
    optimizer = OptimizerConfig(
        learning_rate=config.learning_rate or usual.learning_rate, weight_decay=0.0, beta2=0.999
    )
    groups = group_parameters(student.named_parameters(), parameter_depths(student), frozenset(), optimizer)
    state = TrainingState(student, Optimizer(groups, optimizer), LossScale(), TrainingProgress(), None)
    pace = LoopConfig(
        config.steps, 0, log_every=every_n_steps(_LOGGED_STEPS, config.steps), save_every=_SAVE_EVERY, keep=1
    )
    work = RecoveryTask(task, student, task.network, config, seed)
    lr_factor = lr_schedule(config.schedule, config.steps)
    yield from Trainer(run_dir, state, work, pace, optimizer, lr_factor, stop).run()
    student.eval()
    shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
