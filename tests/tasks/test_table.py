"""Every table format gives the same rows; a broken one costs itself and is named."""

import csv
import gzip
import io
import json
import lzma
from collections.abc import Mapping
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.errors import InputError
from electralab.tasks import table as rows
from electralab.tasks.table import BadRow, LabelledTable, Row, read_table

RECORDS = [{"text": 'a "good" film, really', "label": "1"}, {"text": "한국어 é", "label": "0"}]


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def fields(table: LabelledTable) -> list[Mapping[str, object]]:
    return [row.fields for row in table.good_rows]


def bad(table: LabelledTable) -> list[BadRow]:
    return [row for row in table.rows if isinstance(row, BadRow)]


def as_csv(records: list[list[str]], delimiter: str = ",") -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(records)
    return file.getvalue()


def test_csv_tsv_json_and_parquet_give_the_same_rows(tmp_path: Path) -> None:
    lists = [["text", "label"], *([record["text"], record["label"]] for record in RECORDS)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), tmp_path / "a.parquet")
    paths = [
        write(tmp_path / "a.csv", as_csv(lists)),
        write(tmp_path / "semicolons.csv", as_csv(lists, ";")),
        write(tmp_path / "a.tsv", "".join("\t".join(record) + "\n" for record in lists)),
        write(tmp_path / "a.txt", "".join("\t".join(record) + "\r\n" for record in lists)),
        write(tmp_path / "a.jsonl", "".join(json.dumps(record) + "\n" for record in RECORDS)),
        write(tmp_path / "a.json", json.dumps(RECORDS, indent=1)),
        write(tmp_path / "lines.json", "".join(json.dumps(record) + "\n" for record in RECORDS)),
        write(tmp_path / "a.csv.gz", gzip.compress(as_csv(lists).encode())),
        write(tmp_path / "a.json.xz", lzma.compress(json.dumps({"data": RECORDS}).encode())),
        tmp_path / "a.parquet",
    ]
    for path in paths:
        table = read_table(path, "utf-8")
        assert table.columns == ("text", "label"), path.name
        assert fields(table) == RECORDS, path.name


def test_rows_are_numbered_as_an_editor_numbers_lines(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.csv", 'text\n"two\nlines"\nlast\n'), "utf-8")
    assert table.rows == [Row(2, {"text": "two\nlines"}), Row(4, {"text": "last"})]


def test_a_quotation_mark_in_tsv_is_only_a_character(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.tsv", 'text\tlabel\n"open\t1\nclosed"\t0\n'), "utf-8")
    assert fields(table) == [{"text": '"open', "label": "1"}, {"text": 'closed"', "label": "0"}]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert read_table(write(tmp_path / "a.tsv", b"\xef\xbb\xbftext\nhi\n"), "utf-8").columns == ("text",)


def test_blank_lines_at_the_end_are_no_rows_but_one_inside_is_a_bad_one(tmp_path: Path) -> None:
    for name in ("a.csv", "a.tsv"):
        table = read_table(write(tmp_path / name, "text\nfirst\n\nlast\n\n  \n"), "utf-8")
        assert fields(table) == [{"text": "first"}, {"text": "last"}]
        assert bad(table) == [BadRow(3, "is blank")]


def test_a_ragged_row_is_bad(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.tsv", "a\tb\n1\t2\n3\n4\t5\t6\n"), "utf-8")
    assert fields(table) == [{"a": "1", "b": "2"}]
    assert bad(table) == [
        BadRow(3, "has 1 field for 2 columns"),
        BadRow(4, "has 3 fields for 2 columns"),
    ]


@pytest.mark.parametrize(
    "broken",
    ['"never closed,1', '"never closed,1\n"fine, quoted",1', '"closed" too early,1'],
)
def test_a_quotation_mark_left_open_costs_its_row_and_not_the_rest(tmp_path: Path, broken: str) -> None:
    table = read_table(write(tmp_path / "a.csv", f"text,label\nbefore,0\n{broken}\nafter,1\nlast,0\n"), "utf-8")
    texts = [row.fields["text"] for row in table.good_rows]
    assert texts[0] == "before"
    assert texts[-2:] == ["after", "last"]
    (one,) = bad(table)
    assert one.row == 3
    assert one.reason.startswith("has broken quoting")


def test_rows_that_an_open_quotation_mark_would_swallow_are_kept(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.csv", 'text,label\n"open,0\nfine,1\n6",1,1\n'), "utf-8")
    assert fields(table) == [{"text": "fine", "label": "1"}]
    assert [row.row for row in bad(table)] == [2, 4]


def test_an_open_quotation_mark_is_given_up_after_some_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_RECORD_LINES", 3)
    table = read_table(write(tmp_path / "a.csv", 'text\n"1\n2\n3\n4"\nlast\n'), "utf-8")
    assert bad(table)[0].row == 2
    assert fields(table)[-1] == {"text": "last"}


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")), min_size=2, max_size=2)))
def test_whatever_csv_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, records: list[list[str]]) -> None:
    records = [[f"{first}.", second] for first, second in records]  # a record of blanks would be a blank line
    path = write(tmp_path_factory.mktemp("csv") / "a.csv", as_csv([["a", "b"], *records]))
    assert [list(record.values()) for record in fields(read_table(path, "utf-8"))] == records


def test_bytes_that_do_not_decode_spoil_their_row_only(tmp_path: Path) -> None:
    for name in ("a.csv", "a.tsv"):
        table = read_table(write(tmp_path / name, b"text\ngood\nb\xe4d\n"), "utf-8")
        assert fields(table) == [{"text": "good"}]
        assert bad(table) == [BadRow(3, "holds bytes that do not decode (--data.encoding says how)")]
        assert fields(read_table(tmp_path / name, "latin-1"))[1] == {"text": "bäd"}


def test_lines_that_are_no_json_objects_are_bad(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.jsonl", '{"text": "hi"}\n[1]\n{"text"\n\n{"label": 1}\n'), "utf-8")
    assert table.columns == ("text", "label")
    assert [row.row for row in bad(table)] == [2, 3, 4]
    assert bad(table)[0].reason == "is a JSON list, not an object with fields"


def test_a_file_without_a_header_takes_the_names_it_is_given(tmp_path: Path) -> None:
    names = ("source", "label", "mark", "sentence")
    table = read_table(write(tmp_path / "train.tsv", "gj04\t1\t\tHe left.\n"), "utf-8", names)
    assert table.rows == [Row(1, {"source": "gj04", "label": "1", "mark": "", "sentence": "He left."})]
    table = read_table(write(tmp_path / "test.tsv", "index\tsentence\n0\tHe left.\n"), "utf-8", names)
    assert table.rows == [Row(2, {"index": "0", "sentence": "He left."})]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "\n\n", "line 1, which names the columns, is blank"),
        ("a.csv", "text,text\n1,2\n", "two columns are named 'text'"),
        ("a.json", '{"text": "hi"}', "is no list of objects"),
        ("a.json", "[1", "not valid JSON"),
        ("a.parquet", "no parquet", "not a Parquet file"),
        ("a.csv.gz", "no gzip", "truncated or not gz data"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(tmp_path: Path, name: str, data: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_table(write(tmp_path / name, data), "utf-8")
    assert str(caught.value).startswith(str(tmp_path / name))


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder; give a file"):
        read_table(tmp_path, "utf-8")
