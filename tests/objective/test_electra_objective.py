"""`electra-15`: taught where tokens were masked, and scored there, too."""

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from little_objectives import (
    MASKED,
    NOW,
    SHARE,
    TOKENIZER,
    configure,
    count_by_torch,
    learn,
    make_replacing,
    weigh,
    whole_inputs,
    widen,
)
from little_pairs import CPU, FIRST, VOCAB, WORDS, batch_of, count_row, counting_rows
from torch import Tensor, nn
from toy import CLS, PAD, SEP

from electralab.model.electra import CopyMLM, Discriminator, Electra, FixedGenerator, Generator
from electralab.model.settings import derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.corruption import sample_ids
from electralab.objective.electra import AllTokensObjective, ElectraObjective, ReplaceObjective
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import RtdScores, loss_metrics
from electralab.pretraining import task
from electralab.pretraining.task import describe_heldout, judge_heldout, measure_baselines
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
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
    scores = describe_heldout(judge_heldout(objective, [question]))
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
    scores = describe_heldout(judge_heldout(objective, questions))
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
    assert objective.count_flops(NOW, 3, 16, MASKED) == pytest.approx(count_by_torch(objective, 3, 16), rel=0.01)


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


# -------------------- Mending replaced tokens: where it is asked, what it costs, who learns from it, and that it

both = pytest.mark.parametrize("name", ["replace-mlm", "all-tokens-mlm"])
Replacing = ReplaceObjective | AllTokensObjective


def padded_rows() -> Batch:
    return batch_of([count_row(3, 16), [*count_row(8, 9), *[PAD] * 7], [*count_row(1, 4), *[PAD] * 12]])


def corrupt_slowly(objective: Replacing, question: MaskedBatch) -> list[list[int]]:
    """Row by row without its padding, position by position."""
    rows = [[token for token in row if token != PAD] for row in question.batch.original_ids.tolist()]
    generator = objective.generator
    for number, position in enumerate(question.positions.tolist()):
        row, column = divmod(position, question.input_ids.shape[1])
        shown = question.input_ids[row : row + 1, : len(rows[row])]
        guesses = generator(shown, torch.zeros_like(shown), None, torch.tensor([column]))
        luck = question.sampling_uniforms[number : number + 1]
        rows[row][column] = int(sample_ids(guesses, luck, objective.logit_bias, objective.config.sampling))
    return rows


@both
@torch.no_grad()
def test_the_loss_is_that_of_a_slow_twin(name: str) -> None:
    objective = make_replacing(name)
    widen(objective)
    batch = padded_rows()
    question = whole_inputs(objective, batch)
    rows = corrupt_slowly(objective, question)
    masked = {divmod(position, 16) for position in question.positions.tolist()}
    total, count, changed = 0.0, 0, 0
    for number, row in enumerate(rows):
        seen = torch.tensor([row])
        for column, token in enumerate(row):
            if name == "replace-mlm" and (number, column) not in masked:
                continue
            said = objective.model(seen, torch.zeros_like(seen), None, torch.tensor([column]))
            original = int(batch.original_ids[number, column])
            total -= math.log(torch.softmax(said[0].double(), dim=0)[original])
            count += 1
            changed += token != original
    assert changed > 0
    answer = objective.evaluation_step(question)
    assert float(answer.losses.sums[objective.loss_name]) == pytest.approx(total, rel=1e-4)
    assert objective.count_targets(question) == {"generator": len(masked), objective.loss_name: count}


@both
def test_micro_batches_of_reconstruction_add_up(name: str) -> None:
    objective = make_replacing(name)
    widen(objective)
    whole, parts = weigh(objective, padded_rows(), 3), weigh(objective, padded_rows(), 1)
    assert float(parts.detach()) == pytest.approx(float(whole.detach()), rel=1e-4)


@both
def test_the_generator_learns_nothing_from_the_models_loss(name: str) -> None:
    objective = make_replacing(name, model={"sharing": "none"})
    answer = objective.training_step(whole_inputs(objective, counting_rows(4)), NOW)
    answer.losses.sums[objective.loss_name].backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is None for parameter in objective.generator.parameters())
    assert all(parameter.grad is not None for parameter in objective.model.parameters())


@both
def test_the_models_loss_counts_once_and_the_generators_by_its_weight(name: str) -> None:
    objective = make_replacing(name, loss={"generator_weight": 3.0})
    assert objective.weights == {"generator": 3.0, objective.loss_name: 1.0}


