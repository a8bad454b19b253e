"""Reconstructing what a generator replaced: `replace-mlm` and `all-tokens-mlm`, the paper's steps from BERT to ELECTRA.

MaskedBatch -> CorruptedBatch -> ObjectiveOutput
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
from electralab.objective.objective import METRICS_SAMPLE, Network, Objective, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer

M = TypeVar("M", Generator, CopyMLM)


class _ReconstructionObjective(Objective[MaskedBatch], Generic[M]):
    """A generator that replaces, and a model that reads the row with the replacements and says what was there."""

    lm_loss_name = "masked"
    loss_name: str
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
        self.networks = nn.ModuleDict({"model": model, "generator": generator})
        self.config = config
        self.logit_bias = special_token_bias(tokenizer, device)
        self.weights = {"generator": config.loss.generator_weight, self.loss_name: 1.0}
        self._vocabulary = mask_vocabulary(tokenizer)

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[MaskedBatch]:
        masking, micros = self.config.masking, batch.split(micro_size)
        return [mask_tokens(micro, self._vocabulary, masking, mask_share, rng) for micro in micros]

    def count_targets(self, inputs: MaskedBatch) -> Counts:
        return {"generator": len(inputs.positions), self.loss_name: self._count_reconstructed(inputs)}

    def training_step(self, inputs: MaskedBatch, step: StepInfo) -> ObjectiveOutput:
        output = self._losses(inputs, step.progress, METRICS_SAMPLE)
        return ObjectiveOutput(output.losses.learnable, output.metrics)

    def evaluation_step(self, inputs: MaskedBatch) -> ObjectiveOutput:
        return self._losses(inputs, 0.0, None)

    def examples(self, inputs: MaskedBatch) -> ExampleRows:
        generator_logits, corrupted = self._replace(inputs, 0.0)
        return ExampleRows(inputs.batch, inputs.positions, generator_logits, corrupted)

    def _losses(self, inputs: MaskedBatch, progress: float, sample: int | None) -> ObjectiveOutput:
        generator_logits, corrupted = self._replace(inputs, progress)
        targets, is_hidden = inputs.target_ids, inputs.is_hidden
        loss, metrics = self._reconstruct(corrupted, sample)
        losses = Losses({"generator": lm_loss(generator_logits, targets), self.loss_name: loss})
        generator_metrics = lm_metrics("generator", generator_logits, targets, is_hidden, sample)
        return ObjectiveOutput(losses, generator_metrics + metrics)

    def _replace(self, inputs: MaskedBatch, progress: float) -> tuple[Tensor, CorruptedBatch]:
        generator_logits = generator_forward(self.generator, inputs)  # (M, V)
        sampled_ids = sample_ids(
            generator_logits,
            inputs.sampling_uniforms,
            self.logit_bias,
            self.config.sampling,
            progress=progress,
            target_ids=inputs.target_ids,
        )
        return generator_logits, corrupt(inputs, sampled_ids)

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        del step
        num_masked = rows * count_masked(length, mask_share)
        generator = generator_step_flops(self.generator, rows, length, num_masked)
        return 3 * self._reconstruction_flops(rows, length, num_masked) + generator

    def exports(self) -> Mapping[str, Network]:
        exported: dict[str, Network] = {"model": self.model}
        return exported if isinstance(self.generator, FixedGenerator) else exported | {"generator": self.generator}

    def _count_reconstructed(self, inputs: MaskedBatch) -> int:
        raise NotImplementedError

    def _reconstruct(self, corrupted: CorruptedBatch, sample: int | None) -> tuple[Tensor, BatchMetrics]:
        raise NotImplementedError

    def _reconstruction_flops(self, rows: int, length: int, num_masked: int) -> int:
        """Forward."""
        raise NotImplementedError


class ReplaceObjective(_ReconstructionObjective[Generator]):
    """`replace-mlm`: asked about the masked positions only, like a masked language model that never sees [MASK].

    >>> models = Generator(tiny_encoder()), Generator(tiny_encoder())
    >>> objective = ReplaceObjective(*models, tiny_objective("replace-mlm"), tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['generator', 'masked']
    """

    loss_name = "masked"

    def _count_reconstructed(self, inputs: MaskedBatch) -> int:
        return len(inputs.positions)

    def _reconstruct(self, corrupted: CorruptedBatch, sample: int | None) -> tuple[Tensor, BatchMetrics]:
        masked = corrupted.masked
        batch, targets = masked.batch, masked.target_ids
        logits = self.model(corrupted.input_ids, batch.segment_ids, batch.attention_pad, masked.positions)
        return lm_loss(logits, targets), lm_metrics("masked", logits, targets, masked.is_hidden, sample)

    def _reconstruction_flops(self, rows: int, length: int, num_masked: int) -> int:
        return generator_flops(self.model.config, rows, length, num_masked)


class AllTokensObjective(_ReconstructionObjective[CopyMLM]):
    """`all-tokens-mlm`: asked about every token, with the choice to leave it as it stands.

    >>> models = CopyMLM(tiny_encoder()), Generator(tiny_encoder())
    >>> objective = AllTokensObjective(*models, tiny_objective("all-tokens-mlm"), tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> objective.count_targets(inputs)
    {'generator': 8, 'tokens': 32}
    """

    loss_name = "tokens"

    def _count_reconstructed(self, inputs: MaskedBatch) -> int:
        return self.count_tokens(inputs)

    def _reconstruct(self, corrupted: CorruptedBatch, sample: int | None) -> tuple[Tensor, BatchMetrics]:
        masked = corrupted.masked
        batch, input_ids = masked.batch, corrupted.input_ids
        positions = (~batch.is_pad).flatten().nonzero().squeeze(1)
        targets = batch.original_ids.flatten()[positions]
        hidden_states: HiddenStates = {}
        log_probs = self.model.log_probs(
            input_ids, batch.segment_ids, batch.attention_pad, positions, targets, hidden_states
        )
        at_masked = log_probs.detach()[torch.isin(positions, masked.positions)]
        metrics = BatchMetrics({"masked_loss": RunningMean(-float(at_masked.sum()), len(at_masked))})
        if sample is None:  # in a step, the vocabulary at the masked positions once more would cost too much
            logits = self.model.mixture_logits(*take_states(hidden_states["states"], input_ids, masked.positions))
            metrics += lm_metrics("masked", logits, masked.target_ids, masked.is_hidden)
        return -log_probs.sum(), metrics

    def _reconstruction_flops(self, rows: int, length: int, num_masked: int) -> int:
        del num_masked
        return copy_mlm_flops(self.model.config, rows, length)
