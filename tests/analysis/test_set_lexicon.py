"""Every form in the lexicon obeys the rules of English spelling, or is an irregular one that is listed here by hand."""

import re

import pytest

from electralab.analysis.sets.lexicon import (
    ACTIVITIES,
    ANIMAL_ACTIVITIES,
    FOUND,
    FRAMES,
    NOUNS,
    ONCE_FRAMES,
    TRADES,
    UNFIT,
    Noun,
    Verb,
)

VERBS = sorted(
    {frame.verb for frame in (*FRAMES, *ONCE_FRAMES)}
    | {activity.verb for activity in (*ACTIVITIES, *ANIMAL_ACTIVITIES)},
    key=lambda verb: verb.base,
)
IRREGULAR_VERBS = {
    *("break broke broken", "write wrote written", "read read read", "build built built", "buy bought bought"),
    *("sell sold sold", "eat ate eaten", "draw drew drawn", "sing sang sung", "hide hid hidden", "steal stole stolen"),
    *("catch caught caught", "feed fed fed", "ride rode ridden", "drive drove driven", "throw threw thrown"),
    *("cut cut cut", "grow grew grown", "teach taught taught", "send sent sent", "bring brought brought"),
    *("take took taken", "shut shut shut", "ring rang rung", "make made made", "sweep swept swept"),
    *("choose chose chosen", "lose lost lost", "find found found", "forget forgot forgotten", "meet met met"),
    *("win won won", "sleep slept slept", "run ran run", "swim swam swum", "sit sat sat", "stand stood stood"),
    *("speak spoke spoken", "drink drank drunk", "lie lay lain"),
}
IRREGULAR_PLURALS = {
    *("child children", "woman women", "man men", "policeman policemen", "goose geese", "sheep sheep", "mouse mice"),
    *("ox oxen", "fish fish", "wolf wolves", "calf calves", "knife knives", "shelf shelves", "scarf scarves"),
    *("loaf loaves", "leaf leaves", "thief thieves", "potato potatoes", "tomato tomatoes"),
}
DOUBLED = {"cut", "shut", "run", "swim", "sit", "win", "travel", "forget"}
SIBILANT = re.compile(r"(s|x|z|ch|sh)$")


def add_s(word: str) -> str:
    if SIBILANT.search(word):
        return word + "es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", word) + "s"


def add_ed(base: str) -> str:
    if base in DOUBLED:
        return base + base[-1] + "ed"
    return re.sub(r"(?<=[^aeiou])y$", "i", base).removesuffix("e") + "ed"


def add_ing(base: str) -> str:
    if base.endswith("ie"):
        return base[:-2] + "ying"
    return base + base[-1] + "ing" if base in DOUBLED else base.removesuffix("e") + "ing"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.base)
def test_verb_has_its_forms(verb: Verb) -> None:
    assert verb.third == add_s(verb.base)
    assert verb.gerund == add_ing(verb.base)
    if f"{verb.base} {verb.past} {verb.participle}" not in IRREGULAR_VERBS:
        assert verb.past == verb.participle == add_ed(verb.base)


@pytest.mark.parametrize("noun", NOUNS.values(), ids=NOUNS)
def test_noun_has_its_plural(noun: Noun) -> None:
    assert noun.plural == add_s(noun.singular) or f"{noun.singular} {noun.plural}" in IRREGULAR_PLURALS
    assert noun.adjectives


def test_vocabulary_is_varied() -> None:
    assert len({verb.base for verb in VERBS}) == len(VERBS) >= 60
    assert len(NOUNS) >= 100


def test_lists_name_words_that_exist() -> None:
    assert {word for words in FOUND.values() for word in words} | set(TRADES) <= set(NOUNS)
    assert set(UNFIT) <= {verb.base for verb in VERBS}
