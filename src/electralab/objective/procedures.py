"""Other ways to train the pair than both networks at once: who learns at a step, and from what.

MaskedBatch, Moment -> Answer

    two-stage         the generator for half of the run, then the discriminator, which may begin as its copy
    adversarial       both at every step, the generator from rewards: what the discriminator loses at its draws
    minimax           by turns; the reward is how unsure the discriminator is of a draw
    minimax-literal   by turns; the reward is minus what the discriminator loses
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from electralab.model.electra import AnyGenerator, Electra, Generator
from electralab.model.flops import count_masked, discriminator_flops
from electralab.model.token_models import TwoTower
from electralab.model.weights import InitModule, linear
from electralab.objective.corruption import sampled_log_probs
from electralab.objective.electra import (
    ElectraObjective,
    ElectraOutput,
    generator_forward,
    generator_forward_flops,
    judge_guesses,
    observe_trial,
)
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import BatchMetrics, RunningMean, lm_metrics, loss_metrics, replacement_metrics
from electralab.objective.objective import METRICS_SAMPLE, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig, Procedure
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Updates:
    """Which networks learn at a step."""

    generator: bool
    discriminator: bool


class TwoStageObjective(ElectraObjective):
    """The generator alone by maximum likelihood; then it is frozen, and the discriminator learns alone."""

    def begin(self, moment: StepInfo) -> None:
        is_boundary = moment.step == moment.total_steps // 2 + 1
        if is_boundary and self.config.procedure_options.init_from_generator:
            copy_encoder(self.networks)

    def turn(self, moment: StepInfo) -> Updates:
        is_first = moment.step <= moment.total_steps // 2
        return Updates(generator=is_first, discriminator=not is_first)

    def answer(self, question: MaskedBatch, moment: StepInfo) -> ObjectiveOutput:
        if self.turn(moment).generator:
            guesses = generator_forward(self.networks.generator, question)
            seen = lm_metrics("generator", guesses, question.target_ids, question.is_hidden, METRICS_SAMPLE)
            return ObjectiveOutput(Losses({"generator": lm_loss(guesses, question.target_ids)}), seen)
        self.networks.generator.eval()  # frozen: it draws as it will be judged, without dropout
        with torch.no_grad():
            guesses = generator_forward(self.networks.generator, question)
        trial = _judge(self, question, guesses, moment.progress)
        return ObjectiveOutput(
            _only(trial, "discriminator"), _watch_generator(trial) + observe_trial(trial, METRICS_SAMPLE)
        )

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        guessing = generator_forward_flops(self.networks.generator, rows, length, rows * count_masked(length, share))
        if self.turn(moment).generator:
            return 3 * guessing
        return guessing + 3 * _judging_flops(self.networks, rows, length)


class ReinforceObjective(ElectraObjective):
    """The generator learns from rewards for its draws alone (REINFORCE), never from the original token."""

    def __init__(self, networks: Electra, config: ObjectiveConfig, tokenizer: Tokenizer, device: torch.device) -> None:
        super().__init__(networks, config, tokenizer, device)
        self.baseline = RewardBaseline(_learning(networks.generator).state_size)
        networks.heads["baseline"] = self.baseline
        # The baseline's loss moves nothing else: to Adam any weight but 0 means the same.
        self.weights: Mapping[str, float] = {**self.weights, "policy": config.loss.generator_weight, "baseline": 1.0}

    def turn(self, moment: StepInfo) -> Updates:
        if self.config.procedure == "adversarial":
            return Updates(generator=True, discriminator=True)
        options = self.config.procedure_options
        period = options.discriminator_updates + options.generator_updates
        is_judging = (moment.step - 1) % period < options.discriminator_updates
        return Updates(generator=not is_judging, discriminator=is_judging)

    def count_targets(self, question: MaskedBatch) -> Counts:
        drawn = len(question.positions)
        return {**super().count_targets(question), "policy": drawn, "baseline": drawn}

    def answer(self, question: MaskedBatch, moment: StepInfo) -> ObjectiveOutput:
        turn = self.turn(moment)
        trial, states = self._play(question, moment.progress, turn)
        learned = dict(_only(trial, "discriminator").sums) if turn.discriminator else {}
        seen = _watch_generator(trial) + observe_trial(trial, METRICS_SAMPLE)
        if turn.generator:
            rewards, losses = self._reward(trial, states, moment.progress)
            learned |= losses.sums
            seen += BatchMetrics({"reward": RunningMean(rewards.sum().item(), len(rewards))})
        return ObjectiveOutput(Losses(learned), seen)

    def examine(self, question: MaskedBatch) -> ObjectiveOutput:
        trial, states = self._play(question, 0.0, Updates(generator=True, discriminator=True))
        rewards, losses = self._reward(trial, states, 0.0)
        seen = observe_trial(trial) + replacement_metrics(trial.guesses, trial.verdicts, trial.corrupted)
        seen += BatchMetrics({"reward": RunningMean(rewards.sum().item(), len(rewards))})
        return ObjectiveOutput(Losses({**trial.losses.sums, **losses.sums}), seen)

    def _play(self, question: MaskedBatch, progress: float, turn: Updates) -> tuple[ElectraOutput, Tensor]:
        """The trial, and the states (M, D) that its guesses were made from; gradients where a network learns."""
        may_learn = torch.is_grad_enabled()
        generator, batch = _learning(self.networks.generator), question.batch
        input_ids = question.input_ids if generator.reads_masked else batch.original_ids
        with torch.set_grad_enabled(may_learn and turn.generator):
            states = generator.read(input_ids, batch.segment_ids, batch.attention_pad, question.positions)
            guesses = generator.guess(states)
        with torch.set_grad_enabled(may_learn and turn.discriminator):
            return _judge(self, question, guesses, progress), states

    def _reward(self, trial: ElectraOutput, states: Tensor, progress: float) -> tuple[Tensor, Losses]:
        positions = trial.masked.positions
        verdicts = trial.verdicts.detach().float().flatten()[positions]
        is_replaced = trial.corrupted.is_replaced.flatten()[positions]
        rewards = sample_rewards(self.config.procedure, verdicts, is_replaced)
        drawn_ids = trial.corrupted.input_ids.flatten()[positions]
        sampling = self.config.sampling
        log_probs = sampled_log_probs(
            trial.guesses,
            drawn_ids,
            self.prohibition,
            sampling.temperature_at(progress),
            config=sampling,
            target_ids=trial.masked.target_ids,
        )
        rows = positions // trial.corrupted.input_ids.shape[1]
        return rewards, reinforce(log_probs, rewards, self.baseline(states.detach().float()), rows)

    def count_flops(self, moment: StepInfo, rows: int, length: int, share: float) -> int:
        turn = self.turn(moment)
        drawn = rows * count_masked(length, share)
        guessing = generator_forward_flops(self.networks.generator, rows, length, drawn)
        judging = _judging_flops(self.networks, rows, length)
        # Of the baseline's backward pass only the half that reaches its own weights is computed.
        foreseeing = 2 * drawn * 2 * self.baseline.size if turn.generator else 0
        return (3 if turn.generator else 1) * guessing + (3 if turn.discriminator else 1) * judging + foreseeing


class RewardBaseline(InitModule):
    """What reward to expect of a draw, from the generator's state: (M, D) -> (M,)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.expected = linear(size, 1, bias=True)

    def weight_stds(self) -> dict[str, float]:
        return {"expected.weight": 0.0}

    def forward(self, states: Tensor) -> Tensor:
        expected: Tensor = self.expected(states).squeeze(-1)
        return expected.float()


