"""Sequences with labels, as files have them: what a label means, and rows that cannot be read."""

from pathlib import Path

import pytest

from electralab.errors import InputError
from electralab.measuring.inputs.sequences import read_rows


@pytest.mark.parametrize("label", ["0", " 0", "Normal ", "FALSE", "-"])
def test_a_label_of_normal_rows_is_known_whatever_stands_around_it(tmp_path: Path, label: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"Sequence,label\nE1 E2,{label}\nE3,1\n")
    assert list(read_rows(path)) == [(["E1", "E2"], False), (["E3"], True)]


@pytest.mark.parametrize("row", ["E1 E2", "E1 E2,", "E1 E2,  "])
def test_a_row_of_a_table_without_a_label_is_named(tmp_path: Path, row: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"Sequence,label\nE3,0\n{row}\n")
    with pytest.raises(InputError, match=r"a\.csv: row 3 has no label; give each row one"):
        list(read_rows(path))


def test_json_lines_may_lack_labels_and_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('["E1", "E2"]\n{"symbols": ["E3"], "label": 1}\n{"symbols": ["E3"], "label": ""}\n')
    assert list(read_rows(path)) == [(["E1", "E2"], None), (["E3"], True), (["E3"], None)]
    path.write_text('["E1", "E2"]\n["E1", \n')
    with pytest.raises(InputError, match=r"a\.jsonl.*2"):
        list(read_rows(path))
