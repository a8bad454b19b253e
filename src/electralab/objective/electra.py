"""The objectives of the ELECTRA paper: `electra` and `electra-15`, the figure line by line, and its two steps from BERT
to ELECTRA, `replace-mlm` and `all-tokens-mlm`, which reconstruct what a generator replaced.

MaskedBatch -> CorruptedBatch -> ElectraOutput -> ObjectiveOutput
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from electralab.model.electra import AnyGenerator, CopyMLM, Electra, FixedGenerator, Generator, share_weights
from electralab.model.encoder import LAST_STATES, HiddenStates
from electralab.objective.auxiliary import AuxiliaryInputs, build_auxiliaries
from electralab.objective.corruption import CorruptedBatch, SamplingConfig, corrupt, sample_ids, special_token_bias
from electralab.objective.losses import Counts, Losses, electra_losses, lm_loss
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import (
    BatchMetrics,
    ExampleRows,
    RtdScores,
    RunningMean,
    lm_metrics,
    replacement_metrics,
)
from electralab.objective.objective import Network, Objective, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ElectraOutput:
    """One batch put through both networks, with everything on the way."""

    masked: MaskedBatch
    generator_logits: Tensor  # (M, V)
    corrupted: CorruptedBatch
    discriminator_logits: Tensor  # (B, T) above 0 means "replaced"
    losses: Losses
    only_masked: bool  # whether the discriminator is asked about masked positions alone

    def metrics(self, sample: int | None = None) -> BatchMetrics:
        masked = self.masked
        generator = lm_metrics("generator", self.generator_logits, masked.target_ids, masked.is_hidden, sample)
        scores = RtdScores.from_logits(self.discriminator_logits, self.corrupted, only_masked=self.only_masked)
        return generator + BatchMetrics(rtd=[scores])

    def examples(self) -> ExampleRows:
        positions, logits = self.masked.positions, self.discriminator_logits
        if self.only_masked:
            selected = logits.flatten()[positions]
            logits = torch.full_like(logits, torch.nan).flatten().index_copy(0, positions, selected).view_as(logits)
        return ExampleRows(self.masked.batch, positions, self.generator_logits, self.corrupted, logits)


def generator_forward(generator: AnyGenerator, masked: MaskedBatch) -> Tensor:
    """(M, V), from the masked row; from the original where a generator does not look at the position itself."""
    batch = masked.batch
    input_ids = masked.input_ids if generator.reads_masked else batch.original_ids
    generator_logits: Tensor = generator(input_ids, batch.segment_ids, batch.attention_pad, masked.positions)
    return generator_logits


def electra_forward(
    model: Electra,
    masked: MaskedBatch,
    logit_bias: Tensor,
    sampling: SamplingConfig,
    *,
    progress: float = 0.0,
    only_masked: bool = False,
    generator_logits: Tensor | None = None,
    hidden_states: HiddenStates | None = None,
) -> ElectraOutput:
    """The figure. `generator_logits` are given where the caller already has them, with or without a gradient."""
    batch = masked.batch
    if generator_logits is None:
        generator_logits = generator_forward(model.generator, masked)  # (M, V), masked positions only
    sampled_ids = sample_ids(
        generator_logits,
        masked.sampling_uniforms,
        logit_bias,
        sampling,
        target_ids=masked.target_ids,
        progress=progress,
    )
    corrupted = corrupt(masked, sampled_ids)
    discriminator_logits = model.discriminator(  # (B, T), above 0 means "replaced"
        corrupted.input_ids, batch.segment_ids, batch.attention_pad, hidden_states
    )
    losses = electra_losses(generator_logits, discriminator_logits, masked, corrupted, only_masked=only_masked)
    return ElectraOutput(masked, generator_logits, corrupted, discriminator_logits, losses, only_masked)


class ElectraObjective(Objective[MaskedBatch]):
    """`electra`: a generator fills in masked tokens, a discriminator tells replaced tokens from original ones.

    `electra-15` is the same with the discriminator's loss at masked positions only.

    >>> objective = ElectraObjective(tiny_pair(), tiny_objective("electra"), tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['discriminator', 'generator']
    """

    lm_loss_name = "generator"

    def __init__(self, networks: Electra, config: ObjectiveConfig, tokenizer: Tokenizer, device: torch.device) -> None:
        super().__init__(config, tokenizer)
        self.networks: Electra = networks
        self.only_masked = config.objective == "electra-15"
        self.logit_bias = special_token_bias(tokenizer, device)
        self.weights: Mapping[str, float] = {
            "generator": config.loss.generator_weight,
            "discriminator": config.loss.discriminator_weight,
            **config.loss.auxiliary,
        }
        self.auxiliaries = build_auxiliaries(config.loss, networks.discriminator.config, tokenizer)
        self.num_negatives = config.loss.selection_negatives if "selection" in self.auxiliaries else 0
        # Part of the networks, so that optimizer and checkpoints see their weights; exports leave them out.
        networks.heads.update(self.auxiliaries)

    def count_targets(self, inputs: MaskedBatch) -> Counts:
        num_masked = len(inputs.positions)
        num_classified = num_masked if self.only_masked else inputs.batch.token_count
        more = {name: task.count_targets(inputs) for name, task in self.auxiliaries.items()}
        return {"generator": num_masked, "discriminator": num_classified, **more}

    def forward(
        self, inputs: MaskedBatch, progress: float = 0.0, generator_logits: Tensor | None = None
    ) -> ElectraOutput:
        """The figure with this objective's settings, and the losses of its auxiliary tasks."""
        # Filled by the discriminator's own pass: another one for the auxiliary tasks would cost as much again.
        hidden_states: HiddenStates | None = {} if self.auxiliaries else None
        output = electra_forward(
            self.networks,
            inputs,
            self.logit_bias,
            self.config.sampling,
            progress=progress,
            only_masked=self.only_masked,
            generator_logits=generator_logits,
            hidden_states=hidden_states,
        )
        if hidden_states is None:
            return output
        # Detached: what an auxiliary task samples from the generator must not train it.
        logits, states = output.generator_logits.detach(), hidden_states[LAST_STATES]
        auxiliary = AuxiliaryInputs(self.networks.discriminator, output.corrupted, states, logits, self.logit_bias)
        more = {name: task(auxiliary) for name, task in self.auxiliaries.items()}
        return replace(output, losses=Losses({**output.losses.sums, **more}))

    def compute(self, inputs: MaskedBatch, progress: float, sample: int | None) -> ObjectiveOutput:
        output = self.forward(inputs, progress)
        metrics = output.metrics(sample)
        if sample is None:
            # On held-out rows only: how sure the generator was takes its softmax at every masked position.
            metrics += replacement_metrics(output.generator_logits, output.discriminator_logits, output.corrupted)
        return ObjectiveOutput(output.losses, metrics)

    def examples(self, inputs: MaskedBatch) -> ExampleRows:
        return self.forward(inputs).examples()

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        del step
        discriminator = self.networks.discriminator
        tasks = self.auxiliaries.values()
        auxiliary = sum(task.count_flops(discriminator.config, rows, length, num_masked) for task in tasks)
        generator = generator_step_flops(self.networks.generator, rows, length, num_masked)
        return 3 * discriminator.count_flops(rows, length) + generator + auxiliary

    def exports(self) -> Mapping[str, Network]:
        return _exports("discriminator", self.networks.discriminator, self.networks.generator)


def _exports(name: str, network: Network, generator: AnyGenerator) -> Mapping[str, Network]:
    """What learns from the generator, and the generator itself where it is a network."""
    exported = {name: network}
    return exported if isinstance(generator, FixedGenerator) else exported | {"generator": generator}


def generator_step_flops(generator: AnyGenerator, rows: int, length: int, num_masked: int) -> int:
    """Forward and backward, or forward alone of a generator that does not learn."""
    is_learning = any(parameter.requires_grad for parameter in generator.parameters())
    return (3 if is_learning else 1) * generator.count_flops(rows, length, num_masked)


class ReplaceObjective(Objective[MaskedBatch]):
    """`replace-mlm`: a generator replaces, and a model that reads the row with the replacements predicts what was there
    at the masked positions, like a masked language model that never sees [MASK].

    >>> models = Generator(tiny_encoder()), Generator(tiny_encoder())
    >>> objective = ReplaceObjective(*models, tiny_objective("replace-mlm"), tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['generator', 'masked']
    """

    lm_loss_name = "masked"
    loss_name = "masked"
    """The model's loss."""

    def __init__(
        self,
        model: Generator | CopyMLM,
        generator: AnyGenerator,
        config: ObjectiveConfig,
        tokenizer: Tokenizer,
        device: torch.device,
    ) -> None:
        super().__init__(config, tokenizer)
        self.model, self.generator = model, generator
        share_weights(generator, model.encoder, config.model.sharing)
        # The model first, so that what is shared goes by its name.
        self.networks = nn.ModuleDict({"model": model, "generator": generator})
        self.logit_bias = special_token_bias(tokenizer, device)
        self.weights = {"generator": config.loss.generator_weight, self.loss_name: 1.0}

    def count_targets(self, inputs: MaskedBatch) -> Counts:
        return {"generator": len(inputs.positions), self.loss_name: len(inputs.positions)}

    def sample_replacements(self, inputs: MaskedBatch, progress: float) -> tuple[Tensor, CorruptedBatch]:
        """(M, V) what the generator predicts, and the rows with what was sampled from it."""
        generator_logits = generator_forward(self.generator, inputs)
        sampled_ids = sample_ids(
            generator_logits,
            inputs.sampling_uniforms,
            self.logit_bias,
            self.config.sampling,
            progress=progress,
            target_ids=inputs.target_ids,
        )
        return generator_logits, corrupt(inputs, sampled_ids)

    def compute(self, inputs: MaskedBatch, progress: float, sample: int | None) -> ObjectiveOutput:
        generator_logits, corrupted = self.sample_replacements(inputs, progress)
        targets, is_hidden = inputs.target_ids, inputs.is_hidden
        loss, metrics = self.reconstruct(corrupted, sample)
        losses = Losses({"generator": lm_loss(generator_logits, targets), self.loss_name: loss})
        generator_metrics = lm_metrics("generator", generator_logits, targets, is_hidden, sample)
        return ObjectiveOutput(losses, generator_metrics + metrics)

    def reconstruct(self, corrupted: CorruptedBatch, sample: int | None) -> tuple[Tensor, BatchMetrics]:
        """The model's loss, summed, and what is worth knowing beside it."""
        masked = corrupted.masked
        batch, targets = masked.batch, masked.target_ids
        logits = self.model(corrupted.input_ids, batch.segment_ids, batch.attention_pad, masked.positions)
        return lm_loss(logits, targets), lm_metrics("masked", logits, targets, masked.is_hidden, sample)

    def examples(self, inputs: MaskedBatch) -> ExampleRows:
        return ExampleRows(inputs.batch, inputs.positions, *self.sample_replacements(inputs, 0.0))

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        del step
        # A model that may copy is asked about every token.
        num_predicted = rows * length if isinstance(self.model, CopyMLM) else num_masked
        reconstruction = 3 * self.model.count_flops(rows, length, num_predicted)
        return reconstruction + generator_step_flops(self.generator, rows, length, num_masked)

    def exports(self) -> Mapping[str, Network]:
        return _exports("model", self.model, self.generator)


class AllTokensObjective(ReplaceObjective):
    """`all-tokens-mlm`: asked about every token, with the choice to leave it as it stands.

    >>> models = CopyMLM(tiny_encoder()), Generator(tiny_encoder())
    >>> objective = AllTokensObjective(*models, tiny_objective("all-tokens-mlm"), tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> objective.count_targets(inputs)
    {'generator': 8, 'tokens': 32}
    """

    loss_name = "tokens"
    model: CopyMLM

    def count_targets(self, inputs: MaskedBatch) -> Counts:
        return {"generator": len(inputs.positions), "tokens": inputs.batch.token_count}

    def reconstruct(self, corrupted: CorruptedBatch, sample: int | None) -> tuple[Tensor, BatchMetrics]:
        masked = corrupted.masked
        batch, input_ids = masked.batch, corrupted.input_ids
        positions = (~batch.is_pad).flatten().nonzero().squeeze(1)
        targets = batch.original_ids.flatten()[positions]
        states = self.model.encoder(input_ids, batch.segment_ids, batch.attention_pad)  # (B, T, D)
        log_probs = self.model.log_probs(states, input_ids, positions, targets)
        at_masked = log_probs.detach()[torch.isin(positions, masked.positions)]
        metrics = BatchMetrics({"masked_loss": RunningMean(-float(at_masked.sum()), len(at_masked))})
        if sample is None:  # in a step, the vocabulary at the masked positions once more would cost too much
            logits = self.model.mixture_logits(states, input_ids, masked.positions)
            metrics += lm_metrics("masked", logits, masked.target_ids, masked.is_hidden)
        return -log_probs.sum(), metrics
