"""The whole words of a vocabulary, and which of them may have been meant by what was written.

written word, what a generator expects there -> Suggestion...
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from electralab.records.answers import Suggestion
from electralab.tokens.tokenizer import Tokenizer

# In nats: what each wrong letter costs, and what another word altogether costs, beyond which no slip is likelier.
_SLIP, _OTHER = 3.0, 9.0
# log p of a word that the vocabulary does not have whole.
_RARE_WORD = -14.0
# So many wrong letters cost what another word costs.
_FARTHEST = int(_OTHER / _SLIP)
_MOST_KNOWN = 20_000
# Letters are counted in so many buckets, by their code points: enough to rule most words out.
_BUCKETS = 32
_PAIRS_AT_ONCE = 1024


class Slip(NamedTuple):
    gain: float
    """How much likelier the word that may have been meant is than the written one, in nats."""
    word: str = ""


class Lexicon:
    """The whole words of a vocabulary, to suggest from.

    A noisy channel: log p(word | context) minus a price for each letter that would have had to go wrong, or a fixed
    price for a word that is another altogether.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        begins = np.flatnonzero(tokenizer.is_ordinary & ~tokenizer.continues_word).tolist()
        by_id = {index: tokenizer.decode_token(index) for index in begins}
        self.words = {index: word for index, word in by_id.items() if word.isalpha()}
        self.ids = np.array(list(self.words), dtype=np.int64)
        # (W, L) code points, 0 after the end of each word.
        width = max(map(len, self.words.values()), default=0)
        self._letters = _code_points([word.casefold() for word in self.words.values()], width)
        self._lengths = (self._letters > 0).sum(axis=1)
        self._histograms = np.array([_count_letters(row) for row in self._letters]).reshape(-1, _BUCKETS)
        # Of each word those of the lexicon that are near, and how near.
        self._known: dict[str, tuple[NDArray[np.int64], NDArray[np.int16]]] = {}

    def find_slip(self, written: str, log_probs: NDArray[np.float64], default: float) -> Slip:
        """The best word that differs in one or two letters, what the letters cost taken off."""
        word = written.casefold()
        if word not in self._known:
            self.learn_distances([word])
        near, distances = self._known[word]
        scores = log_probs[self.ids[near]] - _SLIP * distances
        is_near = (distances > 0) & (distances < _FARTHEST)
        if not is_near.any():
            return Slip(default)
        own = scores[distances == 0]
        best = int(np.where(is_near, scores, -np.inf).argmax())
        gain = max(float(scores[best] - (own.max() if len(own) else _RARE_WORD)), default)
        return Slip(gain, self.words[int(self.ids[near[best]])])

    def learn_distances(self, words: Iterable[str]) -> None:
        """From these words to all of the lexicon, at once: that is many times faster than one after the other."""
        new = sorted({word.casefold() for word in words} - self._known.keys())
        if len(self._known) + len(new) > _MOST_KNOWN:
            self._known.clear()
        compared: list[str] = []
        near: list[NDArray[np.int64]] = []
        for word in new:
            # A changed letter moves two counts by one each, one more or less moves one, an exchange moves none.
            moved = np.abs(self._histograms - _count_letters(_code_points([word], len(word))[0])).sum(axis=1)
            moved += np.abs(self._lengths - len(word))  # of these edits each moved one count only
            places = np.flatnonzero((moved + 1) // 2 < _FARTHEST)
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

    def _distances(self, word: str) -> NDArray[np.int16]:
        """(W,) to each word; what is further away than `_FARTHEST` is another word, however far."""
        if word not in self._known:
            self.learn_distances([word])
        distances = np.full(len(self.ids), _FARTHEST, dtype=np.int16)
        near, measured = self._known[word]
        distances[near] = measured
        return distances

    def suggest(self, written: str, probs: NDArray[np.float64], count: int) -> tuple[Suggestion, ...]:
        """The best words but the one that was written; in capitals where that was."""
        if not self.words:
            return ()
        distances = self._distances(written.casefold())  # (W,)
        with np.errstate(divide="ignore"):
            scores = np.log(probs[self.ids]) - _SLIP * distances
        best = [index for index in np.argsort(-scores)[: count + 1] if distances[index] and np.isfinite(scores[index])]
        suggestions = []
        for token_id in self.ids[best[:count]].tolist():
            text = self.words[token_id]
            if written.isupper() and len(written) > 1:
                text = text.upper()
            elif written[:1].isupper():
                text = text.capitalize()
            suggestions.append(Suggestion(text=text, p=float(probs[token_id])))
        return tuple(suggestions)


def _count_letters(codes: NDArray[np.uint32]) -> NDArray[np.int16]:
    """(32,) how many letters fall into each bucket."""
    return np.bincount(codes[codes > 0] % _BUCKETS, minlength=_BUCKETS).astype(np.int16)


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
