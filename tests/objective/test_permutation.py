"""Some tokens of a row are asked for in an order of its own: drawn, weighed, counted and learned."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from little_objectives import NOW, SHARE, TOKENIZER, configure, count_by_torch, learn, weigh
from little_pairs import FIRST, VOCAB, WORDS, batch_of, counting_rows
from pydantic import ValidationError
from toy import CLS, PAD, SEP

from electralab.model.electra import TwoStream
from electralab.model.settings import derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.language_models import PermutationObjective, PermutedBatch, permute_targets
from electralab.objective.masking import MaskingConfig, mask_vocabulary
from electralab.objective.metrics import loss_metrics
from electralab.objective.settings import ObjectiveChoice, objective_defaults
from electralab.randomness import Rng
from electralab.tokens.batches import Batch

VOCABULARY = mask_vocabulary(TOKENIZER)


def make(*, length: int = 16, **model: Any) -> PermutationObjective:
    config = configure("permutation", model=model)
    _, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=length)
    objective = PermutationObjective(TwoStream(judging), config, TOKENIZER)
    init_weights(objective.networks, 1)
    return objective


def widen(objective: PermutationObjective) -> None:
    """Weights so large that what is seen matters."""
    with torch.no_grad():
        for parameter in objective.networks.parameters():
            if parameter.dim() == 2:
                parameter.mul_(8)


def padded_rows() -> Batch:
    """Of ten, four and no ordinary tokens."""
    return batch_of(
        [
            [CLS, *range(FIRST, FIRST + 10), SEP],
            [CLS, FIRST + 3, FIRST + 7, SEP, FIRST + 1, FIRST, SEP, *[PAD] * 5],
            [CLS, SEP, *[PAD] * 10],
        ]
    )


def ask(batch: Batch, share: float = SHARE, step: int = 1, **masking: Any) -> PermutedBatch:
    return permute_targets(batch, VOCABULARY, MaskingConfig(**masking), share, Rng(3, step))


@given(share=st.floats(0.01, 0.99), step=st.integers(1, 1000))
def test_a_share_of_the_ordinary_tokens_is_asked_for_one_after_the_other(share: float, step: int) -> None:
    batch = padded_rows()
    question = ask(batch, share, step)
    for row, count in enumerate((10, 4, 0)):
        turns = question.order[row].tolist()
        wanted = min(count, max(1, math.floor(share * count + 0.5)))
        assert sorted(turn for turn in turns if turn) == list(range(1, wanted + 1))
        assert all(batch.is_ordinary[row, column] for column, turn in enumerate(turns) if turn)
    asked = [place for place, turn in enumerate(question.order.flatten().tolist()) if turn]
    assert question.positions.tolist() == asked
    assert question.target_ids.tolist() == batch.original_ids.flatten()[asked].tolist()


def test_the_order_is_that_of_each_tokens_luck() -> None:
    batch = padded_rows()
    question = ask(batch, 0.5)
    luck = Rng(3, 1).uniforms("turn", np.arange(3), 12)
    for row in range(3):
        asked = [column for column in range(12) if question.order[row, column]]
        in_order = sorted(asked, key=lambda column: luck[row, column])
        assert [int(question.order[row, column]) for column in in_order] == list(range(1, len(asked) + 1))


def test_every_order_comes_up_as_often_as_any_other() -> None:
    row = [CLS, FIRST, FIRST + 1, FIRST + 2, SEP]
    turns = ask(batch_of([row] * 6000), 0.99).order[:, 1:4].tolist()
    orders = {tuple(one) for one in turns}
    assert len(orders) == 6
    for order in orders:
        assert turns.count(list(order)) == pytest.approx(1000, rel=0.12)


def test_a_row_is_asked_the_same_however_the_step_is_split() -> None:
    objective = make()
    batch = counting_rows(8)
    (whole,) = objective.make_inputs(batch, 8, SHARE, Rng(3, 1))
    parts = objective.make_inputs(batch, 3, SHARE, Rng(3, 1))
    assert torch.equal(torch.cat([part.order for part in parts]), whole.order)
    (again,) = objective.make_inputs(batch, 8, SHARE, Rng(3, 2))
    assert not torch.equal(again.order, whole.order)


def test_whole_words_and_spans_can_be_asked_for() -> None:
    """XLNet's own choice: neighbours are asked for together, in any order."""
    turns = ask(batch_of([[CLS, *[FIRST] * 60, SEP]]), 0.5, unit="span").order[0, 1:61]
    runs = int(((turns[1:] > 0) & (turns[:-1] == 0)).sum()) + int(turns[0] > 0)
    assert int((turns > 0).sum()) == 30
    assert runs < 13  # about twice as many where each token is drawn by itself


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@torch.no_grad()
def test_the_loss_is_that_of_a_row_told_token_by_token(backbone: str) -> None:
    objective = make(backbone=backbone)
    widen(objective)
    batch = padded_rows()
    question = ask(batch, 0.5)
    total = right = 0.0
    for row in range(3):
        length = int((~batch.is_pad[row]).sum())
        ids, turns = batch.original_ids[row : row + 1, :length], question.order[row : row + 1, :length]
        for turn in range(1, int(turns.max()) + 1):
            column = int((turns[0] == turn).nonzero())
            # Later tokens, and the one itself, might be any other.
            untold = ids.where(turns < turn, torch.tensor(FIRST + WORDS - 1))
            said = objective.model(untold, torch.zeros_like(ids), None, torch.tensor([column]), turns)[0].double()
            total -= math.log(torch.softmax(said, dim=0)[ids[0, column]])
            right += int(said.argmax() == ids[0, column])
    answer = objective.evaluation_step(question)
    assert float(answer.losses.sums["permuted"]) == pytest.approx(total, rel=1e-4)
    assert objective.count_targets(question) == {"permuted": 7}
    assert objective.count_tokens(question) == 12 + 7 + 2
    assert answer.metrics.ratios["permuted_accuracy"].mean == pytest.approx(right / 7)
    assert 0 < answer.metrics.ratios["permuted_entropy"].mean <= math.log(VOCAB)
    assert list(objective.lm_targets(question)) == question.target_ids.tolist()


