"""Rows to try an exported network on, beside the user's own: many scripts, short and long, texts and pairs of texts.

Tokenizer -> Sample...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from electralab.model.settings import EncoderConfig
from electralab.tokens.tokenizer import Tokenizer

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sample:
    """One text or two, with [CLS] and [SEP], without padding."""

    ids: Ids  # (T,)
    segment_ids: Ids  # (T,) 1 in the second text


SENTENCES = (
    "The river rose in the night, and by morning the lower fields were under water.",
    "Nobody had told the new postman that the house at the end of the lane was empty!",
    "In 1998 the harbour was sold for $2.5 million (less than the price of two cranes).",
    "Yes.",
    "Der Zug hielt kurz vor der Grenze, weil ein Baum auf die Gleise gefallen war.",
    "La boulangère connaît tous les enfants du quartier, même ceux qui n'achètent rien.",
    "A cidade antiga tem sete portas, mas só duas ficam abertas depois do pôr do sol.",
    "El médico llegó tarde porque la carretera de la montaña estaba cubierta de nieve.",
    "Поезд опоздал на три часа, и на станции закончился горячий чай.",
    "아침에 비가 그치자 아이들이 운동장으로 뛰어나갔다.",
    "昨天晚上图书馆很安静,只有几个学生在看书。",
    "駅の前の小さな本屋は、来月で五十年になります。",
    "وصلت السفينة إلى الميناء قبل شروق الشمس بقليل.",
    "पहाड़ी गाँव तक जाने वाली सड़क बारिश में बह गई।",
    "Bài hát cũ ấy vẫn được hát trong mỗi đám cưới của làng.",
    "🙂 ok, see you @ 5pm — don't be late!!",
)
_DRAWN = 16
# [CLS] A [SEP] B [SEP]
_SHORTEST_PAIR = 5


def sample_rows(tokenizer: Tokenizer, config: EncoderConfig) -> list[Sample]:
    """Each sentence, all of them in one row of full length, pairs of neighbours where the network takes such, and rows
    drawn from the vocabulary, whatever its language."""
    length = config.sequence_length
    sentences = [ids for ids in _read_sentences(tokenizer) if len(ids)]
    rows = [_frame([ids[: length - 2]], tokenizer) for ids in sentences]
    rng = np.random.default_rng(0)
    ordinary = np.flatnonzero(tokenizer.is_ordinary)
    if len(ordinary):
        # From one token to as many as fit.
        counts = np.unique(np.linspace(1, length - 2, _DRAWN).astype(np.int64))
        drawn = [rng.choice(ordinary, count) for count in counts]
        rows += [_frame([ids], tokenizer) for ids in drawn]
        sentences += drawn
    pairs = list(pairwise(sentences))[::2] if takes_pairs(config) else []
    return rows + [make_pair(*texts, tokenizer, length) for texts in pairs]


def takes_pairs(config: EncoderConfig) -> bool:
    return config.sequence_length >= _SHORTEST_PAIR and (config.is_modern or config.num_segments > 1)


def make_pair(first: Ids, second: Ids, tokenizer: Tokenizer, length: int) -> Sample:
    """Of both so much as fits, the longer one cut first."""
    room = length - 3
    kept = max(room // 2, room - len(second))
    first = first[:kept]
    return _frame([first, second[: room - len(first)]], tokenizer)


def space_pairs(config: EncoderConfig) -> int:
    """Of a network that may be asked about texts and pairs alike: every how many rows one is to be a pair, 0: none."""
    return 0 if config.is_modern else 2


def pair_some(samples: Sequence[Sample], every: int, tokenizer: Tokenizer, config: EncoderConfig) -> list[Sample]:
    """Every n-th cut into two texts."""
    if not every or not takes_pairs(config):
        return list(samples)
    return [
        _halve(sample, tokenizer, config.sequence_length) if place % every == 0 else sample
        for place, sample in enumerate(samples)
    ]


def _halve(sample: Sample, tokenizer: Tokenizer, length: int) -> Sample:
    ids = sample.ids[1:-1]
    middle = len(ids) // 2
    return make_pair(ids[:middle], ids[middle:], tokenizer, length) if middle else sample


def _read_sentences(tokenizer: Tokenizer) -> Iterator[Ids]:
    if not tokenizer.is_symbols:
        encoded = tokenizer.encode_many(SENTENCES)
        yield from encoded
        yield np.concatenate(encoded)


def _frame(texts: Sequence[Ids], tokenizer: Tokenizer) -> Sample:
    special = tokenizer.special
    pieces = [np.array([special.cls]), *(np.append(text, special.sep) for text in texts)]
    segments = [np.full(len(piece), max(number - 1, 0)) for number, piece in enumerate(pieces)]
    return Sample(np.concatenate(pieces).astype(np.int64), np.concatenate(segments).astype(np.int64))
