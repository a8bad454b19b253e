"""What is logged of an answer, against slow twins that go token by token."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy import VOCAB, VOCABULARY, full_rows

from electralab.objective.corruption import CorruptedBatch, corrupt
from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens
from electralab.objective.metrics import (
    BatchMetrics,
    ExampleRows,
    RtdScores,
    RunningMean,
    describe_rows,
    lm_metrics,
    replacement_metrics,
)
from electralab.randomness import Rng
from electralab.tokens.batches import Batch, make_batch
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer


def play(seed: int, rows: int = 6, share: float = 0.4) -> tuple[MaskedBatch, Tensor, CorruptedBatch, Tensor]:
    """Masked rows, guesses that are sometimes right, what was drawn, and verdicts that know a little."""
    masked = mask_tokens(full_rows(rows, 10), VOCABULARY, MaskingConfig(), share, Rng(seed, 1))
    rng = torch.Generator().manual_seed(seed)
    guesses = 2 * torch.randn(len(masked.positions), VOCAB, generator=rng)
    drawn = torch.randint(5, VOCAB, (len(masked.positions),), generator=rng)
    corrupted = corrupt(masked, drawn)
    verdicts = torch.randn(masked.input_ids.shape, generator=rng) + corrupted.is_replaced.float()
    return masked, guesses, corrupted, verdicts


def softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(logit - top) for logit in logits]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("limit", [None, 5])
def test_accuracy_and_entropy_are_those_of_a_loop(limit: int | None) -> None:
    masked, guesses, _, _ = play(0)
    found = lm_metrics("generator", guesses, masked.target_ids, masked.is_hidden, limit).describe()
    hits, hidden, entropies = 0, 0, []
    looked_at = list(zip(guesses.tolist(), masked.target_ids.tolist(), masked.is_hidden.tolist(), strict=True))[:limit]
    for logits, target, is_hidden in looked_at:
        entropies.append(-sum(p * math.log(p) for p in softmax(logits)))
        if is_hidden:
            hidden += 1
            hits += max(range(VOCAB), key=logits.__getitem__) == target
    assert found["generator_accuracy"] == hits / hidden
    assert found["generator_entropy"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)


def test_an_impossible_token_adds_no_entropy() -> None:
    guesses = torch.tensor([[0.0, 0.0, -torch.inf]])
    found = lm_metrics("generator", guesses, torch.tensor([0]), torch.tensor([True])).describe()
    assert found["generator_entropy"] == pytest.approx(math.log(2))


def slow_auc(replaced: list[float], original: list[float]) -> float:
    """The share of pairs in which the replaced token is the more suspicious; a tie is half a pair."""
    wins = sum((r > o) + 0.5 * (r == o) for r in replaced for o in original)
    return wins / (len(replaced) * len(original))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_auc_by_confidence_is_that_of_sorting_the_replacements_by_hand(seed: int) -> None:
    masked, guesses, corrupted, verdicts = play(seed)
    seen = BatchMetrics(rtd=[RtdScores.from_logits(verdicts, corrupted)]) + replacement_metrics(
        guesses, verdicts, corrupted
    )
    found = seen.describe_by_confidence()
    drawn: list[tuple[float, float]] = []  # how likely the generator found it, what the discriminator said
    flat_ids, flat_verdicts = corrupted.input_ids.flatten().tolist(), verdicts.flatten().tolist()
    for place, logits, target in zip(
        masked.positions.tolist(), guesses.tolist(), masked.target_ids.tolist(), strict=True
    ):
        if flat_ids[place] != target:
            drawn.append((softmax(logits)[flat_ids[place]], flat_verdicts[place]))
    is_original = (masked.batch.is_ordinary & ~corrupted.is_replaced).flatten().tolist()
    originals = [logit for logit, is_right in zip(flat_verdicts, is_original, strict=True) if is_right]
    drawn.sort()
    sizes = [len(third) for third in np.array_split(np.arange(len(drawn)), 3)]
    assert max(sizes) - min(sizes) <= 1
    start = 0
    for name, size in zip(("unsure", "middling", "sure"), sizes, strict=True):
        third = [logit for _, logit in drawn[start : start + size]]
        start += size
        assert found[f"auc_{name}"] == pytest.approx(slow_auc(third, originals))
        assert found[f"recall_{name}"] == pytest.approx(sum(logit > 0 for logit in third) / size)


def test_knowing_only_that_special_tokens_are_never_replaced_is_worth_nothing() -> None:
    masked, _, corrupted, _ = play(1)
    only_special = torch.where(masked.batch.is_ordinary, 0.0, -20.0)
    scores = BatchMetrics(rtd=[RtdScores.from_logits(only_special, corrupted)]).describe(
        "auc", "loss", "replaced_share"
    )
    assert scores["auc"] == 0.5
    assert scores["loss"] == pytest.approx(math.log(2))
    assert scores["replaced_share"] == float(corrupted.is_replaced.sum()) / int(masked.batch.is_ordinary.sum())


def test_too_few_replacements_have_no_thirds() -> None:
    masked, guesses, corrupted, verdicts = play(0, rows=1, share=0.2)
    assert len(masked.positions) < 3
    assert replacement_metrics(guesses, verdicts, corrupted).describe_by_confidence() == {}
    assert BatchMetrics().describe_by_confidence() == {}


def test_without_verdicts_there_are_no_scores_of_them() -> None:
    assert BatchMetrics({"masked_loss": RunningMean(6.0, 3)}).describe("auc") == {"masked_loss": 2.0}


counts = st.integers(0, 50)
ratios = st.builds(RunningMean, counts.map(float), counts)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), ratios), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_parts_add_up_to_the_whole_in_any_grouping(parts: list[dict[str, RunningMean]]) -> None:
    observations = [BatchMetrics(part) for part in parts]
    forwards, backwards = BatchMetrics(), BatchMetrics()
    for one in observations:
        forwards += one
    for one in reversed(observations):
        backwards = one + backwards
    assert forwards.describe() == backwards.describe()
    for name in {name for part in parts for name in part}:
        total = sum(part[name].total for part in parts if name in part)
        count = sum(part[name].count for part in parts if name in part)
        assert forwards.describe()[name] == total / max(count, 1)


# --------------------------- What is told of a row is what was hidden, drawn and judged in it, checkable by eye

TOKENIZER = train_tokenizer(["the cat sat on the mat and a dog sat " * 5], TokenizerConfig(vocab_size=80))
CLS, SEP, PAD = TOKENIZER.special.cls, TOKENIZER.special.sep, TOKENIZER.special.pad
THE, CAT, SAT, DOG = (int(TOKENIZER.encode(word).ids[0]) for word in ("the", "cat", "sat", "dog"))


def make_row(*ids: int) -> Batch:
    return make_batch(np.array([ids], dtype=np.int64), TOKENIZER, is_pairs=False)


def corrupt_at(batch: Batch, place: int, drawn: int) -> CorruptedBatch:
    position, none = torch.tensor([place]), torch.zeros(1)
    target = batch.original_ids.flatten()[position]
    masked = MaskedBatch(batch, batch.original_ids, position, target, none.bool(), none, none, none)
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
