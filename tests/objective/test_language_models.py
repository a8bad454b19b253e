"""Language models: the next token against rows cut short, tokens in any order, hidden ones with a task about pairs."""

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from little_objectives import (
    MASKED,
    NOW,
    SHARE,
    SIZES,
    TOKENIZER,
    configure,
    count_by_torch,
    learn,
    make_masked,
    weigh,
    whole_inputs,
    widen,
)
from little_pairs import FIRST, VOCAB, WORDS, batch_of, count_row, counting_rows
from pydantic import ValidationError
from toy import CLS, MASK, PAD, SEP, UNK, VOCABULARY, ToyTokenizer, toy_batch

import electralab
from electralab.corpus.samples import write_bundled_text
from electralab.display import Display
from electralab.model.electra import Generator, TwoStream
from electralab.model.settings import GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.language_models import (
    CausalObjective,
    MaskedPairBatch,
    MLMObjective,
    PairTask,
    PermutationObjective,
    PermutedBatch,
    SentencePairObjective,
    arrange_pairs,
    permute_targets,
    shift_targets,
)
from electralab.objective.masking import MaskingConfig, mask_tokens, mask_vocabulary
from electralab.objective.metrics import loss_metrics
from electralab.objective.settings import ObjectiveChoice, objective_defaults
from electralab.randomness import Rng
from electralab.tokens.batches import Batch, batch_at, make_batch
from electralab.tokens.shards import PreparedData, open_data
from electralab.tokens.tokenizer import SpecialIds

ROWS = [[CLS, 7, 9, 7, 12, SEP], [CLS, 20, SEP], [CLS, 9, 9, SEP]]
PADDED = batch_of([row + [PAD] * (6 - len(row)) for row in ROWS])
backbones = pytest.mark.parametrize("backbone", ["electra", "modern"])


def make(length: int = 6, **model: Any) -> CausalObjective:
    sizes = ModelConfig(**(SIZES | {"init_std": 0.1} | model))
    _, encoder = derive_encoders(sizes, GeneratorConfig(), vocab_size=VOCAB, sequence_length=length)
    network = Generator(encoder.model_copy(update={"is_causal": True}))
    objective = CausalObjective(network, configure("causal"), TOKENIZER)
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
    assert question.target_ids.tolist() == [7, 9, 7, 12, SEP, 20, SEP, 9, 9, SEP]
    assert objective.count_targets(question) == {"next": 10}
    assert question.batch.token_count == 13


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


# -------------------- Some tokens of a row are asked for in an order of its own: drawn, weighed, counted and lea

WORDS_VOCABULARY = mask_vocabulary(TOKENIZER)


def make_permutation(*, length: int = 16, **model: Any) -> PermutationObjective:
    config = configure("permutation", model=model)
    _, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=length)
    objective = PermutationObjective(TwoStream(judging), config, TOKENIZER)
    init_weights(objective.networks, 1)
    return objective


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
    return permute_targets(batch, WORDS_VOCABULARY, MaskingConfig(**masking), share, Rng(3, step))


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
    objective = make_permutation()
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
    objective = make_permutation(backbone=backbone)
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
    assert question.batch.token_count == 12 + 7 + 2
    assert answer.metrics.ratios["permuted_accuracy"].mean == pytest.approx(right / 7)
    assert 0 < answer.metrics.ratios["permuted_entropy"].mean <= math.log(VOCAB)


