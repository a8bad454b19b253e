"""Scores on values checkable by eye, and what they mean in words."""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from electralab.model.electra import Electra
from electralab.objective.corruption import SamplingConfig
from electralab.objective.electra import ElectraObjective
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import RtdScores
from electralab.pretraining.balance import check_balance
from electralab.pretraining.task import describe_heldout, judge_heldout, measure_baselines
from electralab.tokens.batches import Batch
from electralab.tokens.shards import PreparedData, Rows

VOCAB = 10
CLS, SEP, MASK = 2, 3, 4
NOTHING_PROHIBITED = torch.zeros(VOCAB)


def verdicts(*pairs: tuple[float, bool]) -> RtdScores:
    logits, truth = zip(*pairs, strict=True)
    return RtdScores(np.array(logits, np.float32), np.array(truth, np.bool_))


def test_scores_of_four_tokens() -> None:
    found = verdicts((2.0, True), (-1.0, True), (1.0, False), (-3.0, False))
    assert found.auc == 0.75  # of four pairs one is the wrong way round: -1 below 1
    assert (found.recall, found.precision, found.called_replaced, found.replaced_share) == (0.5, 0.5, 0.5, 0.5)
    parts = [verdicts((2.0, True), (1.0, False)), verdicts((-1.0, True), (-3.0, False))]
    assert RtdScores.concat(parts).auc == 0.75
    assert verdicts((0.0, True), (0.0, False)).auc == 0.5  # ties count half
    assert verdicts((0.0, True), (1.0, False)).called_replaced == 0.5  # and one with the threshold is an original
    nothing = verdicts((-1.0, False), (-2.0, False))
    assert (nothing.recall, nothing.precision) == (0.0, 0.0)


@pytest.mark.parametrize(
    "found",
    [
        verdicts((1.0, True), (2.0, True)),
        verdicts((1.0, False), (2.0, False)),
        verdicts((math.nan, True), (2.0, False)),
        verdicts((math.inf, True), (2.0, False)),
    ],
)
def test_auc_is_a_half_where_it_says_nothing(found: RtdScores) -> None:
    assert found.auc == 0.5


class CopyingGenerator(nn.Module):
    """Says what it sees: right exactly where nothing was hidden."""

    reads_masked = True

    def forward(self, input_ids: Tensor, _s: Tensor, _p: Tensor | None, positions: Tensor) -> Tensor:
        return nn.functional.one_hot(input_ids.flatten()[positions], VOCAB).float() * 100


class GuessingGenerator(nn.Module):
    """Always says 7."""

    reads_masked = True

    def forward(self, _ids: Tensor, _s: Tensor, _p: Tensor | None, positions: Tensor) -> Tensor:
        return nn.functional.one_hot(torch.full_like(positions, 7), VOCAB).float() * 100


class Judge(nn.Module):
    """The same verdict for every token."""

    def __init__(self, logit: float) -> None:
        super().__init__()
        self.logit = logit

    def forward(self, input_ids: Tensor, _s: Tensor, _p: Tensor | None, _trace: object = None) -> Tensor:
        assert not self.training
        return torch.full(input_ids.shape, self.logit)


class Pair(nn.Module):
    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator


def game(generator: nn.Module, logit: float = -5.0) -> ElectraObjective:
    objective = object.__new__(ElectraObjective)
    objective.networks = cast(Electra, Pair(generator, Judge(logit)))
    objective.config = cast(Any, SimpleNamespace(sampling=SamplingConfig()))
    objective.logit_bias = NOTHING_PROHIBITED
    objective.only_masked = False
    objective.auxiliaries = {}
    return objective


def masked_row(originals: list[int], hidden: list[int], kept: list[int]) -> MaskedBatch:
    """[CLS] originals [SEP]; places in `hidden` show [MASK], those in `kept` are targets that stay visible."""
    ids = torch.tensor([[CLS, *originals, SEP]])
    is_pad = torch.zeros_like(ids, dtype=torch.bool)
    batch = Batch(np.arange(1), ids, torch.zeros_like(ids), is_pad, ids >= 5, False, np.arange(1))
    positions = torch.tensor(sorted(hidden + kept))
    shown = ids.clone()
    shown[0, torch.tensor(hidden, dtype=torch.int64)] = MASK
    return MaskedBatch(
        batch=batch,
        input_ids=shown,
        positions=positions,
        target_ids=ids.flatten()[positions],
        is_hidden=torch.tensor([int(place) in hidden for place in positions]),
        sampling_uniforms=torch.full((len(positions),), 0.5),
        selection_uniforms=torch.zeros(len(positions), 0),
        sequence_uniforms=torch.zeros(1),
    )


def test_accuracy_counts_only_tokens_that_were_really_hidden() -> None:
    """A generator that copies what it sees restores every kept token and no hidden one: it has learned nothing."""
    row = masked_row([5, 6, 7, 8, 9, 5], hidden=[1, 2], kept=[3, 4, 5])
    assert describe_heldout(judge_heldout(game(CopyingGenerator()), [row]))["generator_accuracy"] == 0.0
    row = masked_row([7, 6, 7, 8, 9, 5], hidden=[1, 2], kept=[4])
    assert describe_heldout(judge_heldout(game(GuessingGenerator()), [row]))["generator_accuracy"] == 0.5


