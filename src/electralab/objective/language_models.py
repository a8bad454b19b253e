"""Guessing what is hidden, and nothing else: `mlm`, as RoBERTa trains.

MaskedBatch -> guesses -> Answer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from electralab.model.electra import Generator
from electralab.model.encoder import HiddenStates
from electralab.model.flops import count_masked, generator_flops, two_stream_flops
from electralab.model.token_models import TwoStream
from electralab.objective.examples import ExampleRows
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch, MaskingConfig, MaskVocabulary, mask_tokens, mask_vocabulary
from electralab.objective.metrics import lm_metrics
from electralab.objective.objective import METRICS_SAMPLE, Network, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


class MLMObjective:
    guessed = "masked"

    def __init__(self, model: Generator, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self.model = model
        self.networks: nn.Module = nn.ModuleDict({"model": model})
        self.config = config
        self.weights: Mapping[str, float] = {"masked": 1.0}
        self._vocabulary = mask_vocabulary(tokenizer)

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[MaskedBatch]:
        micros = batch.split(micro_size)
        return [mask_tokens(micro, self._vocabulary, self.config.masking, share, rng) for micro in micros]

    def count_targets(self, question: MaskedBatch) -> Counts:
        return {"masked": len(question.positions)}

    def count_tokens(self, question: MaskedBatch) -> int:
        return question.batch.token_count

    def begin(self, moment: StepInfo) -> None:
        """Every step is like the others."""

    def answer(self, question: MaskedBatch, moment: StepInfo) -> ObjectiveOutput:
        del moment
        return self.guess(question, METRICS_SAMPLE)

    def examine(self, question: MaskedBatch) -> ObjectiveOutput:
        return self.guess(question, None)

    def exhibit(self, question: MaskedBatch) -> ExampleRows:
        return ExampleRows(question.batch, question.positions, self._read(question, None))

    def guess(self, question: MaskedBatch, limit: int | None, trace: HiddenStates | None = None) -> ObjectiveOutput:
        guesses = self._read(question, trace)
        losses = Losses({"masked": lm_loss(guesses, question.target_ids)})
        return ObjectiveOutput(losses, lm_metrics("masked", guesses, question.target_ids, question.is_hidden, limit))

    def _read(self, question: MaskedBatch, trace: HiddenStates | None) -> Tensor:
        batch = question.batch
        guesses: Tensor = self.model(
            question.input_ids, batch.segment_ids, batch.attention_pad, question.positions, trace
        )  # (M, V)
        return guesses

    def guessed_ids(self, question: MaskedBatch) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        del moment
        return 3 * generator_flops(self.model.config, rows, length, rows * count_masked(length, share))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}


@dataclass(frozen=True, slots=True)
class CausalBatch:
    """Every token but the first of a row, [SEP] included: where a text ends can be foreseen too."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)

    def to(self, device: torch.device) -> "CausalBatch":
        return CausalBatch(self.batch.to(device), self.positions.to(device), self.target_ids.to(device))


def shift_targets(batch: Batch) -> CausalBatch:
    is_asked = ~batch.is_pad
    is_asked[:, 0] = False
    positions = is_asked.flatten().nonzero().squeeze(1)
    return CausalBatch(batch, positions, batch.original_ids.flatten()[positions])


class CausalObjective:
    guessed = "next"

    def __init__(self, model: Generator) -> None:
        assert model.config.is_causal
        self.model = model
        self.networks: nn.Module = nn.ModuleDict({"model": model})
        self.weights: Mapping[str, float] = {"next": 1.0}

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[CausalBatch]:
        del share, rng
        return [shift_targets(micro) for micro in batch.split(micro_size)]

    def count_targets(self, question: CausalBatch) -> Counts:
        return {"next": len(question.positions)}

    def count_tokens(self, question: CausalBatch) -> int:
        return question.batch.token_count

    def begin(self, moment: StepInfo) -> None:
        """Every step is like the others."""

    def answer(self, question: CausalBatch, moment: StepInfo) -> ObjectiveOutput:
        del moment
        return self._guess(question, METRICS_SAMPLE)

    def examine(self, question: CausalBatch) -> ObjectiveOutput:
        return self._guess(question, None)

    def exhibit(self, question: CausalBatch) -> None:
        """Nothing is hidden: every token is guessed before it is read."""
        del question

    def _guess(self, question: CausalBatch, limit: int | None) -> ObjectiveOutput:
        batch = question.batch
        guesses = self.model(batch.original_ids, batch.segment_ids, batch.attention_pad, question.positions)
        losses = Losses({"next": lm_loss(guesses, question.target_ids)})
        is_hidden = torch.ones_like(question.target_ids, dtype=torch.bool)
        return ObjectiveOutput(losses, lm_metrics("next", guesses, question.target_ids, is_hidden, limit))

    def guessed_ids(self, question: CausalBatch) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        """A guess for every token but the first; attention counts in full, as for the others."""
        del moment, share
        return 3 * generator_flops(self.model.config, rows, length, rows * (length - 1))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}


