"""What is trained, and what a step of it consists of: a batch of like length, the network's logits, their loss.

MODEL -> Pretrained: an encoder, ours or Hugging Face's, and its tokenizer -> TaskModel: on it a fresh head
step -> parts of its loss
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.finetuning.settings import FinetuneConfig
from electralab.finetuning.task_model import TASK_FILE, identify_model
from electralab.model.electra import parameter_depths
from electralab.model.encoder import Encoder
from electralab.model.flops import encoder_flops
from electralab.model.folders.folder import has_untrained_segments, load_encoder, locate_encoder
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import HeadConfig, Pooling, TaskModel, build_task_model
from electralab.model.weights import init_weights
from electralab.randomness import Rng
from electralab.records.run import StepRecord
from electralab.records.tuned import Scores
from electralab.runtime import autocast, choose_device, find_rank, use_exact_arithmetic
from electralab.stopping import NO_STOP, StopSignal
from electralab.tasks.features import Feature, Ids, RowLogits, TaskBatch, collate, order_epoch, predict_share
from electralab.tasks.kind import AnyKind
from electralab.tasks.load import TaskData
from electralab.tokens.tokenizer import Tokenizer
from electralab.training.checkpoint import TrainingProgress, TrainingState
from electralab.training.group import Parallel
from electralab.training.loop import LossScale, TrainStep
from electralab.training.optimizer import Optimizer, group_parameters
from electralab.training.ranks import RankStep, Through, compute_here
from electralab.training.trainer import EvalRecord, StepStats
from electralab.training.workers import WorkerJob, start_workers


@dataclass(frozen=True, slots=True)
class Pretrained:
    encoder: Encoder
    tokenizer: Tokenizer
    identity: str
    has_untrained_segments: bool = False
    """No row that it was trained on had a second segment, in which the second text of a pair stands."""


def load_pretrained(model: Path, init_from: Path | None) -> Pretrained:
    """The encoder of MODEL, or of another model, tuned before, that reads the same tokens."""
    folder = locate_encoder(model)
    tokenizer = Tokenizer.load(folder)
    used = folder
    if init_from is None:
        encoder, identity = load_encoder(folder), identify_model(folder)
    else:
        used = other = locate_encoder(init_from)
        if Tokenizer.load(other).to_json() != tokenizer.to_json():
            raise InputError(
                f"{other}: has another tokenizer than {folder}, so its weights would read other words; "
                "give a model that was tuned from MODEL"
            )
        encoder, identity = load_encoder(other), identify_model(folder, other)
    if tokenizer.vocab_size > encoder.config.vocab_size:
        raise InputError(
            f"{folder}: its tokenizer has {tokenizer.vocab_size} entries, its model {encoder.config.vocab_size}; "
            "the folder mixes files of two models, restore it"
        )
    # A model tuned on single texts says so in task.json: its second segment is still that of its pre-training.
    task_file = used / TASK_FILE
    is_marked = task_file.is_file() and read_json(task_file).get("has_untrained_segments") is True
    return Pretrained(encoder, tokenizer, identity, has_untrained_segments(used) or is_marked)


def build_network(
    origin: Pretrained, data: TaskData, config: FinetuneConfig, seed: int, *, copies_segment: bool = False
) -> TaskModel:
    """Step 0 of a seed: the encoder as it was pre-trained, and a head drawn by the seed.

    With `copies_segment` the second segment, which nothing has trained, begins as a copy of the first.
    """
    kind, is_causal = data.task.kind, origin.encoder.config.is_causal
    pooling: Pooling = "last" if is_causal else "first"
    if config.head.pooling == "mean" and kind.is_pooled:
        pooling = "mean"
    head = HeadConfig(
        kind=kind.name,
        shape=kind.shape,
        labels=data.labels,
        style=config.head.style,
        dropout=config.head.dropout,
        pooling=pooling,
    )
    if config.encoder_dropout is None:
        encoder = deepcopy(origin.encoder)
    else:
        # Dropout is built into the modules, so the weights move to an encoder with another one.
        encoder = Encoder(origin.encoder.config.model_copy(update={"dropout": config.encoder_dropout}))
        with torch.no_grad():
            for ours, theirs in zip(encoder.parameters(), origin.encoder.parameters(), strict=True):
                ours.copy_(theirs)
    network = build_task_model(encoder, kind.fit_head(head, data.train.examples), seed)
    segments = network.encoder.embeddings.segments
    if config.from_scratch:
        init_weights(network, seed)
    elif copies_segment and segments is not None:
        with torch.no_grad():
            segments.weight[1] = segments.weight[0]
    return network


def build_state(network: TaskModel, config: FinetuneConfig) -> TrainingState:
    """Step 0 of a seed's training."""
    if config.runtime.compile:
        network.compile()
    matrices = frozenset(name for name, p in network.named_parameters() if p.ndim == 2 and ".layers." in name)
    groups = group_parameters(network.named_parameters(), parameter_depths(network), matrices, config.optimizer)
    # Small gradients vanish in fp16 unless the loss is scaled up.
    scale = LossScale(2.0**16, is_adaptive=True) if config.runtime.precision == "fp16" else LossScale()
    return TrainingState(network, Optimizer(groups, config.optimizer), scale, TrainingProgress(), None)


