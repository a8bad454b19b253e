"""Linear models of words and characters: what they learn from a few rows, and what they do with nothing to learn."""

import math

import numpy as np
import pytest

from electralab.tasks.baselines import LinearClassifier, LinearRegressor, TextFeatures, WindowTagger, compare_bags

ANIMALS = [("the cat sat",), ("a cat",), ("cat on the mat",), ("the dog sat",), ("a dog",), ("dog on the mat",)]


def test_classes_are_told_by_a_word() -> None:
    model = LinearClassifier().fit(ANIMALS, ["yes"] * 3 + ["no"] * 3)
    assert model.predict([("my cat ran",), ("my dog ran",)]) == ["yes", "no"]


def test_classes_are_told_by_punctuation_and_by_parts_of_words() -> None:
    asked = LinearClassifier().fit([("is it so ?",), ("it is so .",), ("so ?",), ("so .",)], ["ask", "say"] * 2)
    assert asked.predict([("really ?",), ("really .",)]) == ["ask", "say"]
    past = [("walked",), ("walking",), ("jumped",), ("jumping",), ("called",), ("calling",)]
    assert LinearClassifier().fit(past, ["ed", "ing"] * 3).predict([("helped",), ("helping",)]) == ["ed", "ing"]


def test_a_single_class_is_all_that_is_ever_said() -> None:
    assert LinearClassifier().fit([("a",), ("b",)], ["x", "x"]).predict([("c",), ("d",)]) == ["x", "x"]


def test_pairs_are_told_by_what_they_share() -> None:
    """No word says it: every one stands in pairs of both classes."""
    words = ["cat", "dog", "mat", "sun", "sea", "hat"]
    same = [(f"the {word}", f"a {word}") for word in words]
    other = [(f"the {word}", f"a {words[(place + 1) % 6]}") for place, word in enumerate(words)]
    model = LinearClassifier(strength=10).fit([*same, *other], ["same"] * 6 + ["other"] * 6)
    assert model.predict([("the moon", "a moon"), ("the moon", "a lamp")]) == ["same", "other"]


def test_what_two_bags_share_is_a_share_of_each() -> None:
    """The second time a, which is everywhere, counts little."""
    idf = {"": 4.0, "a": 1.0, "b": 4.0}
    counted, weighted, lengths = np.split(compare_bags(["a", "b", "c", "c"], ["a"], idf), [5, 10])
    assert counted == pytest.approx([1 / 3, 1 / 3, 1.0, math.log(3), 0.0])
    assert weighted == pytest.approx([1 / 9, 1 / 9, 1.0, math.log(9), 0.0])
    long, short, unlike = lengths
    assert long > short
    assert unlike == pytest.approx(long - short)


def test_numbers_follow_a_word() -> None:
    model = LinearRegressor(penalty=0.1).fit(ANIMALS, [4.0] * 3 + [1.0] * 3)
    high, low = model.predict([("my cat ran",), ("my dog ran",)])
    assert high > 3 > 2 > low
    assert model.predict([]).shape == (0,)


def test_tags_follow_the_word_and_its_neighbours() -> None:
    sentences = [("the", "run", "ends"), ("they", "run", "fast"), ("the", "walk", "ends"), ("they", "walk", "far")] * 5
    tags = [("D", "N", "V"), ("P", "V", "A"), ("D", "N", "V"), ("P", "V", "A")] * 5
    model = WindowTagger().fit(sentences, tags)
    assert model.predict([("the", "run", "ends"), ("they", "walk", "fast")]) == [("D", "N", "V"), ("P", "V", "A")]
    assert WindowTagger().fit([("a", "b")], [("O", "O")]).predict([("c",), ()]) == [("O",), ()]


def test_a_text_of_any_length_and_script_has_features() -> None:
    features = TextFeatures()
    assert features.fit_transform([("고양이가 앉았다",), ("x" * 200_000,), ("?",)]).shape[0] == 3
    assert features.transform([("고양이",), ("🙂",), (" ",)]).shape[0] == 3
