"""Guessing the next token: against a loop over rows cut short, and on rows where it follows from the one before."""

import math
from typing import Any

import pytest
import torch
from little_objectives import NOW, SHARE, SIZES, learn, weigh
from little_pairs import VOCAB, WORDS, batch_of, counting_rows
from toy import CLS, PAD, SEP

from electralab.model.electra import Generator
from electralab.model.settings import GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.language_models import CausalObjective, shift_targets
from electralab.objective.metrics import loss_metrics
from electralab.randomness import Rng

ROWS = [[CLS, 7, 9, 7, 12, SEP], [CLS, 20, SEP], [CLS, 9, 9, SEP]]
PADDED = batch_of([row + [PAD] * (6 - len(row)) for row in ROWS])
backbones = pytest.mark.parametrize("backbone", ["electra", "modern"])


def make(length: int = 6, **model: Any) -> CausalObjective:
    sizes = ModelConfig(**(SIZES | {"init_std": 0.1} | model))
    _, encoder = derive_encoders(sizes, GeneratorConfig(), vocab_size=VOCAB, sequence_length=length)
    objective = CausalObjective(Generator(encoder.model_copy(update={"is_causal": True})))
    init_weights(objective.networks, 1)
    return objective


def lose_slowly(model: Generator) -> float:
    """-log p of every token, from its row cut before it: what comes after cannot have been seen."""
    total = 0.0
    for row in ROWS:
        for column in range(1, len(row)):
            known = torch.tensor([row[:column]])
            state = model.encoder(known, torch.zeros_like(known), None)[0, -1:]
            chances = model.logits(state)[0].softmax(dim=-1)
            total -= math.log(float(chances[row[column]]))
    return total


@backbones
@torch.no_grad()
def test_the_loss_is_that_of_rows_cut_before_each_token(backbone: str) -> None:
    objective = make(backbone=backbone)
    (question,) = objective.make_inputs(PADDED, 3, SHARE, Rng(3, 1))
    assert isinstance(objective.model, Generator)
    slow = lose_slowly(objective.model)
    with torch.enable_grad():
        learned = objective.training_step(question, NOW)
    for answer in (learned, objective.evaluation_step(question)):
        assert float(answer.losses.sums["next"]) == pytest.approx(slow, rel=1e-5)


def test_every_token_but_the_first_of_a_row_is_asked_for_and_padding_is_not() -> None:
    objective = make()
    question = shift_targets(PADDED)
    assert question.positions.tolist() == [1, 2, 3, 4, 5, 7, 8, 13, 14, 15]
    assert objective.lm_targets(question) == [7, 9, 7, 12, SEP, 20, SEP, 9, 9, SEP]
    assert objective.count_targets(question) == {"next": 10}
    assert objective.count_tokens(question) == 13


@pytest.mark.parametrize("micro_size", [1, 2])
def test_parts_of_a_step_add_up_to_the_step(micro_size: int) -> None:
    """Their rows have 5, 2 and 3 targets: a mean of the parts' means would be another number."""
    losses, gradients = [], []
    for size in (3, micro_size):
        objective = make()
        loss = weigh(objective, PADDED, size)
        loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.item())
        gradients.append([one.grad for one in objective.networks.parameters()])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    for whole, parts in zip(*gradients, strict=True):
        torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)


@backbones
def test_it_learns_what_follows_and_that_a_first_token_can_be_any(backbone: str) -> None:
    """Of 15 targets the first is one of 23, the last [SEP], and every other follows from the one before it."""
    objective = make(length=16, backbone=backbone)
    batch = counting_rows(WORDS)
    learn(objective, batch, 60, rate=1e-2)
    (question,) = objective.make_inputs(batch, WORDS, SHARE, Rng(3, 1))
    with torch.no_grad():
        answer = objective.evaluation_step(question)
    seen = (answer.metrics + loss_metrics(answer.losses, objective.count_targets(question))).describe()
    best = math.log(WORDS) / 15
    assert best - 0.01 < seen["next_loss"] < best + 0.1 < 0.15 * math.log(WORDS)
    assert seen["next_accuracy"] > 0.9


def test_names() -> None:
    objective = make()
    assert objective.lm_loss_name == "next"
    assert objective.weights == {"next": 1.0}
    assert objective.exports() == {"model": objective.model}
    assert {name.split(".")[0] for name, _ in objective.networks.named_parameters()} == {"model"}
