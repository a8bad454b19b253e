"""One word in many sentences, with the sense it has in each.

senses.tsv -> SenseSentence -> words, and the place of the one that is meant
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

_PIECE = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class SenseSentence:
    word: str
    position: int
    """Where the word begins, in characters: sentence[position : position + len(word)] == word."""
    sense: str
    sentence: str

    def split(self) -> tuple[tuple[str, ...], int]:
        """Its words and marks, and which of them is the word."""
        before = _PIECE.findall(self.sentence[: self.position])
        after = _PIECE.findall(self.sentence[self.position + len(self.word) :])
        return (*before, self.word, *after), len(before)


@cache
def list_senses() -> tuple[SenseSentence, ...]:
    """Written by hand; a word stands once in its sentence, as it is spelt in the list."""
    text = (resources.files("electralab.analysis.sets") / "senses.tsv").read_text(encoding="utf-8")
    return tuple(place_word(*line.split("\t")) for line in text.splitlines())


def place_word(word: str, sense: str, sentence: str) -> SenseSentence:
    """As a word of its own, or, where words are written together, anywhere; ValueError if that is not one place."""
    spelt = re.escape(word)
    places = [found.start() for found in re.finditer(rf"(?<!\w){spelt}(?!\w)", sentence)]
    places = places or [found.start() for found in re.finditer(spelt, sentence)]
    if len(places) != 1:
        raise ValueError(f"{word!r} stands {len(places)} times in {sentence!r}")
    return SenseSentence(word, places[0], sense, sentence)