@pytest.mark.parametrize("local", [0, 4])
def test_micro_batches_add_up(local: int) -> None:
    gradients = []
    for micro_size in (3, 1):
        objective = make_permutation(local_attention=local)
        widen(objective)
        weigh(objective, padded_rows(), micro_size).backward()  # type: ignore[no-untyped-call]
        learning = objective.networks.named_parameters()
        gradients.append({name: one.grad for name, one in learning if one.grad is not None})
    assert len(gradients[0]) == len(list(make_permutation(local_attention=local).networks.parameters()))
    for name, gradient in gradients[0].items():
        assert torch.allclose(gradient, gradients[1][name], rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("model", [{"backbone": "electra"}, {"embedding_size": 24}, {"share_layers": True}])
def test_torch_counts_the_same_operations(model: dict[str, Any]) -> None:
    objective = make_permutation(**model)
    counted = count_by_torch(objective, rows=3, length=16)
    assert objective.count_flops(NOW, 3, 16, MASKED) == pytest.approx(counted, rel=0.01)


def chain_rows(count: int, seed: int) -> Batch:
    """Every token follows from the one before, by a table without any order, and so the one before from it."""
    follows = np.random.default_rng(7).permutation(WORDS)
    columns = [np.random.default_rng(seed).integers(0, WORDS, count)]
    for _ in range(9):
        columns.append(follows[columns[-1]])
    return batch_of([[CLS, *row, SEP] for row in (FIRST + np.stack(columns, axis=1)).tolist()])


@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_it_learns_what_follows_what(backbone: str) -> None:
    objective = make_permutation(length=12, backbone=backbone, init_std=0.1)
    learn(objective, chain_rows(48, 0), 120, rate=1e-2)
    (question,) = objective.make_inputs(chain_rows(32, 1), 32, SHARE, Rng(3, 99))
    with torch.no_grad():
        answer = objective.evaluation_step(question)
    seen = (answer.metrics + loss_metrics(answer.losses, objective.count_targets(question))).describe()
    assert seen["permuted_loss"] < 0.3 * math.log(WORDS)
    assert seen["permuted_accuracy"] > 0.8


@pytest.mark.parametrize("name", ["next", "permuted"])
def test_names(name: str) -> None:
    objective: CausalObjective | PermutationObjective = make() if name == "next" else make_permutation()
    assert objective.lm_loss_name == name
    assert objective.weights == {name: 1.0}
    assert objective.exports() == {"model": objective.model}
    assert {name.split(".")[0] for name, _ in objective.networks.named_parameters()} == {"model"}


def test_what_would_stand_in_a_hidden_tokens_place_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"'permutation' hides tokens by their turn.*set it to 'mask'"):
        configure("permutation", masking={"appearance": "mask-keep"})
    implied = objective_defaults(ObjectiveChoice(objective="permutation"), usual_width=0.5)
    assert implied["masking"] == {"appearance": "mask"}


# -------------------- Guessing hidden tokens and judging pairs at once: each against its slow twin, and both lea

tasks = pytest.mark.parametrize("task", ["next-sentence", "sentence-order"])


def make_paired(task: str, **more: Any) -> SentencePairObjective:
    objective = make_masked(sentence_task=task, **more)
    assert isinstance(objective, SentencePairObjective)
    return objective


def padded_pairs() -> Batch:
    """The last row has no room for a pair."""
    return batch_of(
        [count_row(3, 16), [*count_row(8, 11), *[PAD] * 5], count_row(0, 16), [CLS, FIRST, SEP, *[PAD] * 13]]
    )


@tasks
@torch.no_grad()
def test_both_losses_are_those_of_a_slow_twin(task: str) -> None:
    objective = make_paired(task)
    widen(objective)
    question = whole_inputs(objective, padded_pairs())
    assert isinstance(question, MaskedPairBatch)
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
    objective = make_paired(task)
    batch = counting_rows(8)
    expected = arrange_pairs(batch, TOKENIZER.special, task, Rng(3, 1))
    for micro_size in (8, 3):
        questions = objective.make_inputs(batch, micro_size, SHARE, Rng(3, 1))
        originals = torch.cat([question.batch.original_ids for question in questions])
        assert torch.equal(originals, expected.batch.original_ids)
        assert torch.equal(torch.cat([question.is_mismatched for question in questions]), expected.is_mismatched)
        assert torch.equal(torch.cat([question.has_pair for question in questions]), expected.has_pair)


@tasks
def test_micro_batches_of_pairs_add_up(task: str) -> None:
    objective = make_paired(task)
    widen(objective)
    whole, parts = weigh(objective, padded_pairs(), 4), weigh(objective, padded_pairs(), 1)
    assert float(parts.detach()) == pytest.approx(float(whole.detach()), rel=1e-4)


def test_rows_without_any_pair_ask_nothing_and_teach_nothing_of_pairs() -> None:
    objective = make_paired("next-sentence")
    question = whole_inputs(objective, batch_of([[CLS, FIRST, SEP, PAD], [CLS, FIRST + 1, SEP, PAD]]))
    answer = objective.training_step(question, NOW)
    assert float(answer.losses.sums["sentence"].detach()) == 0.0
    answer.losses.weigh(objective.count_targets(question), objective.weights).backward()  # type: ignore[no-untyped-call]
    gradient = objective.head.verdict.weight.grad
    assert gradient is not None
    assert not gradient.any()


