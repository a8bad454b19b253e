"""What happens to texts: slips of the finger, words spelt by ear, wrong words and forms, letters misread by a scanner.

text, kind, share, rng (, WordCounts) -> Damaged
"""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Literal, get_args

from electralab.corpus.scripts import HANGUL, MARKS, SPACELESS

DamageKind = Literal["typo", "swap", "ocr"]
DAMAGE_KINDS: tuple[DamageKind, ...] = get_args(DamageKind)
PlantedKind = Literal["typo", "sound", "ocr", "word", "form"]
PLANTED_KINDS: tuple[PlantedKind, ...] = get_args(PlantedKind)
"""What a detector of wrong words is fitted on and measured by: keyboard, ear, scanner, another word, another form."""

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
# Letters that sound alike in languages with Latin script: taken for each other, or only the left for the right.
_SOUND_PAIRS = (
    *(("ie", "ei"), ("ph", "f"), ("ck", "k"), ("ee", "ea"), ("able", "ible"), ("ance", "ence"), ("ant", "ent")),
    *(("tion", "sion"), ("ss", "s"), ("ll", "l"), ("mm", "m"), ("nn", "n"), ("tt", "t"), ("rr", "r"), ("pp", "p")),
    *(("c", "s"), ("c", "k"), ("s", "z"), ("a", "e"), ("i", "y"), ("x", "ch"), ("g", "j"), ("lh", "li"), ("ão", "am")),
)
_LOST_SOUNDS = (
    *(("ou", "o"), ("au", "a"), ("gh", ""), ("ç", "ss"), ("ç", "s"), ("nh", "ni"), ("á", "a"), ("à", "a"), ("é", "e")),
    *(("ê", "e"), ("í", "i"), ("ó", "o"), ("ô", "o"), ("ú", "u"), ("ã", "a"), ("õ", "o"), ("â", "a"), ("ü", "u")),
    *(("ö", "o"), ("ä", "e"), ("ñ", "n")),
)
_SOUNDS = sorted({*_SOUND_PAIRS, *((right, left) for left, right in _SOUND_PAIRS), *_LOST_SOUNDS})

# Of the words with accents: the share of those written by ear that lose one.
_ACCENT_SHARE = 0.5

