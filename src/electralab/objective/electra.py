"""The ELECTRA objective: the paper's figure, line by line.

MaskedBatch -> Trial -> Answer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor

from electralab.model.electra import AnyGenerator, Discriminator, Electra, FixedGenerator
from electralab.model.encoder import HiddenStates
from electralab.model.flops import count_masked, discriminator_flops, generator_flops, two_tower_flops
from electralab.model.token_models import TwoTower
from electralab.objective.auxiliary import AuxiliaryInputs, AuxiliaryTask, build_auxiliaries
from electralab.objective.corruption import (
    CorruptedBatch,
    SamplingConfig,
    corrupt,
    sample_ids,
    special_token_bias,
)
from electralab.objective.examples import ExampleRows
from electralab.objective.losses import Counts, Losses, electra_losses
from electralab.objective.masking import MaskedBatch, mask_tokens, mask_vocabulary
from electralab.objective.metrics import BatchMetrics, discriminator_metrics, lm_metrics, replacement_metrics
from electralab.objective.objective import METRICS_SAMPLE, Network, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ElectraOutput:
    """One batch put before both networks, with everything that was said."""

    masked: MaskedBatch
    guesses: Tensor  # (M, V)
    corrupted: CorruptedBatch
    verdicts: Tensor  # (B, T) above 0 means "replaced"
    losses: Losses
    only_masked: bool  # whether the discriminator was asked about masked positions alone


def generator_forward(generator: AnyGenerator, masked: MaskedBatch) -> Tensor:
    """(M, V), from the masked row, or by a generator that does not look at the position from the original."""
    batch = masked.batch
    input_ids = masked.input_ids if generator.reads_masked else batch.original_ids
    guesses: Tensor = generator(input_ids, batch.segment_ids, batch.attention_pad, masked.positions)
    return guesses


def electra_forward(
    model: Electra,
    masked: MaskedBatch,
    prohibition: Tensor,
    sampling: SamplingConfig,
    *,
    progress: float = 0.0,
    only_masked: bool = False,
    trace: HiddenStates | None = None,
) -> ElectraOutput:
    guesses = generator_forward(model.generator, masked)
    return judge_guesses(
        model.discriminator,
        masked,
        guesses,
        prohibition,
        sampling,
        progress=progress,
        only_masked=only_masked,
        trace=trace,
    )


def judge_guesses(
    discriminator: Discriminator,
    masked: MaskedBatch,
    guesses: Tensor,
    prohibition: Tensor,
    sampling: SamplingConfig,
    *,
    progress: float = 0.0,
    only_masked: bool = False,
    trace: HiddenStates | None = None,
) -> ElectraOutput:
    batch = masked.batch
    sampled_ids = sample_ids(
        guesses, masked.sampling_uniforms, prohibition, sampling, target_ids=masked.target_ids, progress=progress
    )
    corrupted = corrupt(masked, sampled_ids)
    verdicts = discriminator(corrupted.input_ids, batch.segment_ids, batch.attention_pad, trace)
    losses = electra_losses(guesses, verdicts, masked, corrupted, only_masked=only_masked)
    return ElectraOutput(masked, guesses, corrupted, verdicts, losses, only_masked)


class ElectraObjective:
    """A generator that guesses, a discriminator that judges: `electra`, and `electra-15`, judged where masked only."""

    guessed = "generator"
    auxiliaries: Mapping[str, AuxiliaryTask] = MappingProxyType({})

    def __init__(self, networks: Electra, config: ObjectiveConfig, tokenizer: Tokenizer, device: torch.device) -> None:
        self.networks = networks
        self.config = config
        self.only_masked = config.objective == "electra-15"
        self.prohibition = special_token_bias(tokenizer, device)
        self.weights: Mapping[str, float] = {
            "generator": config.loss.generator_weight,
            "discriminator": config.loss.discriminator_weight,
            **config.loss.auxiliary,
        }
        self.auxiliaries = build_auxiliaries(config.loss, networks.discriminator.config, tokenizer)
        networks.heads.update(self.auxiliaries)
        self._vocabulary = mask_vocabulary(tokenizer)

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[MaskedBatch]:
        micros = batch.split(micro_size)
        questions = [mask_tokens(micro, self._vocabulary, self.config.masking, share, rng) for micro in micros]
        return [replace(question, luck=self._draw_luck(question, rng)) for question in questions]

    def _draw_luck(self, question: MaskedBatch, rng: Rng) -> Mapping[str, Tensor]:
        drawn = {name: auxiliary.draw_luck(question, rng) for name, auxiliary in self.auxiliaries.items()}
        return {name: luck for name, luck in drawn.items() if luck is not None}

    def count_targets(self, question: MaskedBatch) -> Counts:
        guessed = len(question.positions)
        judged = guessed if self.only_masked else self.count_tokens(question)
        more = {name: auxiliary.count_targets(question) for name, auxiliary in self.auxiliaries.items()}
        return {"generator": guessed, "discriminator": judged, **more}

    def count_tokens(self, question: MaskedBatch) -> int:
        return question.batch.token_count

    def begin(self, moment: StepInfo) -> None:
        """Every step is like the others."""

    def answer(self, question: MaskedBatch, moment: StepInfo) -> ObjectiveOutput:
        trial = self._hold(question, moment.progress)
        return ObjectiveOutput(self._learnable(trial.losses), observe_trial(trial, METRICS_SAMPLE))

    def examine(self, question: MaskedBatch) -> ObjectiveOutput:
        trial = self._hold(question, 0.0)
        seen = observe_trial(trial) + replacement_metrics(trial.guesses, trial.verdicts, trial.corrupted)
        return ObjectiveOutput(trial.losses, seen)

    def exhibit(self, question: MaskedBatch) -> ExampleRows:
        return exhibit_trial(
            electra_forward(
                self.networks, question, self.prohibition, self.config.sampling, only_masked=self.only_masked
            )
        )

    def _hold(self, question: MaskedBatch, progress: float) -> ElectraOutput:
        trace: HiddenStates | None = {} if self.auxiliaries else None
        trial = electra_forward(
            self.networks,
            question,
            self.prohibition,
            self.config.sampling,
            progress=progress,
            only_masked=self.only_masked,
            trace=trace,
        )
        if trace is None:
            return trial
        scene = AuxiliaryInputs(
            self.networks.discriminator, trial.corrupted, trace["states"], trial.guesses.detach(), self.prohibition
        )
        more = {name: auxiliary(scene) for name, auxiliary in self.auxiliaries.items()}
        return replace(trial, losses=Losses({**trial.losses.sums, **more}))

    def _learnable(self, losses: Losses) -> Losses:
        """Without the loss of a generator that has nothing to learn."""
        return Losses({name: total for name, total in losses.sums.items() if total.requires_grad})

    def guessed_ids(self, question: MaskedBatch) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        del moment
        judge = self.networks.discriminator
        masked_count = rows * count_masked(length, share)
        judging = 3 * discriminator_flops(judge.config, rows, length, judge.head.kind)
        guessing = generator_step_flops(self.networks.generator, rows, length, masked_count)
        tasks = self.auxiliaries.values()
        return judging + guessing + sum(task.count_flops(judge.config, rows, length, masked_count) for task in tasks)

    def exports(self) -> Mapping[str, Network]:
        generator = self.networks.generator
        judge: dict[str, Network] = {"discriminator": self.networks.discriminator}
        return judge if isinstance(generator, FixedGenerator) else judge | {"generator": generator}


def generator_step_flops(generator: AnyGenerator, rows: int, length: int, guesses: int) -> int:
    """Of one step: forward and backward, forward alone of a frozen one."""
    is_learning = any(parameter.requires_grad for parameter in generator.parameters())
    return (3 if is_learning else 1) * generator_forward_flops(generator, rows, length, guesses)


def generator_forward_flops(generator: AnyGenerator, rows: int, length: int, guesses: int) -> int:
    if isinstance(generator, FixedGenerator):
        return 0
    count = two_tower_flops if isinstance(generator, TwoTower) else generator_flops
    return count(generator.config, rows, length, guesses)


def exhibit_trial(trial: ElectraOutput) -> ExampleRows:
    positions, verdicts = trial.masked.positions, trial.verdicts
    if trial.only_masked:
        asked = verdicts.flatten()[positions]
        verdicts = torch.full_like(verdicts, torch.nan).flatten().index_copy(0, positions, asked).view_as(verdicts)
    return ExampleRows(trial.masked.batch, positions, trial.guesses, trial.corrupted, verdicts)


def observe_trial(trial: ElectraOutput, limit: int | None = None) -> BatchMetrics:
    masked = trial.masked
    guessing = lm_metrics("generator", trial.guesses, masked.target_ids, masked.is_hidden, limit)
    return guessing + discriminator_metrics(trial.verdicts, trial.corrupted, only_masked=trial.only_masked)