def test_the_sentence_loss_counts_by_its_weight() -> None:
    assert make_paired("next-sentence", loss={"sentence_weight": 2.5}).weights == {"masked": 1.0, "sentence": 2.5}


def test_without_a_sentence_task_rows_stay_as_they_are() -> None:
    objective = make_masked()
    assert isinstance(objective, MLMObjective)
    batch = counting_rows(4)
    (question,) = objective.make_inputs(batch, 4, SHARE, Rng(3, 1))
    assert torch.equal(question.batch.original_ids, batch.original_ids)


@pytest.mark.parametrize("task", ["none", "next-sentence"])
@pytest.mark.parametrize("model", [{"backbone": "electra"}, {"embedding_size": 24}, {"share_layers": True}])
def test_torch_counts_the_same_operations_of_pairs(task: str, model: dict[str, Any]) -> None:
    objective = make_masked(sentence_task=task, model=model)
    counted = count_by_torch(objective, rows=3, length=16)
    assert objective.count_flops(NOW, 3, 16, MASKED) == pytest.approx(counted, rel=0.01)


def test_layers_that_are_one_learn_together() -> None:
    """As in ALBERT: one set of weights for both layers, with sentence order beside guessing."""
    objective = make_paired("sentence-order", model={"share_layers": True})
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
    objective = make_paired(task, model={"num_layers": 1, "init_std": 0.1})
    learn(objective, topic_rows(task, 0), 80, rate=1e-2)
    question = whole_inputs(objective, topic_rows(task, 1))
    with torch.no_grad():
        answer = objective.evaluation_step(question)
    ratios = (answer.metrics + loss_metrics(answer.losses, objective.count_targets(question))).ratios
    assert ratios["sentence_accuracy"].mean > 0.9
    assert ratios["sentence_loss"].mean < 0.5 * math.log(2)
    # The topic is known from the rest of the row: ten words are left of twenty.
    assert ratios["masked_loss"].mean < math.log(20) - 0.2


# -------------------- Two segments per row: which pairs are wrong, and what a network could learn from their len

SPECIAL = SpecialIds(pad=PAD, unk=UNK, cls=CLS, sep=SEP, mask=MASK)
TASKS: list[PairTask] = ["next-sentence", "sentence-order"]


def pair_batch(*rows: list[int]) -> Batch:
    return make_batch(np.array(rows, dtype=np.int64), ToyTokenizer(), is_pairs=True)  # type: ignore[arg-type]


def seed_where(wanted: list[bool], task: PairTask) -> Rng:
    """The first step whose luck makes just these rows odd."""
    rows = np.arange(len(wanted))
    return next(
        rng
        for rng in (Rng(0, step) for step in range(1000))
        if (rng.uniforms(task, rows, 1)[:, 0] < 0.5).tolist() == wanted
    )


def coin_where(first_is_longer: list[bool], is_odd: list[bool]) -> Rng:
    """The first step that gives an odd token to these rows' first halves, and swaps just these rows."""
    rows = np.arange(len(is_odd))
    return next(
        rng
        for rng in (Rng(0, step) for step in range(10_000))
        if (rng.uniforms("sentence-order", rows, 1)[:, 0] < 0.5).tolist() == is_odd
        and (rng.uniforms("sentence cut", rows, 1)[:, 0] < 0.5).tolist() == first_is_longer
    )