def test_losses_are_means_over_their_own_targets_whatever_the_batches() -> None:
    objective = game(GuessingGenerator(), logit=0.0)
    rows = [masked_row([7, 6, 7], hidden=[1], kept=[]), masked_row([5, 6, 7, 8, 9, 5], hidden=[1, 2], kept=[])]
    scores = describe_heldout(judge_heldout(objective, rows))
    # One of three targets is a 7, the other two cost 100 nats each.
    assert scores["generator_loss"] == pytest.approx(200 / 3)
    assert scores["discriminator_loss"] == pytest.approx(math.log(2))
    assert scores["replaced_share"] == pytest.approx(2 / (3 + 6))


class KnowsSpecials(nn.Module):
    """Sure of [CLS] and [SEP], and of nothing else."""

    def forward(self, input_ids: Tensor, *_: object) -> Tensor:
        return torch.where(input_ids >= 5, 0.0, -20.0)


def test_knowing_only_special_tokens_beats_no_baseline_while_the_loss_to_learn_from_counts_them() -> None:
    objective = game(GuessingGenerator())
    objective.networks.discriminator = cast(Any, KnowsSpecials())
    row = masked_row([7, 6, 7, 8], hidden=[1, 2], kept=[])  # the 6 becomes a 7
    scores = describe_heldout(judge_heldout(objective, [row]))
    assert scores["auc"] == 0.5
    assert scores["replaced_share"] == 0.25
    assert scores["discriminator_loss"] == pytest.approx(math.log(2))
    learned = (
        objective.evaluation_step(row).losses.sums["discriminator"] / objective.count_targets(row)["discriminator"]
    )
    assert float(learned) == pytest.approx(4 * math.log(2) / 6, abs=1e-5)


def test_judging_leaves_the_model_as_it_was() -> None:
    objective = game(GuessingGenerator())
    rows = [masked_row([7, 6, 7], hidden=[1], kept=[])]
    for mode in (True, False):
        objective.networks.train(mode)
        judge_heldout(objective, rows)
        assert objective.networks.training == mode


def test_a_collapsed_discriminator_is_reported_although_its_accuracy_is_93_percent() -> None:
    """Everything is called original and 7 % are replaced: accuracy looks fine, recall and AUC do not."""
    is_replaced = np.arange(100) < 7
    found = RtdScores(np.full(100, -3.0, np.float32), is_replaced)
    accuracy = ((found.logits > 0) == found.is_replaced).mean()
    assert accuracy == pytest.approx(0.93)
    assert (found.recall, found.auc, found.called_replaced) == (0.0, 0.5, 0.0)
    scores = {
        "replaced_share": 0.1,
        "precision": 0.7,
        "auc": found.auc,
        "recall": found.recall,
        "called_replaced": found.called_replaced,
    }
    assert check_balance(scores, progress=0.5) == [
        "the discriminator calls every token original (AUC 0.50): it has hardly begun to learn; train longer, try "
        "smaller batches (--batch.size), a smaller generator (--generator.width-share) or one encoder for both "
        "(--model.sharing everything --generator.width-share 1)"
    ]


@dataclass
class Words:
    """A vocabulary of ten of which five are ordinary."""

    vocab_size: int = VOCAB

    @property
    def is_ordinary(self) -> Any:
        return np.arange(VOCAB) >= 5


def test_baselines_know_frequencies_and_nothing_else() -> None:
    # 5 occurs 7 times and 6 twice; with one added to each of the five ordinary ids that is 8, 3, 1, 1, 1 of 14.
    rows = np.array([[CLS, 5, 5, 5, 5, SEP], [CLS, 5, 5, 5, 6, SEP], [CLS, 6, SEP, 0, 0, 0]], dtype=np.uint16)
    data = PreparedData(
        path=cast(Any, None),
        identity="",
        tokenizer=cast(Any, Words()),
        sequence_length=6,
        packing="contiguous",
        train=Rows.over([rows], 6),
        heldout=Rows.over([rows], 6),
    )
    row = masked_row([5, 6, 7, 5], hidden=[1, 2, 3, 4], kept=[])
    objective = game(GuessingGenerator())
    found = measure_baselines(data, objective, [row], {"replaced_share": 0.5})
    assert found["generator_accuracy"] == 0.5
    expected = -(2 * math.log(8 / 14) + math.log(3 / 14) + math.log(1 / 14)) / 4
    assert found["generator_loss"] == pytest.approx(expected)
    assert found["discriminator_loss"] == pytest.approx(math.log(2))
    nothing = measure_baselines(data, objective, [row], {"replaced_share": 0.0})
    assert nothing["discriminator_loss"] == pytest.approx(0.0, abs=1e-6)
    assert "discriminator_loss" not in measure_baselines(data, objective, [row], {})
