"""Sentences whose every word has a part of speech and an entity type, known because the template says them.

templates, lexicon -> TaggedSentence -> CoNLL columns

The tags are those of Universal Dependencies, with both of its conjunctions as CONJ: "be" is AUX always, a possessive
PRON, "not" and the "to" of an infinitive PART.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

from electralab.analysis.sets.clauses import describe
from electralab.analysis.sets.drawing import Draw
from electralab.analysis.sets.lexicon import FRAMES, KIN, NAMES, PASSING, PERSONS, Noun
from electralab.artifacts import write_file

TAGS = ("NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV", "PRON", "DET", "ADP", "CONJ", "NUM", "PART", "PUNCT")
ENTITIES = ("PER", "LOC", "ORG", "O")
OUTSIDE = "O"
SENTENCES_PER_TEMPLATE = 12


_LISTS = {
    "last": ("Miller", "Brown", "Garcia", "Novak", "Rossi", "Tanaka", "Schmidt", "Larsen", "Khan", "Okafor"),
    "city": ("London", "Paris", "Berlin", "New York", "Madrid", "Cairo", "Boston", "San Francisco", "Dublin"),
    "land": (
        "France",
        "Japan",
        "Canada",
        "Egypt",
        "South Africa",
        "Norway",
        "Brazil",
        "New Zealand",
        "India",
        "Poland",
    ),
    "firm": (
        "Toyota",
        "Reuters",
        "Oxford University",
        "Harvard University",
        "Volvo",
        "Siemens",
        "Nokia",
        "Lloyds Bank",
    ),
    "body": ("Red Cross", "United Nations", "World Bank", "Supreme Court", "Labour Party", "European Union", "Senate"),
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "number": ("two", "three", "four", "five", "seven", "ten", "twelve", "twenty", "fifty"),
    "year": ("1945", "1968", "1989", "1999", "2004", "2015"),
    "spell": ("weeks", "months", "years"),
    "often": ("often", "always", "never", "usually", "rarely", "sometimes"),
    "manner": ("quickly", "slowly", "carefully", "quietly", "gladly", "calmly"),
    "pace": ("quickly", "slowly", "carefully", "quietly", "calmly", "badly"),
    "degree": ("very", "quite", "rather", "too", "extremely"),
    "note": ("very", "especially", "particularly"),
    "mood": ("tired", "happy", "hungry", "busy", "ill", "angry", "nervous", "proud"),
    "act": ("walk", "talk", "dance", "fight", "march", "swim", "work", "rest"),
    "stir": ("walk", "talk", "dance", "march", "work"),
    "sort": ("long", "short", "strange", "pleasant", "terrible", "wonderful"),
    "i": ("he", "she", "they", "we", "I", "you"),
    "we": ("they", "we", "you", "I"),
    "he": ("he", "she"),
    "him": ("him", "her", "them", "us", "me"),
    "his": ("his", "her", "their", "our"),
    "may": ("will", "can", "must", "should", "may", "could"),
    "shall": ("will", "must", "should", "may", "could"),
    "wish": ("wanted", "hoped", "planned", "tried", "promised", "decided"),
    "claim": ("said", "knew", "thought", "believed", "heard", "wrote"),
    "people": ("teachers", "workers", "soldiers", "students", "nurses", "women", "children", "farmers", "lawyers"),
    "things": ("letters", "houses", "books", "knives", "clocks", "horses", "boxes", "shirts", "paintings"),
    "bought": ("bought", "sold", "lost", "ordered", "stored", "counted"),
    "near": ("near", "outside", "behind", "opposite"),
    "place": ("station", "garden", "hospital", "library", "church", "market", "school"),
    "and": ("and", "but", "while"),
    "as": ("when", "because", "although", "before", "after"),
    "when": ("when", "because", "although", "while", "if"),
    "went": ("travelled", "moved", "went", "returned", "flew"),
}


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    words: tuple[str, ...]
    tags: tuple[str, ...]
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    tag: str
    entity: str = OUTSIDE


@cache
def list_tagged() -> tuple[TaggedSentence, ...]:
    """Distinct sentences, always the same and in the same order."""
    draw = Draw("tagged")
    sentences: dict[TaggedSentence, None] = {}
    for template in _TEMPLATES:
        wanted = len(sentences) + SENTENCES_PER_TEMPLATE
        while len(sentences) < wanted:
            words = list(_fill(draw, template))
            if not _repeats_itself(words):
                sentences[_join(words)] = None
    return tuple(sentences)


def format_conll(sentences: Iterable[TaggedSentence]) -> str:
    """Word, part of speech and entity in columns, a blank line after each sentence; a run of one type is one entity."""
    return "".join("".join(f"{' '.join(line)}\n" for line in _columns(sentence)) + "\n" for sentence in sentences)


def write_conll(path: Path, sentences: Iterable[TaggedSentence]) -> None:
    write_file(path, format_conll(sentences))


def _columns(sentence: TaggedSentence) -> Iterator[tuple[str, str, str]]:
    neighbours = pairwise((OUTSIDE, *sentence.entities))
    for word, tag, (before, entity) in zip(sentence.words, sentence.tags, neighbours, strict=True):
        prefix = "I-" if before == entity else "B-"
        yield word, tag, entity if entity == OUTSIDE else prefix + entity


def _fill(draw: Draw, template: str) -> Iterator[_Word]:
    for part in template.split():
        text, _, tag = part.partition("/")
        if not text.startswith("$"):
            yield _Word(text, tag)
        elif tag:
            yield _Word(draw.pick(_LISTS[text[1:]]), tag)
        else:
            yield from _SLOTS[text[1:]](draw)


def _repeats_itself(words: list[_Word]) -> bool:
    contents = [word.text for word in words if word.tag in ("NOUN", "PROPN", "VERB", "ADJ")]
    return len(set(contents)) < len(contents)


def _join(words: list[_Word]) -> TaggedSentence:
    texts = [word.text for word in words]
    texts[0] = texts[0][0].upper() + texts[0][1:]
    return TaggedSentence(tuple(texts), tuple(word.tag for word in words), tuple(word.entity for word in words))


def _name(text: str, entity: str) -> list[_Word]:
    return [_Word(word, "PROPN", entity) for word in text.split()]


def _draw_person(draw: Draw) -> list[_Word]:
    last = draw.pick(("", "", *_LISTS["last"]))
    return _name(f"{draw.pick(NAMES)} {last}", "PER")


def _draw_organisation(draw: Draw) -> list[_Word]:
    name = draw.pick((*_LISTS["firm"], *_LISTS["body"]))
    article = [_Word("the", "DET")] if name in _LISTS["body"] else []
    return [*article, *_name(name, "ORG")]


def _draw_somebody(draw: Draw) -> list[_Word]:
    noun = draw.pick((*PERSONS.values(), *KIN.values()))
    determiner = draw.pick(("my", "our") if noun.singular in KIN else ("a", "the", "this"))
    return _describe(draw, determiner, noun)


def _describe(draw: Draw, determiner: str, noun: Noun, unfit: tuple[str, ...] = ()) -> list[_Word]:
    adjective = draw.pick(("", *(word for word in noun.adjectives if word not in unfit)))
    first, *rest = describe(determiner, adjective, noun).nominative.split()
    article = _Word(first, "PRON" if determiner in ("my", "our") else "DET")
    return [article, *(_Word(word, "ADJ") for word in rest[:-1]), _Word(rest[-1], "NOUN")]


def _draw_deed(form: Literal["base", "third", "past", "participle", "gerund"]) -> Callable[[Draw], list[_Word]]:
    def draw_deed(draw: Draw) -> list[_Word]:
        frame = draw.pick(FRAMES)
        noun = draw.pick(frame.objects)
        determiner = draw.pick(("my", "our")) if noun.singular in KIN else frame.article
        thing = _describe(draw, determiner, noun, unfit=("old", "new", "clean", "broken", "empty", "tall", *PASSING))
        return [_Word(getattr(frame.verb, form), "VERB"), *thing]

    return draw_deed


_SLOTS: dict[str, Callable[[Draw], list[_Word]]] = {
    "per": _draw_person,
    "org": _draw_organisation,
    "firm": lambda draw: _name(draw.pick(_LISTS["firm"]), "ORG"),
    "city": lambda draw: _name(draw.pick(_LISTS["city"]), "LOC"),
    "land": lambda draw: _name(draw.pick(_LISTS["land"]), "LOC"),
    "somebody": _draw_somebody,
    "base": _draw_deed("base"),
    "third": _draw_deed("third"),
    "past": _draw_deed("past"),
    "participle": _draw_deed("participle"),
    "gerund": _draw_deed("gerund"),
}

_TEMPLATES = (
    "$per $past in/ADP $city ./PUNCT",
    "$somebody $past ,/PUNCT $and/CONJ $per $past ./PUNCT",
    "$per $went/VERB to/ADP $city on/ADP $day/PROPN ./PUNCT",
    "$per $went/VERB from/ADP $city to/ADP $land in/ADP $year/NUM ./PUNCT",
    "$per works/VERB for/ADP $org in/ADP $city ./PUNCT",
    "$org $bought/VERB $number/NUM $things/NOUN in/ADP $land ./PUNCT",
    "$org is/AUX not/PART $note/ADV famous/ADJ in/ADP $land ./PUNCT",
    "$per and/CONJ $per met/VERB $somebody in/ADP $city ./PUNCT",
    "$per $claim/VERB that/CONJ $somebody $past ./PUNCT",
    "$he/PRON $claim/VERB that/CONJ $firm would/AUX leave/VERB $land ./PUNCT",
    "$per $wish/VERB to/PART $base ./PUNCT",
    "$somebody $wish/VERB not/PART to/PART $base ./PUNCT",
    "$i/PRON $may/AUX $base with/ADP $per ./PUNCT",
    "$i/PRON $shall/AUX not/PART $base $when/CONJ $per is/AUX $mood/ADJ ./PUNCT",
    "$somebody is/AUX $degree/ADV $mood/ADJ ./PUNCT",
    "$somebody was/AUX $mood/ADJ $as/CONJ $per $past ./PUNCT",
    "$per $often/ADV $third ./PUNCT",
    "$per $manner/ADV $past and/CONJ left/VERB $city ./PUNCT",
    "$somebody has/AUX $participle with/ADP $per ./PUNCT",
    "$per joined/VERB $org in/ADP $year/NUM ./PUNCT",
    "$org thanked/VERB $per for/ADP the/DET $number/NUM $things/NOUN ./PUNCT",
    "$per was/AUX $gerund $near/ADP the/DET $place/NOUN ./PUNCT",
    "did/AUX $per $base on/ADP $day/PROPN ?/PUNCT",
    "does/AUX $somebody live/VERB in/ADP $city ?/PUNCT",
    "who/PRON $past in/ADP $land ?/PUNCT",
    "$number/NUM $people/NOUN waited/VERB $near/ADP the/DET $place/NOUN in/ADP $city ./PUNCT",
    "there/PRON were/AUX $number/NUM $things/NOUN $near/ADP the/DET $place/NOUN ./PUNCT",
    "all/DET the/DET $people/NOUN in/ADP $city know/VERB $per ./PUNCT",
    "the/DET $act/NOUN was/AUX $degree/ADV $sort/ADJ ./PUNCT",
    "the/DET $people/NOUN $act/VERB every/DET $day/PROPN ./PUNCT",
    "$we/PRON $stir/VERB $near/ADP the/DET $place/NOUN $when/CONJ $per is/AUX there/ADV ./PUNCT",
    "$people/NOUN $often/ADV $stir/VERB $pace/ADV ./PUNCT",
    "the/DET $stir/NOUN with/ADP $per was/AUX $often/ADV $sort/ADJ ./PUNCT",
    "$per gave/VERB $him/PRON $number/NUM $things/NOUN ./PUNCT",
    "$his/PRON $stir/NOUN with/ADP $per was/AUX $sort/ADJ ./PUNCT",
    "$people/NOUN from/ADP $land lived/VERB in/ADP $city for/ADP $number/NUM $spell/NOUN ./PUNCT",
    "$firm and/CONJ $firm $bought/VERB $things/NOUN in/ADP $year/NUM ./PUNCT",
)