@pytest.mark.parametrize(
    ("first_is_longer", "is_odd", "expected"),
    [
        (False, False, [CLS, 5, 6, SEP, 7, 8, 9, SEP]),
        (True, False, [CLS, 5, 6, 7, SEP, 8, 9, SEP]),
        (False, True, [CLS, 7, 8, 9, SEP, 5, 6, SEP]),
        (True, True, [CLS, 8, 9, SEP, 5, 6, 7, SEP]),
    ],
)
def test_a_full_row_is_cut_in_the_middle_with_either_half_longer_whichever_is_first(
    first_is_longer: bool, is_odd: bool, expected: list[int]
) -> None:
    """It gives its last token for the second [SEP]; that the halves are unequal tells nothing of their order."""
    paired = arrange_pairs(
        toy_batch([CLS, 5, 6, 7, 8, 9, 5, SEP]), SPECIAL, "sentence-order", coin_where([first_is_longer], [is_odd])
    )
    second = expected.index(SEP) + 1
    assert paired.batch.original_ids.tolist() == [expected]
    assert paired.batch.segment_ids.tolist() == [[int(column >= second) for column in range(8)]]
    assert paired.batch.is_ordinary.tolist() == [[token not in (CLS, SEP) for token in expected]]
    assert paired.is_mismatched.tolist() == [is_odd]
    assert paired.has_pair.tolist() == [True]


def test_a_row_with_padding_loses_nothing() -> None:
    paired = arrange_pairs(
        toy_batch([CLS, 5, 6, 7, 8, SEP, PAD, PAD]), SPECIAL, "sentence-order", seed_where([False], "sentence-order")
    )
    assert paired.batch.original_ids.tolist() == [[CLS, 5, 6, SEP, 7, 8, SEP, PAD]]
    assert paired.batch.segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1, 0]]
    assert paired.batch.is_pad.tolist() == [[False] * 7 + [True]]
    assert paired.batch.has_padding


def test_the_halves_of_a_prepared_pair_are_those_of_its_text_not_its_segments() -> None:
    batch = pair_batch([CLS, 5, SEP, 7, 8, 9, SEP, PAD])
    paired = arrange_pairs(batch, SPECIAL, "sentence-order", seed_where([True], "sentence-order"))
    assert paired.batch.original_ids.tolist() == [[CLS, 8, 9, SEP, 5, 7, SEP, PAD]]
    assert paired.batch.segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1, 0]]
    assert paired.is_mismatched.tolist() == [True]


def test_a_pair_in_order_stays_as_it_was_packed() -> None:
    batch = pair_batch([CLS, 5, SEP, 7, 8, 9, SEP, PAD], [CLS, 6, SEP, 9, 9, 9, SEP, PAD])
    paired = arrange_pairs(batch, SPECIAL, "next-sentence", seed_where([False, False], "next-sentence"))
    assert torch.equal(paired.batch.original_ids, batch.original_ids)
    assert torch.equal(paired.batch.segment_ids, batch.segment_ids)
    assert paired.has_pair.tolist() == [True, True]


@pytest.mark.parametrize("is_odd", [False, True])
def test_both_second_segments_are_cut_to_the_shorter_whichever_is_taken(is_odd: bool) -> None:
    """Half of three rows is one: the others are those of the rows after."""
    batch = pair_batch(
        [CLS, 5, 5, 5, 5, SEP, 6, SEP], [CLS, 7, SEP, 8, 9, 8, SEP, PAD], [CLS, 6, SEP, 9, 5, SEP, PAD, PAD]
    )
    paired = arrange_pairs(batch, SPECIAL, "next-sentence", seed_where([is_odd] * 3, "next-sentence"))
    own = [[CLS, 5, 5, 5, 5, SEP, 6, SEP], [CLS, 7, SEP, 8, 9, SEP, PAD, PAD], [CLS, 6, SEP, 9, SEP, PAD, PAD, PAD]]
    foreign = [[CLS, 5, 5, 5, 5, SEP, 8, SEP], [CLS, 7, SEP, 9, 5, SEP, PAD, PAD], [CLS, 6, SEP, 6, SEP, PAD, PAD, PAD]]
    assert paired.batch.original_ids.tolist() == (foreign if is_odd else own)
    assert paired.is_mismatched.tolist() == [is_odd] * 3


def test_a_foreign_second_segment_comes_from_half_a_batch_on_not_from_the_text_that_follows() -> None:
    rows = [[CLS, 5, SEP, token, SEP, PAD] for token in (6, 7, 8, 9)]
    paired = arrange_pairs(pair_batch(*rows), SPECIAL, "next-sentence", seed_where([True] * 4, "next-sentence"))
    assert paired.batch.original_ids[:, 3].tolist() == [8, 9, 6, 7]


