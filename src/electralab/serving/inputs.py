"""What a model reads of what it is given: a text, or for a model of symbols a list of them.

Given -> TokenizedText
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.tokens.tokenizer import Tokenizer

# A text; for a model of symbols a list of them, or the same as JSON.
Given = str | Sequence[str | int]


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text and its tokens; that of a sequence of symbols is the symbols joined by spaces."""

    text: str
    ids: NDArray[np.int64]  # (n,)
    offsets: list[tuple[int, int]]


def read(tokenizer: Tokenizer, given: Given, *, is_literal: bool = False) -> TokenizedText:
    """A special token written in the text is one, unless it is to be taken literally."""
    if tokenizer.is_symbols:
        return _read_symbols(tokenizer, _list_symbols(given), is_literal=is_literal)
    if not isinstance(given, str):
        raise InputError(f"a model of text takes a string, got a {type(given).__name__}; give the text itself")
    encoded = tokenizer.encode_literal(given) if is_literal else tokenizer.encode(given)
    return TokenizedText(given, encoded.ids, encoded.offsets)


def tokenize_known(tokenizer: Tokenizer, given: Given, *, is_literal: bool = False) -> TokenizedText:
    """A text of which the model knows at least something: about one in another script there is nothing to say."""
    reading = read(tokenizer, given, is_literal=is_literal)
    if not (reading.ids != tokenizer.special.unk).any():
        raise InputError("holds nothing that the model's vocabulary knows; give text of its language")
    return reading


def _list_symbols(given: Given) -> list[str | int]:
    try:
        symbols = json.loads(given) if isinstance(given, str) else list(given)
    except (ValueError, RecursionError):
        symbols = None
    if not isinstance(symbols, list) or not all(type(symbol) in (str, int) for symbol in symbols):
        raise InputError(f"a model of symbols takes a JSON list of strings or integers, got {str(given)[:40]!r}")
    return symbols


def _read_symbols(tokenizer: Tokenizer, symbols: Sequence[str | int], *, is_literal: bool) -> TokenizedText:
    names = [str(symbol) for symbol in symbols]
    ends = list(accumulate(len(name) + 1 for name in names))
    ids = tokenizer.encode_symbols(symbols)
    if not is_literal:
        mask = tokenizer.special.mask
        ids[[place for place, name in enumerate(names) if name == tokenizer.token(mask)]] = mask
    return TokenizedText(
        " ".join(names), ids, [(end - 1 - len(name), end - 1) for name, end in zip(names, ends, strict=True)]
    )
