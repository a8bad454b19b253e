"""What classification and regression share: one text, or a pair, and one answer for it. A text may be symbols.

    TextExample -> Feature: [CLS] A [SEP] or [CLS] A [SEP] B [SEP], cut to the length of a row

A sequence of symbols is the text of its JSON list, so that examples, predictions and files have one shape for both.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from electralab.errors import InputError
from electralab.tasks import baselines, kind
from electralab.tasks.features import NO_TARGETS, EncodedSplit, Feature, FeatureEncoder, Ids
from electralab.tasks.table import LabelledTable
from electralab.tokens.tokenizer import Tokenizer

PAIR_COLUMNS = (
    *(("text_a", "text_b"), ("text1", "text2"), ("sentence1", "sentence2"), ("sentence_a", "sentence_b")),
    *(("question1", "question2"), ("premise", "hypothesis"), ("question", "sentence"), ("query", "passage")),
)
TEXT_COLUMNS = (
    *("text", "sentence", "document", "review", "review_text", "review_body", "content", "comment", "message", "tweet"),
    *("utterance", "body", "description", "title", "headline", "question"),
)
# How a row of symbols names its pair, or its one sequence.
_SYMBOL_PARTS = (("text_a", "text_b"), ("text", kind.SYMBOLS, "events"))
# So many examples show whether a file holds symbols or text.
_SAMPLE = 1000


@dataclass(frozen=True, slots=True)
class TextExample(kind.Example):
    texts: tuple[str, ...]
    """One, or a pair."""


TE = TypeVar("TE", bound=TextExample)
A = TypeVar("A", str, float)


class TextKind(kind.TaskKind[TE, Feature, kind.P, Tensor]):
    """One answer for a text, or for a pair."""

    shape = "row"
    unlabelled: TE
    """Without texts, its answer not known."""

    @abstractmethod
    def target(self, example: TE, class_ids: Mapping[str, int]) -> Ids | NDArray[np.float32]:
        """(1,)"""

    def name_texts(self, table: LabelledTable, num_texts: int, label: str) -> tuple[str, ...]:
        pairs = (tuple(table.find_column([name], (label,)) for name in names) for names in PAIR_COLUMNS)
        pair = next((pair for pair in pairs if all(pair)), ())
        if num_texts == 2 or (num_texts == 0 and pair and not table.find_column(["text"], (label,))):
            return pair
        return tuple(filter(None, [table.find_column(TEXT_COLUMNS, (label,))]))

    def content(self, example: TE) -> str:
        return "\0".join(example.texts)

    def count_texts(self, example: TE) -> int:
        return len(example.texts)

    def encode(self, encoder: FeatureEncoder, examples: Sequence[TE], *, is_labelled: bool) -> EncodedSplit[Feature]:
        tokenizer, class_ids = encoder.tokenizer, encoder.class_ids
        texts = [text for example in examples for text in example.texts]
        if tokenizer.is_symbols:
            tokens = iter([tokenizer.encode_symbols(split_symbols(text)) for text in texts])
        else:
            tokens = iter(tokenizer.encode_many(texts))
        features, truncated = [], []
        for index, example in enumerate(examples):
            parts = [next(tokens) for _ in example.texts]
            kept = fit_parts([len(part) for part in parts], encoder.sequence_length - 1 - len(parts))
            fitted = [part[:length] for part, length in zip(parts, kept, strict=True)]
            if sum(map(len, fitted)) < sum(map(len, parts)):
                truncated.append(index)
            ids, segment_ids = encoder.add_special_tokens(fitted)
            targets = self.target(example, class_ids) if is_labelled else NO_TARGETS
            features.append(Feature(index, ids, segment_ids, targets))
        return EncodedSplit(features, truncated)

    def parse(self, given: kind.TaskInput, tokenizer: Tokenizer | None, num_texts: int) -> TE:
        parts: object = given
        if tokenizer is not None and tokenizer.is_symbols:
            parts = _parse_sequences(given, num_texts, tokenizer)
        elif isinstance(given, str):
            parts = [given]
        elif isinstance(given, Mapping):
            parts = kind.pick_parts(given, [("text_a", "text_b"), ("text",)])
        texts = kind.check_parts(parts)
        allowed = (num_texts,) if num_texts else (1, 2)
        if len(texts) not in allowed:
            count, wanted = f"{len(texts)} text{'s' * (len(texts) != 1)}", " or ".join(map(str, allowed))
            raise InputError(f"has {count}, the model was tuned on {wanted}; give as many")
        return replace(self.unlabelled, texts=texts)


def _parse_sequences(given: kind.TaskInput, num_texts: int, tokenizer: Tokenizer) -> list[str]:
    """The sequences of an input for a model of symbols, each as JSON."""
    parts: Sequence[object] = [given]
    if isinstance(given, Mapping):
        lists = [part for part in given.values() if isinstance(part, list | tuple)]
        pair, named = ([given[name] for name in names if name in given] for names in _SYMBOL_PARTS)
        if len(pair) < 2 and not named and len(lists) != 1:
            raise InputError(f"has {kind.name_some(given)}; give 'text_a' and 'text_b', or 'text', as lists of symbols")
        parts = pair if len(pair) == 2 else (named or lists)[:1]
    elif isinstance(given, list | tuple) and given:
        are_lists = all(isinstance(part, list | tuple) for part in given)
        are_strings = num_texts == 2 and all(isinstance(part, str) for part in given)
        parts = given if are_lists or are_strings else [given]
    texts = []
    for part in parts:
        if isinstance(part, list | tuple):
            try:
                texts.append(kind.spell_symbols(part))
            except ValueError as error:
                raise InputError(str(error) if part else "is empty; give a list of symbols") from None
        elif isinstance(part, str) and not is_prose([part], tokenizer):
            texts.append(part)
        else:
            raise InputError(
                f"a model of symbols takes a list of strings or integers, got {str(part)[:40]!r}; give a list"
            )
    return texts


def swap_pairs(examples: Sequence[kind.Example]) -> list[TextExample]:
    """The same pairs with their texts the other way round, for tasks in which the order says nothing; else none."""
    pairs = [example for example in examples if isinstance(example, TextExample) and len(example.texts) == 2]
    return [replace(pair, texts=pair.texts[::-1]) for pair in pairs]


def linear_baseline(
    what: str,
    train: Sequence[TE],
    fit: Callable[[baselines.Texts, list[A]], Callable[[baselines.Texts], Iterable[A]]],
    read_answer: Callable[[TE], A],
    to_prediction: Callable[[A], kind.P],
) -> kind.BaselineMethod[TE, kind.P]:
    """A linear model of the texts."""
    some = take_texts(train)
    predict = fit([example.texts for example in some], [read_answer(example) for example in some])
    features = "TF-IDF of words and " + ("characters" if len(train[0].texts) == 1 else "what the pair shares")
    return kind.BaselineMethod(
        *(baselines.LINEAR, f"{what} over {features}", len(some)),
        lambda examples: [to_prediction(answer) for answer in predict([example.texts for example in examples])],
    )


def take_texts(examples: Sequence[TE]) -> list[TE]:
    """As many, evenly apart, as a simple method is fitted to within seconds."""
    size = sum(len(text) for example in examples for text in example.texts)
    return baselines.take_evenly(examples, size, baselines.MOST_FITTED_CHARACTERS)


def fit_parts(lengths: Sequence[int], room: int) -> list[int]:
    """How much of each part stays: what is too long is taken off the longer one first.

    >>> fit_parts([3, 9], 8)
    [3, 5]
    """
    if sum(lengths) <= room or len(lengths) == 1:
        return [min(length, room) for length in lengths]
    first, second = lengths
    # The shorter one stays whole where half of the room is enough for it.
    half = room // 2
    if first <= half:
        return [first, room - first]
    if second <= room - half:
        return [room - second, second]
    return [half, room - half]


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


def require_symbols(splits: Iterable[kind.Split[kind.Example]], tokenizer: Tokenizer | None) -> None:
    """A model of symbols is not to read text: a sentence would be a row of unknown symbols."""
    if tokenizer is None or not tokenizer.is_symbols:
        return
    for split in splits:
        some = [example for example in split.examples[:_SAMPLE] if isinstance(example, TextExample)]
        if is_prose((text for example in some for text in example.texts), tokenizer):
            raise InputError(
                f"{split.path}: holds text, most of whose words the model of symbols does not know; give lists of "
                "symbols as in prepare --symbols, or a model of text"
            )
