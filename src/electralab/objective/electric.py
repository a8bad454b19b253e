"""Energies by noise-contrastive estimation: `electric`, a score of every token in its context (Clark et al., 2020b).

MaskedBatch -> Noised -> Answer

    p(x_t | others) = exp(-E_t) / Z           the discriminator's output is E
    q(x_t | others)                           the generator, two towers that see all but the token itself
    logit of "t is noise" = E_t + log q(x_t | others) + log(k / (n - k))

k of a row's n ordinary tokens are drawn anew from q. Noise is noise, also where the draw equals the original: only then
is the best E minus log p.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.model.electra import Discriminator, Electra
from electralab.model.flops import count_masked, discriminator_flops, two_tower_flops
from electralab.model.token_models import TwoTower
from electralab.objective.corruption import CorruptedBatch, SamplingConfig, corrupt, sample_ids, sampled_log_probs
from electralab.objective.electra import ElectraObjective
from electralab.objective.examples import ExampleRows
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import BatchMetrics, RtdScores, lm_metrics
from electralab.objective.objective import METRICS_SAMPLE, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.tokens.tokenizer import Tokenizer

# Tokens whose vocabulary-wide softmax is computed at once, where only one number of it is kept.
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class NceOutput:
    """Rows with noise in them, and what generator and discriminator say of every ordinary token."""

    guesses: Tensor  # (M, V) at the noised positions
    corrupted: CorruptedBatch
    positions: Tensor  # (N,) of the ordinary tokens, into the flattened (B * T)
    is_noise: Tensor  # (N,)
    log_noise: Tensor  # (N,) log q of the token that stands there now
    energies: Tensor  # (N,)
    logits: Tensor  # (N,) above 0 means "noise"


class ElectricObjective(ElectraObjective):
    def __init__(self, networks: Electra, config: ObjectiveConfig, tokenizer: Tokenizer, device: torch.device) -> None:
        super().__init__(networks, config, tokenizer, device)
        assert isinstance(networks.generator, TwoTower)
        self.generator = networks.generator

    @torch.no_grad()
    def init_energies(self) -> None:
        """Start at E = log V of the V tokens that can be noise: nothing but E + log q is learned from.

        A generator that knows nothing yet gives each of them 1 / V. From E = 0 every token would look log V nats less
        likely to be noise than it is, and the first steps would go into one number, the mean.
        """
        possible = int((self.prohibition == 0).sum())
        self.networks.discriminator.head.verdict.bias.fill_(math.log(possible))

    def count_targets(self, question: MaskedBatch) -> Counts:
        return {"generator": len(question.positions), "discriminator": int(question.batch.is_ordinary.sum())}

    def answer(self, question: MaskedBatch, moment: StepInfo) -> ObjectiveOutput:
        return self._answer(question, moment.progress, METRICS_SAMPLE)

    def examine(self, question: MaskedBatch) -> ObjectiveOutput:
        return self._answer(question, 0.0, None)

    def exhibit(self, question: MaskedBatch) -> ExampleRows:
        noised = self._add_noise(question, 0.0)
        shape = question.batch.original_ids.shape
        verdicts = noised.logits.new_full((shape.numel(),), torch.nan).index_copy(0, noised.positions, noised.logits)
        return ExampleRows(question.batch, question.positions, noised.guesses, noised.corrupted, verdicts.view(shape))

    def _add_noise(self, question: MaskedBatch, progress: float) -> NceOutput:
        judge, sampling = self.networks.discriminator, self.config.sampling
        return nce_forward(self.generator, judge, question, self.prohibition, sampling, progress=progress)

    def _answer(self, question: MaskedBatch, progress: float, limit: int | None) -> ObjectiveOutput:
        noised = self._add_noise(question, progress)
        losses = {
            "generator": lm_loss(noised.guesses, question.target_ids),
            "discriminator": F.binary_cross_entropy_with_logits(
                noised.logits, noised.is_noise.float(), reduction="sum"
            ),
        }
        seen = lm_metrics("generator", noised.guesses, question.target_ids, question.is_hidden, limit)
        logits, is_noise = noised.logits.detach().cpu().numpy(), noised.is_noise.cpu().numpy()
        return ObjectiveOutput(Losses(losses), seen + BatchMetrics(verdicts=[RtdScores(logits, is_noise)]))

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        """The generator guesses every ordinary token, but learns from the noised ones only."""
        del moment
        ordinary, noised = rows * (length - 2), rows * count_masked(length, share)
        judge, config = self.networks.discriminator, self.generator.config
        guessing = two_tower_flops(config, rows, length, ordinary) + 2 * two_tower_flops(config, rows, length, noised)
        return guessing + 3 * discriminator_flops(judge.config, rows, length, judge.head.kind)


def nce_forward(
    generator: TwoTower,
    discriminator: Discriminator,
    masked: MaskedBatch,
    prohibition: Tensor,
    sampling: SamplingConfig,
    *,
    progress: float = 0.0,
) -> NceOutput:
    batch = masked.batch
    positions = batch.is_ordinary.flatten().nonzero().squeeze(1)  # (N,)
    states = generator.read(batch.original_ids, batch.segment_ids, batch.attention_pad, positions)
    is_noise = torch.isin(positions, masked.positions)
    guesses = generator.guess(states[is_noise])  # (M, V)
    drawn_ids = sample_ids(guesses, masked.sampling_uniforms, prohibition, sampling, progress=progress)
    corrupted = corrupt(masked, drawn_ids)
    temperature = sampling.temperature_at(progress)
    standing_ids = corrupted.input_ids.flatten()[positions]
    with torch.no_grad():
        log_noise = states.new_empty(len(positions), dtype=torch.float32)
        log_noise[is_noise] = sampled_log_probs(guesses, drawn_ids, prohibition, temperature)
        for part in torch.split((~is_noise).nonzero().squeeze(1), _CHUNK):
            log_noise[part] = sampled_log_probs(
                generator.guess(states[part]), standing_ids[part], prohibition, temperature
            )
    verdicts = discriminator(corrupted.input_ids, batch.segment_ids, batch.attention_pad)
    energies = verdicts.float().flatten()[positions]
    logits = energies + log_noise + log_odds(batch.is_ordinary, is_noise, positions)
    return NceOutput(guesses, corrupted, positions, is_noise, log_noise, energies, logits)


def log_odds(is_ordinary: Tensor, is_noise: Tensor, positions: Tensor) -> Tensor:
    """(N,) log(k / (n - k)) of each token's row, where a row all noise, or without any, counts as half a token off."""
    rows = positions // is_ordinary.shape[1]
    counts = is_ordinary.sum(dim=1).float()  # (B,)
    noised = torch.zeros_like(counts).index_add(0, rows, is_noise.float())
    odds = noised.clamp(min=0.5).log() - (counts - noised).clamp(min=0.5).log()
    return odds[rows]
