"""The whole words of a vocabulary and those that were counted, and which of them may have been meant by what was
written.

written word, what a generator expects there -> Suggestion...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electralab.records.answers import Suggestion
from electralab.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from electralab.detection.words import WordFrequencies

# In nats: what each wrong letter costs, and what another word altogether costs, beyond which no slip is likelier.
_SLIP, _OTHER = 3.0, 9.0
# What was never counted is misspelt rather than another word.
_OTHER_OF_UNSEEN = 14.0
# log p of a word that the vocabulary does not have whole.
_RARE_WORD = -14.0
# So many wrong letters cost what another word costs.
_FARTHEST = int(_OTHER / _SLIP)
_MOST_KNOWN = 20_000
# Letters are counted in so many buckets, by their code points: enough to rule most words out.
_BUCKETS = 32
_PAIRS_AT_ONCE = 1024
# A longer word is never suggested, unless the vocabulary has it whole.
_LONGEST = 24


class Slip(NamedTuple):
    gain: float
    """How much likelier the word that may have been meant is than the written one, in nats."""
    word: str = ""


class Lexicon:
    """The words to suggest from: those that the vocabulary has whole, and those that were counted.

    A noisy channel: log p(word | context) minus a price for each letter that would have had to go wrong, or a fixed
    price for a word that is another altogether. Of a word of several tokens p is its share of all words.
    """

    def __init__(self, tokenizer: Tokenizer, frequencies: WordFrequencies | None = None) -> None:
        begins = np.flatnonzero(tokenizer.is_ordinary & ~tokenizer.continues_word).tolist()
        by_id = {index: tokenizer.decode_token(index) for index in begins}
        self.words = {index: word for index, word in by_id.items() if word.isalpha()}
        self.ids = np.array(list(self.words), dtype=np.int64)
        # Those of the vocabulary first, in the order of `ids`.
        self._texts = list(self.words.values())
        whole = {word.casefold() for word in self._texts}
        counts = frequencies.counts if frequencies else {}
        self._counted = {word for word in counts if word.isalpha() and len(word) <= _LONGEST}
        self._texts += sorted(self._counted - whole)
        self._log_shares = np.array(
            [-frequencies.rarity(word) for word in self._texts[len(self.ids) :]] if frequencies else []
        )
        # (W, L) code points, 0 after the end of each word.
        width = max(map(len, self._texts), default=0)
        self._letters = _code_points([word.casefold() for word in self._texts], width)
        self._lengths = (self._letters > 0).sum(axis=1)
        self._histograms = _count_letters(self._letters)
        # By first letter, which of the words a word with it is compared with.
        self._compared: dict[str, NDArray[np.int64]] = {}
        # Of each word those of the lexicon that are near, and how near.
        self._known: dict[str, tuple[NDArray[np.int64], NDArray[np.int16]]] = {}

    def find_slip(self, written: str, log_probs: NDArray[np.float64], default: float) -> Slip:
        """The best word that differs in one or two letters, what the letters cost taken off."""
        near, distances = self._find_near(written.casefold())
        scores = self._weigh(near, log_probs) - _SLIP * distances
        is_near = (distances > 0) & (distances < _FARTHEST)
        if not is_near.any():
            return Slip(default)
        own = scores[distances == 0]
        best = int(np.where(is_near, scores, -np.inf).argmax())
        gain = max(float(scores[best] - (own.max() if len(own) else _RARE_WORD)), default)
        return Slip(gain, self._texts[int(near[best])])

    def suggest(
        self, written: str, probs: NDArray[np.float64], count: int, expected: str = ""
    ) -> tuple[Suggestion, ...]:
        """The best words but the one that was written, first the one that is `expected`; in capitals where that was."""
        if not self.words:
            return ()
        word, whole = written.casefold(), len(self.ids)
        near, measured = self._find_near(word)
        distances = np.full(whole, _FARTHEST, dtype=np.int16)
        distances[near[near < whole]] = measured[near < whole]
        with np.errstate(divide="ignore"):
            log_probs = np.log(probs)
        is_other = distances == _FARTHEST
        other = _OTHER_OF_UNSEEN if self._counted and word not in self._counted else _OTHER
        scores = log_probs[self.ids] - np.where(is_other, other, _SLIP * distances)
        is_rare = (near >= whole) & (measured < _FARTHEST)
        rare, rare_distances = near[is_rare], measured[is_rare]
        scores = np.concatenate([scores, self._weigh(rare, log_probs) - _SLIP * rare_distances])
        places, distances = np.append(np.arange(whole), rare), np.append(distances, rare_distances)
        ranked = np.argsort(-scores, kind="stable")[: count + 2]
        texts = {
            self._texts[place]: float(np.exp(self._weigh(np.array([place]), log_probs)[0]))
            for place in places[[index for index in ranked if distances[index] and np.isfinite(scores[index])]].tolist()
        }
        if expected:
            texts = {expected: texts.get(expected, 0.0)} | texts
        return tuple(Suggestion(text=_write_like(text, written), p=p) for text, p in list(texts.items())[:count])

    def _weigh(self, places: NDArray[np.int64], log_probs: NDArray[np.float64]) -> NDArray[np.float64]:
        """log p of these words."""
        whole = len(self.ids)
        weights = np.empty(len(places))
        is_whole = places < whole
        weights[is_whole] = log_probs[self.ids[places[is_whole]]]
        weights[~is_whole] = self._log_shares[places[~is_whole] - whole]
        return weights

    def _find_near(self, word: str) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
        """Which words may be near, and how near, at most `_FARTHEST`."""
        if word not in self._known:
            self.learn_distances([word])
        return self._known[word]

    def learn_distances(self, words: Iterable[str]) -> None:
        """From these words to all of the lexicon, at once: that is many times faster than one after the other."""
        new = sorted({word.casefold() for word in words} - self._known.keys())
        if len(self._known) + len(new) > _MOST_KNOWN:
            self._known.clear()
        compared: list[str] = []
        near: list[NDArray[np.int64]] = []
        for word in new:
            # Of the counted words, which are many, those with the same first letter, which is seldom wrong.
            if word[:1] not in self._compared:
                is_alike = self._letters[:, 0] == ord(word[:1] or "\0") if len(self._letters) else np.zeros(0, np.bool_)
                is_alike[: len(self.ids)] = True
                self._compared[word[:1]] = np.flatnonzero(is_alike)
            places = self._compared[word[:1]]
            # A changed letter moves two counts by one each, one more or less moves one, an exchange moves none.
            is_near = np.abs(self._lengths[places] - len(word)) < _FARTHEST
            places = places[is_near]
            moved = np.abs(self._histograms[places] - _count_letters(_code_points([word], len(word)))).sum(axis=1)
            moved += np.abs(self._lengths[places] - len(word))  # of these edits each moved one count only
            places = places[(moved + 1) // 2 < _FARTHEST]
            self._known[word] = places, np.zeros(0, dtype=np.int16)
            if len(places):
                compared.append(word)
                near.append(places)
        if compared:
            counts = [len(places) for places in near]
            written = _code_points(compared, max(map(len, compared))).repeat(counts, axis=0)
            letters = self._letters[np.concatenate(near)]
            # In stretches that stay in the processor's cache.
            measured = np.concatenate(
                [
                    edit_distances(written[at : at + _PAIRS_AT_ONCE], letters[at : at + _PAIRS_AT_ONCE])
                    for at in range(0, len(written), _PAIRS_AT_ONCE)
                ]
            )
            parts = np.split(measured.clip(max=_FARTHEST), np.cumsum(counts)[:-1])
            self._known |= zip(compared, zip(near, parts, strict=True), strict=True)


def _write_like(text: str, written: str) -> str:
    if written.isupper() and len(written) > 1:
        return text.upper()
    return text.capitalize() if written[:1].isupper() else text


def _count_letters(codes: NDArray[np.uint32]) -> NDArray[np.int16]:
    """(W, L) -> (W, 32) how many letters of each word fall into each bucket."""
    counts = np.zeros((len(codes), _BUCKETS), dtype=np.int16)
    rows, columns = np.nonzero(codes)
    np.add.at(counts, (rows, codes[rows, columns] % _BUCKETS), 1)
    return counts


def _code_points(words: Sequence[str], width: int) -> NDArray[np.uint32]:
    """(W, L), 0 after the end of each word."""
    padded = [word.ljust(width, "\0")[:width] for word in words]
    return np.array(padded, dtype=f"<U{width or 1}").view(np.uint32).reshape(len(words), -1)


def edit_distances(words: NDArray[np.uint32], others: NDArray[np.uint32]) -> NDArray[np.int16]:
    """From each row of (P, L) code points to that of another: letters to insert, leave out, change, or exchange.

    >>> others = _code_points(["cat", "act", "cut", "dog"], 3)
    >>> edit_distances(_code_points(["cat"] * 4, 3), others).tolist()
    [0, 1, 1, 3]
    """
    lengths, other_lengths = (words > 0).sum(axis=1), (others > 0).sum(axis=1)
    width = int(other_lengths.max(initial=0))
    rows = [np.tile(np.arange(width + 1, dtype=np.int16), (len(words), 1))]
    for index in range(int(lengths.max(initial=0))):
        letter = words[:, index]
        before, row = rows[-1], np.empty_like(rows[0])
        row[:, 0] = index + 1
        for column in range(width):
            changed = before[:, column] + (others[:, column] != letter)
            row[:, column + 1] = np.minimum(np.minimum(row[:, column], before[:, column + 1]) + 1, changed)
            if index and column:
                is_exchanged = (others[:, column] == words[:, index - 1]) & (others[:, column - 1] == letter)
                exchanged = np.minimum(row[:, column + 1], rows[-2][:, column - 1] + 1)
                row[:, column + 1] = np.where(is_exchanged, exchanged, row[:, column + 1])
        rows.append(row)
    distances: NDArray[np.int16] = np.stack(rows)[lengths, np.arange(len(words)), other_lengths]
    return distances
