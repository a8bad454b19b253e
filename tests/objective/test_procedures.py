"""Who learns at a step, from what, and what it costs; REINFORCE against every draw that could have been."""

import math
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from little_pairs import VOCAB, counting_rows
from procedure_pairs import TINY, assemble, judge, learning, make, questions, train, weights_of
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from electralab.model.electra import Generator
from electralab.model.flops import count_masked, discriminator_flops, generator_flops
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.objective.electra import ElectraObjective, generator_forward
from electralab.objective.electric import ElectricObjective
from electralab.objective.objective import StepInfo
from electralab.objective.procedures import (
    ReinforceObjective,
    Updates,
    discriminator_progress,
    leave_one_out_advantage,
    reinforce,
    sample_rewards,
    step_in_stage,
)
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng

GENERATOR, DISCRIMINATOR = Updates(generator=True, discriminator=False), Updates(generator=False, discriminator=True)


def test_two_stages_are_halves_of_the_run_and_the_odd_step_goes_to_the_discriminator() -> None:
    objective: Any = make("two-stage")
    turns = [objective.updates_at(StepInfo(step, 5)) for step in range(1, 6)]
    assert turns == [GENERATOR, GENERATOR, DISCRIMINATOR, DISCRIMINATOR, DISCRIMINATOR]


def test_every_stage_has_a_beginning_and_an_end_of_its_own() -> None:
    places = [step_in_stage("two-stage", StepInfo(step, 5)) for step in range(1, 6)]
    assert places == [StepInfo(1, 2), StepInfo(2, 2), StepInfo(1, 3), StepInfo(2, 3), StepInfo(3, 3)]
    assert step_in_stage("two-stage", StepInfo(1, 1)) == StepInfo(1, 1)
    assert step_in_stage("minimax", StepInfo(4, 5)) == StepInfo(4, 5)


def test_only_the_network_whose_stage_it_is_gets_gradients() -> None:
    objective = make("two-stage")
    assert learning(objective, StepInfo(1, 4)) == {"generator"}
    assert learning(objective, StepInfo(2, 4)) == {"generator"}
    assert learning(objective, StepInfo(3, 4)) == {"discriminator"}
    assert learning(objective, StepInfo(4, 4)) == {"discriminator"}


def test_weight_decay_does_not_touch_the_network_whose_stage_it_is_not() -> None:
    objective = make("two-stage", init_from_generator=False)
    before = weights_of(objective.networks)
    train(objective, 2, total=4)
    between = weights_of(objective.networks)
    train(objective, 2, first=3, total=4)
    after = weights_of(objective.networks)
    for name in before:
        idle, active = (before, between), (between, after)
        same, moved = (idle, active) if name.startswith("discriminator") else (active, idle)
        assert torch.equal(same[0][name], same[1][name]), name
        assert not torch.equal(moved[0][name], moved[1][name]), name


def test_the_second_stage_begins_with_a_copy_and_beginning_twice_changes_nothing() -> None:
    objective = make("two-stage")
    pair: Any = objective.networks
    generator, judge_encoder = weights_of(pair.generator.encoder), pair.discriminator.encoder
    objective.on_step_start(StepInfo(2, 4))
    assert any(not torch.equal(generator[name], one) for name, one in judge_encoder.named_parameters())
    for _ in range(2):
        objective.on_step_start(StepInfo(3, 4))
        assert all(torch.equal(generator[name], one) for name, one in judge_encoder.named_parameters())
    train(objective, 1, first=3, total=4)
    learned = weights_of(judge_encoder)
    objective.on_step_start(StepInfo(4, 4))
    assert all(torch.equal(learned[name], one) for name, one in judge_encoder.named_parameters())


def test_without_initialisation_the_discriminator_keeps_its_first_weights() -> None:
    objective = make("two-stage", init_from_generator=False, width=0.5)
    before = weights_of(objective.networks.discriminator)
    objective.on_step_start(StepInfo(3, 4))
    assert all(torch.equal(before[name], one) for name, one in objective.networks.discriminator.named_parameters())


