"""What is told of a row is what was hidden, drawn and judged in it, checkable by eye."""

import math

import numpy as np
import torch

from electralab.objective.corruption import CorruptedBatch, corrupt
from electralab.objective.masking import MaskedBatch
from electralab.objective.metrics import ExampleRows, describe_rows
from electralab.tokens.batches import Batch, make_batch
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

TOKENIZER = train_tokenizer(["the cat sat on the mat and a dog sat " * 5], TokenizerConfig(vocab_size=80))
CLS, SEP, PAD = TOKENIZER.special.cls, TOKENIZER.special.sep, TOKENIZER.special.pad
THE, CAT, SAT, DOG = (int(TOKENIZER.encode(word).ids[0]) for word in ("the", "cat", "sat", "dog"))


def make_row(*ids: int) -> Batch:
    return make_batch(np.array([ids], dtype=np.int64), TOKENIZER, is_pairs=False)


def corrupt_at(batch: Batch, place: int, drawn: int) -> CorruptedBatch:
    position, none = torch.tensor([place]), torch.zeros(1)
    target = batch.original_ids.flatten()[position]
    masked = MaskedBatch(batch, batch.original_ids, position, target, none.bool(), none, {})
    return corrupt(masked, torch.tensor([drawn]))


def favour(**chances: float) -> torch.Tensor:
    """(1, V) logits of a network that thinks of these words and, as likely as of the first, of [SEP]."""
    logits = torch.full((1, TOKENIZER.vocab_size), -math.inf)
    for word, chance in chances.items():
        logits[0, TOKENIZER.encode(word).ids[0]] = math.log(chance)
    logits[0, SEP] = logits.max()
    return logits


BATCH = make_row(CLS, THE, CAT, SAT, SEP, PAD)
GUESSES = favour(dog=0.5, cat=0.25, mat=0.25)


def test_a_row_tells_what_was_hidden_guessed_put_and_thought() -> None:
    verdicts = torch.tensor([[9.0, 0.0, math.log(3), -math.log(3), math.nan, 9.0]])
    exhibit = ExampleRows(BATCH, torch.tensor([2]), GUESSES, corrupt_at(BATCH, 2, DOG), verdicts)
    [row] = describe_rows(exhibit, TOKENIZER)
    guesses = row.pop("guesses")
    assert row == {
        "pieces": ["the", "cat", "sat", "[SEP]"],
        "is_masked": [False, True, False, False],
        "corrupted": ["the", "dog", "sat", "[SEP]"],
        "is_replaced": [False, True, False, False],
        "p_replaced": [0.5, 0.75, 0.25, None],
    }
    assert [len(found) for found in guesses] == [0, 3, 0, 0]
    # The special token that may not be drawn has no share.
    assert guesses[1][0] == {"text": "dog", "p": 0.5, "continues_word": False}
    assert sorted(guess["text"] for guess in guesses[1][1:]) == ["cat", "mat"]


def test_nothing_is_told_of_what_an_objective_does_not_do() -> None:
    [row] = describe_rows(ExampleRows(BATCH, torch.tensor([2]), GUESSES), TOKENIZER)
    assert row.keys() == {"pieces", "is_masked", "guesses"}


def test_a_long_row_is_cut() -> None:
    [row] = describe_rows(
        ExampleRows(make_row(CLS, *[CAT] * 90, SEP), torch.tensor([2, 80]), GUESSES.repeat(2, 1)), TOKENIZER
    )
    assert {len(column) for column in row.values()} == {64}
    assert sum(row["is_masked"]) == 1


def test_a_network_that_has_come_apart_guesses_nothing() -> None:
    [row] = describe_rows(ExampleRows(BATCH, torch.tensor([2]), torch.full_like(GUESSES, math.nan)), TOKENIZER)
    assert row["guesses"] == [[], [], [], []]


def test_a_piece_that_goes_on_with_a_word_says_so() -> None:
    ids = np.flatnonzero(TOKENIZER.is_ordinary)[:60].tolist()
    [row] = describe_rows(ExampleRows(make_row(CLS, *ids), torch.tensor([1]), GUESSES), TOKENIZER)
    assert [piece.startswith("##") for piece in row["pieces"]] == TOKENIZER.continues_word[ids].tolist()
    assert len(set(row["pieces"])) == len(ids)
