"""The English sets are frozen; what users give is read as it is meant, or refused with what to do."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from electralab.analysis import probe_sets
from electralab.errors import InputError

PAGE = (Path(__file__).parents[2] / "docs" / "analysis-sets.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
SLEEP = probe_sets.SentencePair("He sleeps, and dreams.", "He slept, and dreamt.")


@pytest.mark.parametrize(
    ("items", "digest"),
    [
        (probe_sets.read_pairs(), "bf424e0a24eee098"),
        (probe_sets.read_analogies(), "c2282a58867507a2"),
        (probe_sets.read_tagged(), "a4320a29cef0744d"),
        (probe_sets.read_senses(), "341a34b920170530"),
    ],
    ids=["pairs", "analogies", "tagged", "senses"],
)
def test_every_sentence_that_comes_along_is_as_it_was(items: object, digest: str) -> None:
    """Figures of other versions could not be compared otherwise; the digests are of November 2026."""
    text = repr(items).replace("SentencePair(", "Pair(")
    assert hashlib.sha256(text.encode()).hexdigest().startswith(digest)


def test_no_sentence_stands_in_two_pairs_so_that_halves_share_none() -> None:
    for kind, pairs in probe_sets.read_pairs().items():
        assert len({sentence for pair in pairs for sentence in (pair.source, pair.target)}) == 600, kind


def test_within_a_family_a_word_has_one_partner_so_that_one_answer_is_right() -> None:
    partners: dict[tuple[str, str], set[str]] = {}
    for analogy in probe_sets.read_analogies():
        assert len(set(analogy.words)) == 4
        partners.setdefault((analogy.family, analogy.a), set()).add(analogy.b)
        partners.setdefault((analogy.family, analogy.c), set()).add(analogy.d)
    assert {len(words) for words in partners.values()} == {1}


def test_some_tagged_words_have_two_parts_of_speech_so_that_a_probe_has_to_look_at_more_than_the_word() -> None:
    words: dict[str, set[str]] = {}
    for sentence in probe_sets.read_tagged():
        for word, tag in zip(sentence.words, sentence.tags, strict=True):
            words.setdefault(tag, set()).add(word.lower())
    assert words["NOUN"] & words["VERB"] >= {"walk", "talk", "dance"}
    assert "to" in words["PART"] & words["ADP"]
    assert "there" in words["PRON"] & words["ADV"]


def test_every_word_has_several_senses_and_every_sense_several_sentences() -> None:
    senses = Counter((sentence.word, sentence.sense) for sentence in probe_sets.read_senses())
    assert min(senses.values()) >= 2
    assert min(Counter(word for word, _ in senses).values()) >= 2


def test_a_sentence_is_split_around_its_word() -> None:
    sentence = probe_sets.place_word("bank", "river", "The bank's mud, wet.")
    assert sentence.split() == (("The", "bank", "'", "s", "mud", ",", "wet", "."), 1)
    assert all(words[index] == item.word for item in probe_sets.read_senses() for words, index in [item.split()])


@pytest.mark.parametrize(
    ("word", "sentence", "position"),
    [("bank", "An embankment is no bank.", 20), ("打", "他打电话", 1), ("C++", "Write it in C++ or C.", 12)],
)
def test_a_word_is_found_where_it_stands_alone_or_words_are_written_together(
    word: str, sentence: str, position: int
) -> None:
    assert probe_sets.place_word(word, "a", sentence).position == position


@pytest.mark.parametrize("sentence", ["The bank by the bank.", "The shore."])
def test_a_word_stands_in_one_place(sentence: str) -> None:
    with pytest.raises(ValueError, match=r"'bank' stands \d times"):
        probe_sets.place_word("bank", "a", sentence)


def test_pairs_of_a_csv_go_by_their_kind(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        'kind,source,target\npast,"He sleeps, and dreams.","He slept, and dreamt."\nplural,A cat.,Cats.\n'
        "past,I go.,I went.\n"
    )
    assert probe_sets.read_pairs(path) == {
        "past": (SLEEP, probe_sets.SentencePair("I go.", "I went.")),
        "plural": (probe_sets.SentencePair("A cat.", "Cats."),),
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("polite.tsv", "source\ttarget\nGo!\tPlease go!\n"),
        ("polite.jsonl", '{"source": "Go!", "target": "Please go!"}\n'),
        ("polite.csv", "source;target\nGo!;Please go!\n"),
    ],
)
def test_without_a_kind_the_name_of_the_file_is_it(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert probe_sets.read_pairs(tmp_path / name) == {"polite": (probe_sets.SentencePair("Go!", "Please go!"),)}


def test_analogies_of_a_tsv(tmp_path: Path) -> None:
    path = tmp_path / "capitals.tsv"
    path.write_text("a\tb\tc\td\nparis\tfrance\trome\titaly\n")
    assert probe_sets.read_analogies(path) == (probe_sets.Analogy("capitals", "paris", "france", "rome", "italy"),)


def test_senses_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text('word,sense,sentence\nbanco,asiento,"El banco, verde."\n')
    assert probe_sets.read_senses(path) == (probe_sets.SenseSentence("banco", 3, "asiento", "El banco, verde."),)


@pytest.mark.parametrize(
    ("columns", "tags", "entities"),
    [
        ("Anna PROPN\nleft VERB\n", ("PROPN", "VERB"), ("O", "O")),
        ("Anna B-PER\nleft O\n", ("", ""), ("PER", "O")),
        ("Anna NNP B-NP B-PER\nleft VBD B-VP O\n", ("NNP", "VBD"), ("PER", "O")),
    ],
)
def test_tagged_columns_of_other_widths(
    columns: str, tags: tuple[str, ...], entities: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text(columns)
    assert probe_sets.read_tagged(tmp_path / "mine.txt") == (
        probe_sets.TaggedSentence(("Anna", "left"), tags, entities),
    )


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (
            *(probe_sets.read_senses, "word,sense,sentence\nbanco,asiento,La silla.\n"),
            "'banco' stands 0 times in 'La silla.'; give sentences in which it stands once, spelt alike",
        ),
        (
            *(probe_sets.read_pairs, "source,targets\nI go.,I went.\n"),
            "no column named 'target' among 'source', 'targets'; did you mean 'targets'?",
        ),
        (
            *(probe_sets.read_pairs, "source,target\nI go.,I went.\nI see.,\n"),
            "line 3: has no text in 'target'; fill it in, or leave the line out",
        ),
        (probe_sets.read_pairs, "source,target\nI go.\n", "line 2: has 1 field for 2 columns; correct it"),
        (probe_sets.read_pairs, "source,target\n", "holds nothing to read; give at least one row"),
        (
            *(probe_sets.read_analogies, "a,b,c,e\nx,y,z,w\n"),
            "no column named 'd' among 'a', 'b', 'c', 'e'; name the columns a, b, c, d",
        ),
        (probe_sets.read_tagged, "Anna\nleft\n", "holds words without tags; give a word and its tag on each line"),
        (probe_sets.read_tagged, "Anna PROPN\nleft\n", "line 2: holds the word 'left' without a tag; correct it"),
        (
            *(probe_sets.read_tagged, "1 Anna _ PROPN\n2 left _ VERB\n"),
            "numbers stand where words should (CoNLL-U?); give the word first and its tag last",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(
    read: Callable[[Path], object], text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refusal:
        read(path)
    assert str(refusal.value) == f"{path}: {message}"


@pytest.mark.parametrize("read", [probe_sets.read_pairs, probe_sets.read_analogies, probe_sets.read_tagged])
def test_a_missing_file_is_named(read: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        read(tmp_path / "nowhere.csv")


def test_numbers_of_the_page_are_those_of_the_sets() -> None:
    senses, analogies, tagged = probe_sets.read_senses(), probe_sets.read_analogies(), probe_sets.read_tagged()
    for sentence in (
        f"| {len(probe_sets.read_pairs()['past'])} pairs of each |",
        f"in {len({analogy.family for analogy in analogies})} families | {len(analogies)} |",
        f"| {len(tagged)} sentences, {sum(len(sentence.words) for sentence in tagged):,} words |",
        f"| {len({sense.word for sense in senses})} words, 8 sentences each |",
        f"{len({(sense.word, sense.sense) for sense in senses})} in all",
    ):
        assert sentence in PAGE


def test_examples_of_the_page_are_in_the_sets() -> None:
    for kind, pairs in probe_sets.read_pairs().items():
        [[_, source, target]] = [row for row in ROWS if row[0] == kind]
        assert probe_sets.SentencePair(source, target) in pairs
    senses = {(sense.word, sense.sense, sense.sentence) for sense in probe_sets.read_senses()}
    assert {tuple(row) for row in ROWS if row[0] in ("bank", "saw")} <= senses
    assert (probe_sets.SETS / "tagged.conll").read_text().partition("\n\n")[0] in PAGE


def test_every_tag_is_explained() -> None:
    tags = {tag for sentence in probe_sets.read_tagged() for tag in sentence.tags}
    assert {cell for row in ROWS if len(row) == 4 for cell in row} >= tags


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(program, {})
    assert "A short poem is written by our daughter every Sunday." in capsys.readouterr().out