@dataclass(frozen=True, slots=True)
class PermutedBatch:
    """The end of a permutation of each row: what stands before it is known from the beginning."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)
    turns: Tensor  # (B, T) 1, 2, ... where a token is asked for, in the order of the asking; else 0

    def to(self, device: torch.device) -> "PermutedBatch":
        return PermutedBatch(
            self.batch.to(device), self.positions.to(device), self.target_ids.to(device), self.turns.to(device)
        )


def permute_targets(
    batch: Batch, vocabulary: MaskVocabulary, config: MaskingConfig, share: float, rng: Rng
) -> PermutedBatch:
    """What masking would hide is asked for, and hidden only until its turn."""
    masked = mask_tokens(batch, vocabulary, config, share, rng)
    row_count, length = batch.original_ids.shape
    luck = np.full(row_count * length, 2.0)  # no token asked for has such luck
    asked = masked.positions.numpy()
    luck[asked] = rng.uniforms("turn", batch.row_numbers, length).ravel()[asked]
    order = luck.reshape(row_count, length).argsort(axis=1, kind="stable")
    turns = order.argsort(axis=1, kind="stable").ravel() + 1
    turns[luck > 1.0] = 0
    return PermutedBatch(batch, masked.positions, masked.target_ids, torch.from_numpy(turns.reshape(row_count, length)))


class PermutationObjective:
    guessed = "permuted"

    def __init__(self, model: TwoStream, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self.model = model
        self.networks: nn.Module = nn.ModuleDict({"model": model})
        self.config = config
        self.weights: Mapping[str, float] = {"permuted": 1.0}
        self._vocabulary = mask_vocabulary(tokenizer)

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[PermutedBatch]:
        micros = batch.split(micro_size)
        return [permute_targets(micro, self._vocabulary, self.config.masking, share, rng) for micro in micros]

    def count_targets(self, question: PermutedBatch) -> Counts:
        return {"permuted": len(question.positions)}

    def count_tokens(self, question: PermutedBatch) -> int:
        return question.batch.token_count

    def begin(self, moment: StepInfo) -> None:
        """Every step is like the others."""

    def answer(self, question: PermutedBatch, moment: StepInfo) -> ObjectiveOutput:
        del moment
        return self._guess(question, METRICS_SAMPLE)

    def examine(self, question: PermutedBatch) -> ObjectiveOutput:
        return self._guess(question, None)

    def exhibit(self, question: PermutedBatch) -> ExampleRows:
        return ExampleRows(question.batch, question.positions, self._read(question))

    def _read(self, question: PermutedBatch) -> Tensor:
        batch = question.batch
        guesses: Tensor = self.model(
            batch.original_ids, batch.segment_ids, batch.attention_pad, question.positions, question.turns
        )  # (M, V)
        return guesses

    def _guess(self, question: PermutedBatch, limit: int | None) -> ObjectiveOutput:
        guesses, target_ids = self._read(question), question.target_ids
        losses = Losses({"permuted": lm_loss(guesses, target_ids)})
        is_hidden = torch.ones_like(target_ids, dtype=torch.bool)
        return ObjectiveOutput(losses, lm_metrics("permuted", guesses, target_ids, is_hidden, limit))

    def guessed_ids(self, question: PermutedBatch) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        del moment
        return 3 * two_stream_flops(self.model.config, rows, length, rows * count_masked(length, share))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}
