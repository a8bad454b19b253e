"""Mending what a generator replaced: `replace-mlm` and `all-tokens-mlm`, the paper's steps from BERT to ELECTRA.

MaskedBatch -> CorruptedBatch -> Answer
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from electralab.model.electra import AnyGenerator, FixedGenerator, Generator, share_weights
from electralab.model.encoder import HiddenStates
from electralab.model.flops import copy_mlm_flops, count_masked, generator_flops
from electralab.model.token_models import CopyMLM, take_states
from electralab.objective.corruption import CorruptedBatch, corrupt, sample_ids, special_token_bias
from electralab.objective.electra import generator_forward, generator_step_flops
from electralab.objective.examples import ExampleRows
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch, mask_tokens, mask_vocabulary
from electralab.objective.metrics import BatchMetrics, RunningMean, lm_metrics
from electralab.objective.objective import METRICS_SAMPLE, Network, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer

M = TypeVar("M", Generator, CopyMLM)


class _ReconstructionObjective(Generic[M]):
    """A generator that replaces, and a model that reads the row with the replacements and says what was there."""

    guessed = "masked"
    mended: str
    """The model's loss."""

    def __init__(
        self,
        model: M,
        generator: AnyGenerator,
        config: ObjectiveConfig,
        tokenizer: Tokenizer,
        device: torch.device,
    ) -> None:
        self.model: M = model
        self.generator = generator
        share_weights(generator, model.encoder, config.model.sharing)
        # The model first, so that what is shared goes by its name.
        self.networks: nn.Module = nn.ModuleDict({"model": model, "generator": generator})
        self.config = config
        self.prohibition = special_token_bias(tokenizer, device)
        self.weights: Mapping[str, float] = {"generator": config.loss.generator_weight, self.mended: 1.0}
        self._vocabulary = mask_vocabulary(tokenizer)

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[MaskedBatch]:
        micros = batch.split(micro_size)
        return [mask_tokens(micro, self._vocabulary, self.config.masking, share, rng) for micro in micros]

    def count_targets(self, question: MaskedBatch) -> Counts:
        return {"generator": len(question.positions), self.mended: self._count_mended(question)}

    def count_tokens(self, question: MaskedBatch) -> int:
        return question.batch.token_count

    def begin(self, moment: StepInfo) -> None:
        """Every step is like the others."""

    def answer(self, question: MaskedBatch, moment: StepInfo) -> ObjectiveOutput:
        answer = self._hold(question, moment.progress, METRICS_SAMPLE)
        # A generator that has nothing to learn has no loss to learn from.
        learnable = {name: total for name, total in answer.losses.sums.items() if total.requires_grad}
        return ObjectiveOutput(Losses(learnable), answer.observation)

    def examine(self, question: MaskedBatch) -> ObjectiveOutput:
        return self._hold(question, 0.0, None)

    def exhibit(self, question: MaskedBatch) -> ExampleRows:
        guesses, corrupted = self._replace(question, 0.0)
        return ExampleRows(question.batch, question.positions, guesses, corrupted)

    def _hold(self, question: MaskedBatch, progress: float, limit: int | None) -> ObjectiveOutput:
        guesses, corrupted = self._replace(question, progress)
        targets, is_hidden = question.target_ids, question.is_hidden
        loss, mending = self._mend(corrupted, limit)
        losses = Losses({"generator": lm_loss(guesses, targets), self.mended: loss})
        return ObjectiveOutput(losses, lm_metrics("generator", guesses, targets, is_hidden, limit) + mending)

    def _replace(self, question: MaskedBatch, progress: float) -> tuple[Tensor, CorruptedBatch]:
        guesses = generator_forward(self.generator, question)  # (M, V)
        sampling, luck, targets = self.config.sampling, question.sampling_uniforms, question.target_ids
        drawn = sample_ids(guesses, luck, self.prohibition, sampling, progress=progress, target_ids=targets)
        return guesses, corrupt(question, drawn)

    def guessed_ids(self, question: MaskedBatch) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        del moment
        masked = rows * count_masked(length, share)
        return 3 * self._mending_flops(rows, length, masked) + generator_step_flops(
            self.generator, rows, length, masked
        )

    def exports(self) -> Mapping[str, Network]:
        model: dict[str, Network] = {"model": self.model}
        return model if isinstance(self.generator, FixedGenerator) else model | {"generator": self.generator}

    def _count_mended(self, question: MaskedBatch) -> int:
        raise NotImplementedError

    def _mend(self, corrupted: CorruptedBatch, limit: int | None) -> tuple[Tensor, BatchMetrics]:
        raise NotImplementedError

    def _mending_flops(self, rows: int, length: int, masked: int) -> int:
        """Forward."""
        raise NotImplementedError


class ReplaceObjective(_ReconstructionObjective[Generator]):
    """`replace-mlm`: asked about the masked positions only, like a masked language model that never sees [MASK]."""

    mended = "masked"

    def _count_mended(self, question: MaskedBatch) -> int:
        return len(question.positions)

    def _mend(self, corrupted: CorruptedBatch, limit: int | None) -> tuple[Tensor, BatchMetrics]:
        masked = corrupted.masked
        batch, targets = masked.batch, masked.target_ids
        guesses = self.model(corrupted.input_ids, batch.segment_ids, batch.attention_pad, masked.positions)
        return lm_loss(guesses, targets), lm_metrics("masked", guesses, targets, masked.is_hidden, limit)

    def _mending_flops(self, rows: int, length: int, masked: int) -> int:
        return generator_flops(self.model.config, rows, length, masked)


class AllTokensObjective(_ReconstructionObjective[CopyMLM]):
    """`all-tokens-mlm`: asked about every token, with the choice to leave it as it stands."""

    mended = "tokens"

    def _count_mended(self, question: MaskedBatch) -> int:
        return self.count_tokens(question)

    def _mend(self, corrupted: CorruptedBatch, limit: int | None) -> tuple[Tensor, BatchMetrics]:
        masked = corrupted.masked
        batch, seen_ids = masked.batch, corrupted.input_ids
        asked = (~batch.is_pad).flatten().nonzero().squeeze(1)
        targets = batch.original_ids.flatten()[asked]
        trace: HiddenStates = {}
        log_probs = self.model.recall(seen_ids, batch.segment_ids, batch.attention_pad, asked, targets, trace)
        at_masked = log_probs.detach()[torch.isin(asked, masked.positions)]
        seen = BatchMetrics({"masked_loss": RunningMean(-float(at_masked.sum()), len(at_masked))})
        if limit is None:  # in a step, the vocabulary at the masked positions once more would cost too much
            guesses = self.model.mix(*take_states(trace["states"], seen_ids, masked.positions))
            seen += lm_metrics("masked", guesses, masked.target_ids, masked.is_hidden)
        return -log_probs.sum(), seen

    def _mending_flops(self, rows: int, length: int, masked: int) -> int:
        del masked
        return copy_mlm_flops(self.model.config, rows, length)