def count_steps(config: FinetuneConfig, rows: int) -> int:
    """As many as are given; otherwise those of the epochs, and of few rows the fewest that there may be."""
    epoch_steps = math.ceil(round(config.epochs * count_batches(config, rows), 6))
    return config.steps or max(1, epoch_steps, config.min_steps)


def count_batches(config: FinetuneConfig, rows: int) -> int:
    """Of an epoch."""
    return math.ceil(rows / config.batch.size)


class FinetuneTask:
    """One seed's training. `score` says how well the network does on the dev examples at this moment; `heldout` are
    features that ranks share out among them, by name."""

    def __init__(
        self,
        network: TaskModel,
        kind: AnyKind,
        features: Sequence[Feature],
        config: FinetuneConfig,
        seed: int,
        pad_id: int,
        device: torch.device,
        score: Callable[[], Scores],
        heldout: Mapping[str, Sequence[Feature]] = MappingProxyType({}),
        stop: StopSignal = NO_STOP,
    ) -> None:
        self.network, self.kind, self.features, self.config = network, kind, features, config
        self.seed, self.pad_id, self.device, self.score = seed, pad_id, device, score
        self.heldout, self.stop = heldout, stop
        self._lengths = np.array([len(feature.ids) for feature in features], dtype=np.int64)
        self._batches_per_epoch = count_batches(config, len(features))
        self._ordered_epoch = -1
        self._order: list[Ids] = []
        self.through: Through = compute_here
        self.stats = StepStats()
        self.part_metrics: dict[int, None] = {}
        self.evaluate_parts: Callable[[str], dict[int, RowLogits]] | None = None
        """Logits of all features of that name, by ranks that each compute a share; None: there is one."""

    def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
        epoch, index = divmod(step - 1, self._batches_per_epoch)
        # Kept for the whole epoch: to sort all rows anew for each step would cost more than a small step.
        if epoch != self._ordered_epoch:
            self._order = order_epoch(self._lengths, self.config.batch.size, seed=self.seed, epoch=epoch)
            self._ordered_epoch = epoch
        rows = self._order[index]
        size = self.config.batch.micro_size or -(-len(rows) // self.config.batch.slices)
        micro_rows = [rows[start : start + size] for start in range(0, len(rows), size)]
        batches = [collate([self.features[row] for row in some], self.pad_id, self.device) for some in micro_rows]
        # Divided by the targets of the whole step, so that micro-batches change nothing but the memory they need.
        total = max(sum(self.kind.count_targets(batch) for batch in batches), 1)
        flops = sum(3 * encoder_flops(self.network.config, *batch.input_ids.shape) for batch in batches)
        self.stats = StepStats(sum(batch.token_count for batch in batches), flops)
        rng = Rng(self.seed, step)
        for number in choose(len(batches)):
            torch.manual_seed(rng.torch_seed("dropout", number))
            yield self.through(partial(self._compute_loss, batches[number])) / total

    def _compute_loss(self, batch: TaskBatch) -> Tensor:
        with autocast(self.device, self.config.runtime.precision):
            logits = self.network(batch.input_ids, batch.segment_ids, batch.attention_pad)
        return self.kind.loss(logits, batch, self.network.head_config)

    def make_train_step(self, state: TrainingState, workers: int, parallel: Parallel = "ddp") -> TrainStep:
        """Who computes the steps. Another process gets rows and shapes from here, and weights by the shared memory."""
        network, slices = self.network, self.config.batch.slices
        shared = (network.config, network.head_config, self.kind, self.features, self.config, self.seed, self.pad_id)
        if find_rank()[1] == 1:
            job = WorkerJob(build_worker, shared, torch.get_num_threads())
            return start_workers(state, self, job, num_slices=slices, num_workers=workers, device=self.device)
        job = WorkerJob(build_worker, (*shared, dict(self.heldout)), torch.get_num_threads())
        step = RankStep(state, self, job, num_slices=slices, device=self.device, parallel=parallel)
        self.evaluate_parts = step.evaluate
        return step

    def evaluate_part(self, rank: int, num_ranks: int, name: str) -> dict[int, RowLogits]:
        features, size = self.heldout[name], self.config.evaluation.batch_tokens
        return predict_share(self.network, features, self.pad_id, size, self.stop, rank=rank, num_ranks=num_ranks)

    def step_metrics(self) -> dict[str, float]:
        return {}

    def evaluate(self, record: StepRecord) -> EvalRecord:  # noqa: ARG002
        return EvalRecord({f"dev_{name}": value for name, value in self.score().items()}, [])


def build_worker(
    encoder: EncoderConfig,
    head: HeadConfig,
    kind: AnyKind,
    features: Sequence[Feature],
    config: FinetuneConfig,
    seed: int,
    pad_id: int,
    heldout: Mapping[str, Sequence[Feature]] = MappingProxyType({}),
) -> tuple[TrainingState, FinetuneTask]:
    """What another process needs to compute slices of a seed's steps; it scores nothing."""
    device = choose_device(config.runtime.device)
    use_exact_arithmetic(torch.get_num_threads(), device)
    network = TaskModel(Encoder(encoder), head).to(device)
    task = FinetuneTask(network, kind, features, config, seed, pad_id, device, dict, heldout)
    return build_state(network, config), task
