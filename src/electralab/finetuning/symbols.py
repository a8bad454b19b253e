"""What a model of symbols reads: in a table a list of strings or integers, in an example the same as JSON.

list -> text of an example -> symbols
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from electralab.errors import InputError
from electralab.finetuning.examples import ScoredExample, Split, TextExample
from electralab.tokens.tokenizer import Tokenizer

# So many examples show whether a file holds symbols or text.
_SAMPLE = 1000


def spell_symbols(symbols: Sequence[Any]) -> str:
    """A list as the text of an example; ValueError says what is no symbol. An integer is its decimal digits."""
    if not symbols:
        raise ValueError("is empty")
    for symbol in symbols:
        if type(symbol) not in (str, int) or symbol == "":
            raise ValueError(f"holds {str(symbol)[:40]!r}; a symbol is a non-empty string or an integer")
    return json.dumps([str(symbol) for symbol in symbols], ensure_ascii=False)


def split_symbols(text: str) -> list[str | int]:
    """What a model of symbols reads in a column of text: a JSON list, or symbols with white space between."""
    symbols = _parse_list(text)
    return list(text.split()) if symbols is None else symbols


def _parse_list(text: str) -> list[str | int] | None:
    """None where it is no JSON list of symbols."""
    try:
        symbols = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(symbols, list) and all(type(symbol) in (str, int) for symbol in symbols)
    return symbols if is_list else None


def is_prose(texts: Iterable[str], tokenizer: Tokenizer) -> bool:
    """Whether they are no lists, and most of their words no symbols that the vocabulary knows: text of a language."""
    words = [word for text in texts if _parse_list(text) is None for word in text.split()]
    known = int((tokenizer.encode_symbols(words) != tokenizer.special.unk).sum())
    return 2 * known < len(words)


def require_symbols(splits: Iterable[Split], tokenizer: Tokenizer) -> None:
    """Of the files that a model of symbols is to read: a sentence would be a row of unknown symbols."""
    for split in splits if tokenizer.is_symbols else ():
        some = [example for example in split.examples[:_SAMPLE] if isinstance(example, TextExample | ScoredExample)]
        if is_prose((text for example in some for text in example.texts), tokenizer):
            raise InputError(
                f"{split.path}: holds text, most of whose words the model of symbols does not know; give lists of "
                "symbols as in prepare --symbols, or a model of text"
            )
