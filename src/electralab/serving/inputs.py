"""What a model is given: a text or a list of symbols, as tokens with their places, ready for the model.

TextInput -> TokenizedText
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.runtime import Precision
from electralab.tokens.tokenizer import SpecialIds, Tokenizer

Ids = NDArray[np.int64]
TextInput = str | Sequence[str | int]
"""A text; for a model of symbols a list of them, or the same list as JSON."""


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text and its tokens. The text of a sequence of symbols is the symbols joined by spaces."""

    text: str
    ids: Ids  # (n,)
    offsets: list[tuple[int, int]]

    def is_unknown(self, tokenizer: Tokenizer) -> bool:
        """Whether there are tokens and the vocabulary has none of them, as of a text in another script."""
        return len(self.ids) > 0 and bool((self.ids == tokenizer.special.unk).all())


def tokenize(tokenizer: Tokenizer, given: TextInput, *, is_literal: bool = False) -> TokenizedText:
    """A special token that is written in the text counts as one, unless the text is to be taken literally."""
    if not tokenizer.is_symbols:
        if not isinstance(given, str):
            raise InputError(f"a model of text takes a string, got a {type(given).__name__}; give the text itself")
        encoded = tokenizer.encode_literal(given) if is_literal else tokenizer.encode(given)
        return TokenizedText(given, encoded.ids, encoded.offsets)
    try:
        symbols = json.loads(given) if isinstance(given, str) else list(given)
    except (ValueError, RecursionError):
        symbols = None
    # Not isinstance: True is an int to Python, and no symbol.
    if not isinstance(symbols, list) or not all(type(symbol) in (str, int) for symbol in symbols):
        raise InputError(f"a model of symbols takes a JSON list of strings or integers, got {str(given)[:40]!r}")
    names = [str(symbol) for symbol in symbols]
    ids = tokenizer.encode_symbols(symbols)
    if not is_literal:
        mask = tokenizer.special.mask
        ids[[index for index, name in enumerate(names) if name == tokenizer.token(mask)]] = mask
    ends = [end - 1 for end in accumulate(len(name) + 1 for name in names)]
    return TokenizedText(" ".join(names), ids, [(end - len(name), end) for name, end in zip(names, ends, strict=True)])


def tokenize_known(tokenizer: Tokenizer, given: TextInput, *, is_literal: bool = False) -> TokenizedText:
    """A text that the model knows something of. A generator has nothing to say about a text in another script."""
    text = tokenize(tokenizer, given, is_literal=is_literal)
    if not len(text.ids) or text.is_unknown(tokenizer):
        raise InputError("holds nothing that the model's vocabulary knows; give text of its language")
    return text


def add_special_ids(ids: Ids, special: SpecialIds) -> Ids:
    """[CLS] ids [SEP]"""
    return np.concatenate([[special.cls], ids, [special.sep]])


class WindowConfig(Settings):
    overlap: float = Field(0.5, ge=0, lt=1)
    """How much of a window of a long text is seen again by the next one."""
    batch_tokens: int = Field(1024, ge=1)
    """Tokens that go through the network at once, padding included."""
    precision: Precision = "fp32"
    """What encoders are multiplied in; auto: bf16 where a short probe finds it faster on this machine."""
    error_rate: float | None = Field(None, gt=0, lt=0.5)
    """The share of words that are wrong, where it is another than the calibration was fitted for: it moves p_wrong."""
