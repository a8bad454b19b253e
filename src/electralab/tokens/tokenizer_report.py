"""A tokenizer and a sample of text -> how well the one fits the other."""

from collections.abc import Sequence
from typing import Any

from electralab.tokens.tokenizer import Tokenizer

_LONGEST = 10


def describe_tokenizer(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, Any]:
    """Fertility per word and, for scripts without spaces, per character; and what becomes of the longest words."""
    if tokenizer.is_symbols or not texts:
        return {}
    tokens = sum(len(ids) for ids in tokenizer.encode_many(texts))
    words = [word for text in texts for word in text.split()]
    characters = sum(len(word) for word in words)
    longest = sorted(set(words), key=lambda word: (-len(word), word))[:_LONGEST]
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