def test_inner_seps_of_joined_documents_are_kept_and_segments_follow_the_cut() -> None:
    batch = toy_batch([CLS, 5, SEP, 6, 7, 8, SEP, 9, SEP, PAD, PAD])
    paired = arrange_pairs(batch, SPECIAL, "sentence-order", seed_where([False], "sentence-order"))
    assert paired.batch.original_ids.tolist() == [[CLS, 5, SEP, 6, SEP, 7, 8, SEP, 9, SEP, PAD]]
    assert paired.batch.segment_ids.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0]]
    assert not paired.batch.is_ordinary[0, [0, 2, 4, 7, 9, 10]].any()


@pytest.mark.parametrize("task", TASKS)
def test_a_row_too_short_for_two_segments_is_left_alone_and_never_odd(task: PairTask) -> None:
    batch = toy_batch([CLS, 5, SEP, PAD, PAD, PAD], [CLS, 5, 6, 7, 8, SEP])
    paired = arrange_pairs(batch, SPECIAL, task, seed_where([True, True], task))
    assert paired.batch.original_ids[0].tolist() == [CLS, 5, SEP, PAD, PAD, PAD]
    # The short row has one token to lend, as B; the other, which lends to it, is cut to that.
    assert paired.has_pair.tolist() == [False, True]
    assert paired.is_mismatched.tolist() == [False, True]


def test_a_row_that_nothing_can_be_lent_to_is_not_asked_about_since_it_could_only_be_right() -> None:
    rows = toy_batch([CLS, SEP, PAD, PAD, PAD, PAD], [CLS, 5, 6, 7, 8, SEP])
    for batch, kept in ((rows, [CLS, 5, 6, 7, 8, SEP]), (toy_batch([CLS, 5, 6, 7, 8, SEP]), [CLS, 5, 6, 7, 8, SEP])):
        paired = arrange_pairs(batch, SPECIAL, "next-sentence", Rng(0, 1))
        assert not paired.has_pair.any()
        assert not paired.is_mismatched.any()
        assert paired.batch.original_ids[-1].tolist() == kept


@pytest.mark.parametrize("task", TASKS)
def test_about_half_of_the_rows_are_odd_and_which_ones_changes_with_the_step(task: PairTask) -> None:
    batch = toy_batch(*([CLS, 5, 6, 7, 8, SEP] for _ in range(2000)))
    first, second = (arrange_pairs(batch, SPECIAL, task, Rng(0, step)).is_mismatched for step in (1, 2))
    assert first.float().mean().item() == pytest.approx(0.5, abs=0.04)
    assert not torch.equal(first, second)


def slow_text(ids: list[int], segments: list[int], length: int) -> tuple[list[int], int]:
    """The text, and where in it a prepared pair's second segment begins."""
    if 1 in segments:
        cut = segments.index(1)
        return [*ids[1 : cut - 1], *ids[cut:-1]], cut - 2
    return ids[1:-1][: length - 3], 0


