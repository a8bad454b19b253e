"""A clause knows its subject, verb and tense; statement, negation, question and passive follow from them.

Phrase, Verb, Tense -> Clause -> sentence

A verb group is a list whose first word is finite: "not" goes behind it, a question puts it in front, and where there is
no auxiliary, "do" becomes one.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

from electralab.analysis.sets.lexicon import BE, DO, HAVE, Noun, Verb

Tense = Literal["present", "past", "present progressive", "past progressive", "perfect", "will", "can", "must"]

_SOUNDS_LIKE_A_VOWEL = ("honest", "hour", "heir")
_SOUNDS_LIKE_A_CONSONANT = ("uni", "use", "usu", "euro", "one", "once")
_PLURAL_DETERMINERS = {"a": "", "this": "these", "that": "those"}


@dataclass(frozen=True, slots=True)
class Phrase:
    """What can be a subject or an object."""

    nominative: str
    accusative: str
    person: Literal[1, 2, 3] = 3
    is_plural: bool = False
    noun: str = ""
    """The singular of its noun; empty for names and pronouns."""
    many: "Phrase | None" = None
    """The same said of several; names have none, and what is plural already."""

    @property
    def is_third_singular(self) -> bool:
        return self.person == 3 and not self.is_plural


_WE = Phrase("we", "us", person=1, is_plural=True)
_THEY = Phrase("they", "them", is_plural=True)
PRONOUNS = {
    "I": Phrase("I", "me", person=1, many=_WE),
    "you": Phrase("you", "you", person=2, is_plural=True),
    "he": Phrase("he", "him", many=_THEY),
    "she": Phrase("she", "her", many=_THEY),
    "we": _WE,
    "they": _THEY,
}
THERE = Phrase("there", "there", many=Phrase("there", "there", is_plural=True))


def name(text: str) -> Phrase:
    return Phrase(text, text)


def describe(determiner: str, adjective: str, noun: Noun) -> Phrase:
    """One of them; `many` has the rest: "a cup" and "cups", "this old man" and "these old men"."""
    adjectives = [adjective] if adjective else []
    determiners = [_PLURAL_DETERMINERS.get(determiner, determiner)]
    many = " ".join([*filter(None, determiners), *adjectives, noun.plural])
    rest = " ".join([*adjectives, noun.singular])
    one = f"{choose_article(rest) if determiner == 'a' else determiner} {rest}"
    return Phrase(one, one, noun=noun.singular, many=Phrase(many, many, is_plural=True, noun=noun.singular))


def choose_article(word: str) -> str:
    """By sound, as far as the words that come along need it."""
    if word.startswith(_SOUNDS_LIKE_A_VOWEL):
        return "an"
    return "an" if word[0] in "aeiou" and not word.startswith(_SOUNDS_LIKE_A_CONSONANT) else "a"


@dataclass(frozen=True, slots=True)
class Clause:
    subject: Phrase
    verb: Verb
    tense: Tense
    object: Phrase | None = None
    tail: str = ""
    """What follows verb and object: an adverbial, or what is said of the subject."""
    agent: Phrase | None = None
    """Who does it; only a passive has one."""

    def to_passive(self) -> Self:
        assert self.object is not None, "only what has an object has a passive"
        return replace(self, subject=self.object, object=None, agent=self.subject)

    def to_plural(self) -> Self | None:
        """All that is counted becomes many, but for what stands in the tail; none where the subject cannot."""
        if self.subject.many is None:
            return None
        return replace(self, subject=self.subject.many, object=self.object and self.object.many)

    def state(self) -> str:
        return _end([self.subject.nominative, *self._group(), *self._rest()], ".")

    def deny(self) -> str:
        first, *others = self._supported_group()
        negated = "cannot" if first == "can" else f"{first} not"
        return _end([self.subject.nominative, negated, *others, *self._rest()], ".")

    def ask(self) -> str:
        first, *others = self._supported_group()
        return _end([first, self.subject.nominative, *others, *self._rest()], "?")

    def _group(self) -> list[str]:
        if self.agent is not None:
            return [*_conjugate(BE, self.tense, self.subject), self.verb.participle]
        return _conjugate(self.verb, self.tense, self.subject)

    def _supported_group(self) -> list[str]:
        group = self._group()
        if len(group) > 1 or self.verb is BE:
            return group
        return [*_conjugate(DO, self.tense, self.subject), self.verb.base]

    def _rest(self) -> list[str]:
        parts = [
            self.object.accusative if self.object else "",
            f"by {self.agent.accusative}" if self.agent else "",
            self.tail,
        ]
        return [part for part in parts if part]


def _conjugate(verb: Verb, tense: Tense, subject: Phrase) -> list[str]:
    match tense:
        case "present" | "past":
            return [_agree(verb, tense, subject)]
        case "present progressive":
            return [_agree(BE, "present", subject), verb.gerund]
        case "past progressive":
            return [_agree(BE, "past", subject), verb.gerund]
        case "perfect":
            return [_agree(HAVE, "present", subject), verb.participle]
        case _:
            return [tense, verb.base]


def _agree(verb: Verb, tense: Literal["present", "past"], subject: Phrase) -> str:
    if verb is BE:
        if subject == PRONOUNS["I"]:
            return "am" if tense == "present" else "was"
        is_singular = subject.is_third_singular
        return {"present": ("are", "is"), "past": ("were", "was")}[tense][is_singular]
    if tense == "past":
        return verb.past
    return verb.third if subject.is_third_singular else verb.base


def _end(parts: list[str], mark: str) -> str:
    text = " ".join(parts)
    return text[0].upper() + text[1:] + mark
