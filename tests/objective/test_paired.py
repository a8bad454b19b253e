"""Guessing hidden tokens and judging pairs at once: each against its slow twin, and both learned."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from little_objectives import NOW, SHARE, TOKENIZER, count_by_torch, learn, make_masked, weigh
from little_pairs import FIRST, batch_of, count_row, counting_rows
from toy import CLS, PAD, SEP

from electralab.objective.language_models import MaskedPairBatch, MLMObjective, SentencePairObjective, arrange_pairs
from electralab.objective.metrics import loss_metrics
from electralab.randomness import Rng
from electralab.tokens.batches import Batch

tasks = pytest.mark.parametrize("task", ["next-sentence", "sentence-order"])


def make(task: str, **more: Any) -> SentencePairObjective:
    objective = make_masked(sentence_task=task, **more)
    assert isinstance(objective, SentencePairObjective)
    return objective


def padded_rows() -> Batch:
    """The last row has no room for a pair."""
    return batch_of(
        [count_row(3, 16), [*count_row(8, 11), *[PAD] * 5], count_row(0, 16), [CLS, FIRST, SEP, *[PAD] * 13]]
    )


def ask(objective: SentencePairObjective, batch: Batch) -> MaskedPairBatch:
    (question,) = objective.make_inputs(batch, len(batch.row_numbers), SHARE, Rng(3, 1))
    return question


def widen(objective: SentencePairObjective) -> None:
    with torch.no_grad():
        for parameter in objective.networks.parameters():
            if parameter.dim() == 2:
                parameter.mul_(8)


@tasks
@torch.no_grad()
def test_both_losses_are_those_of_a_slow_twin(task: str) -> None:
    objective = make(task)
    widen(objective)
    question = ask(objective, padded_rows())
    masked, batch = question, question.batch
    hidden = dict(zip(masked.positions.tolist(), masked.target_ids.tolist(), strict=True))
    guessing = judging = 0.0
    right = 0
    for row in range(4):
        length = int((~batch.is_pad[row]).sum())
        shown, segments = masked.input_ids[row : row + 1, :length], batch.segment_ids[row : row + 1, :length]
        for column in range(length):
            if row * 16 + column in hidden:
                said = objective.model(shown, segments, None, torch.tensor([column]))[0].double()
                guessing -= math.log(torch.softmax(said, dim=0)[hidden[row * 16 + column]])
        if question.has_pair[row]:
            state = objective.model.encoder(shown, segments, None)[0, 0]
            odd = 1 / (1 + math.exp(-float(objective.head.verdict(state))))
            judging -= math.log(odd if question.is_mismatched[row] else 1 - odd)
            right += (odd > 0.5) == bool(question.is_mismatched[row])
    answer = objective.evaluation_step(question)
    assert float(answer.losses.sums["masked"]) == pytest.approx(guessing, rel=1e-4)
    assert float(answer.losses.sums["sentence"]) == pytest.approx(judging, rel=1e-4)
    assert objective.count_targets(question) == {"masked": len(hidden), "sentence": 3}
    assert answer.metrics.ratios["sentence_accuracy"].mean == pytest.approx(right / 3)


@tasks
def test_pairs_are_arranged_over_the_whole_step_before_anything_is_hidden(task: Any) -> None:
    objective = make(task)
    batch = counting_rows(8)
    expected = arrange_pairs(batch, TOKENIZER.special, task, Rng(3, 1))
    for micro_size in (8, 3):
        questions = objective.make_inputs(batch, micro_size, SHARE, Rng(3, 1))
        originals = torch.cat([question.batch.original_ids for question in questions])
        assert torch.equal(originals, expected.batch.original_ids)
        assert torch.equal(torch.cat([question.is_mismatched for question in questions]), expected.is_mismatched)
        assert torch.equal(torch.cat([question.has_pair for question in questions]), expected.has_pair)


@tasks
def test_micro_batches_add_up(task: str) -> None:
    objective = make(task)
    widen(objective)
    whole, parts = weigh(objective, padded_rows(), 4), weigh(objective, padded_rows(), 1)
    assert float(parts.detach()) == pytest.approx(float(whole.detach()), rel=1e-4)


def test_rows_without_any_pair_ask_nothing_and_teach_nothing_of_pairs() -> None:
    objective = make("next-sentence")
    question = ask(objective, batch_of([[CLS, FIRST, SEP, PAD], [CLS, FIRST + 1, SEP, PAD]]))
    answer = objective.training_step(question, NOW)
    assert float(answer.losses.sums["sentence"].detach()) == 0.0
    answer.losses.weigh(objective.count_targets(question), objective.weights).backward()  # type: ignore[no-untyped-call]
    gradient = objective.head.verdict.weight.grad
    assert gradient is not None
    assert not gradient.any()


def test_the_sentence_loss_counts_by_its_weight() -> None:
    assert make("next-sentence", loss={"sentence_weight": 2.5}).weights == {"masked": 1.0, "sentence": 2.5}


def test_without_a_sentence_task_rows_stay_as_they_are() -> None:
    objective = make_masked()
    assert isinstance(objective, MLMObjective)
    batch = counting_rows(4)
    (question,) = objective.make_inputs(batch, 4, SHARE, Rng(3, 1))
    assert torch.equal(question.batch.original_ids, batch.original_ids)


@pytest.mark.parametrize("task", ["none", "next-sentence"])
@pytest.mark.parametrize("model", [{"backbone": "electra"}, {"embedding_size": 24}, {"share_layers": True}])
def test_torch_counts_the_same_operations(task: str, model: dict[str, Any]) -> None:
    objective = make_masked(sentence_task=task, model=model)
    counted = count_by_torch(objective, rows=3, length=16)
    assert objective.count_flops(NOW, 3, 16, SHARE) == pytest.approx(counted, rel=0.01)


def test_layers_that_are_one_learn_together() -> None:
    """As in ALBERT: one set of weights for both layers, with sentence order beside guessing."""
    objective = make("sentence-order", model={"share_layers": True})
    assert not [name for name, _ in objective.networks.named_parameters() if "layers.1.feedforward" in name]
    weigh(objective, counting_rows(4), 4).backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in objective.networks.parameters())


def topic_rows(task: str, seed: int) -> Batch:
    """Two topics of ten words: one a row, so that half a batch on it is the other; or one after the other in each."""
    words = np.random.default_rng(seed).integers(0, 10, (24, 14))
    topics = np.arange(24)[:, None] >= 12 if task == "next-sentence" else np.arange(14)[None] >= 7
    return batch_of([[CLS, *row, SEP] for row in (FIRST + words + 10 * topics).tolist()])


@tasks
def test_it_learns_which_segments_belong_together(task: str) -> None:
    objective = make(task, model={"num_layers": 1, "init_std": 0.1})
    learn(objective, topic_rows(task, 0), 80, rate=1e-2)
    question = ask(objective, topic_rows(task, 1))
    with torch.no_grad():
        answer = objective.evaluation_step(question)
    ratios = (answer.metrics + loss_metrics(answer.losses, objective.count_targets(question))).ratios
    assert ratios["sentence_accuracy"].mean > 0.9
    assert ratios["sentence_loss"].mean < 0.5 * math.log(2)
    # The topic is known from the rest of the row: ten words are left of twenty.
    assert ratios["masked_loss"].mean < math.log(20) - 0.2
