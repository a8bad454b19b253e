"""Text to try an exported network on, where the user gives none: many scripts, short and long.

Tokenizer -> rows
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from electralab.tokens.tokenizer import Tokenizer

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


def sample_rows(tokenizer: Tokenizer, length: int) -> list[NDArray[np.int64]]:
    """Each sentence, all of them in one row of full length, and rows drawn from the vocabulary, whatever its language.

    Every row has its [CLS] and [SEP], and no padding.
    """
    rows = [_frame(ids, tokenizer, length) for ids in _read_sentences(tokenizer) if len(ids)]
    rng = np.random.default_rng(0)
    ordinary = np.flatnonzero(tokenizer.is_ordinary)
    if len(ordinary):
        # From one token to as many as fit.
        counts = np.unique(np.linspace(1, length - 2, _DRAWN).astype(np.int64))
        rows += [_frame(rng.choice(ordinary, count), tokenizer, length) for count in counts]
    return rows


def _read_sentences(tokenizer: Tokenizer) -> Iterator[NDArray[np.int64]]:
    if not tokenizer.is_symbols:
        encoded = tokenizer.encode_many(SENTENCES)
        yield from encoded
        yield np.concatenate(encoded)


def _frame(ids: NDArray[np.int64], tokenizer: Tokenizer, length: int) -> NDArray[np.int64]:
    special = tokenizer.special
    return np.concatenate([[special.cls], ids[: length - 2], [special.sep]]).astype(np.int64)
