"""Energies: the formula token by token, what is noise, what is left out, and that the best energy is minus log p."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from little_pairs import CPU, batch_of
from little_runs import write_text
from procedure_pairs import TINY, assemble, judge, learning, questions, train
from pydantic import ValidationError
from toy import CLS, PAD, SEP

import electralab
from electralab.config import ConfigLayer
from electralab.display import Display
from electralab.model.flops import discriminator_flops, two_tower_flops
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.objective.electric import ElectricObjective, log_odds
from electralab.objective.objective import StepInfo
from electralab.objective.registry import build_objective
from electralab.objective.settings import ObjectiveConfig
from electralab.pretraining.cost import placeholder_data
from electralab.pretraining.settings import resolve_pretrain
from electralab.randomness import Rng
from electralab.tokens.batches import batch_at
from electralab.tokens.shards import open_data


def make(**settings: Any) -> ElectricObjective:
    config = ObjectiveConfig(
        objective="electric",
        model=ModelConfig(**TINY, sharing="token"),
        generator=GeneratorConfig(**{"kind": "two-tower", "width_share": 0.5} | settings.pop("generator", {})),
        **settings,
    )
    objective = assemble(config, ElectricObjective)
    assert isinstance(objective, ElectricObjective)
    return objective


def padded_rows() -> Any:
    return batch_of([[CLS, 5, 6, 7, 8, 9, 10, SEP], [CLS, 9, 10, 11, SEP, PAD, PAD, PAD]])


def test_losses_agree_with_a_slow_twin() -> None:
    objective = make()
    pair = objective.networks
    (question,) = objective.make_inputs(padded_rows(), 2, 0.4, Rng(0, 1))
    answer = objective.training_step(question, StepInfo(1, 4))
    noised = objective.nce_forward(question)
    rows, corrupted = question.batch.original_ids, noised.corrupted.input_ids
    judged = guessed = 0.0
    for row in range(2):
        ordinary = [column for column in range(8) if rows[row, column] >= 5]
        noisy = [column for column in ordinary if row * 8 + column in question.positions.tolist()]
        n, k = len(ordinary), len(noisy)
        is_pad = (rows == PAD)[row : row + 1]
        with torch.no_grad():
            energies = pair.discriminator(corrupted[row : row + 1], torch.zeros(1, 8, dtype=torch.int64), is_pad)[0]
        for column in ordinary:
            with torch.no_grad():
                guess = objective.generator(
                    rows[row : row + 1], torch.zeros(1, 8, dtype=torch.int64), is_pad, torch.tensor([column])
                )[0]
            chance = torch.softmax(guess[5:].double(), dim=0)[corrupted[row, column] - 5].item()
            density = math.exp(-energies[column].item())
            is_noise = k * chance / (k * chance + (n - k) * density)
            judged -= math.log(is_noise if column in noisy else 1 - is_noise)
            if column in noisy:
                guessed -= torch.log_softmax(guess.double(), dim=0)[rows[row, column]].item()
    assert answer.losses.sums["discriminator"].item() == pytest.approx(judged, rel=1e-4)
    assert answer.losses.sums["generator"].item() == pytest.approx(guessed, rel=1e-4)
    assert objective.count_targets(question) == {"generator": len(question.positions), "discriminator": 6 + 3}


def test_a_new_run_begins_at_the_energy_of_a_token_that_is_as_likely_as_any_other(tmp_path: Path) -> None:
    """So that its first verdict is the share of noise, give or take what the first weights say."""
    write_text(tmp_path / "text.txt")
    settings = {"tokenizer": {"vocab_size": 200}, "packing": {"sequence_length": 32}}
    electralab.prepare([tmp_path / "text.txt"], tmp_path / "data", settings=settings, display=Display(quiet=True))
    data = open_data(tmp_path / "data")
    config = resolve_pretrain([ConfigLayer("test", {"objective": "electric"})])
    objective = build_objective(config, data, 0, CPU)
    assert isinstance(objective, ElectricObjective)
    ordinary = int(data.tokenizer.is_ordinary.sum())
    assert objective.networks.discriminator.head.verdict.bias.tolist() == pytest.approx([math.log(ordinary)])
    batch = batch_at(data, 0, 8, seed=0)
    (question,) = objective.make_inputs(batch, 8, 0.15, Rng(0, 1))
    with torch.no_grad():
        loss = objective.evaluation_step(question).losses.sums["discriminator"] / int(batch.is_ordinary.sum())
    share = len(question.positions) / int(batch.is_ordinary.sum())
    assert float(loss) == pytest.approx(-share * math.log(share) - (1 - share) * math.log(1 - share), abs=0.15)


def test_other_objectives_begin_at_zero() -> None:
    config = resolve_pretrain([ConfigLayer("test", {"objective": "electra"})])
    objective = build_objective(config, placeholder_data(config, 100, 16), 0, CPU)
    assert objective.networks.get_parameter("discriminator.head.verdict.bias").tolist() == [0.0]


def test_noise_is_noise_even_where_it_equals_the_original() -> None:
    objective = make()
    with torch.no_grad():
        objective.generator.head.bias[9] = 100.0  # it always says 9
    (question,) = objective.make_inputs(batch_of([[CLS, *[9] * 6, SEP]]), 1, 0.5, Rng(0, 1))
    noised = objective.nce_forward(question)
    assert not noised.corrupted.is_replaced.any()
    assert int(noised.is_noise.sum()) == 3


def test_odds_of_rows_without_noise_and_of_nothing_else_are_finite() -> None:
    is_ordinary = torch.ones(3, 4, dtype=torch.bool)
    is_noise = torch.tensor([True, False, False, False] + [False] * 4 + [True] * 4)
    odds = log_odds(is_ordinary, is_noise, torch.arange(12))
    assert odds[[0, 4, 8]].tolist() == pytest.approx([math.log(1 / 3), math.log(0.5 / 4), math.log(4 / 0.5)])


def test_the_verdicts_teach_the_generator_nothing() -> None:
    objective = make(loss={"generator_weight": 0.0})
    assert learning(objective, StepInfo(1, 4)) == {"discriminator", "generator"}
    own = [one for name, one in objective.networks.named_parameters() if name.startswith("generator")]
    assert all(one.grad is None or not one.grad.any() for one in own)


def test_the_best_energy_is_minus_the_log_of_the_true_chance() -> None:
    """One token in three kinds, noise of known chances: minimising the loss over energies alone recovers log p."""
    true, noise = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.2, 0.3, 0.5])
    n, k = 4.0, 1.0
    energies = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([energies], max_iter=100)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        logits = energies + noise.log() + math.log(k / (n - k))
        softplus = torch.nn.functional.softplus
        total = (k * noise * softplus(-logits) + (n - k) * true * softplus(logits)).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    assert energies.tolist() == pytest.approx([-math.log(p) for p in true.tolist()], abs=1e-2)


def test_a_step_costs_a_guess_for_every_token_and_learning_from_the_noised() -> None:
    objective = make()
    towers, judge_config = objective.generator.config, objective.networks.discriminator.config
    forward, learned = two_tower_flops(towers, 4, 16, 4 * 14), two_tower_flops(towers, 4, 16, 4 * 2)
    verdicts = discriminator_flops(judge_config, 4, 16, "dense")
    assert objective.count_flops(StepInfo(1, 4), 4, 16, 4 * 2) == forward + 2 * learned + 3 * verdicts


@pytest.mark.parametrize(
    "settings", [{"sampling": {"allow_original": False}}, {"sampling": {"top_k": 3}}, {"generator": {"kind": "causal"}}]
)
def test_what_gives_no_noise_of_known_chances_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="objective 'electric'"):
        make(**settings)


def test_energies_learn_to_count() -> None:
    """A token that follows gets a lower energy than one that does not; against noise that knows nothing."""
    objective = make(loss={"generator_weight": 0.0, "discriminator_weight": 5.0})
    train(objective, 180)
    assert judge(objective)["auc"] > 0.85
    (question,) = questions(objective, 999, rows=23)
    right = question.batch.original_ids
    wrong = right.clone()
    wrong[:, 7] = 5 + (wrong[:, 7] - 5 + 11) % 23
    with torch.no_grad():
        energies = [objective.networks.discriminator(row, torch.zeros_like(row), None)[:, 7] for row in (right, wrong)]
    assert np.mean((energies[0] < energies[1]).numpy()) > 0.9
