"""Pairs are checked by rules that know nothing of how they were made."""

import re
from collections import Counter

import pytest

from electralab.analysis.sets.clauses import PRONOUNS, Clause, Tense, choose_article, describe, name
from electralab.analysis.sets.lexicon import (
    ACTIVITIES,
    ANIMAL_ACTIVITIES,
    BE,
    FRAMES,
    KIN,
    NOUNS,
    ONCE_FRAMES,
    PERSONS,
    Verb,
)
from electralab.analysis.sets.transformations import TRANSFORMATIONS, Pair, Transformation, list_pairs

VERBS = {frame.verb for frame in (*FRAMES, *ONCE_FRAMES)}
VERBS |= {activity.verb for activity in (*ACTIVITIES, *ANIMAL_ACTIVITIES)}
LEMMAS = {
    form: verb.base for verb in VERBS for form in (verb.base, verb.third, verb.past, verb.participle, verb.gerund)
}
BE_FORMS = {"be", "am", "is", "are", "was", "were", "been", "being"}
DO_FORMS = {"do", "does", "did"}
ACCUSATIVES = {"I": "me", "he": "him", "she": "her", "we": "us", "they": "them"}
PLURALS = {noun.plural for noun in NOUNS.values()} | {"they", "we", "you"}
SINGULARS = set(NOUNS) | {"he", "she"}

each_kind = pytest.mark.parametrize("kind", TRANSFORMATIONS)


def words_of(sentence: str) -> list[str]:
    words = sentence[:-1].split()
    return [words[0] if words[0] == "I" or is_name(words[0]) else words[0].lower(), *words[1:]]


def is_name(word: str) -> bool:
    return word.istitle() and word.lower() not in {
        *("a", "an"),
        *("the", "this", "that", "these", "those", "my", "our", "there"),
        *PRONOUNS,
        *("am", "is", "are", "was", "were", "do", "does", "did", "have", "has", "will", "can", "must"),
    }


def lemma(word: str) -> str:
    return "be" if word in BE_FORMS else LEMMAS.get(word, word)


def lemmas(sentence: str) -> Counter[str]:
    """Without "not" and without the "do" that only carries it."""
    words = ["can" if word == "cannot" else word for word in words_of(sentence)]
    return Counter(lemma(word) for word in words if word not in DO_FORMS | {"not"})


def all_pairs() -> list[Pair]:
    return [pair for kind in TRANSFORMATIONS for pair in list_pairs(kind)]


@each_kind
def test_there_are_enough_and_no_sentence_comes_twice(kind: Transformation) -> None:
    pairs = list_pairs(kind)
    assert len(pairs) == 300
    assert len({sentence for pair in pairs for sentence in (pair.source, pair.target)}) == 600


@each_kind
def test_vocabulary_is_varied_in_every_kind(kind: Transformation) -> None:
    seen = {word for pair in list_pairs(kind) for word in words_of(pair.source)}
    assert len({verb.base for verb in VERBS if seen & {verb.base, verb.third, verb.past, verb.gerund}}) >= 40
    assert len({noun.singular for noun in NOUNS.values() if seen & {noun.singular, noun.plural}}) >= 60


@each_kind
def test_pairs_are_drawn_anew_the_same(kind: Transformation) -> None:
    first = list_pairs(kind)
    list_pairs.cache_clear()
    assert list_pairs(kind) == first


def test_sentences_begin_with_a_capital_and_end_with_their_mark() -> None:
    for kind in TRANSFORMATIONS:
        for pair in list_pairs(kind):
            assert re.fullmatch(r"[A-Z][A-Za-z ]+\.", pair.source)
            assert re.fullmatch(r"[A-Z][A-Za-z ]+[.?]", pair.target)
            assert pair.target.endswith("?") == (kind == "question")
            assert "  " not in pair.source + pair.target


def test_articles_go_by_the_sound() -> None:
    for pair in all_pairs():
        for article, word in re.findall(r"\b(an?) (\w+)", f"{pair.source} {pair.target}", re.IGNORECASE):
            assert (article.lower() == "an") == (word == "honest" or (word[0] in "aeiou" and word != "useful")), pair


def test_number_agrees_within_and_around_the_noun_phrase() -> None:
    for pair in all_pairs():
        for sentence in (pair.source, pair.target):
            for determiner, rest in re.findall(r"\b(these|those|this|that|an?) ((?:\w+ ?){1,2})", sentence.lower()):
                head = next((word for word in rest.split() if word in PLURALS | SINGULARS), None)
                assert head is None or head in (PLURALS if determiner in ("these", "those") else SINGULARS), sentence
            for head, verb in re.findall(r"\b(\w+) (is|are|was|were|has|have|does|do)\b", sentence.lower()):
                if head in PLURALS - SINGULARS:
                    assert verb in ("are", "were", "have", "do"), sentence
                elif head in SINGULARS - PLURALS:
                    assert verb in ("is", "was", "has", "does"), sentence


def test_passive_has_be_and_the_participle_and_swaps_its_noun_phrases() -> None:
    for pair in list_pairs("passive"):
        active, passive = words_of(pair.source), words_of(pair.target)
        by = passive.index("by")
        assert passive[by - 2] in BE_FORMS, pair
        verb = next(verb for verb in VERBS if verb.participle == passive[by - 1])
        place = next(i for i, word in enumerate(active) if lemma(word) == verb.base and i > 0)
        auxiliaries = {*BE_FORMS, "has", "have", "will", "can", "must"}
        subject = [word for word in active[:place] if word not in auxiliaries]
        agent = " ".join(ACCUSATIVES.get(word, word) for word in subject)
        assert " ".join(passive[by + 1 :]).startswith(agent), pair
        patient = [word for word in passive[: by - 2] if word not in auxiliaries]
        assert " ".join(active[place + 1 :]).startswith(" ".join(ACCUSATIVES.get(word, word) for word in patient)), pair