def test_a_discriminator_with_more_than_the_generator_has_keeps_that() -> None:
    objective = make("two-stage", model={"adaptive_norm": True})
    pair: Any = objective.networks
    objective.on_step_start(StepInfo(3, 4))
    mine, theirs = (dict(one.encoder.named_parameters()) for one in (pair.discriminator, pair.generator))
    assert mine.keys() > theirs.keys()
    assert all(torch.equal(mine[name], value) for name, value in theirs.items())


def test_stage_one_loses_what_a_masked_language_model_loses_and_stage_two_what_electra_does() -> None:
    objective, twin = make("two-stage", init_from_generator=False), make("joint")
    (question,) = questions(objective, 1)
    expected = twin.training_step(question, StepInfo(1, 4)).losses.sums
    first = objective.training_step(question, StepInfo(1, 4)).losses.sums
    second = objective.training_step(question, StepInfo(3, 4)).losses.sums
    assert {name: total.item() for name, total in first.items()} == {"generator": expected["generator"].item()}
    assert {name: total.item() for name, total in second.items()} == {"discriminator": expected["discriminator"].item()}


def test_adversarial_trains_both_and_the_baseline_at_every_step() -> None:
    objective = make("adversarial")
    assert learning(objective, StepInfo(1, 4)) == learning(objective, StepInfo(2, 4))
    assert learning(objective, StepInfo(1, 4)) == {"generator", "discriminator", "baseline"}


@pytest.mark.parametrize("procedure", ["minimax", "minimax-literal"])
def test_turns_are_a_pure_function_of_the_step(procedure: str) -> None:
    objective: Any = make(procedure, discriminator_updates=2, generator_updates=1)
    turns = [objective.updates_at(StepInfo(step, 100)) for step in range(1, 8)]
    assert turns == [DISCRIMINATOR, DISCRIMINATOR, GENERATOR, DISCRIMINATOR, DISCRIMINATOR, GENERATOR, DISCRIMINATOR]


def test_in_minimax_only_the_network_whose_turn_it_is_gets_gradients() -> None:
    objective = make("minimax")
    assert learning(objective, StepInfo(1, 4)) == {"discriminator"}
    assert learning(objective, StepInfo(2, 4)) == {"generator", "baseline"}


def test_rewards_of_three_verdicts_by_hand() -> None:
    logits, is_replaced = torch.tensor([0.0, 2.0, 2.0]), torch.tensor([True, True, False])
    p = 1 / (1 + math.exp(-2.0))
    lost = [math.log(2), -math.log(p), -math.log(1 - p)]
    unsure = -p * math.log(p) - (1 - p) * math.log(1 - p)
    assert sample_rewards("adversarial", logits, is_replaced).tolist() == pytest.approx(lost)
    assert sample_rewards("minimax-literal", logits, is_replaced).tolist() == pytest.approx([-one for one in lost])
    assert sample_rewards("minimax", logits, is_replaced).tolist() == pytest.approx([math.log(2), unsure, unsure])


def test_the_policys_loss_is_the_slow_twins() -> None:
    objective = make("adversarial")
    assert isinstance(objective, ReinforceObjective)
    with torch.no_grad():
        objective.baseline.expected.bias.fill_(0.3)
        objective.baseline.expected.weight.fill_(0.01)
    (question,) = questions(objective, 1)
    with torch.no_grad():
        trial, _, losses = objective.reinforce_forward(question, 0.0, Updates(generator=True, discriminator=True))
        batch = question.batch
        inputs = question.input_ids, batch.segment_ids, batch.attention_pad, question.positions
        states = objective.generator.hidden_states_at(*inputs)
    policy = baseline = 0.0
    better: dict[int, list[tuple[float, float]]] = {}
    for index, position in enumerate(question.positions.tolist()):
        row, column = divmod(position, 16)
        drawn, original = trial.corrupted.input_ids[row, column], question.batch.original_ids[row, column]
        p_replaced = torch.sigmoid(trial.discriminator_logits[row, column])
        reward = float(-torch.log(p_replaced if drawn != original else 1 - p_replaced))
        allowed = trial.generator_logits[index, 5:]  # the first five are special
        expected = 0.3 + 0.01 * float(states[index].sum())
        log_p = float(torch.log_softmax(allowed, dim=0)[drawn - 5])
        better.setdefault(row, []).append((log_p, reward - expected))
        baseline += (reward - expected) ** 2
    for draws in better.values():
        for place, (log_p, own) in enumerate(draws):
            others = [one for other, (_, one) in enumerate(draws) if other != place]
            policy -= log_p * (own - sum(others) / max(len(others), 1))
    assert float(losses.sums["policy"]) == pytest.approx(policy, rel=1e-4)
    assert float(losses.sums["baseline"]) == pytest.approx(baseline, rel=1e-4)


