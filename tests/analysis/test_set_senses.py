"""Each word stands where its position says, in enough sentences and in more than one sense."""

from collections import Counter

import pytest

from electralab.analysis.sets.senses import list_senses, place_word


def test_there_are_enough_words_with_enough_sentences() -> None:
    sentences = list_senses()
    words = Counter(sentence.word for sentence in sentences)
    assert len(words) == 35
    assert set(words.values()) == {8}
    assert len({sentence.sentence for sentence in sentences}) == len(sentences)


def test_every_word_has_several_senses_and_every_sense_several_sentences() -> None:
    senses = Counter((sentence.word, sentence.sense) for sentence in list_senses())
    assert min(senses.values()) >= 2
    assert min(Counter(word for word, _ in senses).values()) >= 2


def test_position_is_where_the_word_stands_as_a_word_of_its_own() -> None:
    for sentence in list_senses():
        start, end = sentence.position, sentence.position + len(sentence.word)
        assert sentence.sentence[start:end] == sentence.word
        around = sentence.sentence[start - 1 : start] + sentence.sentence[end : end + 1]
        assert not any(character.isalnum() for character in around)


def test_sentences_are_sentences() -> None:
    for sentence in list_senses():
        assert sentence.sentence[0].isupper()
        assert sentence.sentence[-1] in ".?!"
        assert sentence.position > 0


def test_a_bank_by_the_river_is_no_bank_for_money() -> None:
    [river] = [found for found in list_senses() if found.sentence == "We sat on the bank and watched the boats."]
    assert (river.word, river.position, river.sense) == ("bank", 14, "river")


def test_a_sentence_is_split_around_its_word() -> None:
    assert place_word("bank", "river", "The bank's mud, wet.").split() == (
        ("The", "bank", "'", "s", "mud", ",", "wet", "."),
        1,
    )
    assert all(words[place] == one.word for one in list_senses() for words, place in [one.split()])


@pytest.mark.parametrize(
    ("word", "sentence", "position"),
    [("bank", "An embankment is no bank.", 20), ("打", "他打电话", 1), ("C++", "Write it in C++ or C.", 12)],
)
def test_a_word_is_found_where_it_stands_alone_or_words_are_written_together(
    word: str, sentence: str, position: int
) -> None:
    assert place_word(word, "a", sentence).position == position


@pytest.mark.parametrize("sentence", ["The bank by the bank.", "The shore."])
def test_a_word_stands_in_one_place(sentence: str) -> None:
    with pytest.raises(ValueError, match=r"'bank' stands \d times"):
        place_word("bank", "a", sentence)
