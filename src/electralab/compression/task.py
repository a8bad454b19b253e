"""What a model is compressed for: rows with a loss to learn from, rows to be scored on, rows to be timed on.

CompressRequest -> FinetunedTask | RtdTask;  network, rows -> logits, losses, VariantScore

A tuned model is scored on the files of its task, a discriminator on text that one fixed generator corrupts.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.artifacts import MANIFEST
from electralab.compression.settings import CompressRequest
from electralab.errors import InputError, UsageError
from electralab.evaluation.context import EvalContext, load_eval_model
from electralab.evaluation.heldout import HeldoutConfig, HeldoutRows, mask_rows, read_rows
from electralab.exporting.fidelity import Sample, pair_some
from electralab.exporting.onnx_graphs import require_onnx
from electralab.finetuning.results import summarise_seeds
from electralab.finetuning.settings import find_run, read_identity
from electralab.finetuning.task_model import LoadedTaskModel, load_model, write_model
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.folders import folder as model_folder
from electralab.model.folders.folder import Role, Storage, locate_model
from electralab.model.folders.native_format import is_onnx
from electralab.model.task_model import SpanLogits, TaskModel
from electralab.objective.corruption import CorruptedBatch, SamplingConfig, corrupt, sample_ids, special_token_bias
from electralab.objective.electra import generator_forward
from electralab.objective.losses import rtd_loss
from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.metrics import RtdScores
from electralab.randomness import Rng
from electralab.records.compression import VariantScore
from electralab.records.tuned import TunedResults
from electralab.statistics import bootstrap_indices
from electralab.stopping import StopSignal
from electralab.tasks import features
from electralab.tasks.catalog import find_task
from electralab.tasks.kind import NetworkOutputs, Task
from electralab.tasks.load import TaskData, read_task
from electralab.tokens.batches import make_batch
from electralab.tokens.shards import open_data
from electralab.tokens.tokenizer import Tokenizer

Network = Discriminator | TaskModel
Logits = Tensor | SpanLogits
Indices = NDArray[np.int64]
NetworkInputs = tuple[Tensor, Tensor, Tensor | None]

_BATCH_TOKENS = 8192
# Of a text, which has no rows held out, every n-th row is kept for scoring.
_EVERY = 5
_MOST_TRAINED = 100_000
_OTHER_DATA = (
    "{data}: not the data that the model was tuned on, or not read as then, by the run.json of {run}; scores do not "
    "compare with that run's, and the deviation is not that of its seeds"
)


def evenly_spaced(count: int, limit: int) -> Indices:
    """At most `limit` indices, evenly over all `count`.

    >>> evenly_spaced(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, count - 1, min(limit, count)).astype(np.int64))


@dataclass(frozen=True)
class _TaskRows:
    """What every task of a trade-off has. What it does is alike too: see FinetunedTask."""

    role: Role
    """The name of the model's folder in a run."""
    network: Network
    """The model as it came."""
    tokenizer: Tokenizer
    metric: str
    seed_deviation: float | None
    """Of the metric over the seeds of the model's run, where there are several that saw the same rows."""
    data_hash: str
    """The same for the same rows."""
    notes: tuple[str, ...]
    """What a person should know of the rows."""
    lengths: Indices
    """In tokens, of every row to learn from."""
    seed: int
    stop: StopSignal