def test_the_mean_gradient_over_many_draws_is_that_of_the_expected_reward() -> None:
    """Three tokens, each with its reward: the expectation can be written down, and differentiated."""
    rewards, logits = torch.tensor([1.0, -2.0, 0.5]), torch.tensor([0.2, -0.4, 0.9], requires_grad=True)
    (exact,) = torch.autograd.grad((torch.softmax(logits, dim=0) * rewards).sum(), logits)
    drawn = torch.multinomial(
        torch.softmax(logits.detach(), dim=0), 200_000, replacement=True, generator=torch.Generator().manual_seed(0)
    )
    for expected in (0.0, -0.6):  # whatever the baseline, it changes only the noise
        log_probs = torch.log_softmax(logits, dim=0)[drawn]
        rows = torch.arange(len(drawn)) // 5
        losses = reinforce(log_probs, rewards[drawn], torch.full((len(drawn),), expected), rows)
        (mean,) = torch.autograd.grad(-losses.sums["policy"] / len(drawn), logits)
        assert mean.tolist() == pytest.approx(exact.tolist(), abs=0.01)


def test_a_draw_is_held_against_the_others_of_its_row() -> None:
    values, rows = torch.tensor([1.0, 2.0, 6.0, 5.0]), torch.tensor([0, 0, 0, 7])
    assert leave_one_out_advantage(values, rows).tolist() == [1 - 4, 2 - 3.5, 6 - 1.5, 5.0]  # a single one as it is


def test_a_baseline_that_is_off_for_all_moves_no_generator() -> None:
    """However far it lags: what is left of equal rewards is nothing."""
    log_probs = torch.tensor([-1.0, -3.0, -2.0], requires_grad=True)
    losses = reinforce(log_probs, torch.full((3,), 1.9), torch.zeros(3), torch.zeros(3, dtype=torch.int64))
    losses.sums["policy"].backward()  # type: ignore[no-untyped-call]
    assert log_probs.grad is not None
    assert log_probs.grad.abs().max() < 1e-6


def test_rewards_teach_the_baseline_nothing_but_what_to_expect() -> None:
    """How good a draw was is a constant to the policy: through it the baseline would learn to make draws look good."""
    log_probs, expected = torch.tensor([-1.0, -3.0], requires_grad=True), torch.tensor([0.5, 0.5], requires_grad=True)
    losses = reinforce(log_probs, torch.tensor([2.0, 1.0]), expected, torch.tensor([0, 1]))
    sums, given = losses.sums, [log_probs, expected]
    by_policy = torch.autograd.grad(sums["policy"], given, allow_unused=True, materialize_grads=True)
    by_baseline = torch.autograd.grad(sums["baseline"], given, allow_unused=True, materialize_grads=True)
    assert [gradient.tolist() for gradient in by_policy] == [[-1.5, -0.5], [0.0, 0.0]]
    assert [gradient.tolist() for gradient in by_baseline] == [[0.0, 0.0], [2 * (0.5 - 2.0), 2 * (0.5 - 1.0)]]


