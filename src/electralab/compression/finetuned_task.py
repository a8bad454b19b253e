"""The task of a tuned model: the files of its task.

MODEL, data -> FinetunedTask
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from electralab.compression.task import Indices, Logits, Network, NetworkInputs, evenly_spaced
from electralab.errors import InputError
from electralab.exporting.samples import Sample
from electralab.finetuning.identity import find_run, read_identity
from electralab.finetuning.summary import summarise_seeds
from electralab.finetuning.task_model import LoadedTaskModel, load_model, write_model
from electralab.model.folders.folder import Role, Storage, locate_model
from electralab.model.task_model import TaskModel
from electralab.records.compression import VariantScore
from electralab.records.tuned import TunedResults
from electralab.statistics import bootstrap_indices
from electralab.stopping import StopSignal
from electralab.tasks.catalog import find_task
from electralab.tasks.features import EncodedSplit, Feature, FeatureEncoder, TaskBatch, collate, predict_logits
from electralab.tasks.kind import NetworkOutputs, Task
from electralab.tasks.load import TaskData, TaskDataConfig, read_task
from electralab.tokens.tokenizer import Tokenizer

_BATCH_TOKENS = 8192
_OTHER_DATA = (
    "{data}: not the data that the model was tuned on, or not read as then, by the run.json of {run}; scores do not "
    "compare with that run's, and the deviation is not that of its seeds"
)


@dataclass(frozen=True)
class FinetunedTask:
    model: LoadedTaskModel
    task: Task
    data: TaskData
    train: EncodedSplit[Any]
    dev: EncodedSplit[Any]
    seed_deviation: float | None
    remarks: tuple[str, ...]
    seed: int
    stop: StopSignal

    role: ClassVar[Role] = "model"

    @property
    def network(self) -> TaskModel:
        return self.model.network

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    @property
    def metric(self) -> str:
        return self.task.metrics[0]

    @property
    def notes(self) -> tuple[str, ...]:
        return *self.data.notes, *self.remarks

    @property
    def data_hash(self) -> str:
        return self.data.identity

    @cached_property
    def lengths(self) -> Indices:
        return np.array([len(feature.ids) for feature in self.train.features], dtype=np.int64)

    def make_inputs(self, rows: Indices, step: int) -> TaskBatch:
        del step
        return self._collate([self.train.features[row] for row in rows])

    def _collate(self, features: list[Feature]) -> TaskBatch:
        return collate(features, self.model.tokenizer.special.pad, next(self.network.parameters()).device)

    def forward(self, network: Network, inputs: TaskBatch) -> Logits:
        logits: Logits = network(inputs.input_ids, inputs.segment_ids, inputs.attention_pad)
        return logits

    def count_targets(self, inputs: TaskBatch) -> int:
        return self.task.kind.count_targets(inputs)

    def loss(self, logits: Logits, inputs: TaskBatch) -> Tensor:
        return self.task.kind.loss(logits, inputs, self.network.head_config)

    def distillation_loss(
        self, logits: Logits, teacher_logits: Logits, inputs: TaskBatch, temperature: float
    ) -> Tensor:
        head = self.network.head_config
        return self.task.kind.distillation_loss(logits, teacher_logits, inputs, head, temperature)

    def score(self, network: Network, draws: int) -> VariantScore:
        assert isinstance(network, TaskModel)
        kind, config, examples = self.task.kind, self.model.config, self.data.devs[0].examples
        pad_id = self.model.tokenizer.special.pad
        logits = predict_logits(network, self.dev.features, pad_id, _BATCH_TOKENS, self.stop)
        predictions = kind.decode(
            NetworkOutputs(network.head_config, examples, self.dev.features, logits, config.spans, config.threshold)
        )

        def score_rows(rows: Indices) -> float:
            drawn, answers = [examples[row] for row in rows], [predictions[row] for row in rows]
            return kind.score(self.task, drawn, answers, self.data.labels).scores[self.metric]

        count = len(examples)
        resampled = [score_rows(rows) for rows in bootstrap_indices(count, draws, self.seed)]
        return VariantScore(
            value=score_rows(np.arange(count)),
            deviation=float(np.std(resampled)) if resampled else None,
            count=count,
            draws=draws,
        )

    def timing_inputs(self, size: int) -> NetworkInputs:
        """Rows spread over the dev examples; a single one is of the middle length."""
        features = self.dev.features
        if size == 1:
            chosen = [sorted(features, key=lambda feature: len(feature.ids))[len(features) // 2]]
        else:
            chosen = [features[index * len(features) // size] for index in range(size)]
        batch = self._collate(chosen)
        return batch.input_ids, batch.segment_ids, batch.attention_pad

    def list_samples(self, count: int) -> list[Sample]:
        chosen = [self.train.features[index] for index in evenly_spaced(len(self.train.features), count)]
        return [Sample(feature.ids, feature.segment_ids) for feature in chosen]

    def save(self, folder: Path, network: Network, storage: Storage) -> None:
        assert isinstance(network, TaskModel)
        write_model(folder, replace(self.model, network=network), storage)


def load_finetuned_task(
    path: Path,
    data_dir: Path,
    task_name: str | None,
    config: TaskDataConfig,
    *,
    seed: int,
    device: torch.device,
    stop: StopSignal,
) -> FinetunedTask:
    model = load_model(path)
    model.network.to(device)
    task = find_task(task_name or model.config.task)
    labels = model.network.head_config.labels
    if task.kind is not model.kind:
        raise InputError(
            f"{path}: is tuned for a task of the kind {model.kind.name!r}, {task.display} is of the "
            f"kind {task.kind.name!r}; give its own task"
        )
    data = read_task(task, data_dir, config, tokenizer=model.tokenizer)
    if strangers := sorted(set(data.labels) - set(labels)):
        raise InputError(
            f"{data.train.path}: has the label {strangers[0]!r}, the model knows {', '.join(labels)}; "
            "give the data that it was tuned on"
        )
    run_dir = find_run(locate_model(path, "model"))
    run = read_identity(run_dir) if run_dir else None
    is_same = run is not None and run.data == data.identity
    encoder = FeatureEncoder(model.tokenizer, labels, model.config.sequence_length, model.config.spans)
    return FinetunedTask(
        model,
        task,
        replace(data, labels=labels),
        train=task.kind.encode(encoder, data.train.examples, is_labelled=True),
        dev=task.kind.encode(encoder, data.devs[0].examples, is_labelled=False),
        seed_deviation=_read_seeds(run_dir, task.metrics[0]) if run_dir and is_same else None,
        remarks=() if run is None or is_same else (_OTHER_DATA.format(data=data_dir, run=run_dir),),
        seed=seed,
        stop=stop,
    )


def _read_seeds(run_dir: Path, metric: str) -> float | None:
    """The standard deviation of the metric over the seeds of a fine-tuning run, where there are several."""
    if not (run_dir / TunedResults.FILE).is_file():
        return None
    seeds = TunedResults.read(run_dir).seeds
    scores = [float(seed.scores["dev"][metric]) for seed in seeds if metric in seed.scores.get("dev", {})]
    return summarise_seeds(scores).sd if len(scores) > 1 else None
