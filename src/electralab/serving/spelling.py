"""Which word was meant? What the context expects, weighed by how far it is from what was written.

a word, (V,) probabilities -> Suggestion...

A noisy channel: log p(word | context) minus a price for each letter that would have had to go wrong, or a fixed one
for a word that is another altogether.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from electralab.tokens.tokenizer import Tokenizer

# In nats. Below the second no number of slips is the likelier story.
_SLIP, _OTHER = 3.0, 9.0


@dataclass(frozen=True, slots=True)
class Suggestion:
    text: str
    p: float
    """What the generator gives it there."""


class Lexicon:
    """The whole words of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        tokenizer = self._tokenizer
        begins = np.flatnonzero(tokenizer.is_ordinary & ~tokenizer.continues_word)
        return np.array([index for index in begins.tolist() if tokenizer.decode_token(index).isalpha()], dtype=np.int64)

    @cached_property
    def words(self) -> list[str]:
        return [self._tokenizer.decode_token(index) for index in self.ids.tolist()]

    @cached_property
    def _letters(self) -> NDArray[np.uint32]:
        """(W, L) code points, 0 after the end of each word."""
        width = max(map(len, self.words), default=0)
        return (
            np.array([word.casefold().ljust(width, "\0")[:width] for word in self.words], dtype=f"<U{width or 1}")
            .view(np.uint32)
            .reshape(len(self.words), -1)
        )

    def suggest(self, written: str, chances: NDArray[np.float64], count: int) -> tuple[Suggestion, ...]:
        """The best words but the one that was written; in capitals where that was."""
        if not len(self.ids):
            return ()
        word = written.casefold()
        # So many letters more than any word, it is another word altogether, whatever the letters.
        is_long = len(word) > self._letters.shape[1] + _OTHER / _SLIP
        away = np.full(len(self.ids), len(word)) if is_long else measure_distances(word, self._letters)  # (W,)
        with np.errstate(divide="ignore"):
            scores = np.log(chances[self.ids]) - np.minimum(_SLIP * away, _OTHER)
        best = [int(place) for place in np.argsort(-scores)[: count + 1] if away[place] and np.isfinite(scores[place])]
        return tuple(
            Suggestion(_match_case(self.words[place], written), float(chances[self.ids[place]]))
            for place in best[:count]
        )


def measure_distances(word: str, letters: NDArray[np.uint32]) -> NDArray[np.int64]:
    """From the word to each row of (W, L) code points: letters to insert, leave out, change, or exchange."""
    lengths = (letters > 0).sum(axis=1)
    before, row = np.zeros_like(letters, dtype=np.int64), np.tile(np.arange(letters.shape[1] + 1), (len(letters), 1))
    for place, letter in enumerate(word):
        code = ord(letter)
        older, before, row = before, row, np.empty_like(row)
        row[:, 0] = place + 1
        for column in range(letters.shape[1]):
            changed = before[:, column] + (letters[:, column] != code)
            row[:, column + 1] = np.minimum(np.minimum(row[:, column], before[:, column + 1]) + 1, changed)
            if place and column:
                is_exchanged = (letters[:, column] == ord(word[place - 1])) & (letters[:, column - 1] == code)
                exchanged = older[:, column - 1] + 1
                row[:, column + 1] = np.where(
                    is_exchanged, np.minimum(row[:, column + 1], exchanged), row[:, column + 1]
                )
    distances: NDArray[np.int64] = row[np.arange(len(letters)), lengths]
    return distances


def _match_case(word: str, written: str) -> str:
    if written.isupper() and len(written) > 1:
        return word.upper()
    return word.capitalize() if written[:1].isupper() else word
