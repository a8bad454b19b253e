"""The whole words of a vocabulary, and which of them may have been meant by what was written.

written word, what a generator expects there -> Suggestion...
"""

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
_MOST_KNOWN = 2000
# Letters are counted in so many buckets, by their code points: enough to rule most words out.
_BUCKETS = 32


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
        padded = [word.casefold().ljust(width, "\0")[:width] for word in self.words.values()]
        self._letters = np.array(padded, dtype=f"<U{width or 1}").view(np.uint32).reshape(len(self.words), -1)
        self._histograms = np.array([_count_letters(row[row > 0]) for row in self._letters]).reshape(-1, _BUCKETS)
        self._known: dict[str, NDArray[np.int8]] = {}

    def find_slip(self, written: str, log_probs: NDArray[np.float64], default: float) -> Slip:
        """The best word that differs in one or two letters, what the letters cost taken off."""
        distances = self._distances(written.casefold())
        scores = log_probs[self.ids] - _SLIP * distances
        is_near = (distances > 0) & (distances <= 2)
        if not is_near.any():
            return Slip(default)
        own = scores[distances == 0]
        best = int(np.where(is_near, scores, -np.inf).argmax())
        gain = max(float(scores[best] - (own.max() if len(own) else _RARE_WORD)), default)
        return Slip(gain, self.words[int(self.ids[best])])

    def _distances(self, word: str) -> NDArray[np.int8]:
        """(W,) to each word; what is further away than `_FARTHEST` is another word, however far."""
        if word not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            distances = np.full(len(self.ids), _FARTHEST, dtype=np.int8)
            # A changed letter moves two counts by one each, one more or less moves one, an exchange moves none.
            codes = np.array([ord(letter) for letter in word], dtype=np.uint32)
            moved = np.abs(self._histograms - _count_letters(codes)).sum(axis=1)
            near = np.flatnonzero((moved + 1) // 2 < _FARTHEST)
            distances[near] = np.minimum(edit_distances(word, self._letters[near]), _FARTHEST)
            self._known[word] = distances
        return self._known[word]

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
    return np.bincount(codes % _BUCKETS, minlength=_BUCKETS).astype(np.int16)


def edit_distances(word: str, letters: NDArray[np.uint32]) -> NDArray[np.int64]:
    """From the word to each row of (W, L) code points: letters to insert, leave out, change, or exchange.

    >>> words = np.array(["cat", "act", "cut", "dog"], dtype="<U3").view(np.uint32).reshape(4, 3)
    >>> edit_distances("cat", words).tolist()
    [0, 1, 1, 3]
    """
    lengths = (letters > 0).sum(axis=1)
    before, row = np.zeros_like(letters, dtype=np.int64), np.tile(np.arange(letters.shape[1] + 1), (len(letters), 1))
    for index, letter in enumerate(word):
        code = ord(letter)
        older, before, row = before, row, np.empty_like(row)
        row[:, 0] = index + 1
        for column in range(letters.shape[1]):
            changed = before[:, column] + (letters[:, column] != code)
            row[:, column + 1] = np.minimum(np.minimum(row[:, column], before[:, column + 1]) + 1, changed)
            if index and column:
                is_exchanged = (letters[:, column] == ord(word[index - 1])) & (letters[:, column - 1] == code)
                exchanged = np.minimum(row[:, column + 1], older[:, column - 1] + 1)
                row[:, column + 1] = np.where(is_exchanged, exchanged, row[:, column + 1])
    distances: NDArray[np.int64] = row[np.arange(len(letters)), lengths]
    return distances