@pytest.mark.parametrize("local", [0, 4])
def test_micro_batches_add_up(local: int) -> None:
    gradients = []
    for micro_size in (3, 1):
        objective = make(local_attention=local)
        widen(objective)
        weigh(objective, padded_rows(), micro_size).backward()  # type: ignore[no-untyped-call]
        learning = objective.networks.named_parameters()
        gradients.append({name: one.grad for name, one in learning if one.grad is not None})
    assert len(gradients[0]) == len(list(make(local_attention=local).networks.parameters()))
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("model", [{"backbone": "electra"}, {"embedding_size": 24}, {"share_layers": True}])
def test_torch_counts_the_same_operations(model: dict[str, Any]) -> None:
    objective = make(**model)
    counted = count_by_torch(objective, rows=3, length=16)
    assert objective.count_flops(NOW, 3, 16, SHARE) == pytest.approx(counted, rel=0.01)


def chain_rows(count: int, seed: int) -> Batch:
    """Every token follows from the one before, by a table without any order, and so the one before from it."""
    follows = np.random.default_rng(7).permutation(WORDS)
    columns = [np.random.default_rng(seed).integers(0, WORDS, count)]
    for _ in range(9):
        columns.append(follows[columns[-1]])
    return batch_of([[CLS, *row, SEP] for row in (FIRST + np.stack(columns, axis=1)).tolist()])


@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_it_learns_what_follows_what(backbone: str) -> None:
    objective = make(length=12, backbone=backbone, init_std=0.1)
    learn(objective, chain_rows(48, 0), 120, rate=1e-2)
    (question,) = objective.make_inputs(chain_rows(32, 1), 32, SHARE, Rng(3, 99))
    with torch.no_grad():
        answer = objective.evaluation_step(question)
    seen = (answer.metrics + loss_metrics(answer.losses, objective.count_targets(question))).describe()
    assert seen["permuted_loss"] < 0.3 * math.log(WORDS)
    assert seen["permuted_accuracy"] > 0.8


def test_names() -> None:
    objective = make()
    assert objective.lm_loss_name == "permuted"
    assert objective.weights == {"permuted": 1.0}
    assert objective.exports() == {"model": objective.model}
    assert {name.split(".")[0] for name, _ in objective.networks.named_parameters()} == {"model"}


def test_what_would_stand_in_a_hidden_tokens_place_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"'permutation' hides tokens by their turn.*set it to 'mask'"):
        configure("permutation", masking={"appearance": "mask-keep"})
    implied = objective_defaults(ObjectiveChoice(objective="permutation"), usual_width=0.5)
    assert implied["masking"] == {"appearance": "mask"}
