"""Rows at work, to be looked at: what was hidden, guessed, put there, and thought of it.

Exhibit -> a row's pieces, guesses and verdicts, place by place
"""

from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import torch
from torch import Tensor

from electralab.objective.corruption import CorruptedBatch, special_token_bias
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer

Row = dict[str, list[Any]]

_MOST_TOKENS = 64
_SHOWN_GUESSES = 3


@dataclass(frozen=True, slots=True)
class ExampleRows:
    batch: Batch
    positions: Tensor  # (M,) of what was hidden, into the flattened (B * T)
    guesses: Tensor  # (M, V)
    corrupted: CorruptedBatch | None = None
    """None of an objective that puts nothing into the row."""
    verdicts: Tensor | None = None  # (B, T) above 0 means "replaced", NaN where nobody was asked
    """None of an objective that judges nothing."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token, as a reader would write it."""

    text: str
    p: float
    continues_word: bool
    """Whether it goes on with the word before, without a space."""


def token_probs(logits: Tensor, prohibition: Tensor, temperature: float = 1.0) -> Tensor:
    """(..., V) logits -> probabilities, of which special tokens have none."""
    return torch.softmax((logits.float() + prohibition) / temperature, dim=-1)


def top_candidates(chances: Tensor, tokenizer: Tokenizer, top: int) -> list[tuple[Candidate, ...]]:
    """(M, V) probabilities -> for each place the likeliest tokens, likeliest first."""
    best = chances.topk(min(top, int(tokenizer.is_ordinary.sum())))
    return [
        tuple(
            Candidate(tokenizer.decode_token(index), chance, bool(tokenizer.continues_word[index]))
            for index, chance in zip(indices, chances, strict=True)
        )
        for indices, chances in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def describe_rows(exhibit: ExampleRows, tokenizer: Tokenizer) -> list[Row]:
    """The beginning of every row as lists of one length, with what the exhibit has; [CLS] and padding left out."""
    ids = exhibit.batch.original_ids
    length = ids.shape[1]
    is_shown = ~exhibit.batch.is_pad & (ids != tokenizer.special.cls)
    chances = token_probs(exhibit.guesses, special_token_bias(tokenizer, ids.device, exhibit.guesses.shape[-1]))
    ranked = top_candidates(chances, tokenizer, _SHOWN_GUESSES)
    numbers = {position: number for number, position in enumerate(exhibit.positions.tolist())}
    rows = []
    for row, is_shown_here in enumerate(is_shown):
        places = is_shown_here.nonzero().squeeze(1)[:_MOST_TOKENS]
        hidden = [numbers.get(row * length + place) for place in places.tolist()]
        found: Row = {
            "pieces": [token_text(tokenizer, index) for index in ids[row, places].tolist()],
            "is_masked": [number is not None for number in hidden],
            "guesses": [[] if number is None else _list_guesses(ranked[number]) for number in hidden],
        }
        if exhibit.corrupted is not None:
            put = exhibit.corrupted.input_ids[row, places].tolist()
            found["corrupted"] = [token_text(tokenizer, index) for index in put]
            found["is_replaced"] = exhibit.corrupted.is_replaced[row, places].tolist()
        if exhibit.verdicts is not None:
            suspicions = torch.sigmoid(exhibit.verdicts[row, places].float()).tolist()
            found["p_replaced"] = [None if isnan(chance) else round(chance, 4) for chance in suspicions]
        rows.append(found)
    return rows


def _list_guesses(ranked: tuple[Candidate, ...]) -> list[dict[str, Any]]:
    """Nothing of a network that has come apart."""
    return [asdict(guess) | {"p": round(guess.p, 4)} for guess in ranked if not isnan(guess.p)]


def token_text(tokenizer: Tokenizer, index: int) -> str:
    """As a reader would write it, with ## before what goes on with a word, whatever the vocabulary's own mark."""
    text = tokenizer.decode_token(index) or tokenizer.token(index)
    return f"##{text}" if tokenizer.continues_word[index] else text