# A Korean syllable is its first consonant, its vowel and its last consonant, by their numbers in Unicode's tables.
_INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_FINALS = " ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"
_SYLLABLES = len(_INITIALS) * len(_VOWELS) * len(_FINALS)
# Of the words that can be written by ear in both ways: the share in which a consonant moves to the next syllable.
_MOVED_SHARE = 0.5
# Groups of letters that stand beside each other on the usual keyboard (of two sets), that sound alike, that look alike.
_JAMO: Mapping[str, tuple[str, ...]] = {
    "typo": (
        *("ㅂㅈ", "ㅈㄷ", "ㄷㄱ", "ㄱㅅ", "ㅁㄴ", "ㄴㅇ", "ㅇㄹ", "ㄹㅎ", "ㅋㅌ", "ㅌㅊ", "ㅊㅍ"),
        *("ㅛㅕ", "ㅕㅑ", "ㅑㅐ", "ㅐㅔ", "ㅗㅓ", "ㅓㅏ", "ㅏㅣ", "ㅠㅜ", "ㅜㅡ"),
        # With and without the shift key.
        *("ㅃㅂ", "ㅉㅈ", "ㄸㄷ", "ㄲㄱ", "ㅆㅅ", "ㅒㅐ", "ㅖㅔ"),
    ),
    "sound": (
        "ㅐㅔ",
        "ㅒㅖ",
        "ㅙㅚㅞ",
        "ㅢㅣ",
        "ㅅㅆㄷㅈㅊㅌ",
        "ㄱㄲㅋ",
        "ㅂㅍ",
        "ㅂㅃ",
        "ㅈㅉ",
        "ㄷㄸ",
        "ㅡㅜ",
        "ㅗㅜ",
    ),
    "ocr": (
        "ㅏㅑㅣ",
        "ㅓㅕㅣ",
        "ㅗㅛㅡ",
        "ㅜㅠㅡ",
        "ㄱㅋ",
        "ㄷㅌㄹ",
        "ㅁㅂㅇ",
        "ㅇㅎ",
        "ㅅㅈㅊ",
        "ㅐㅒㅔ",
        "ㄴㄹ",
        "ㅂㅍ",
        "ㅆㅅ",
    ),
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
    return _damage_words(text, share, rng, lambda word: spoil(word, others, rng))


def plant_damage(text: str, kinds: Sequence[PlantedKind], share: float, rng: Random, counts: "WordCounts") -> Damaged:
    """Damage about this share of the words, each by a kind drawn anew; a word that this kind cannot damage stays.

    Wrong words and forms are words of the texts that were counted, so that nothing but the context gives them away.
    """
    return _damage_words(text, share, rng, lambda word: counts.spoil(word, rng.choice(kinds), rng))


def _damage_words(text: str, share: float, rng: Random, spoil: Callable[[str], str]) -> Damaged:
    pieces: list[str] = []
    damages: list[Damage] = []
    end = length = 0
    for match in _WORD.finditer(text):
        word = match.group()
        spoiled = spoil(word) if rng.random() < share else word
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


class WordCounts:
    """How often each word stands in some texts: what wrong words and forms are chosen from, and letters misread as."""

    # So many words on each side in the order of frequency, of the same length or one letter more or less.
    _REACH = 15

    def __init__(self, texts: Iterable[str] | Mapping[str, int]) -> None:
        """Texts, or words that are counted already."""
        if isinstance(texts, Mapping):
            self.counts = Counter({word: count for word, count in texts.items() if _WORD.fullmatch(word)})
        else:
            self.counts = Counter(match.group().lower() for text in texts for match in _WORD.finditer(text))
        self._letters = sorted(letter for letter in set().union(*self.counts) if not letter.isascii())
        # A word that stands there once may be a mistake already.
        self._words = sorted(word for word, count in self.counts.items() if count > 1)
        # By script, too: a Latin word in the place of a Korean one gives itself away.
        by_length: dict[tuple[int, bool], list[tuple[int, str]]] = {}
        for word in self._words:
            count = self.counts[word]
            for length in (len(word) - 1, len(word), len(word) + 1):
                by_length.setdefault((length, is_korean(word)), []).append((count, word))
        self._by_length = {length: sorted(words) for length, words in by_length.items()}

    def spoil(self, word: str, kind: PlantedKind, rng: Random) -> str:
        """The word as this kind of mistake leaves it, with the first letter as large or small as it was."""
        if kind in ("word", "form"):
            other = self.choose_word(word, rng) if kind == "word" else self.choose_form(word, rng)
            return other[:1].upper() + other[1:] if word[0].isupper() else other
        if is_korean(word):
            if kind == "sound" and (moved := move_consonants(word)) and rng.random() < _MOVED_SHARE:
                return rng.choice(moved)
            return misspell_syllable(word, _JAMO[kind], rng, has_slips=kind == "typo")
        if kind == "sound":
            return mishear(word, rng)
        return misspell(word, [], rng) if kind == "typo" else misread(word, self._letters, rng)

    def choose_word(self, word: str, rng: Random) -> str:
        """Another word that is about as long and about as frequent."""
        lower = word.lower()
        near = self._by_length.get((len(word), is_korean(word)), [])
        place = bisect_left(near, (self.counts[lower], lower))
        others = [other for _, other in near[max(place - self._REACH, 0) : place + self._REACH + 1] if other != lower]
        return rng.choice(others) if others else word

    def choose_form(self, word: str, rng: Random) -> str:
        """Another word with the same beginning: both begin alike for two thirds of the longer one (half in Korean), in
        three letters at least, or of the shortest words any other would be a form."""
        lower = word.lower()
        shared, least = (1 / 2, 1) if is_korean(word) else (2 / 3, 3)
        stem = lower[: max(math.ceil(shared * len(lower)), least)]
        first, after = bisect_left(self._words, stem), bisect_right(self._words, stem + chr(0x10FFFF))
        forms = []
        for other in self._words[first:after]:
            alike = max(math.ceil(shared * max(len(lower), len(other))), least)
            if other != lower and other[:alike] == lower[:alike]:
                forms.append(other)
        return rng.choice(forms) if forms else word


def is_korean(word: str) -> bool:
    return "가" <= word[0] <= "힣"


def mishear(word: str, rng: Random) -> str:
    """Letters written as others that sound alike; a word without such letters stays.

    >>> sorted({mishear("receive", Random(seed)) for seed in range(50)})
    ['raceive', 'recaive', 'receiva', 'receyve', 'recieve', 'rekeive', 'reseive']
    """
    lower = word.lower()
    pairs: Sequence[tuple[str, str]] = _SOUNDS
    # An accent is heard less than it is written.
    if not word.isascii() and rng.random() < _ACCENT_SHARE:
        pairs = [pair for pair in _LOST_SOUNDS if not pair[0].isascii()]
    # Not the first letter: those who spell by ear seldom get it wrong, and its capital would tell.
    places = [(place, *pair) for pair in pairs for place in range(1, len(word)) if lower.startswith(pair[0], place)]
    if not places:
        return word
    place, heard, written = rng.choice(places)
    return word[:place] + written + word[place + len(heard) :]


def move_consonants(word: str) -> list[str]:
    """A last consonant before a vowel is spoken at the beginning of the next syllable, and written there by ear.

    >>> move_consonants("먹었어요"), move_consonants("학교")
    (['머겄어요', '먹어써요'], [])
    """
    moved = []
    for place, (syllable, after) in enumerate(pairwise(word)):
        code, following = ord(syllable) - ord("가"), ord(after) - ord("가")
        if not (0 <= code < _SYLLABLES and 0 <= following < _SYLLABLES):
            continue
        last = _FINALS[code % 28]
        # ㅇ is silent at the beginning of a syllable; at its end it is a sound that stays.
        if last in _INITIALS and last != "ㅇ" and _INITIALS[following // 588] == "ㅇ":
            heard = ord(after) + (_INITIALS.index(last) - _INITIALS.index("ㅇ")) * 588
            moved.append(word[:place] + chr(ord(syllable) - code % 28) + chr(heard) + word[place + 2 :])
    return moved


def misspell_syllable(word: str, alike: Sequence[str], rng: Random, *, has_slips: bool) -> str:
    """One letter of one Korean syllable taken for another of its group; with slips also one left out or doubled."""
    options: list[str] = []
    for place, syllable in enumerate(word):
        code = ord(syllable) - ord("가")
        if not 0 <= code < _SYLLABLES:
            continue
        letters = [code // 588, code // 28 % 21, code % 28]  # 588 syllables begin alike, 28 differ in the last letter
        for index, table in enumerate((_INITIALS, _VOWELS, _FINALS)):
            letter = table[letters[index]]
            likes = {like for group in alike if letter in group for like in group if like in table} - {letter}
            for like in sorted(likes):
                other = chr(ord(syllable) + (table.index(like) - letters[index]) * (588, 28, 1)[index])
                options.append(word[:place] + other + word[place + 1 :])
    if has_slips and len(word) > 2:
        place = rng.randrange(1, len(word))
        options += [word[:place] + word[place + 1 :], word[:place] + word[place] + word[place:]]
    return rng.choice(options) if options else word