@pytest.mark.parametrize(("loss", "learner"), [("policy", "generator"), ("baseline", "heads")])
def test_each_loss_of_the_rewards_teaches_one_network_only(loss: str, learner: str) -> None:
    objective = make("adversarial")
    with torch.no_grad():
        for parameter in objective.networks.heads.parameters():
            parameter.fill_(0.1)  # from zeros nothing would flow back, whether or not it may
    (question,) = questions(objective, 1)
    named = dict(objective.networks.named_parameters())
    total = objective.training_step(question, StepInfo(1, 4)).losses.sums[loss]
    gradients = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    found = zip(named, gradients, strict=True)
    taught = {name.split(".")[0] for name, gradient in found if gradient is not None and gradient.any()}
    assert taught == {learner}


@pytest.mark.parametrize(("objective", "kind"), [("electra-15", "transformer"), ("electra", "two-tower")])
def test_rewards_go_with_other_objectives_and_generators(objective: str, kind: str) -> None:
    assert "generator" in learning(make("adversarial", objective=objective, kind=kind), StepInfo(1, 4))


def test_examining_judges_both_networks_whatever_the_procedure() -> None:
    for procedure in ("two-stage", "adversarial", "minimax"):
        objective = make(procedure)
        (question,) = questions(objective, 1)
        with torch.no_grad():
            answer = objective.evaluation_step(question)
        assert {"generator", "discriminator"} <= answer.losses.sums.keys()
        assert set(answer.losses.sums) <= set(objective.count_targets(question))
        assert {"generator_accuracy", "generator_entropy", "auc"} <= answer.metrics.describe("auc").keys()


def test_the_log_shows_how_well_a_generator_guesses_that_does_not_learn_by_guessing() -> None:
    for procedure, step in (("two-stage", 3), ("adversarial", 1), ("minimax", 1), ("minimax", 2)):
        objective = make(procedure)
        (question,) = questions(objective, step)
        seen = objective.training_step(question, StepInfo(step, 4)).metrics.describe()
        assert seen["generator_loss"] == pytest.approx(math.log(VOCAB), abs=0.5)
        assert {"generator_accuracy", "generator_entropy"} <= seen.keys()


def flops_of(objective: ElectraObjective, step: int) -> int:
    return objective.count_flops(StepInfo(step, 10), 4, 16, 4 * count_masked(16, 0.15))


def test_a_step_costs_what_it_computes() -> None:
    pair = make("joint", width=0.5).networks
    assert isinstance(pair.generator, Generator)
    masked = 4 * count_masked(16, 0.15)
    guess = generator_flops(pair.generator.config, 4, 16, masked)
    verdict = discriminator_flops(pair.discriminator.config, 4, 16, "dense")
    baseline = 2 * 2 * 16 * masked  # forward, and the gradient of its weights
    stages, both = make("two-stage", width=0.5, init_from_generator=False), make("adversarial", width=0.5)
    turns = make("minimax", width=0.5)
    assert [flops_of(stages, step) for step in (5, 6)] == [3 * guess, guess + 3 * verdict]
    assert flops_of(both, 1) == 3 * guess + 3 * verdict + baseline
    assert [flops_of(turns, step) for step in (1, 2)] == [guess + 3 * verdict, 3 * guess + verdict + baseline]