@dataclass(frozen=True)
class FinetunedTask(_TaskRows):
    model: LoadedTaskModel
    task: Task
    data: TaskData
    train: features.EncodedSplit[Any]
    dev: features.EncodedSplit[Any]

    def _collate(self, rows: list[features.Feature]) -> features.TaskBatch:
        return features.collate(rows, self.tokenizer.special.pad, next(self.network.parameters()).device)

    def make_inputs(self, rows: Indices, step: int) -> features.TaskBatch:
        """A batch of rows to learn from; what is random in it is a pure function of the step."""
        del step
        return self._collate([self.train.features[row] for row in rows])

    def forward(self, network: Network, inputs: Any) -> Logits:
        logits: Logits = network(inputs.input_ids, inputs.segment_ids, inputs.attention_pad)
        return logits

    def loss(self, logits: Any, inputs: Any, teacher: Any = None, temperature: float = 1.0) -> tuple[Tensor, int]:
        """Against the truth, or the logits of a teacher: summed over the targets, and how many these are."""
        kind, head = self.task.kind, self.model.network.head_config
        if teacher is None:
            loss = kind.loss(logits, inputs, head)
        else:
            loss = kind.distillation_loss(logits, teacher, inputs, head, temperature)
        return loss, kind.count_targets(inputs)

    def make_scorer(self, network: Network) -> tuple[Callable[[Indices], float], int]:
        """The score of some of the examples by what the network says of them, and how many there are."""
        assert isinstance(network, TaskModel)
        kind, config, examples = self.task.kind, self.model.config, self.data.devs[0].examples
        pad_id, rows = self.tokenizer.special.pad, self.dev.features
        logits = features.predict_logits(network, rows, pad_id, _BATCH_TOKENS, self.stop)
        outputs = NetworkOutputs(network.head_config, examples, rows, logits, config.spans, config.threshold)
        predictions = kind.decode(outputs)

        def score_rows(chosen: Indices) -> float:
            drawn, answers = [examples[row] for row in chosen], [predictions[row] for row in chosen]
            return kind.score(self.task, drawn, answers, self.data.labels).scores[self.metric]

        return score_rows, len(examples)

    def timing_inputs(self, size: int) -> NetworkInputs:
        """So many of the rows that a network is scored on, spread over all; a single one is of the middle length."""
        rows = self.dev.features
        if size == 1:
            chosen = [sorted(rows, key=lambda feature: len(feature.ids))[len(rows) // 2]]
        else:
            chosen = [rows[index * len(rows) // size] for index in range(size)]
        batch = self._collate(chosen)
        return batch.input_ids, batch.segment_ids, batch.attention_pad

    def list_samples(self, count: int) -> list[Sample]:
        """At most so many rows to learn from."""
        chosen = [self.train.features[index] for index in evenly_spaced(len(self.train.features), count)]
        return [Sample(feature.ids, feature.segment_ids) for feature in chosen]

    def save(self, folder: Path, network: Network, storage: Storage) -> None:
        """Into a folder that the caller owns, all that makes it a model."""
        assert isinstance(network, TaskModel)
        write_model(folder, replace(self.model, network=network), storage)


@dataclass(frozen=True)
class RtdTask(_TaskRows):
    generator: TokenModel
    objective: str
    train: HeldoutRows
    heldout: HeldoutRows
    config: HeldoutConfig
    context: EvalContext

    def make_inputs(self, rows: Indices, step: int) -> CorruptedBatch:
        batch = make_batch(self.train.ids[rows], self.tokenizer, is_pairs=self.train.is_pairs, dataset_rows=rows)
        share, vocabulary = self.config.mask_share, mask_vocabulary(self.tokenizer)
        masked = mask_tokens(batch, vocabulary, MaskingConfig(mask_share=share), share, Rng(self.seed, step))
        return self._corrupt(masked.to(torch.device(self.context.device)))

    @torch.no_grad()
    def _corrupt(self, masked: MaskedBatch) -> CorruptedBatch:
        generator_logits, sampling = (
            generator_forward(self.generator, masked),
            SamplingConfig(temperature=self.config.temperature),
        )
        bias = special_token_bias(self.tokenizer, generator_logits.device, self.generator.config.vocab_size)
        return corrupt(masked, sample_ids(generator_logits, masked.sampling_uniforms, bias, sampling))

    def forward(self, network: Network, inputs: Any) -> Tensor:
        batch = inputs.masked.batch
        logits: Tensor = network(inputs.input_ids, batch.segment_ids, batch.attention_pad)  # (B, T)
        return logits

    def loss(self, logits: Any, inputs: Any, teacher: Any = None, temperature: float = 1.0) -> tuple[Tensor, int]:
        batch = inputs.masked.batch
        if teacher is None:
            return rtd_loss(logits, inputs), batch.token_count
        given, wanted = logits[~batch.is_pad], teacher[~batch.is_pad]
        return features.soft_binary_cross_entropy(given, wanted, temperature), batch.token_count

    @cached_property
    def _heldout_inputs(self) -> list[CorruptedBatch]:
        """Corrupted once: every network is asked about the same tokens."""
        return [self._corrupt(masked) for masked in mask_rows(self.heldout, self.tokenizer, self.config, self.context)]

    def make_scorer(self, network: Network) -> tuple[Callable[[Indices], float], int]:
        rows: list[RtdScores] = []
        for inputs in self._heldout_inputs:
            self.stop.check()
            with torch.inference_mode():
                logits = self.forward(network, inputs)
            # [CLS] and [SEP] are never replaced: knowing that is not worth a score.
            table = zip(logits.float(), inputs.is_replaced, inputs.masked.batch.is_ordinary, strict=True)
            rows += [
                RtdScores(row[is_scored].cpu().numpy(), is_replaced[is_scored].cpu().numpy())
                for row, is_replaced, is_scored in table
            ]
        return lambda chosen: RtdScores.concat([rows[row] for row in chosen]).auc, len(rows)

    def timing_inputs(self, size: int) -> NetworkInputs:
        places = np.arange(size) % len(self.heldout.ids)
        batch = make_batch(self.heldout.ids[places], self.tokenizer, is_pairs=self.heldout.is_pairs)
        batch = batch.to(torch.device(self.context.device))
        return batch.original_ids, batch.segment_ids, batch.attention_pad

    def list_samples(self, count: int) -> list[Sample]:
        rows = self.train.ids[evenly_spaced(len(self.train.ids), count)]
        batch = make_batch(rows, self.tokenizer, is_pairs=self.train.is_pairs)
        table = zip(rows, batch.segment_ids.numpy(), ~batch.is_pad.numpy(), strict=True)
        samples = [Sample(ids[is_token], segments[is_token]) for ids, segments, is_token in table]
        return samples if self.train.is_pairs else pair_some(samples, self.tokenizer, self.network.config)

    def save(self, folder: Path, network: Network, storage: Storage) -> None:
        config, special = network.config, self.tokenizer.special
        model_folder.save_network(
            folder,
            network,
            pad_id=special.pad,
            cls_id=special.cls,
            sep_id=special.sep,
            objective=self.objective,
            storage=storage,
        )
        self.tokenizer.save(folder, max_length=config.sequence_length, has_segments=config.backbone == "electra")


CompressionTask = FinetunedTask | RtdTask


def score_network(task: CompressionTask, network: Network, draws: int) -> VariantScore:
    """With its deviation, if the examples are to be drawn again."""
    score_rows, count = task.make_scorer(network)
    resampled = [score_rows(rows) for rows in bootstrap_indices(count, draws, task.seed)]
    deviation = float(np.std(resampled)) if resampled else None
    return VariantScore(value=score_rows(np.arange(count)), deviation=deviation, count=count, draws=draws)


def load_compression_task(request: CompressRequest, device: torch.device, stop: StopSignal) -> CompressionTask:
    model, data, config = request.model, request.data, request.config
    folder = model_folder.locate_encoder(model)
    if is_onnx(folder):
        raise InputError(
            f"{folder}: is an ONNX graph, out of which nothing can be taken any more; give the model it was made from"
        )
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give --data, on which variants are made and scored")
    if config.graphs:
        require_onnx("--graphs")
    network = model_folder.load_any(folder)
    if isinstance(network, TaskModel):
        if request.generator is not None:
            raise UsageError(f"--generator: {model} is tuned for a task, which needs none; leave it out")
        return _load_finetuned_task(request, device, stop)
    if request.task is not None:
        raise UsageError(f"--task: {model} is not tuned for a task, it is scored on replaced tokens; leave it out")
    if not isinstance(network, Discriminator):
        raise InputError(
            f"{model}: holds neither a discriminator nor a tuned model; give a pair, or tune it and give the result"
        )
    return _load_rtd_task(request, device, stop)


def _load_finetuned_task(request: CompressRequest, device: torch.device, stop: StopSignal) -> FinetunedTask:
    model = load_model(request.model)
    model.network.to(device)
    task, labels = find_task(request.task or model.config.task), model.network.head_config.labels
    if task.kind is not model.kind:
        raise InputError(
            f"{request.model}: is tuned for a task of the kind {model.kind.name!r}, {task.display} is of the "
            f"kind {task.kind.name!r}; give its own task"
        )
    data = read_task(task, request.data, request.config.data, tokenizer=model.tokenizer)
    if strangers := sorted(set(data.labels) - set(labels)):
        raise InputError(
            f"{data.train.path}: has the label {strangers[0]!r}, the model knows {', '.join(labels)}; "
            "give the data that it was tuned on"
        )
    # The deviation over seeds, where the run of several seeds has seen the same rows.
    run_dir, metric = find_run(locate_model(request.model, "model")), task.metrics[0]
    run = read_identity(run_dir) if run_dir else None
    is_same = run is not None and run.data == data.identity
    deviation = None
    if run_dir and is_same and (results := TunedResults.find(run_dir)):
        dev_scores = [seed.scores.get("dev", {}) for seed in results.seeds]
        scores = [float(by_metric[metric]) for by_metric in dev_scores if metric in by_metric]
        deviation = summarise_seeds(scores).sd if len(scores) > 1 else None
    remarks = () if run is None or is_same else (_OTHER_DATA.format(data=request.data, run=run_dir),)
    encoder = features.FeatureEncoder(model.tokenizer, labels, model.config.sequence_length, model.config.spans)
    train = task.kind.encode(encoder, data.train.examples, is_labelled=True)
    return FinetunedTask(
        role="model",
        network=model.network,
        tokenizer=model.tokenizer,
        metric=metric,
        seed_deviation=deviation,
        data_hash=data.identity,
        notes=(*data.notes, *remarks),
        lengths=np.array([len(feature.ids) for feature in train.features], dtype=np.int64),
        seed=request.config.seed,
        stop=stop,
        model=model,
        task=task,
        data=replace(data, labels=labels),
        train=train,
        dev=task.kind.encode(encoder, data.devs[0].examples, is_labelled=False),
    )


def _load_rtd_task(request: CompressRequest, device: torch.device, stop: StopSignal) -> RtdTask:
    path, data, reading, seed = request.model, request.data, request.config.reading, request.config.seed
    config = HeldoutConfig(**request.config.verdicts.model_dump(), bootstrap=0)
    own = load_eval_model(path, device)
    network, tokenizer = own.require_discriminator("compressing a model that is not tuned"), own.tokenizer
    if own.outputs_energies:
        raise InputError(f"{path}: says energies, not how likely a token was replaced; tune it and compress the result")
    rival = own if request.generator is None else load_eval_model(request.generator, device)
    if rival.generator is None:
        raise InputError(
            f"{rival.path}: holds no generator, against which a discriminator is scored; give the run of both, or a "
            "generator with --generator"
        )
    if rival.tokenizer.to_json() != tokenizer.to_json():
        raise InputError(f"{rival.path}: its tokenizer is not that of {path}; give a generator with the same one")
    # Rows to learn from and rows to be scored on: as prepared, or every n-th of a text.
    length = min(network.config.sequence_length, rival.generator.config.sequence_length)
    if (data / MANIFEST).is_file():
        heldout = read_rows(data, tokenizer, length, config.limit, reading)
        prepared = open_data(data).train
        ids = prepared.take(evenly_spaced(len(prepared), _MOST_TRAINED))
        train = HeldoutRows(ids, heldout.is_pairs, heldout.unigram, ())
    else:
        rows = read_rows(data, tokenizer, length, _MOST_TRAINED, reading)
        is_kept = np.arange(len(rows.ids)) % _EVERY == _EVERY - 1
        if not is_kept.any():
            raise InputError(
                f"{data}: fills {len(rows.ids)} rows of {length} tokens, too few to learn from some and be scored on "
                f"others; give {_EVERY} or more"
            )
        notes = (*rows.notes, f"every {_EVERY}th row of {data} is kept for scoring")
        train = HeldoutRows(rows.ids[~is_kept], False, rows.unigram, ())
        heldout = HeldoutRows(rows.ids[is_kept][: config.limit or None], False, rows.unigram, notes)
    return RtdTask(
        role="discriminator",
        network=network,
        tokenizer=tokenizer,
        metric="auc",
        seed_deviation=None,
        data_hash=hashlib.sha256(train.ids.tobytes() + heldout.ids.tobytes()).hexdigest(),
        notes=(*heldout.notes, *(["scored against its own generator"] if request.generator is None else [])),
        lengths=np.full(len(train.ids), train.ids.shape[1], dtype=np.int64),
        seed=seed,
        stop=stop,
        generator=rival.generator,
        objective=model_folder.read_objective(locate_model(path, "discriminator")),
        train=train,
        heldout=heldout,
        config=config,
        context=EvalContext(seed=seed, device=str(device), reading=reading, check=stop.check),
    )
