"""Pieces of a held-out row become a text that a person would write."""

from pathlib import Path

import pytest

from electralab.serving.run_facts import join_pieces, read_examples


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["[CLS]", "the", "cat", "##s", "sat", ",", "he", "said", ".", "[SEP]"], "the cats sat, he said."),
        (
            ["fellow", "-", "citizens", "(", "all", ")", "paid", "$", "400", ",", "000"],
            "fellow-citizens (all) paid $400,000",
        ),
        (["don", "\u2019", "t", "##s", "[PAD]"], "don\u2019ts"),
        (["나는", "집", "##에", "간다", "."], "나는 집에 간다."),
        (["我", "们", "在", "家", "。"], "我们在家。"),
        (["##", "a"], "## a"),
        ([], ""),
    ],
)
def test_pieces_become_text(pieces: list[str], text: str) -> None:
    assert join_pieces(pieces) == text


def test_symbols_stay_apart() -> None:
    assert join_pieces(["open", ",", "[SEP]", "read"], is_symbols=True) == "open , read"


def test_a_folder_outside_a_run_and_a_damaged_file_have_no_examples(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "export" / "discriminator"
    folder.mkdir(parents=True)
    assert read_examples(folder) == ()
    (tmp_path / "run" / "run.json").write_text("{}")
    assert read_examples(folder) == ()
    for content in ("{", "[]", '{"rows": [{}]}', '{"rows": 7}'):
        (tmp_path / "run" / "examples.json").write_text(content)
        assert read_examples(folder) == ()
