"""What happens to texts: slips of the finger, wrong words, letters misread by a scanner.

text, rng -> Damaged
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from electralab.corpus.scripts import HANGUL, MARKS, SPACELESS

DamageKind = Literal["typo", "swap", "ocr"]
DAMAGE_KINDS: tuple[DamageKind, ...] = get_args(DamageKind)

# Without spaces two characters stand for a word.
_WORD = re.compile(f"[{SPACELESS}]{{2}}|[{HANGUL}]{{2,}}|(?:[^\\W\\d_{SPACELESS}{HANGUL}]|[{MARKS}]){{3,}}")

# Neighbours on the keyboard that most texts in Latin script are typed on.
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    letter: "".join(row[index + step] for step in (-1, 1) if 0 <= index + step < len(row))
    for row in _ROWS
    for index, letter in enumerate(row)
}
# What a scanner takes for what.
_MISREAD = {
    **{"rn": "m", "m": "rn", "cl": "d", "d": "cl", "vv": "w", "w": "vv", "li": "h", "h": "b", "b": "h"},
    **{"l": "1", "i": "l", "o": "0", "e": "c", "c": "e", "u": "n", "n": "u", "f": "t", "t": "f", "s": "5", "g": "9"},
}


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged word, and where it stands in the damaged text."""

    start: int
    end: int
    original: str
    damaged: str


@dataclass(frozen=True, slots=True)
class Damaged:
    text: str
    damages: tuple[Damage, ...]


def count_words(text: str) -> int:
    """Those that may be damaged: of three letters or two syllables and more; without spaces, two characters each.

    >>> count_words("a cat on the mat"), count_words("你好世界")
    (3, 2)
    """
    return sum(1 for _ in _WORD.finditer(text))


def damage_text(text: str, kind: DamageKind, share: float, rng: Random) -> Damaged:
    """Damage about this share of the words that count; words are swapped for others of the text."""
    words = [match.group() for match in _WORD.finditer(text)]
    # What replacements are taken from: for a scanner, letters of which no table says what they are taken for.
    others = sorted(letter for letter in set().union(*words) if not letter.isascii()) if kind == "ocr" else words
    spoil = {"typo": misspell, "swap": exchange, "ocr": misread}[kind]
    pieces: list[str] = []
    damages: list[Damage] = []
    end = length = 0
    for match in _WORD.finditer(text):
        word = match.group()
        spoiled = spoil(word, others, rng) if rng.random() < share else word
        if spoiled.lower() == word.lower():
            continue
        start = length + match.start() - end
        pieces += [text[end : match.start()], spoiled]
        damages.append(Damage(start, start + len(spoiled), word, spoiled))
        end, length = match.end(), start + len(spoiled)
    return Damaged("".join([*pieces, text[end:]]), tuple(damages))


def misspell(word: str, _: Sequence[str], rng: Random) -> str:
    """Two letters exchanged, one left out, doubled, or hit beside its key; the first letter is seldom wrong."""
    place = rng.randrange(1, len(word))
    letter = word[place]
    options = [word[: place - 1] + letter + word[place - 1] + word[place + 1 :] if place > 1 else ""]
    options += [word[:place] + word[place + 1 :], word[:place] + letter + word[place:]]
    options += [word[:place] + near + word[place + 1 :] for near in _NEIGHBOURS.get(letter, "")]
    return rng.choice([option for option in options if option])


def exchange(word: str, words: Sequence[str], rng: Random) -> str:
    """Another word, as often as the text has it, with the first letter as large or small."""
    other = rng.choice(words)
    return other.capitalize() if word[0].isupper() else other[0].lower() + other[1:]


def misread(word: str, letters: Sequence[str], rng: Random) -> str:
    """One letter, or two, taken for what looks alike; a word without such letters stays.

    Beyond Latin, letters that look alike mostly stand beside each other in Unicode: ideographs by their radical, Hangul
    by its last consonant, Arabic by its form. So there a letter is taken for its neighbour among those of the text.
    """
    places = [(place, seen) for seen in _MISREAD for place in range(len(word)) if word.startswith(seen, place)]
    if places:
        place, seen = rng.choice(places)
        return word[:place] + _MISREAD[seen] + word[place + len(seen) :]
    known = [place for place, letter in enumerate(word) if letter in letters]
    if len(letters) < 2 or not known:
        return word
    place = rng.choice(known)
    beside = bisect_left(letters, word[place]) + rng.choice((-1, 1))
    return word[:place] + letters[beside if 0 <= beside < len(letters) else -2] + word[place + 1 :]
