"""Sentences in columns; spans spelled in four ways mean the same."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.tasks.kinds.tagging import complete_tags, has_spans, is_conll, read_conll, to_iob2
from electralab.tasks.table import BadRow, Row

NER = """-DOCSTART- -X- -X- O

EU NNP B-NP I-ORG
rejects VBZ B-VP O
German JJ B-NP I-MISC

Peter NNP B-NP I-PER
-DOCSTART- -X- O O

Blackburn NNP I-NP I-PER

"""


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_the_word_is_first_and_the_tag_last_and_documents_begin_without_a_sentence(tmp_path: Path) -> None:
    table = read_conll(write(tmp_path / "eng.train", NER), "utf-8")
    assert table.rows == [
        Row(3, {"words": ["EU", "rejects", "German"], "tags": ["I-ORG", "O", "I-MISC"]}),
        Row(7, {"words": ["Peter"], "tags": ["I-PER"]}),
        Row(10, {"words": ["Blackburn"], "tags": ["I-PER"]}),
    ]


def test_a_word_without_a_tag_spoils_its_sentence(tmp_path: Path) -> None:
    table = read_conll(write(tmp_path / "a.txt", "a O\nb\n\nc O\n"), "utf-8")
    assert table.rows == [BadRow(2, "holds the word 'b' without a tag"), Row(4, {"words": ["c"], "tags": ["O"]})]


def test_one_column_is_words_alone(tmp_path: Path) -> None:
    table = read_conll(write(tmp_path / "a.txt", "a\nb\n\nc\n"), "utf-8")
    assert table.columns == ("words",)
    assert table.good_rows[0].fields == {"words": ["a", "b"]}


def test_bytes_that_do_not_decode_spoil_their_sentence(tmp_path: Path) -> None:
    table = read_conll(write(tmp_path / "a.txt", b"\xe4 O\n\nb O\n"), "utf-8")
    assert [type(row) for row in table.rows] == [BadRow, Row]


@pytest.mark.parametrize(
    "tags",
    [
        "I-A I-A B-A O I-B I-A",  # IOB1
        "B-A I-A B-A O B-B B-A",  # IOB2
        "B-A E-A S-A O S-B S-A",  # IOBES
        "B-A L-A U-A O U-B U-A",  # BILOU
    ],
)
def test_four_spellings_are_the_same_spans(tags: str) -> None:
    assert " ".join(to_iob2(tags.split())) == "B-A I-A B-A O B-B B-A"


def test_after_an_end_the_next_word_begins_a_span() -> None:
    assert to_iob2(["B-A", "E-A", "I-A", "S-A", "I-A"]) == ("B-A", "I-A", "B-A", "B-A", "B-A")


@given(st.lists(st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in "XY")])))
def test_respelling_twice_changes_nothing_more_and_every_span_begins(tags: list[str]) -> None:
    once = to_iob2(tags)
    assert to_iob2(once) == once
    assert [tag[-1] for tag in once] == [tag[-1] for tag in tags]
    for before, tag in zip(("O", *once), once, strict=False):
        assert not tag.startswith("I-") or before[1:] == tag[1:]


def test_both_halves_of_a_span_are_labels_even_if_only_one_was_seen() -> None:
    assert complete_tags(["B-PER", "O"]) == ("B-PER", "I-PER", "O")


def test_parts_of_speech_are_no_spans() -> None:
    assert not has_spans(["NN", "VB", "O"])
    assert not has_spans(["O"])
    assert complete_tags(["VB", "NN"]) == ("NN", "VB")


def test_sentences_are_told_from_columns() -> None:
    assert is_conll(["EU B-ORG", "left O"])
    assert is_conll(["EU", "left", "", "Peter"])
    assert not is_conll(["EU left", "Peter did not"])
    assert not is_conll(["two words", "per line"])