def slow_pairs(batch: Batch, task: PairTask, rng: Rng) -> list[tuple[list[int], list[int], bool, bool]]:
    """Row by row: ids, segment ids, whether odd, whether a pair."""
    length = batch.original_ids.shape[1]
    texts = []
    for row in range(len(batch.row_numbers)):
        used = int((~batch.is_pad[row]).sum())
        texts.append(slow_text(batch.original_ids[row].tolist()[:used], batch.segment_ids[row].tolist()[:used], length))
    arranged = []
    for row, (text, boundary) in enumerate(texts):
        is_odd = rng.uniforms(task, np.array([row]), 1).item() < 0.5
        if task == "next-sentence":
            other = (row + len(texts) // 2) % len(texts)
            theirs, their_boundary = texts[other]
            cut = boundary or len(text) // 2
            own, foreign = text[cut:], theirs[their_boundary or len(theirs) // 2 :]
            shorter = 0 if other == row else min(len(own), len(foreign))
            first, second = text[:cut], (foreign if is_odd else own)[:shorter]
        else:
            cut = len(text) // 2
            if len(text) % 2:
                cut += rng.uniforms("sentence cut", np.array([row]), 1).item() < 0.5
            first, second = (text[cut:], text[:cut]) if is_odd else (text[:cut], text[cut:])
        has_pair = bool(first and second)
        ids, segments = batch.original_ids[row].tolist(), batch.segment_ids[row].tolist()
        if has_pair:
            ids = [CLS, *first, SEP, *second, SEP]
            segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        fill = length - len(ids)
        arranged.append((ids + [PAD] * fill, segments + [0] * (length - len(segments)), is_odd and has_pair, has_pair))
    return arranged


@st.composite
def packed_rows(draw: st.DrawFn) -> Batch:
    length = draw(st.integers(4, 12))
    is_pairs = draw(st.booleans())
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        body = draw(st.lists(st.integers(5, 9), min_size=1, max_size=length - 2))
        if len(body) > 2 and draw(st.booleans()):
            body[len(body) // 2] = SEP  # pairs: a second segment; otherwise: a second document
        rows.append([CLS, *body, SEP] + [PAD] * (length - 2 - len(body)))
    return make_batch(np.array(rows), ToyTokenizer(), is_pairs=is_pairs)  # type: ignore[arg-type]


@given(packed_rows(), st.sampled_from(TASKS), st.integers(0, 1000))
def test_pairs_are_those_of_the_slow_way(batch: Batch, task: PairTask, step: int) -> None:
    paired = arrange_pairs(batch, SPECIAL, task, Rng(0, step))
    rows = zip(
        paired.batch.original_ids.tolist(),
        paired.batch.segment_ids.tolist(),
        paired.is_mismatched.tolist(),
        paired.has_pair.tolist(),
        strict=True,
    )
    assert list(rows) == slow_pairs(batch, task, Rng(0, step))
    assert torch.equal(paired.batch.is_pad, paired.batch.original_ids == PAD)
    assert torch.equal(paired.batch.is_ordinary, paired.batch.original_ids >= 5)
    assert paired.batch.has_padding == bool(paired.batch.is_pad.any())


def test_a_paired_batch_can_be_masked() -> None:
    batch = toy_batch([CLS, 5, 6, 7, 8, 9, 5, SEP])
    paired = arrange_pairs(batch, SPECIAL, "sentence-order", coin_where([False], [True]))
    masked = mask_tokens(paired.batch, VOCABULARY, MaskingConfig(), 0.99, Rng(0, 1))
    assert masked.input_ids.tolist() == [[CLS, MASK, MASK, MASK, SEP, MASK, MASK, SEP]]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real text: documents of paragraphs, as long as their authors made them."""
    folder = tmp_path_factory.mktemp("messages")
    text = "".join(path.read_text(encoding="utf-8") for path in write_bundled_text(folder / "speeches")[100:110])
    (folder / "text.txt").write_text(text, encoding="utf-8")
    return folder / "text.txt"


@pytest.fixture(scope="module", params=["contiguous", "pairs"])
def packed(request: pytest.FixtureRequest, messages: Path) -> PreparedData:
    settings = {"tokenizer": {"vocab_size": 1000}, "packing": {"sequence_length": 64, "kind": request.param}}
    folder = messages.parent / request.param
    electralab.prepare([messages], folder, settings=settings, display=Display(quiet=True))
    return open_data(folder)


@pytest.mark.parametrize("task", TASKS)
def test_lengths_tell_nothing_of_whether_a_pair_is_wrong(packed: PreparedData, task: PairTask) -> None:
    """Which label most rows of each pair of lengths have, counted on some steps, is asked about others."""
    counts: defaultdict[tuple[int, ...], Counter[bool]] = defaultdict(Counter)
    right = asked = 0
    for step in range(1, 601):
        batch = batch_at(packed, 16 * (step - 1), 16, seed=0)
        paired = arrange_pairs(batch, packed.tokenizer.special, task, Rng(0, step))
        second = paired.batch.segment_ids.sum(dim=1)
        first = (~paired.batch.is_pad).sum(dim=1) - second
        for *lengths, is_odd, has_pair in zip(
            first.tolist(), second.tolist(), paired.is_mismatched.tolist(), paired.has_pair.tolist(), strict=True
        ):
            if has_pair and step <= 300:
                counts[tuple(lengths)][is_odd] += 1
            elif has_pair:
                label = counts[tuple(lengths)]
                asked += 1
                right += (label[True] > label[False]) == is_odd
    assert asked > 4000
    assert right / asked == pytest.approx(0.5, abs=0.03)  # guessing: four standard deviations
