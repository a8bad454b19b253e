"""Sentences scored in batches against slow, obvious twins that read one sentence, and one hidden token, at a time."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from little_models import TOKENIZER, finish, make_subject

from electralab.evaluation.blimp import Scoring, score_sentences
from electralab.evaluation.context import EvalContext, EvalModel
from electralab.evaluation.states import encode_sentences
from electralab.tokens.batches import batch_by_length

TEXTS = ["the cat sat", "a cat", "dogs sit near the logs and sing", "the cat sat", "[MASK] 中 cat"]
SPECIAL = TOKENIZER.special
HIDING: Scoring = "pseudo-log-likelihood"


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> EvalModel:
    return make_subject(tmp_path_factory.mktemp("model"))


def ordinary(text: str) -> list[int]:
    (ids,) = TOKENIZER.encode_many([text])
    return [int(index) for index in ids]


@torch.no_grad()
def slow_verdict_sum(subject: EvalModel, text: str) -> float:
    assert subject.discriminator is not None
    ids = ordinary(text)
    input_ids = torch.tensor([[SPECIAL.cls, *ids, SPECIAL.sep]])
    chances = torch.sigmoid(subject.discriminator(input_ids, torch.zeros_like(input_ids), None)[0, 1:-1].double())
    return sum(math.log(1 - p) for p, index in zip(chances.tolist(), ids, strict=True) if index != SPECIAL.unk)


@torch.no_grad()
def slow_guess_sum(subject: EvalModel, text: str) -> float:
    assert subject.generator is not None
    total = 0.0
    row = [SPECIAL.cls, *ordinary(text), SPECIAL.sep]
    for place in range(1, len(row) - 1):
        if row[place] != SPECIAL.unk:
            hidden = torch.tensor([[*row[:place], SPECIAL.mask, *row[place + 1 :]]])
            guesses = subject.generator(hidden, torch.zeros_like(hidden), None, torch.tensor([place]))
            total += math.log(torch.softmax(guesses[0].double(), dim=0)[row[place]])
    return total


@pytest.mark.parametrize("batch_tokens", [1, 20, 8192])
def test_discriminator_agrees_with_its_slow_twin(subject: EvalModel, batch_tokens: int) -> None:
    assert subject.discriminator is not None
    sentences = encode_sentences(TOKENIZER, TEXTS, 24)
    found = finish(
        score_sentences(subject.discriminator, TOKENIZER, sentences, EvalContext(batch_tokens=batch_tokens), "verdicts")
    )
    np.testing.assert_allclose(found.sums, [slow_verdict_sum(subject, text) for text in TEXTS], rtol=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 20, 8192])
def test_generator_agrees_with_its_slow_twin(subject: EvalModel, batch_tokens: int) -> None:
    assert subject.generator is not None
    sentences = encode_sentences(TOKENIZER, TEXTS, 24)
    found = finish(
        score_sentences(subject.generator, TOKENIZER, sentences, EvalContext(batch_tokens=batch_tokens), HIDING)
    )
    np.testing.assert_allclose(found.sums, [slow_guess_sum(subject, text) for text in TEXTS], rtol=1e-4)


def test_means_are_per_token_that_counts(subject: EvalModel) -> None:
    assert subject.discriminator is not None
    sentences = encode_sentences(TOKENIZER, ["the cat sat", "中", "the 中"], 24)
    found = finish(score_sentences(subject.discriminator, TOKENIZER, sentences, EvalContext(), "verdicts"))
    assert ordinary("中") == [SPECIAL.unk]
    count = len(ordinary("the cat sat"))
    assert found.means.tolist() == [found.sums[0] / count, 0.0, found.sums[2] / len(ordinary("the"))]


def test_a_special_token_written_in_a_text_is_only_text() -> None:
    sentences = encode_sentences(TOKENIZER, ["[MASK] [PAD]"], 24)
    (row,) = sentences.rows
    assert not set(row[1:-1].tolist()) & {SPECIAL.mask, SPECIAL.pad, SPECIAL.cls, SPECIAL.sep}


def test_equal_texts_are_one_row_and_long_ones_are_cut_and_counted() -> None:
    sentences = encode_sentences(TOKENIZER, ["cat", "mat cat", "cat", "the mat " * 20], 8)
    assert sentences.row_ids.tolist() == [0, 1, 0, 2]
    assert sentences.truncated == 1
    assert len(sentences.rows[2]) == 8
    assert sentences.rows[2][-1] == SPECIAL.sep


def test_batches_hold_every_row_once_and_little_padding() -> None:
    rows = [np.full(length, 7) for length in (3, 9, 4, 8, 3)]
    batches = list(batch_by_length(rows, SPECIAL, 18, torch.device("cpu")))
    assert [batch.rows.tolist() for batch in batches] == [[1, 3], [2, 0, 4]]
    assert [int(batch.is_pad.sum()) for batch in batches] == [1, 2]


def test_a_row_beyond_the_batch_is_a_batch_of_its_own() -> None:
    batches = list(batch_by_length([np.full(50, 7), np.full(40, 7)], SPECIAL, 10, torch.device("cpu")))
    assert [batch.rows.tolist() for batch in batches] == [[0], [1]]


def test_work_is_abandoned_between_batches(subject: EvalModel) -> None:
    class Enough(BaseException):
        pass

    def stop() -> None:
        raise Enough

    assert subject.generator is not None
    sentences = encode_sentences(TOKENIZER, TEXTS, 24)
    with pytest.raises(Enough):
        finish(score_sentences(subject.generator, TOKENIZER, sentences, EvalContext(check=stop), HIDING))


def test_a_folder_with_one_network_is_a_subject_with_one(tmp_path: Path) -> None:
    from electralab.evaluation.context import load_eval_model

    whole = make_subject(tmp_path)
    assert whole.discriminator is not None
    assert whole.generator is not None
    alone = load_eval_model(tmp_path / "export" / "generator", torch.device("cpu"))
    assert alone.discriminator is None
    assert alone.generator is not None


def test_energies_are_summed_as_they_are(subject: EvalModel) -> None:
    assert subject.discriminator is not None
    row = torch.tensor([[SPECIAL.cls, *ordinary("the cat sat"), SPECIAL.sep]])
    with torch.no_grad():
        energies = subject.discriminator(row, torch.zeros_like(row), None)[0, 1:-1]
    sentences = encode_sentences(TOKENIZER, ["the cat sat"], 24)
    found = finish(score_sentences(subject.discriminator, TOKENIZER, sentences, EvalContext(), "energies"))
    assert found.sums[0] == pytest.approx(-sum(energies.tolist()), rel=1e-4)
