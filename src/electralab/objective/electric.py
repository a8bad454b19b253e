"""Energies by noise-contrastive estimation: `electric`, a score of every token in its context (Clark et al., 2020b).

MaskedBatch -> NceOutput -> ObjectiveOutput

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

from electralab.model.electra import Electra, TwoTower
from electralab.objective.corruption import CorruptedBatch, corrupt, sample_ids, sampled_log_probs
from electralab.objective.electra import ElectraObjective
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import BatchMetrics, ExampleRows, RtdScores, lm_metrics
from electralab.objective.objective import ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.tokens.tokenizer import Tokenizer

# Tokens whose vocabulary-wide softmax is computed at once, where only one number of it is kept.
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class NceOutput:
    """Rows with noise in them, and what generator and discriminator say of every ordinary token."""

    generator_logits: Tensor  # (M, V) at the noised positions
    corrupted: CorruptedBatch
    positions: Tensor  # (N,) of the ordinary tokens, into the flattened (B * T)
    is_noise: Tensor  # (N,)
    log_noise: Tensor  # (N,) log q of the token that stands there now
    energies: Tensor  # (N,)
    logits: Tensor  # (N,) above 0 means "noise"


class ElectricObjective(ElectraObjective):
    """`electric`: the discriminator's outputs are energies, learned by telling tokens from the generator's noise.

    >>> pair = tiny_pair(kind="two-tower")
    >>> objective = ElectricObjective(pair, tiny_objective("electric"), tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> objective.count_targets(inputs)
    {'generator': 8, 'discriminator': 24}
    """

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
        possible = int((self.logit_bias == 0).sum())
        self.networks.discriminator.head.verdict.bias.fill_(math.log(possible))

    def count_targets(self, inputs: MaskedBatch) -> Counts:
        return {"generator": len(inputs.positions), "discriminator": int(inputs.batch.is_ordinary.sum())}

    def compute(self, inputs: MaskedBatch, progress: float, sample: int | None) -> ObjectiveOutput:
        output = self.nce_forward(inputs, progress)
        is_noise, targets = output.is_noise, inputs.target_ids
        losses = {
            "generator": lm_loss(output.generator_logits, targets),
            "discriminator": F.binary_cross_entropy_with_logits(output.logits, is_noise.float(), reduction="sum"),
        }
        metrics = lm_metrics("generator", output.generator_logits, targets, inputs.is_hidden, sample)
        scores = RtdScores(output.logits.detach().cpu().numpy(), is_noise.cpu().numpy())
        return ObjectiveOutput(Losses(losses), metrics + BatchMetrics(rtd=[scores]))

    def examples(self, inputs: MaskedBatch) -> ExampleRows:
        output = self.nce_forward(inputs)
        shape = inputs.batch.original_ids.shape
        logits = output.logits.new_full((shape.numel(),), torch.nan).index_copy(0, output.positions, output.logits)
        return ExampleRows(
            inputs.batch, inputs.positions, output.generator_logits, output.corrupted, logits.view(shape)
        )

    def nce_forward(self, masked: MaskedBatch, progress: float = 0.0) -> NceOutput:
        batch, generator, sampling = masked.batch, self.generator, self.config.sampling
        positions = batch.is_ordinary.flatten().nonzero().squeeze(1)  # (N,)
        states = generator.hidden_states_at(batch.original_ids, batch.segment_ids, batch.attention_pad, positions)
        is_noise = torch.isin(positions, masked.positions)
        generator_logits = generator.logits(states[is_noise])  # (M, V)
        uniforms, logit_bias = masked.sampling_uniforms, self.logit_bias
        sampled_ids = sample_ids(generator_logits, uniforms, logit_bias, sampling, progress=progress)
        corrupted = corrupt(masked, sampled_ids)
        temperature = sampling.temperature_at(progress)
        standing_ids = corrupted.input_ids.flatten()[positions]
        with torch.no_grad():
            log_noise = states.new_zeros(len(positions), dtype=torch.float32)
            log_noise[is_noise] = sampled_log_probs(generator_logits, sampled_ids, logit_bias, temperature)
            for part in torch.split((~is_noise).nonzero().squeeze(1), _CHUNK):
                logits = generator.logits(states[part])
                log_noise[part] = sampled_log_probs(logits, standing_ids[part], logit_bias, temperature)
        outputs = self.networks.discriminator(corrupted.input_ids, batch.segment_ids, batch.attention_pad)
        energies = outputs.float().flatten()[positions]
        logits = energies + log_noise + log_odds(batch.is_ordinary, is_noise, positions)
        return NceOutput(generator_logits, corrupted, positions, is_noise, log_noise, energies, logits)

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        """The generator predicts every ordinary token, but learns from the noised ones only."""
        del step
        forward = self.generator.count_flops(rows, length, rows * (length - 2))
        backward = 2 * self.generator.count_flops(rows, length, num_masked)
        return forward + backward + 3 * self.networks.discriminator.count_flops(rows, length)


def log_odds(is_ordinary: Tensor, is_noise: Tensor, positions: Tensor) -> Tensor:
    """(N,) log(k / (n - k)) of each token's row, where a row all noise, or without any, counts as half a token off."""
    rows = positions // is_ordinary.shape[1]
    counts = is_ordinary.sum(dim=1).float()  # (B,)
    noised = torch.zeros_like(counts).index_add(0, rows, is_noise.float())
    odds = noised.clamp(min=0.5).log() - (counts - noised).clamp(min=0.5).log()
    return odds[rows]