def test_progress_of_a_discriminator_that_begins_half_way() -> None:
    assert [discriminator_progress("two-stage", progress) for progress in (0.3, 0.5, 0.75, 1.0)] == [0.0, 0.0, 0.5, 1.0]
    assert discriminator_progress("minimax", 0.3) == 0.3


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"procedure": "two-stage", "width": 0.5}, r"begins the discriminator \(hidden_size 32\) as a copy of the"),
        ({"procedure": "two-stage", "kind": "causal"}, "which generator.kind 'causal' does not; set it to 'transfor"),
        ({"procedure": "minimax", "sampling": {"method": "argmax"}}, "'argmax' leaves nothing to chance"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        make(**settings)


def test_two_stages_learn_to_count_and_to_find_what_was_miscounted() -> None:
    objective = make("two-stage")
    train(objective, 120)
    scores = judge(objective)
    assert scores["generator_accuracy"] > 0.5  # of 23 words
    assert scores["auc"] > 0.7


def test_a_discriminator_learns_against_a_generator_that_wants_it_to_fail() -> None:
    objective = make("adversarial")
    train(objective, 120)
    assert judge(objective)["auc"] > 0.8


class Partial(nn.Module):
    """Suspects every token a little, and trusts the word 7 blindly: who wants it to fail says 7."""

    def forward(self, input_ids: Tensor, *_: object) -> Tensor:
        return torch.where(input_ids == 7, -3.0, 1.0)


@pytest.mark.parametrize(("procedure", "is_found"), [("adversarial", True), ("minimax-literal", False)])
def test_a_generator_taught_by_rewards_finds_what_a_discriminator_trusts_blindly(
    procedure: str, is_found: bool
) -> None:
    """By the literal formula, which rewards what the discriminator gets right, it avoids it instead."""
    objective = make(procedure, discriminator_updates=1, generator_updates=10**6)
    objective.networks.discriminator = cast(Any, Partial())
    train(objective, 40, rate=1e-2, first=2)
    (question,) = questions(objective, 1)
    with torch.no_grad():
        chances = torch.softmax(generator_forward(objective.networks.generator, question)[:, 5:], dim=-1)[:, 7 - 5]
    assert (float(chances.mean()) > 0.5) == is_found
    assert (float(chances.mean()) < 1 / 23) == (not is_found)


# -------------------- What a step of each procedure costs, against torch's own counter: what learns counts three

ROWS, LENGTH, SHARE = 3, 16, 0.25
FIRST, LAST = StepInfo(1, 4), StepInfo(4, 4)


def electric() -> ElectraObjective:
    config = ObjectiveConfig(
        objective="electric",
        model=ModelConfig(**TINY, sharing="token"),
        generator=GeneratorConfig(kind="two-tower", width_share=0.5),
    )
    return assemble(config, ElectricObjective)


def frozen() -> ElectraObjective:
    objective = make("joint", width=0.5)
    objective.networks.generator.requires_grad_(False)
    return objective


def procedure(name: str, **settings: Any) -> Callable[[], ElectraObjective]:
    return lambda: make(name, **{"width": 0.5} | settings)


OLD = {"model": {"backbone": "electra", "embedding_size": 24}}
STEPS: dict[str, tuple[Callable[[], ElectraObjective], StepInfo]] = {
    "two-stage, first": (procedure("two-stage", width=1.0), FIRST),
    "two-stage, second": (procedure("two-stage", width=1.0), LAST),
    "two-stage anew, first": (procedure("two-stage", init_from_generator=False), FIRST),
    "two-stage anew, second": (procedure("two-stage", init_from_generator=False), LAST),
    "adversarial": (procedure("adversarial"), FIRST),
    "adversarial, embeddings": (procedure("adversarial", sharing="embeddings", **OLD), FIRST),
    "adversarial, two towers": (procedure("adversarial", kind="two-tower"), FIRST),
    "minimax, discriminator": (procedure("minimax"), FIRST),
    "minimax, generator": (procedure("minimax"), LAST),
    "minimax-literal, generator": (procedure("minimax-literal", sharing="embeddings"), LAST),
    "electric": (electric, FIRST),
    "frozen": (frozen, FIRST),
}


def count_by_torch(objective: ElectraObjective, moment: StepInfo) -> int:
    objective.on_step_start(moment)
    (question,) = objective.make_inputs(counting_rows(ROWS, LENGTH), ROWS, SHARE, Rng(3, 1))
    counts = objective.count_targets(question)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        objective.training_step(question, moment).losses.weigh(counts, objective.weights).backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops())


@pytest.mark.parametrize("step", STEPS)
def test_torch_counts_the_same_operations(step: str) -> None:
    build, moment = STEPS[step]
    objective = build()
    counted = count_by_torch(objective, moment)
    assert objective.count_flops(moment, ROWS, LENGTH, ROWS * count_masked(LENGTH, SHARE)) == pytest.approx(
        counted, rel=0.01
    )
