"""Rows at work, to be looked at: what was hidden, predicted, put there, and how replaced it looks.

ExampleRows -> a row's tokens, candidates and probabilities, position by position
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
_SHOWN_CANDIDATES = 3


@dataclass(frozen=True, slots=True)
class ExampleRows:
    batch: Batch
    positions: Tensor  # (M,) of what was hidden, into the flattened (B * T)
    lm_logits: Tensor  # (M, V)
    corrupted: CorruptedBatch | None = None
    """None of an objective that puts nothing into the row."""
    discriminator_logits: Tensor | None = None  # (B, T) above 0 means "replaced", NaN where nobody was asked
    """None of an objective without a discriminator."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token, as a reader would write it."""

    text: str
    p: float
    continues_word: bool
    """Whether it goes on with the word before, without a space."""


def token_probs(logits: Tensor, logit_bias: Tensor, temperature: float = 1.0) -> Tensor:
    """(..., V) logits -> probabilities, of which special tokens have none."""
    return torch.softmax((logits.float() + logit_bias) / temperature, dim=-1)


def top_candidates(probs: Tensor, tokenizer: Tokenizer, top: int) -> list[tuple[Candidate, ...]]:
    """(M, V) probabilities -> for each position the likeliest tokens, likeliest first."""
    best = probs.topk(min(top, int(tokenizer.is_ordinary.sum())))
    return [
        tuple(
            Candidate(tokenizer.decode_token(token_id), prob, bool(tokenizer.continues_word[token_id]))
            for token_id, prob in zip(*row, strict=True)
        )
        for row in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def describe_rows(examples: ExampleRows, tokenizer: Tokenizer) -> list[Row]:
    """The beginning of every row as lists of one length, with what the examples have; [CLS] and padding left out."""
    ids = examples.batch.original_ids
    length = ids.shape[1]
    is_shown = ~examples.batch.is_pad & (ids != tokenizer.special.cls)
    probs = token_probs(examples.lm_logits, special_token_bias(tokenizer, ids.device, examples.lm_logits.shape[-1]))
    candidates = [
        # Nothing of a network whose weights are no longer numbers.
        [asdict(candidate) | {"p": round(candidate.p, 4)} for candidate in ranked if not isnan(candidate.p)]
        for ranked in top_candidates(probs, tokenizer, _SHOWN_CANDIDATES)
    ]
    indices = {position: index for index, position in enumerate(examples.positions.tolist())}
    rows = []
    for row, is_shown_here in enumerate(is_shown):
        columns = is_shown_here.nonzero().squeeze(1)[:_MOST_TOKENS]
        hidden = [indices.get(row * length + column) for column in columns.tolist()]
        described: Row = {
            "pieces": [token_text(tokenizer, token_id) for token_id in ids[row, columns].tolist()],
            "is_masked": [index is not None for index in hidden],
            "guesses": [[] if index is None else candidates[index] for index in hidden],
        }
        if examples.corrupted is not None:
            shown_ids = examples.corrupted.input_ids[row, columns].tolist()
            described["corrupted"] = [token_text(tokenizer, token_id) for token_id in shown_ids]
            described["is_replaced"] = examples.corrupted.is_replaced[row, columns].tolist()
        if examples.discriminator_logits is not None:
            p_replaced = torch.sigmoid(examples.discriminator_logits[row, columns].float()).tolist()
            described["p_replaced"] = [None if isnan(prob) else round(prob, 4) for prob in p_replaced]
        rows.append(described)
    return rows


def token_text(tokenizer: Tokenizer, token_id: int) -> str:
    """As a reader would write it, with ## before what goes on with a word, whatever the vocabulary's own mark."""
    text = tokenizer.decode_token(token_id) or tokenizer.token(token_id)
    return f"##{text}" if tokenizer.continues_word[token_id] else text
