"""What users give is read as it is meant, or refused in one sentence that says what to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from electralab.analysis.sets.analogies import Analogy
from electralab.analysis.sets.reading import read_analogies, read_pairs, read_senses, read_tagged
from electralab.analysis.sets.senses import SenseSentence
from electralab.analysis.sets.transformations import Pair
from electralab.errors import InputError

SLEEP = Pair("He sleeps, and dreams.", "He slept, and dreamt.")


def test_pairs_of_a_csv_go_by_their_kind(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        'kind,source,target\npast,"He sleeps, and dreams.","He slept, and dreamt."\nplural,A cat.,Cats.\n'
        "past,I go.,I went.\n"
    )
    assert read_pairs(path) == {"past": (SLEEP, Pair("I go.", "I went.")), "plural": (Pair("A cat.", "Cats."),)}


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
    assert read_pairs(tmp_path / name) == {"polite": (Pair("Go!", "Please go!"),)}


def test_analogies_of_a_tsv(tmp_path: Path) -> None:
    path = tmp_path / "capitals.tsv"
    path.write_text("a\tb\tc\td\nparis\tfrance\trome\titaly\n")
    assert read_analogies(path) == (Analogy("capitals", "paris", "france", "rome", "italy"),)


def test_senses_of_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text('word,sense,sentence\nbanco,asiento,"El banco, verde."\n')
    assert read_senses(path) == (SenseSentence("banco", 3, "asiento", "El banco, verde."),)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (
            *(read_senses, "word,sense,sentence\nbanco,asiento,La silla.\n"),
            "'banco' stands 0 times in 'La silla.'; give sentences in which it stands once, spelt alike",
        ),
        (
            *(read_pairs, "source,targets\nI go.,I went.\n"),
            "no column named 'target' among 'source', 'targets'; is it 'targets'?; name the columns source, target",
        ),
        (
            *(read_pairs, "source,target\nI go.,I went.\nI see.,\n"),
            "line 3: has no text in 'target'; fill it in, or leave the line out",
        ),
        (read_pairs, "source,target\nI go.\n", "line 2: has 1 field for 2 columns; mend it"),
        (read_pairs, "source,target\n", "holds nothing to read; give at least one row"),
        (
            *(read_analogies, "a,b,c,e\nx,y,z,w\n"),
            "no column named 'd' among 'a', 'b', 'c', 'e'; name the columns a, b, c, d",
        ),
        (read_tagged, "Anna\nleft\n", "holds words without tags; give a word and its tag on each line"),
        (read_tagged, "Anna PROPN\nleft\n", "line 2: holds the word 'left' without a tag; mend it"),
        (
            *(read_tagged, "1 Anna _ PROPN\n2 left _ VERB\n"),
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


@pytest.mark.parametrize("read", [read_pairs, read_analogies, read_tagged])
def test_a_missing_file_is_named(read: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        read(tmp_path / "nowhere.csv")
