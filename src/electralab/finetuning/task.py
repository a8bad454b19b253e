"""What a fine-tuning step consists of: a batch of like length, the network's logits, their loss.

step -> parts of its loss
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from electralab.finetuning.settings import FinetuneConfig
from electralab.model.flops import encoder_flops
from electralab.model.task_model import TaskModel
from electralab.randomness import Rng
from electralab.records.run import StepRecord
from electralab.runtime import autocast
from electralab.tasks.features import Feature, Ids, TaskBatch, collate, order_epoch
from electralab.tasks.kind import AnyKind
from electralab.training.metrics import Record
from electralab.training.trainer import EvalRecord


def count_steps(config: FinetuneConfig, rows: int) -> int:
    """As many as are given; otherwise those of the epochs, and of few rows the fewest that there may be."""
    epoch_steps = math.ceil(round(config.epochs * count_batches(config, rows), 6))
    return config.steps or max(1, epoch_steps, config.min_steps)


def count_batches(config: FinetuneConfig, rows: int) -> int:
    """Of an epoch."""
    return math.ceil(rows / config.batch.size)


class FinetuneTask:
    """One seed's training. `score` says how well the network does on the dev examples at this moment."""

    def __init__(
        self,
        network: TaskModel,
        kind: AnyKind,
        features: Sequence[Feature],
        config: FinetuneConfig,
        seed: int,
        pad_id: int,
        device: torch.device,
        score: Callable[[], Record],
    ) -> None:
        self.network, self.kind, self.features, self.config = network, kind, features, config
        self.seed, self.pad_id, self.device, self.score = seed, pad_id, device, score
        self._lengths = np.array([len(feature.ids) for feature in features], dtype=np.int64)
        self._batches_per_epoch = count_batches(config, len(features))
        self._ordered_epoch = -1
        self._order: list[Ids] = []
        self._tokens = self._flops = 0
        self.part_metrics: dict[int, None] = {}

    def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
        batches = self._batches_at(step)
        total = max(sum(self.kind.count_targets(batch) for batch in batches), 1)
        self._tokens = sum(batch.token_count for batch in batches)
        self._flops = sum(3 * encoder_flops(self.network.config, *batch.input_ids.shape) for batch in batches)
        rng = Rng(self.seed, step)
        for number in choose(len(batches)):
            batch = batches[number]
            torch.manual_seed(rng.torch_seed("dropout", number))
            with autocast(self.device, self.config.runtime.precision):
                logits = self.network(batch.input_ids, batch.segment_ids, batch.attention_pad)
            yield self.kind.loss(logits, batch, self.network.head_config) / total

    def _batches_at(self, step: int) -> list[TaskBatch]:
        epoch, index = divmod(step - 1, self._batches_per_epoch)
        if epoch != self._ordered_epoch:
            self._order = order_epoch(self._lengths, self.config.batch.size, seed=self.seed, epoch=epoch)
            self._ordered_epoch = epoch
        rows = self._order[index]
        size = self.config.batch.micro_size or len(rows)
        cuts = [rows[start : start + size] for start in range(0, len(rows), size)]
        return [collate([self.features[row] for row in cut], self.pad_id, self.device) for cut in cuts]

    def count_tokens(self) -> int:
        return self._tokens

    def count_flops(self) -> int:
        return self._flops

    def step_metrics(self) -> dict[str, float]:
        return {}

    def evaluate(self, record: StepRecord) -> EvalRecord:  # noqa: ARG002
        return EvalRecord({f"dev_{name}": value for name, value in self.score().items()}, [])
