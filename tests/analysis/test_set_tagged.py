"""Tags and entities stand beside their words, and what CoNLL's columns say is read back as it was."""

from collections import defaultdict
from pathlib import Path

import pytest

from electralab.analysis.sets.lexicon import FRAMES, NAMES, NOUNS
from electralab.analysis.sets.reading import read_tagged
from electralab.analysis.sets.tagged import ENTITIES, TAGS, TaggedSentence, format_conll, list_tagged, write_conll

ANNA = TaggedSentence(
    ("Anna", "Brown", "left", "New", "York", "."),
    ("PROPN", "PROPN", "VERB", "PROPN", "PROPN", "PUNCT"),
    ("PER", "PER", "O", "LOC", "LOC", "O"),
)


def words_by_tag() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for sentence in list_tagged():
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            found[tag].add(word.lower())
    return found


def test_there_are_enough_and_no_two_are_the_same() -> None:
    assert len(list_tagged()) == len(set(list_tagged())) == 444


def test_every_word_has_one_tag_and_one_entity_of_the_lists() -> None:
    for sentence in list_tagged():
        assert len(sentence.words) == len(sentence.tags) == len(sentence.entities)
        assert set(sentence.tags) <= set(TAGS)
        assert set(sentence.entities) <= set(ENTITIES)


def test_every_tag_and_entity_is_met_often() -> None:
    for tag in TAGS:
        assert sum(sentence.tags.count(tag) for sentence in list_tagged()) >= 60, tag
    for entity in ENTITIES:
        assert sum(entity in sentence.entities for sentence in list_tagged()) >= 80, entity


def test_entities_are_proper_nouns_and_other_proper_nouns_are_days() -> None:
    days = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
    for sentence in list_tagged():
        for word, tag, entity in zip(sentence.words, sentence.tags, sentence.entities, strict=True):
            assert (tag == "PROPN") == (entity != "O" or word in days)
            assert entity != "PER" or word in NAMES or word.istitle()


def test_tags_agree_with_the_lexicon() -> None:
    found = words_by_tag()
    nouns = {form for noun in NOUNS.values() for form in (noun.singular, noun.plural)}
    assert nouns & found["PRON"] == nouns & found["ADP"] == nouns & found["ADJ"] == set()
    assert {frame.verb.past for frame in FRAMES} & found["NOUN"] == set()
    assert found["PUNCT"] == {".", "?", ","}
    assert found["AUX"] >= {"is", "was", "did", "does", "has", "will", "must"}
    assert found["PART"] == {"to", "not"}


def test_some_words_have_two_parts_of_speech() -> None:
    """So that a probe has to look at more than the word."""
    found = words_by_tag()
    assert found["NOUN"] & found["VERB"] >= {"walk", "talk", "dance"}
    assert "to" in found["PART"] & found["ADP"]
    assert "there" in found["PRON"] & found["ADV"]


def test_sentences_begin_with_a_capital_and_end_with_a_mark() -> None:
    for sentence in list_tagged():
        assert sentence.words[0][0].isupper()
        assert sentence.words[-1] in (".", "?")


def test_columns_begin_every_entity_with_b() -> None:
    lines = ["Anna PROPN B-PER", "Brown PROPN I-PER", "left VERB O", "New PROPN B-LOC", "York PROPN I-LOC", ". PUNCT O"]
    assert format_conll([ANNA, ANNA]) == "\n".join([*lines, "", *lines, "", ""])


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_conll(tmp_path / "mine.conll", list_tagged())
    assert read_tagged(tmp_path / "mine.conll") == list_tagged()


@pytest.mark.parametrize(
    ("columns", "tags", "entities"),
    [
        ("Anna PROPN\nleft VERB\n", ("PROPN", "VERB"), ("O", "O")),
        ("Anna B-PER\nleft O\n", ("", ""), ("PER", "O")),
        ("Anna NNP B-NP B-PER\nleft VBD B-VP O\n", ("NNP", "VBD"), ("PER", "O")),
    ],
)
def test_columns_of_other_widths(
    columns: str, tags: tuple[str, ...], entities: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text(columns)
    assert read_tagged(tmp_path / "mine.txt") == (TaggedSentence(("Anna", "left"), tags, entities),)