def test_past_changes_one_word_and_into_its_past() -> None:
    pasts = {"am": "was", "is": "was", "are": "were"}
    pasts |= {form: verb.past for verb in VERBS for form in (verb.base, verb.third)}
    for pair in list_pairs("past"):
        changes = [(a, b) for a, b in zip(words_of(pair.source), words_of(pair.target), strict=True) if a != b]
        assert len(changes) == 1, pair
        assert pasts[changes[0][0]] == changes[0][1], pair


def test_plural_makes_every_noun_plural_but_those_of_adverbials() -> None:
    plural_of = {noun.singular: noun.plural for noun in NOUNS.values()}
    adverbial = re.compile(
        r" (in|to|at|by|for|from|under|on|along|behind|around|across|near|this week|this morning|this year)\b.*"
    )
    for pair in list_pairs("plural"):
        source, target = (words_of(adverbial.sub(".", sentence)) for sentence in (pair.source, pair.target))
        wanted = [plural_of[word] for word in source if word in plural_of]
        assert [word for word in target if word in PLURALS - {"they", "we"}] == wanted, pair
        assert not {"he", "she", "I", "this", "that", "a", "an", "is", "was", "has"} & set(target), pair


def test_negation_adds_not_and_nothing_else() -> None:
    for pair in list_pairs("negative"):
        assert len(re.findall(r"\bnot\b|\bcannot\b", pair.target)) == 1, pair
        assert "not" not in pair.source
        assert lemmas(pair.source) == lemmas(pair.target), pair


def test_question_begins_with_an_auxiliary_and_keeps_the_words() -> None:
    auxiliaries = {*BE_FORMS, *DO_FORMS, "have", "has", "will", "can", "must"}
    for pair in list_pairs("question"):
        assert words_of(pair.target)[0] in auxiliaries, pair
        assert lemmas(pair.source) == lemmas(pair.target), pair


@each_kind
def test_after_do_the_verb_is_bare(kind: Transformation) -> None:
    bases = {verb.base for verb in VERBS}
    for pair in list_pairs(kind):
        words = words_of(pair.target)
        if words[0] in DO_FORMS or ("not" in words and words[words.index("not") - 1] in DO_FORMS):
            rest = words[words.index("not") + 1 :] if "not" in words else words[1:]
            assert any(word in bases for word in rest), pair


WRITE = Verb("write", "writes", "wrote", "written", "writing")
LETTER = describe("a", "old", NOUNS["letter"])


@pytest.mark.parametrize(
    ("tense", "active", "passive", "negative", "question"),
    [
        ("present", "She writes X.", "X is written by her.", "She does not write X.", "Does she write X?"),
        ("past", "She wrote X.", "X was written by her.", "She did not write X.", "Did she write X?"),
        ("perfect", "She has written X.", "X has been written by her.", "She has not written X.", "Has she written X?"),
        ("can", "She can write X.", "X can be written by her.", "She cannot write X.", "Can she write X?"),
        ("will", "She will write X.", "X will be written by her.", "She will not write X.", "Will she write X?"),
        (
            *("past progressive", "She was writing X.", "X was being written by her."),
            *("She was not writing X.", "Was she writing X?"),
        ),
    ],
)
def test_a_clause_in_every_tense(tense: Tense, active: str, passive: str, negative: str, question: str) -> None:
    clause = Clause(PRONOUNS["she"], WRITE, tense, LETTER)
    said = [clause.state(), clause.to_passive().state(), clause.deny(), clause.ask()]
    wanted = [sentence.replace("X", "an old letter") for sentence in (active, passive, negative, question)]
    assert said == [sentence[0].upper() + sentence[1:] for sentence in wanted]


def test_i_am_and_i_was_and_we_are() -> None:
    tired = Clause(PRONOUNS["I"], BE, "present", tail="tired")
    assert tired.state() == "I am tired."
    assert tired.deny() == "I am not tired."
    many = tired.to_plural()
    assert many is not None
    assert many.ask() == "Are we tired?"
    assert Clause(PRONOUNS["I"], BE, "past", tail="ill").state() == "I was ill."


def test_plural_of_this_and_of_an_indefinite_object() -> None:
    clause = Clause(describe("this", "tall", PERSONS["woman"]), WRITE, "present", LETTER, "every day")
    many = clause.to_plural()
    assert many is not None
    assert many.state() == "These tall women write old letters every day."


def test_a_name_has_no_plural() -> None:
    assert Clause(name("Anna"), BE, "present", tail="ill").to_plural() is None


@pytest.mark.parametrize(
    ("word", "article"), [("apple", "an"), ("honest man", "an"), ("useful map", "a"), ("one", "a"), ("hat", "a")]
)
def test_article(word: str, article: str) -> None:
    assert choose_article(word) == article


def test_kin_is_somebodys() -> None:
    kin = "|".join(f"{noun.singular}|{noun.plural}" for noun in KIN.values())
    adjectives = "|".join({adjective for noun in KIN.values() for adjective in noun.adjectives})
    for pair in all_pairs():
        assert not re.search(rf"\b(?!my|our|{adjectives})\w+ ({kin})\b", pair.source, re.IGNORECASE), pair
