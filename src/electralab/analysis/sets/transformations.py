"""Pairs of sentences that differ in one thing alone: voice, tense, number, polarity or mood.

lexicon -> Clause -> Pair
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Literal, get_args

from electralab.analysis.sets.clauses import PRONOUNS, THERE, Clause, Phrase, Tense, describe, name
from electralab.analysis.sets.drawing import Draw
from electralab.analysis.sets.lexicon import (
    ACTIVITIES,
    ANIMAL_ACTIVITIES,
    ANIMALS,
    BE,
    EVERY,
    FOUND,
    FRAMES,
    KIN,
    MOODS,
    NAMES,
    NOUNS,
    ONCE_FRAMES,
    PASSING,
    PERSONS,
    PLACES,
    STUFFS,
    THINGS,
    TRADES,
    UNFIT,
    UNWILLED,
    Noun,
    Often,
)

Transformation = Literal["passive", "past", "plural", "negative", "question"]
TRANSFORMATIONS: tuple[Transformation, ...] = get_args(Transformation)

PAIRS_PER_KIND = 300

_PERSONS, _KIN, _ANIMALS, _THINGS = (tuple(nouns.values()) for nouns in (PERSONS, KIN, ANIMALS, THINGS))
_TIMES: dict[Tense, tuple[str, ...]] = {
    "past": ("", "yesterday", "last week", "on Monday", "this morning"),
    "present progressive": ("", "today"),
    "past progressive": ("", "at the time"),
    "perfect": ("", "this week"),
    "will": ("", "tomorrow", "next week", "soon"),
    "can": ("", "tomorrow", "today"),
    "must": ("", "tomorrow", "today"),
}
_SLOW_TIMES: dict[Tense, tuple[str, ...]] = {
    "past": ("", "last year", "last summer", "in the spring"),
    "present progressive": ("", "this year"),
    "past progressive": ("", "at the time"),
    "perfect": ("", "this year"),
    "will": ("", "next year", "soon", "in the spring"),
    "can": ("", "next year"),
    "must": ("", "next year"),
}
"""Of what takes its time, such as building a house."""
_TENSES: tuple[Tense, ...] = ("present", "present", *_TIMES)
_PAST_OF: dict[Tense, Tense] = {"present": "past", "present progressive": "past progressive"}
_SIMPLE_OF: dict[Tense, Tense] = {"present progressive": "present", "past progressive": "past"}
_UNWILLED_OF: dict[Tense, Tense] = {"will": "past", "can": "present", "must": "perfect"}


@dataclass(frozen=True, slots=True)
class Pair:
    source: str
    target: str


@cache
def list_pairs(kind: Transformation) -> tuple[Pair, ...]:
    """No sentence stands in two pairs, so that halves of them share none; always the same and in the same order."""
    make, draw = _MAKERS[kind], Draw(kind)
    pairs: list[Pair] = []
    seen: set[str] = set()
    numbers = count()
    while len(pairs) < PAIRS_PER_KIND:
        pair = make(draw, next(numbers))
        # "They shut the gate every night." is its own past; "They are nurses." is the plural of two sentences.
        if pair is not None and pair.source != pair.target and not {pair.source, pair.target} & seen:
            pairs.append(pair)
            seen |= {pair.source, pair.target}
    return tuple(pairs)


def _make_passive(draw: Draw, number: int) -> Pair:
    clause = _draw_deed(draw, number, draw.pick(_TENSES))
    assert clause.object is not None, "a deed has an object"
    is_of_a_person = clause.object.noun in {*PERSONS, *KIN}
    if is_of_a_person and clause.subject.nominative not in PRONOUNS and draw.pick((True, False)):
        clause = replace(clause, object=PRONOUNS[draw.pick(("I", "he", "she", "we", "they"))])
    return Pair(clause.state(), clause.to_passive().state())


def _make_past(draw: Draw, number: int) -> Pair:
    clause = _draw_clause(draw, number, tuple(_PAST_OF))
    return Pair(clause.state(), replace(clause, tense=_PAST_OF[clause.tense]).state())


def _make_plural(draw: Draw, number: int) -> Pair | None:
    clause = _draw_clause(draw, number, _TENSES)
    many = clause.to_plural()
    return None if many is None else Pair(clause.state(), many.state())


def _make_negative(draw: Draw, number: int) -> Pair | None:
    clause = _draw_clause(draw, number, _TENSES)
    if clause.subject.nominative == THERE.nominative:  # "There is no mouse" is what people say.
        return None
    return Pair(clause.state(), clause.deny())


def _make_question(draw: Draw, number: int) -> Pair | None:
    clause = _draw_clause(draw, number, _TENSES)
    if clause.subject == PRONOUNS["I"]:  # People ask whether others do things.
        return None
    return Pair(clause.state(), clause.ask())


_MAKERS: dict[Transformation, Callable[[Draw, int], Pair | None]] = {
    "passive": _make_passive,
    "past": _make_past,
    "plural": _make_plural,
    "negative": _make_negative,
    "question": _make_question,
}


def _draw_clause(draw: Draw, number: int, tenses: Sequence[Tense]) -> Clause:
    """Kinds of clause in turn, and each goes through its own words in turn, so that all of them occur."""
    round_number, place = divmod(number, len(_CLAUSES))
    kind = _CLAUSES[place]
    turn = round_number * _CLAUSES.count(kind) + _CLAUSES[:place].count(kind)
    return kind(draw, turn, draw.pick(tenses))


def _draw_deed(draw: Draw, number: int, tense: Tense) -> Clause:
    """Anna writes a long letter every week."""
    frames = (*FRAMES, *ONCE_FRAMES)
    frame = frames[number % len(frames)]
    if frame.verb.base in UNWILLED:
        tense = _UNWILLED_OF.get(tense, tense)
    if frame in ONCE_FRAMES:
        tense = _SIMPLE_OF.get(tense, tense)
    noun = draw.pick(frame.objects)
    if noun in _KIN:
        determiner = draw.pick(("my", "our"))
    else:
        determiner = frame.article if tense == "present" else draw.pick((frame.article, "the", "this"))
    subject = _draw_subject(draw)
    while subject.noun == noun.singular:
        subject = _draw_subject(draw)
    thing = describe(determiner, _draw_adjective(draw, noun, UNFIT.get(frame.verb.base, ())), noun)
    tail = _draw_time(draw, frame.often, tense)
    return Clause(subject, frame.verb, tense, thing, tail)


def _draw_activity(draw: Draw, number: int, tense: Tense) -> Clause:
    """My older sister swims in the lake every Sunday."""
    activities = (*ACTIVITIES, *ANIMAL_ACTIVITIES)
    activity = activities[number % len(activities)]
    is_animal = activity in ANIMAL_ACTIVITIES
    if is_animal or activity.verb.base in UNWILLED:
        tense = _UNWILLED_OF.get(tense, tense)
    subject = _draw_animal(draw) if is_animal else _draw_subject(draw)
    time = _draw_time(draw, activity.often, tense)
    return Clause(subject, activity.verb, tense, tail=f"{draw.pick(activity.tails)} {time}".strip())


def _draw_mood(draw: Draw, number: int, tense: Tense) -> Clause:
    """These nurses are tired today."""
    subject = _draw_subject(draw, is_plain=True)
    mood = MOODS[number % len(MOODS)]
    return Clause(subject, BE, _to_state(tense), tail=f"{mood} {draw.pick(('', 'today'))}".strip())


def _draw_look(draw: Draw, number: int, tense: Tense) -> Clause:
    """That bridge is narrow."""
    noun = _THINGS[number % len(_THINGS)]
    thing = describe(draw.pick(("the", "this", "that")), "", noun)
    return Clause(thing, BE, _to_state(tense), tail=draw.pick([word for word in noun.adjectives if word not in STUFFS]))


def _draw_trade(draw: Draw, number: int, tense: Tense) -> Clause:
    """My brother is a lawyer."""
    subject = draw.pick((name(draw.pick(NAMES)), PRONOUNS["he"], PRONOUNS["she"], _draw_kin(draw)))
    noun = PERSONS[TRADES[number % len(TRADES)]]
    return Clause(subject, BE, _to_state(tense), describe("a", _draw_adjective(draw, noun, PASSING), noun))


def _draw_presence(draw: Draw, number: int, tense: Tense) -> Clause:
    """There is a grey mouse in the kitchen."""
    place = PLACES[number % len(PLACES)]
    noun = draw.pick([NOUNS[word] for word in FOUND[place]])
    return Clause(THERE, BE, _to_state(tense), describe("a", _draw_adjective(draw, noun), noun), place)


_CLAUSES: tuple[Callable[[Draw, int, Tense], Clause], ...] = (
    *(_draw_deed, _draw_activity, _draw_deed, _draw_mood, _draw_deed),
    *(_draw_activity, _draw_look, _draw_deed, _draw_trade, _draw_presence),
)


def _to_state(tense: Tense) -> Tense:
    return "past" if tense in ("past", "past progressive", "perfect") else "present"


def _draw_time(draw: Draw, often: Often, tense: Tense) -> str:
    if tense == "present":
        return draw.pick(EVERY[often])
    return draw.pick((_SLOW_TIMES if often == "year" else _TIMES)[tense])


def _draw_adjective(draw: Draw, noun: Noun, unfit: Sequence[str] = ()) -> str:
    return draw.pick(("", *(word for word in noun.adjectives if word not in unfit)))


def _draw_subject(draw: Draw, *, is_plain: bool = False) -> Phrase:
    """A plain one has no adjective."""
    kind = draw.pick(("name", "name", "pronoun", "kin", "person", "person", "persons"))
    if kind == "name":
        return name(draw.pick(NAMES))
    if kind == "pronoun":
        return PRONOUNS[draw.pick(tuple(PRONOUNS))]
    if kind == "kin":
        return _draw_kin(draw, is_plain=is_plain)
    noun = draw.pick(_PERSONS)
    adjective = "" if is_plain else _draw_adjective(draw, noun)
    phrase = describe(draw.pick(("the", "the", "this", "that")), adjective, noun)
    return phrase.many if kind == "persons" and phrase.many else phrase


def _draw_kin(draw: Draw, *, is_plain: bool = False) -> Phrase:
    noun = draw.pick(_KIN)
    return describe(draw.pick(("my", "our")), "" if is_plain else _draw_adjective(draw, noun), noun)


def _draw_animal(draw: Draw) -> Phrase:
    noun = draw.pick([noun for noun in _ANIMALS if noun.singular not in ("fish", "butterfly", "bird")])
    return describe(draw.pick(("the", "this", "that")), _draw_adjective(draw, noun), noun)
