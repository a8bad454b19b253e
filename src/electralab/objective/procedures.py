"""Other ways to train the pair than both networks at once: who learns at a step, and from what.

MaskedBatch, StepInfo -> ObjectiveOutput

    two-stage         the generator for half of the run, then the discriminator, which may begin as its copy
    adversarial       both at every step, the generator from rewards: what the discriminator loses at its draws
    minimax           by turns; the reward is how unsure the discriminator is of a draw
    minimax-literal   by turns; the reward is minus what the discriminator loses
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.electra import Electra, Generator, TwoTower
from electralab.model.weights import linear
from electralab.objective.corruption import sampled_log_probs
from electralab.objective.electra import ElectraObjective, ElectraOutput, generator_forward
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import BatchMetrics, RunningMean, lm_metrics, loss_metrics, replacement_metrics
from electralab.objective.objective import METRICS_SAMPLE, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig, Procedure
from electralab.tokens.tokenizer import Tokenizer


class Updates(NamedTuple):
    """Which networks learn at a step."""

    generator: bool
    discriminator: bool


class TwoStageObjective(ElectraObjective):
    """`two-stage`: the generator alone by maximum likelihood; then it is frozen, and the discriminator learns alone.

    >>> objective = TwoStageObjective(tiny_pair(), tiny_objective("electra"), tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> [list(objective.training_step(inputs, StepInfo(step, 10)).losses.sums) for step in (5, 6)]
    [['generator'], ['discriminator']]
    """

    def on_step_start(self, step: StepInfo) -> None:
        is_boundary = step.begin <= step.total_steps // 2 < step.end
        if not (is_boundary and self.config.procedure_options.init_from_generator):
            return
        # The discriminator's encoder takes over the generator's weights; what it alone has stays.
        generator, discriminator = self.networks.generator, self.networks.discriminator
        assert isinstance(generator, Generator)
        with torch.no_grad():
            for name, parameter in generator.encoder.named_parameters():
                discriminator.encoder.get_parameter(name).copy_(parameter)

    def updates_at(self, step: StepInfo) -> Updates:
        is_first = step.end <= step.total_steps // 2
        return Updates(generator=is_first, discriminator=not is_first)

    def training_step(self, inputs: MaskedBatch, step: StepInfo) -> ObjectiveOutput:
        generator, targets = self.networks.generator, inputs.target_ids
        if self.updates_at(step).generator:
            logits = generator_forward(generator, inputs)
            metrics = lm_metrics("generator", logits, targets, inputs.is_hidden, METRICS_SAMPLE)
            return ObjectiveOutput(Losses({"generator": lm_loss(logits, targets)}), metrics)
        generator.eval()  # frozen: it samples as it will be evaluated, without dropout
        with torch.no_grad():
            logits = generator_forward(generator, inputs)
        output = self.forward(inputs, step.progress, logits)
        return ObjectiveOutput(output.losses.only("discriminator"), _pair_metrics(output))

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        generator = self.networks.generator.count_flops(rows, length, num_masked)
        if self.updates_at(step).generator:
            return 3 * generator
        return generator + 3 * self.networks.discriminator.count_flops(rows, length)


class ReinforceObjective(ElectraObjective):
    """`adversarial`, `minimax`: the generator learns from rewards for its samples alone (REINFORCE), never from the
    original token.

    >>> config = tiny_objective("electra", procedure="adversarial")
    >>> objective = ReinforceObjective(tiny_pair(), config, tiny_tokenizer(), torch.device("cpu"))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['baseline', 'discriminator', 'policy']
    """

    def __init__(self, networks: Electra, config: ObjectiveConfig, tokenizer: Tokenizer, device: torch.device) -> None:
        super().__init__(networks, config, tokenizer, device)
        assert isinstance(networks.generator, Generator | TwoTower), "the other generators have nothing to learn"
        self.generator = networks.generator
        towers = 2 if isinstance(networks.generator, TwoTower) else 1
        self.baseline = RewardBaseline(towers * networks.generator.config.hidden_size)
        networks.heads["baseline"] = self.baseline
        # The baseline's loss moves nothing else: to Adam any weight but 0 means the same.
        self.weights: Mapping[str, float] = {**self.weights, "policy": config.loss.generator_weight, "baseline": 1.0}

    def updates_at(self, step: StepInfo) -> Updates:
        if self.config.procedure == "adversarial":
            return Updates(generator=True, discriminator=True)
        options = self.config.procedure_options
        period = options.discriminator_updates + options.generator_updates
        is_discriminator = (step.step - 1) % period < options.discriminator_updates
        return Updates(generator=not is_discriminator, discriminator=is_discriminator)

    def count_targets(self, inputs: MaskedBatch) -> Counts:
        num_samples = len(inputs.positions)
        return {**super().count_targets(inputs), "policy": num_samples, "baseline": num_samples}

    def training_step(self, inputs: MaskedBatch, step: StepInfo) -> ObjectiveOutput:
        updates = self.updates_at(step)
        output, rewards, policy = self.reinforce_forward(inputs, step.progress, updates)
        metrics = _pair_metrics(output)
        learned = dict(output.losses.only("discriminator").sums) if updates.discriminator else {}
        if updates.generator:
            learned |= policy.sums
            metrics += BatchMetrics({"reward": RunningMean(rewards.sum().item(), len(rewards))})
        return ObjectiveOutput(Losses(learned), metrics)

    def evaluation_step(self, inputs: MaskedBatch) -> ObjectiveOutput:
        output, rewards, policy = self.reinforce_forward(inputs, 0.0, Updates(generator=True, discriminator=True))
        metrics = output.metrics()
        metrics += replacement_metrics(output.generator_logits, output.discriminator_logits, output.corrupted)
        metrics += BatchMetrics({"reward": RunningMean(rewards.sum().item(), len(rewards))})
        return ObjectiveOutput(Losses({**output.losses.sums, **policy.sums}), metrics)

    def reinforce_forward(
        self, inputs: MaskedBatch, progress: float, updates: Updates
    ) -> tuple[ElectraOutput, Tensor, Losses]:
        """Both networks with gradients where they learn; (M,) the reward of each sample; what is learned from it."""
        may_learn, batch = torch.is_grad_enabled(), inputs.batch
        input_ids = inputs.input_ids if self.generator.reads_masked else batch.original_ids
        with torch.set_grad_enabled(may_learn and updates.generator):
            states = self.generator.hidden_states_at(
                input_ids, batch.segment_ids, batch.attention_pad, inputs.positions
            )  # (M, D)
            generator_logits = self.generator.logits(states)
        with torch.set_grad_enabled(may_learn and updates.discriminator):
            output = self.forward(inputs, progress, generator_logits)

        corrupted, sampling = output.corrupted, self.config.sampling
        logits = output.discriminator_logits.detach().float().flatten()[inputs.positions]
        is_replaced = corrupted.is_replaced.flatten()[inputs.positions]
        rewards = sample_rewards(self.config.procedure, logits, is_replaced)
        if not updates.generator:
            return output, rewards, Losses({})
        log_probs = sampled_log_probs(
            generator_logits,
            corrupted.input_ids.flatten()[inputs.positions],
            self.logit_bias,
            sampling.temperature_at(progress),
            config=sampling,
            target_ids=inputs.target_ids,
        )
        rows = inputs.positions // corrupted.input_ids.shape[1]
        return output, rewards, reinforce(log_probs, rewards, self.baseline(states.detach().float()), rows)

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        updates = self.updates_at(step)
        generator = self.generator.count_flops(rows, length, num_masked)
        discriminator = self.networks.discriminator.count_flops(rows, length)
        # Of the baseline's backward pass only the half that reaches its own weights is computed.
        baseline = 2 * num_masked * 2 * self.baseline.size if updates.generator else 0
        passes = [3 if learns else 1 for learns in updates]
        return passes[0] * generator + passes[1] * discriminator + baseline


class RewardBaseline(nn.Module):
    """What reward to expect of a sample, from the generator's state: (M, D) -> (M,)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.expected = linear(size, 1, bias=True, std=0.0)

    def forward(self, states: Tensor) -> Tensor:
        expected: Tensor = self.expected(states).squeeze(-1)
        return expected.float()


def sample_rewards(procedure: Procedure, logits: Tensor, is_replaced: Tensor) -> Tensor:
    """(M,) from the discriminator's logits at the samples."""
    if procedure == "minimax":  # its entropy, which is its cross-entropy with itself
        return F.binary_cross_entropy_with_logits(logits, torch.sigmoid(logits), reduction="none")
    loss = F.binary_cross_entropy_with_logits(logits, is_replaced.float(), reduction="none")
    return -loss if procedure == "minimax-literal" else loss


def reinforce(log_probs: Tensor, rewards: Tensor, expected: Tensor, rows: Tensor) -> Losses:
    """The gradient of the first is that of minus the expected reward; the second teaches what to expect.

    A baseline that lags behind the rewards would make all samples of a row look good, or all bad, and whatever was
    sampled likelier still: so each is also compared with the others of its row.
    """
    advantages = leave_one_out_advantage((rewards - expected).detach(), rows)
    return Losses({"policy": -(log_probs * advantages).sum(), "baseline": (expected - rewards).square().sum()})


def leave_one_out_advantage(values: Tensor, rows: Tensor) -> Tensor:
    """(M,) each less the mean of the others of its row; as it is where there are none."""
    counts = torch.bincount(rows)
    sums = values.new_zeros(len(counts)).index_add_(0, rows, values)
    return values - (sums[rows] - values) / (counts[rows] - 1).clamp(min=1)


def discriminator_progress(procedure: Procedure, progress: float) -> float:
    """How far the discriminator is in its own training; 0 before it has begun."""
    return max(0.0, 2 * progress - 1) if procedure == "two-stage" else progress


def step_in_stage(procedure: Procedure, step: StepInfo) -> StepInfo:
    """Where in its own stage a step is; only `two-stage` has more than one."""
    first = step.total_steps // 2 if procedure == "two-stage" else 0
    if step.end <= first:
        return StepInfo(step.step, first, step.span)
    # The step between two stages belongs to the second.
    span = None if step.span is None else (max(0.0, step.begin - first), step.end - first)
    return StepInfo(step.step - first, step.total_steps - first, span)


PROCEDURES: Mapping[Procedure, type[ElectraObjective]] = {
    "joint": ElectraObjective,
    "two-stage": TwoStageObjective,
    "adversarial": ReinforceObjective,
    "minimax": ReinforceObjective,
    "minimax-literal": ReinforceObjective,
}


def _pair_metrics(output: ElectraOutput) -> BatchMetrics:
    """With the generator's loss, which is only watched where the generator does not learn from it."""
    loss = loss_metrics(output.losses.only("generator"), {"generator": len(output.generator_logits)})
    return loss + output.metrics(METRICS_SAMPLE)
