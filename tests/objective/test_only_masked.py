"""`electra-15`: taught where tokens were masked, and scored there, too."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from little_objectives import NOW, SHARE, TOKENIZER, configure, count_by_torch, learn, weigh
from little_pairs import CPU, FIRST, VOCAB, batch_of, count_row, counting_rows
from torch import Tensor, nn
from toy import CLS, PAD, SEP

from electralab.model.electra import Discriminator, Electra, FixedGenerator, Generator
from electralab.model.settings import derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.electra import ElectraObjective
from electralab.objective.metrics import RtdScores, loss_metrics
from electralab.pretraining import task
from electralab.pretraining.task import evaluate_heldout, measure_baselines
from electralab.randomness import Rng
from electralab.tokens.shards import PreparedData


def make(**more: Any) -> ElectraObjective:
    config = configure("electra-15", **more)
    guessing, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=16)
    pair = Electra(Generator(guessing), Discriminator(judging), config.model.sharing)
    init_weights(pair, 1)
    return ElectraObjective(pair, config, TOKENIZER, CPU)


class Oracle(nn.Module):
    """Sees through every replacement, and is absurd about tokens that nobody asked about."""

    def __init__(self, original_ids: Tensor, positions: Tensor) -> None:
        super().__init__()
        self.original_ids, self.positions = original_ids, positions

    def forward(self, input_ids: Tensor, *_: Any) -> Tensor:
        verdicts = torch.full(input_ids.shape, 100.0).flatten()
        is_replaced = (input_ids != self.original_ids).flatten()[self.positions]
        verdicts[self.positions] = 3.0 * is_replaced - 2.0
        return verdicts.view_as(input_ids)


@torch.no_grad()
def test_scores_and_loss_are_of_the_masked_positions_only() -> None:
    objective = make()
    batch = batch_of([count_row(3, 16), [*count_row(8, 9), *[PAD] * 7]])
    (question,) = objective.make_inputs(batch, 2, SHARE, Rng(3, 1))
    objective.networks.discriminator = cast(Discriminator, Oracle(batch.original_ids, question.positions))
    scores = evaluate_heldout(objective, [question])
    verdicts = RtdScores.concat(objective.evaluation_step(question).metrics.rtd)
    assert len(verdicts.logits) == len(question.positions) == 6  # round of a quarter of 14, and of 7
    replaced = int(verdicts.is_replaced.sum())
    assert 0 < replaced < 6
    assert (scores["auc"], scores["recall"], scores["precision"]) == (1.0, 1.0, 1.0)
    assert scores["replaced_share"] == scores["called_replaced"] == pytest.approx(replaced / 6)
    expected = (replaced * np.log1p(np.exp(-1.0)) + (6 - replaced) * np.log1p(np.exp(-2.0))) / 6
    assert scores["discriminator_loss"] == pytest.approx(expected)


def test_the_baseline_knows_the_share_of_replaced_tokens_among_the_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = make()
    questions = objective.make_inputs(counting_rows(8), 8, SHARE, Rng(3, 1))
    scores = evaluate_heldout(objective, questions)
    assert scores["replaced_share"] > 0.5  # an untaught generator is wrong nearly everywhere it was asked
    monkeypatch.setattr(task, "measure_unigram", lambda _: np.log(np.full(VOCAB, 1 / VOCAB)))
    baselines = measure_baselines(cast(PreparedData, None), objective, questions, scores)
    p = scores["replaced_share"]
    assert baselines["discriminator_loss"] == pytest.approx(-p * np.log(p) - (1 - p) * np.log(1 - p))


def test_micro_batches_add_up() -> None:
    objective = make()
    batch = batch_of([count_row(3, 16), [*count_row(8, 9), *[PAD] * 7], count_row(0, 16)])
    whole, parts = weigh(objective, batch, 3), weigh(objective, batch, 2)
    assert float(parts.detach()) == pytest.approx(float(whole.detach()), rel=1e-5)


def test_it_costs_what_electra_costs_by_torchs_count_too() -> None:
    objective = make()
    assert objective.count_flops(NOW, 3, 16, SHARE) == pytest.approx(count_by_torch(objective, 3, 16), rel=0.01)


def test_it_learns_which_of_the_masked_were_replaced() -> None:
    """A row repeats one of three words, and a masked one becomes any of the three: two in three do not fit."""
    objective = make(model={"num_layers": 1, "init_std": 0.1, "sharing": "none"})
    shares = torch.full((VOCAB,), -torch.inf)
    shares[FIRST : FIRST + 3] = -np.log(3)
    objective.networks.generator = FixedGenerator(shares)
    batch = batch_of([[CLS, *[FIRST + row % 3] * 14, SEP] for row in range(12)])
    learn(objective, batch, 60, rate=1e-2)
    (question,) = objective.make_inputs(batch, 12, SHARE, Rng(4, 1))
    with torch.no_grad():
        answer = objective.evaluation_step(question)
    scores = answer.metrics.describe("auc", "replaced_share")
    loss = loss_metrics(answer.losses, objective.count_targets(question)).ratios["discriminator_loss"].mean
    p = scores["replaced_share"]
    assert 0.4 < p < 0.9
    assert scores["auc"] > 0.9
    assert loss < 0.7 * (-p * np.log(p) - (1 - p) * np.log(1 - p))
