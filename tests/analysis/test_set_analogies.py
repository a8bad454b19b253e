"""Analogies are plain words, four different ones, and enough of them in every family."""

from collections import Counter

from electralab.analysis.sets.analogies import Analogy, list_analogies


def test_there_are_enough_in_enough_families() -> None:
    analogies = list_analogies()
    families = Counter(analogy.family for analogy in analogies)
    assert len(analogies) == len(set(analogies)) == 393
    assert len(families) == 12
    assert min(families.values()) >= 20


def test_words_are_single_lower_case_and_different() -> None:
    for analogy in list_analogies():
        words = (analogy.a, analogy.b, analogy.c, analogy.d)
        assert len(set(words)) == 4
        assert all(word.isalpha() and word.islower() for word in words)


def test_within_a_family_a_word_has_one_partner() -> None:
    """Else two answers would be right."""
    partners: dict[tuple[str, str], set[str]] = {}
    for analogy in list_analogies():
        partners.setdefault((analogy.family, analogy.a), set()).add(analogy.b)
        partners.setdefault((analogy.family, analogy.c), set()).add(analogy.d)
    assert {key: found for key, found in partners.items() if len(found) > 1} == {}


def test_examples_everybody_knows() -> None:
    analogies = set(list_analogies())
    assert Analogy("capital", "paris", "france", "london", "england") in analogies
    assert Analogy("gender", "king", "queen", "man", "woman") in analogies
    assert Analogy("past tense", "go", "went", "see", "saw") in analogies
    assert Analogy("comparative", "good", "better", "bad", "worse") in analogies
