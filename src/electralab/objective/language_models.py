"""One network that predicts tokens: `mlm` (hidden ones), `causal` (the next one), `permutation` (in a random order).

Batch -> MaskedBatch | CausalBatch | PermutedBatch -> ObjectiveOutput
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

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
from electralab.objective.objective import METRICS_SAMPLE, Network, Objective, ObjectiveOutput, StepInfo, TokenInputs
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


class _Targets(TokenInputs, Protocol):
    @property
    def positions(self) -> Tensor: ...

    @property
    def is_hidden(self) -> Tensor: ...


LMInputs = TypeVar("LMInputs", bound=_Targets)


class _LanguageModelObjective(Objective[LMInputs]):
    """One network, one loss: the cross-entropy of the tokens at some positions."""

    model: Generator | TwoStream

    def _use(self, model: Generator | TwoStream) -> None:
        self.networks = nn.ModuleDict({"model": model})
        self.weights = {self.lm_loss_name: 1.0}

    def logits(self, inputs: LMInputs, hidden_states: HiddenStates | None = None) -> Tensor:
        """(M, V) at the positions of the targets."""
        raise NotImplementedError

    def predict(
        self, inputs: LMInputs, sample: int | None, hidden_states: HiddenStates | None = None
    ) -> ObjectiveOutput:
        logits, targets = self.logits(inputs, hidden_states), inputs.target_ids
        losses = Losses({self.lm_loss_name: lm_loss(logits, targets)})
        return ObjectiveOutput(losses, lm_metrics(self.lm_loss_name, logits, targets, inputs.is_hidden, sample))

    def count_targets(self, inputs: LMInputs) -> Counts:
        return {self.lm_loss_name: len(inputs.positions)}

    def training_step(self, inputs: LMInputs, step: StepInfo) -> ObjectiveOutput:
        del step
        return self.predict(inputs, METRICS_SAMPLE)

    def evaluation_step(self, inputs: LMInputs) -> ObjectiveOutput:
        return self.predict(inputs, None)

    def examples(self, inputs: LMInputs) -> ExampleRows | None:
        return ExampleRows(inputs.batch, inputs.positions, self.logits(inputs))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}


class MLMObjective(_LanguageModelObjective[MaskedBatch]):
    """`mlm`: predict what is hidden, as BERT and RoBERTa train.

    >>> objective = MLMObjective(Generator(tiny_encoder()), tiny_objective("mlm"), tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['masked']
    """

    lm_loss_name = "masked"
    model: Generator

    def __init__(self, model: Generator, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self._use(model)
        self.model, self.config = model, config
        self._vocabulary = mask_vocabulary(tokenizer)

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[MaskedBatch]:
        masking, micros = self.config.masking, batch.split(micro_size)
        return [mask_tokens(micro, self._vocabulary, masking, mask_share, rng) for micro in micros]

    def logits(self, inputs: MaskedBatch, hidden_states: HiddenStates | None = None) -> Tensor:
        batch = inputs.batch
        logits: Tensor = self.model(
            inputs.input_ids, batch.segment_ids, batch.attention_pad, inputs.positions, hidden_states
        )
        return logits

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        del step
        return 3 * generator_flops(self.model.config, rows, length, rows * count_masked(length, mask_share))


@dataclass(frozen=True, slots=True)
class CausalBatch:
    """Every token but the first of a row is a target, [SEP] included: where a text ends can be foreseen too."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)
    is_hidden: Tensor  # (M,) True: no token is read before it is predicted

    def to(self, device: torch.device) -> "CausalBatch":
        tensors = (self.positions, self.target_ids, self.is_hidden)
        return CausalBatch(self.batch.to(device), *(tensor.to(device) for tensor in tensors))


def shift_targets(batch: Batch) -> CausalBatch:
    is_target = ~batch.is_pad
    is_target[:, 0] = False
    positions = is_target.flatten().nonzero().squeeze(1)
    return CausalBatch(
        batch, positions, batch.original_ids.flatten()[positions], torch.ones_like(positions, dtype=torch.bool)
    )


class CausalObjective(_LanguageModelObjective[CausalBatch]):
    """`causal`: predict the next token from those before it, as GPT trains.

    >>> objective = CausalObjective(Generator(tiny_encoder(is_causal=True)))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> objective.count_targets(inputs)
    {'next': 28}
    """

    lm_loss_name = "next"
    model: Generator

    def __init__(self, model: Generator) -> None:
        assert model.config.is_causal
        self._use(model)
        self.model = model

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[CausalBatch]:
        del mask_share, rng
        return [shift_targets(micro) for micro in batch.split(micro_size)]

    def logits(self, inputs: CausalBatch, hidden_states: HiddenStates | None = None) -> Tensor:
        batch = inputs.batch
        logits: Tensor = self.model(
            batch.original_ids, batch.segment_ids, batch.attention_pad, inputs.positions, hidden_states
        )
        return logits

    def examples(self, inputs: CausalBatch) -> None:
        """Nothing is hidden: every token is predicted before it is read."""
        del inputs

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        """A prediction for every token but the first; attention counts in full, as for the others."""
        del step, mask_share
        return 3 * generator_flops(self.model.config, rows, length, rows * (length - 1))


@dataclass(frozen=True, slots=True)
class PermutedBatch:
    """The end of a factorization order of each row: what stands before it is known from the beginning."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)
    order: Tensor  # (B, T) 1, 2, ... where a token is a target, in the order of predicting; else 0
    is_hidden: Tensor  # (M,) True: every target is hidden until its turn

    def to(self, device: torch.device) -> "PermutedBatch":
        tensors = (self.positions, self.target_ids, self.order, self.is_hidden)
        return PermutedBatch(self.batch.to(device), *(tensor.to(device) for tensor in tensors))


def permute_targets(
    batch: Batch, vocabulary: MaskVocabulary, config: MaskingConfig, mask_share: float, rng: Rng
) -> PermutedBatch:
    """What masking would hide is a target, and hidden only until its turn."""
    masked = mask_tokens(batch, vocabulary, config, mask_share, rng)
    row_count, length = batch.original_ids.shape
    uniforms = np.full(row_count * length, 2.0)  # no target has such a one, so all others sort behind the targets
    targets = masked.positions.numpy()
    uniforms[targets] = rng.uniforms("turn", batch.row_numbers, length).ravel()[targets]
    ranks = uniforms.reshape(row_count, length).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    order = ranks.ravel() + 1
    order[uniforms > 1.0] = 0
    return PermutedBatch(
        batch,
        masked.positions,
        masked.target_ids,
        torch.from_numpy(order.reshape(row_count, length)),
        torch.ones_like(masked.target_ids, dtype=torch.bool),
    )


class PermutationObjective(_LanguageModelObjective[PermutedBatch]):
    """`permutation`: predict some tokens one after the other, in an order drawn anew each time, as XLNet trains.

    >>> objective = PermutationObjective(TwoStream(tiny_encoder()), tiny_objective("permutation"), tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.evaluation_step(inputs).losses.sums)
    ['permuted']
    """

    lm_loss_name = "permuted"
    model: TwoStream

    def __init__(self, model: TwoStream, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self._use(model)
        self.model, self.config = model, config
        self._vocabulary = mask_vocabulary(tokenizer)

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[PermutedBatch]:
        masking, micros = self.config.masking, batch.split(micro_size)
        return [permute_targets(micro, self._vocabulary, masking, mask_share, rng) for micro in micros]

    def logits(self, inputs: PermutedBatch, hidden_states: HiddenStates | None = None) -> Tensor:
        batch = inputs.batch
        logits: Tensor = self.model(
            batch.original_ids, batch.segment_ids, batch.attention_pad, inputs.positions, inputs.order, hidden_states
        )
        return logits

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        del step
        return 3 * two_stream_flops(self.model.config, rows, length, rows * count_masked(length, mask_share))
