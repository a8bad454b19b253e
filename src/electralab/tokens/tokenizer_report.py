"""A tokenizer and a sample of text -> how well the one fits the other."""

import re
from collections.abc import Sequence
from typing import Any

from electralab.corpus.scripts import SPACELESS, WIDE_PUNCTUATION
from electralab.tokens.tokenizer import Tokenizer

_LONGEST = 10
_WORD = re.compile(f"[{SPACELESS}]|[^\\s{SPACELESS}]+")
_SPACED_WORD = re.compile(f"[^\\s{SPACELESS}{WIDE_PUNCTUATION}]+")


def describe_tokenizer(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, Any]:
    """Fertility per word and per character, and what becomes of the longest words.

    In scripts without spaces a character counts as a word, and none of them is among the longest.
    """
    if tokenizer.is_symbols or not texts:
        return {}
    tokens = sum(len(ids) for ids in tokenizer.encode_many(texts))
    words = [word for text in texts for word in _WORD.findall(text)]
    characters = sum(len(word) for word in words)
    spaced = {word for text in texts for word in _SPACED_WORD.findall(text)}
    longest = sorted(spaced, key=lambda word: (-len(word), word))[:_LONGEST]
    return {
        "sampled_words": len(words),
        "tokens_per_word": tokens / max(1, len(words)),
        "tokens_per_character": tokens / max(1, characters),
        "characters_per_word": characters / max(1, len(words)),
        "longest_words": [
            {"word": word[:80], "characters": len(word), "tokens": len(ids)}
            for word, ids in zip(longest, tokenizer.encode_many(longest), strict=True)
        ],
    }
