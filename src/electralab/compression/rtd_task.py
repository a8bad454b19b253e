"""The task of a discriminator: text that one fixed generator corrupts.

MODEL, data -> RtdTask
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from electralab.artifacts import MANIFEST
from electralab.compression.task import Indices, Logits, Network, NetworkInputs, evenly_spaced
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError
from electralab.evaluation.context import EvalContext, EvalModel, load_eval_model
from electralab.evaluation.heldout import HeldoutConfig, HeldoutRows, mask_rows, read_rows
from electralab.exporting.samples import Sample, pair_some, space_pairs
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.folders.folder import Role, Storage, locate_model, read_config, save_network
from electralab.model.folders.hf_config import OBJECTIVE
from electralab.objective.corruption import CorruptedBatch, SamplingConfig, corrupt, sample_ids, special_token_bias
from electralab.objective.electra import generator_forward
from electralab.objective.losses import rtd_loss
from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.metrics import RtdScores
from electralab.randomness import Rng
from electralab.records.compression import VariantScore
from electralab.statistics import bootstrap_indices
from electralab.stopping import StopSignal
from electralab.tasks.features import soft_binary_cross_entropy
from electralab.tokens.batches import make_batch
from electralab.tokens.shards import open_data
from electralab.tokens.tokenizer import Tokenizer

# Of a text, which has no rows held out, every n-th row is kept for scoring.
_EVERY = 5
_MOST_TRAINED = 100_000


@dataclass(frozen=True)
class RtdTask:
    network: Discriminator
    generator: TokenModel
    tokenizer: Tokenizer
    objective: str
    train: HeldoutRows
    heldout: HeldoutRows
    config: HeldoutConfig
    conditions: EvalContext
    notes: tuple[str, ...]

    role: ClassVar[Role] = "discriminator"
    metric: ClassVar[str] = "auc"
    seed_deviation: ClassVar[None] = None

    @property
    def data_hash(self) -> str:
        return hashlib.sha256(self.train.ids.tobytes() + self.heldout.ids.tobytes()).hexdigest()

    @cached_property
    def lengths(self) -> Indices:
        return np.full(len(self.train.ids), self.train.ids.shape[1], dtype=np.int64)

    def make_inputs(self, rows: Indices, step: int) -> CorruptedBatch:
        batch = make_batch(self.train.ids[rows], self.tokenizer, is_pairs=self.train.is_pairs, dataset_rows=rows)
        share, rng = self.config.mask_share, Rng(self.conditions.seed, step)
        vocabulary = mask_vocabulary(self.tokenizer)
        masked = mask_tokens(batch, vocabulary, MaskingConfig(mask_share=share), share, rng)
        return self._corrupt(masked.to(torch.device(self.conditions.device)))

    @torch.no_grad()
    def _corrupt(self, masked: MaskedBatch) -> CorruptedBatch:
        generator_logits = generator_forward(self.generator, masked)
        sampling = SamplingConfig(temperature=self.config.temperature)
        return corrupt(masked, sample_ids(generator_logits, masked.sampling_uniforms, self._logit_bias, sampling))

    @cached_property
    def _logit_bias(self) -> Tensor:
        device = torch.device(self.conditions.device)
        return special_token_bias(self.tokenizer, device, self.generator.config.vocab_size)

    def forward(self, network: Network, inputs: CorruptedBatch) -> Tensor:
        batch = inputs.masked.batch
        logits: Tensor = network(inputs.input_ids, batch.segment_ids, batch.attention_pad)  # (B, T)
        return logits

    def count_targets(self, inputs: CorruptedBatch) -> int:
        return inputs.masked.batch.token_count

    def loss(self, logits: Logits, inputs: CorruptedBatch) -> Tensor:
        assert isinstance(logits, Tensor)
        return rtd_loss(logits, inputs)

    def distillation_loss(
        self, logits: Logits, teacher_logits: Logits, inputs: CorruptedBatch, temperature: float
    ) -> Tensor:
        assert isinstance(logits, Tensor)
        assert isinstance(teacher_logits, Tensor)
        is_token = ~inputs.masked.batch.is_pad
        return soft_binary_cross_entropy(logits[is_token], teacher_logits[is_token], temperature)

    def score(self, network: Network, draws: int) -> VariantScore:
        rows: list[RtdScores] = []
        for inputs in self._heldout_inputs:
            self.conditions.check()
            with torch.inference_mode():
                logits = self.forward(network, inputs)
            # [CLS] and [SEP] are never replaced: knowing that is not worth a score.
            table = zip(logits.float(), inputs.is_replaced, inputs.masked.batch.is_ordinary, strict=True)
            rows += [
                RtdScores(row[is_scored].cpu().numpy(), is_replaced[is_scored].cpu().numpy())
                for row, is_replaced, is_scored in table
            ]
        resampled = [
            RtdScores.concat([rows[row] for row in drawn]).auc
            for drawn in bootstrap_indices(len(rows), draws, self.conditions.seed)
        ]
        return VariantScore(
            value=RtdScores.concat(rows).auc,
            deviation=float(np.std(resampled)) if resampled else None,
            count=len(rows),
            draws=draws,
        )

    @cached_property
    def _heldout_inputs(self) -> list[CorruptedBatch]:
        """Corrupted once: every network is asked about the same tokens."""
        return [
            self._corrupt(masked) for masked in mask_rows(self.heldout, self.tokenizer, self.config, self.conditions)
        ]

    def timing_inputs(self, size: int) -> NetworkInputs:
        places = np.arange(size) % len(self.heldout.ids)
        batch = make_batch(self.heldout.ids[places], self.tokenizer, is_pairs=self.heldout.is_pairs)
        batch = batch.to(torch.device(self.conditions.device))
        return batch.original_ids, batch.segment_ids, batch.attention_pad

    def list_samples(self, count: int) -> list[Sample]:
        rows = self.train.ids[evenly_spaced(len(self.train.ids), count)]
        batch = make_batch(rows, self.tokenizer, is_pairs=self.train.is_pairs)
        table = zip(rows, batch.segment_ids.numpy(), ~batch.is_pad.numpy(), strict=True)
        samples = [Sample(ids[is_token], segments[is_token]) for ids, segments, is_token in table]
        every = 0 if self.train.is_pairs else space_pairs(self.network.config)
        return pair_some(samples, every, self.tokenizer, self.network.config)

    def save(self, folder: Path, network: Network, storage: Storage) -> None:
        config, special = network.config, self.tokenizer.special
        save_network(
            folder,
            network,
            pad_id=special.pad,
            cls_id=special.cls,
            sep_id=special.sep,
            objective=self.objective,
            storage=storage,
        )
        self.tokenizer.save(folder, max_length=config.sequence_length, has_segments=config.backbone == "electra")


def load_rtd_task(
    path: Path,
    data: Path,
    generator: Path | None,
    config: HeldoutConfig,
    reading: ReadingConfig,
    *,
    seed: int,
    device: torch.device,
    stop: StopSignal,
) -> RtdTask:
    subject = load_eval_model(path, device)
    network = subject.require_discriminator("compressing a model that is not tuned")
    if subject.outputs_energies:
        raise InputError(f"{path}: says energies, not how likely a token was replaced; tune it and compress the result")
    guesser = _find_generator(subject, generator, device)
    length = min(network.config.sequence_length, guesser.config.sequence_length)
    train, heldout = _read_data(data, subject.tokenizer, length, config, reading)
    conditions = EvalContext(seed=seed, device=str(device), reading=reading, check=stop.check)
    objective = str(read_config(locate_model(path, "discriminator")).get(OBJECTIVE, ""))
    notes = (*heldout.notes, *(["scored against its own generator"] if generator is None else []))
    return RtdTask(network, guesser, subject.tokenizer, objective, train, heldout, config, conditions, notes)


def _find_generator(subject: EvalModel, path: Path | None, device: torch.device) -> TokenModel:
    rival = subject if path is None else load_eval_model(path, device)
    if rival.generator is None:
        raise InputError(
            f"{rival.path}: holds no generator, against which a discriminator is scored; give the run of both, or a "
            "generator with --generator"
        )
    if rival.tokenizer.to_json() != subject.tokenizer.to_json():
        raise InputError(f"{path}: its tokenizer is not that of {subject.path}; give a generator with the same one")
    return rival.generator


def _read_data(
    data: Path, tokenizer: Tokenizer, length: int, config: HeldoutConfig, reading: ReadingConfig
) -> tuple[HeldoutRows, HeldoutRows]:
    """Rows to learn from and rows to be scored on: as prepared, or every n-th of a text."""
    if (data / MANIFEST).is_file():
        heldout = read_rows(data, tokenizer, length, config.limit, reading)
        prepared = open_data(data)
        places = evenly_spaced(len(prepared.train), _MOST_TRAINED)
        return HeldoutRows(prepared.train.take(places), heldout.is_pairs, heldout.unigram, ()), heldout
    rows = read_rows(data, tokenizer, length, _MOST_TRAINED, reading)
    is_kept = np.arange(len(rows.ids)) % _EVERY == _EVERY - 1
    if not is_kept.any():
        raise InputError(
            f"{data}: fills {len(rows.ids)} rows of {length} tokens, too few to learn from some and be scored on "
            f"others; give {_EVERY} or more"
        )
    note = f"every {_EVERY}th row of {data} is kept for scoring"
    kept = rows.ids[is_kept][: config.limit or None]
    return (
        HeldoutRows(rows.ids[~is_kept], False, rows.unigram, ()),
        HeldoutRows(kept, False, rows.unigram, (*rows.notes, note)),
    )