def sample_rewards(procedure: Procedure, verdicts: Tensor, is_replaced: Tensor) -> Tensor:
    """(M,) from the logits of the discriminator's verdicts on the draws."""
    if procedure == "minimax":  # its entropy, which is its cross-entropy with itself
        return F.binary_cross_entropy_with_logits(verdicts, torch.sigmoid(verdicts), reduction="none")
    lost = F.binary_cross_entropy_with_logits(verdicts, is_replaced.float(), reduction="none")
    return -lost if procedure == "minimax-literal" else lost


def reinforce(log_probs: Tensor, rewards: Tensor, expected: Tensor, rows: Tensor) -> Losses:
    """The gradient of the first is that of minus the expected reward; the second teaches what to expect.

    A baseline that lags behind the rewards would make all draws of a row look good, or all bad, and whatever was drawn
    likelier still: so each is also held against the others of its row.
    """
    advantages = leave_one_out_advantage((rewards - expected).detach(), rows)
    return Losses({"policy": -(log_probs * advantages).sum(), "baseline": (expected - rewards).square().sum()})


def leave_one_out_advantage(values: Tensor, rows: Tensor) -> Tensor:
    """(M,) each less the mean of the others of its row; as it is where there are none."""
    counts = torch.bincount(rows)
    sums = values.new_zeros(len(counts)).index_add_(0, rows, values)
    return values - (sums[rows] - values) / (counts[rows] - 1).clamp(min=1)


@torch.no_grad()
def copy_encoder(networks: Electra) -> None:
    """The discriminator's encoder takes over the generator's weights; what it alone has stays."""
    assert isinstance(networks.generator, Generator)
    for name, parameter in networks.generator.encoder.named_parameters():
        networks.discriminator.encoder.get_parameter(name).copy_(parameter)


def discriminator_progress(procedure: Procedure, progress: float) -> float:
    """How far the discriminator is in its own training; 0 before it has begun."""
    return max(0.0, 2 * progress - 1) if procedure == "two-stage" else progress


def step_in_stage(procedure: Procedure, moment: StepInfo) -> StepInfo:
    """Where in its own stage a step is; only `two-stage` has more than one."""
    first = moment.total_steps // 2 if procedure == "two-stage" else 0
    if moment.step <= first:
        return StepInfo(moment.step, first)
    return StepInfo(moment.step - first, moment.total_steps - first)


PROCEDURES: Mapping[Procedure, type[ElectraObjective]] = {
    "joint": ElectraObjective,
    "two-stage": TwoStageObjective,
    "adversarial": ReinforceObjective,
    "minimax": ReinforceObjective,
    "minimax-literal": ReinforceObjective,
}


def _learning(generator: AnyGenerator) -> Generator | TwoTower:
    assert isinstance(generator, Generator | TwoTower), "the others have nothing to learn"
    return generator


def _judge(objective: ElectraObjective, question: MaskedBatch, guesses: Tensor, progress: float) -> ElectraOutput:
    return judge_guesses(
        objective.networks.discriminator,
        question,
        guesses,
        objective.prohibition,
        objective.config.sampling,
        progress=progress,
        only_masked=objective.only_masked,
    )


def _only(trial: ElectraOutput, name: str) -> Losses:
    return Losses({name: trial.losses.sums[name]})


def _watch_generator(trial: ElectraOutput) -> BatchMetrics:
    """How well it guesses, where it does not learn from that."""
    return loss_metrics(_only(trial, "generator"), {"generator": len(trial.guesses)})


def _judging_flops(networks: Electra, rows: int, length: int) -> int:
    judge = networks.discriminator
    return discriminator_flops(judge.config, rows, length, judge.head.kind)
