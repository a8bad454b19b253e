"""Each kind of network learns rows that count, where frequencies know nothing: all are equally likely."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from little_objectives import make_masked
from little_pairs import FIRST, VOCAB, WORDS, counting_rows
from procedure_pairs import make, weights_of
from torch import nn

from electralab.model.electra import FixedGenerator
from electralab.objective.electra import ElectraObjective
from electralab.objective.losses import add_counts
from electralab.objective.metrics import loss_metrics
from electralab.objective.objective import Objective, StepInfo
from electralab.randomness import Rng

SHARE = 0.2


def guessing(kind: str, sharing: str = "token") -> ElectraObjective:
    return make("joint", sharing=sharing, width=1.0, kind=kind, model={"num_layers": 1})


def judging(**model: Any) -> ElectraObjective:
    """Against draws by frequency, as counted in the rows."""
    objective = make("joint", width=0.5, model={"num_layers": 1} | model)
    counts = np.bincount(counting_rows(WORDS).original_ids.flatten().numpy(), minlength=VOCAB)[FIRST:]
    log_shares = torch.full((VOCAB,), -torch.inf)
    log_shares[FIRST:] = torch.from_numpy(counts / counts.sum()).log()
    objective.networks.generator = FixedGenerator(log_shares)
    return objective


GUESSING: dict[str, Callable[[], Objective[Any]]] = {
    "mlm": lambda: make_masked(model={"num_layers": 1, "init_std": 0.1}),
    "causal generator": lambda: guessing("causal"),
    "two towers": lambda: guessing("two-tower"),
    "disentangled": lambda: guessing("transformer", "disentangled"),
}
JUDGING: dict[str, Callable[[], ElectraObjective]] = {
    "unigram generator": judging,
    "discrepancy attention": lambda: judging(discrepancy_attention=True),
    "adaptive norm": lambda: judging(adaptive_norm=True),
}


def learn(objective: Objective[Any], steps: int) -> None:
    optimizer = torch.optim.Adam(objective.networks.parameters(), lr=1e-2)
    for step in range(1, steps + 1):
        moment = StepInfo(step, steps)
        objective.on_step_start(moment)
        questions = objective.make_inputs(counting_rows(WORDS), WORDS, SHARE, Rng(3, step))
        counts = add_counts(objective.count_targets(question) for question in questions)
        optimizer.zero_grad()
        for question in questions:
            objective.training_step(question, moment).losses.weigh(counts, objective.weights).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(objective.networks.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def judge(objective: Objective[Any]) -> dict[str, float]:
    """By masks and draws that training has not seen."""
    (question,) = objective.make_inputs(counting_rows(WORDS), WORDS, SHARE, Rng(3, 999))
    answer = objective.evaluation_step(question)
    seen = answer.metrics + loss_metrics(answer.losses, objective.count_targets(question))
    return seen.describe("auc")


@pytest.mark.parametrize("kind", GUESSING)
def test_guesses_learn_to_count(kind: str) -> None:
    objective = GUESSING[kind]()
    loss = f"{objective.lm_loss_name}_loss"
    assert judge(objective)[loss] > 0.9 * math.log(WORDS)
    learn(objective, 60)
    assert judge(objective)[loss] < 0.5 * math.log(WORDS)


@pytest.mark.parametrize("kind", JUDGING)
def test_verdicts_learn_what_does_not_count(kind: str) -> None:
    objective = JUDGING[kind]()
    before = weights_of(objective.networks)
    assert judge(objective)["auc"] < 0.6
    learn(objective, 60)
    assert judge(objective)["auc"] > 0.85
    # Among them what the option adds, which begins as nothing.
    assert all(not torch.equal(weight, before[name]) for name, weight in weights_of(objective.networks).items())