@both
@pytest.mark.parametrize("sharing", ["token", "embeddings", "disentangled", "everything"])
def test_the_generator_uses_what_is_the_models(name: str, sharing: str) -> None:
    config = configure(name, model={"sharing": "none"})
    size: dict[str, Any] = {"width_share": 1.0, "num_heads": 2} if sharing == "everything" else {}
    config = config.model_copy(
        update={
            "model": config.model.model_copy(update={"sharing": sharing}),
            "generator": config.generator.model_copy(update=size),
        }
    )
    guessing, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=16)
    made: Any
    if name == "replace-mlm":
        made = ReplaceObjective(Generator(judging), Generator(guessing), config, TOKENIZER, CPU)
    else:
        made = AllTokensObjective(CopyMLM(judging), Generator(guessing), config, TOKENIZER, CPU)
    init_weights(made.networks, 1)
    tables = [name for name, _ in made.networks.named_parameters() if ".embeddings.tokens." in name]
    if sharing == "disentangled":
        assert tables == ["model.encoder.embeddings.tokens.delta", "generator.encoder.embeddings.tokens.weight"]
    else:
        assert tables == ["model.encoder.embeddings.tokens.weight"]
    question = whole_inputs(made, counting_rows(3))
    made.training_step(question, NOW).losses.weigh(made.count_targets(question), made.weights).backward()
    assert all(parameter.grad is not None for parameter in made.networks.parameters())


@both
def test_a_generator_that_only_draws_has_no_loss_to_learn_from_and_no_folder(name: str) -> None:
    objective = make_replacing(name, model={"sharing": "none"})
    shares = torch.full((VOCAB,), -math.log(WORDS)).masked_fill(torch.arange(VOCAB) < FIRST, -torch.inf)
    objective.generator = FixedGenerator(shares)
    question = whole_inputs(objective, counting_rows(3))
    assert objective.training_step(question, NOW).losses.sums.keys() == {objective.loss_name}
    assert float(objective.evaluation_step(question).losses.sums["generator"]) == pytest.approx(
        len(question.positions) * math.log(WORDS)
    )
    assert objective.exports().keys() == {"model"}


@both
@pytest.mark.parametrize("backbone", ["electra", "modern"])
def test_torch_counts_the_same_operations(name: str, backbone: str) -> None:
    objective = make_replacing(name, model={"backbone": backbone, "embedding_size": 24})
    counted = count_by_torch(objective, rows=3, length=16)
    assert objective.count_flops(NOW, 3, 16, MASKED) == pytest.approx(counted, rel=0.01)


def test_all_tokens_are_asked_about_special_ones_too_and_padding_is_not() -> None:
    objective = make_replacing("all-tokens-mlm")
    batch = batch_of([[CLS, 7, 8, SEP], [CLS, 9, SEP, PAD]])
    question = whole_inputs(objective, batch)
    assert objective.count_targets(question)["tokens"] == 7
    with torch.no_grad():
        before = float(objective.evaluation_step(question).losses.sums["tokens"])
        objective.model.encoder.embeddings.tokens.weight[PAD] += 100
        assert float(objective.evaluation_step(question).losses.sums["tokens"]) == pytest.approx(before, rel=1e-5)


@both
def test_it_learns_to_mend_rows_that_count(name: str) -> None:
    """Every token follows from its neighbours; copying mends nothing, and frequencies know nothing: all are equal."""
    objective = make_replacing(name, model={"num_layers": 1, "init_std": 0.1, "sharing": "none"})
    batch = counting_rows(WORDS)
    learn(objective, batch, 120, rate=1e-2)
    question = whole_inputs(objective, batch)
    with torch.no_grad():
        seen = torch.tensor(corrupt_slowly(objective, question))
        replaced = (seen != batch.original_ids).flatten().nonzero().squeeze(1)
        said = objective.model(seen, torch.zeros_like(seen), None, replaced).argmax(dim=-1)
        scores = objective.evaluation_step(question)
    assert len(replaced) > 10
    assert float((said == batch.original_ids.flatten()[replaced]).float().mean()) > 0.3
    ratios = (scores.metrics + loss_metrics(scores.losses, objective.count_targets(question))).ratios
    assert ratios["masked_loss"].mean < 0.5 * math.log(WORDS)
    assert ratios["masked_accuracy"].mean > 0.4
