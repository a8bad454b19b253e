"""One word in many sentences, with the sense it has in each.

senses.tsv -> SenseSentence
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class SenseSentence:
    word: str
    position: int
    """Where the word begins, in characters: sentence[position : position + len(word)] == word."""
    sense: str
    sentence: str


@cache
def list_senses() -> tuple[SenseSentence, ...]:
    """Written by hand; a word stands once in its sentence, as it is spelt in the list."""
    text = (resources.files("electralab.analysis.sets") / "senses.tsv").read_text(encoding="utf-8")
    return tuple(_place(*line.split("\t")) for line in text.splitlines())


def _place(word: str, sense: str, sentence: str) -> SenseSentence:
    places = [match.start() for match in re.finditer(rf"\b{word}\b", sentence)]
    assert len(places) == 1, f"{word!r} must stand once in {sentence!r}"
    return SenseSentence(word, places[0], sense, sentence)
