"""Every format gives the same documents; whatever is broken is named."""

import bz2
import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from electralab.corpus import readers
from electralab.corpus.readers import Raw, ReadingConfig, Undecodable, read_documents
from electralab.corpus.sources import find_sources
from electralab.corpus.streams import Meter
from electralab.errors import InputError

TEXTS = ["First line.\nSecond line.", 'A "quoted" word, and a comma', "한국어 中文 é"]


def read(path: Path, *, symbols: bool = False, **settings: Any) -> list[Raw]:
    (source,) = find_sources([str(path)], symbols=symbols).files
    return list(read_documents(source, ReadingConfig(**settings), Meter(), symbols=symbols))


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def as_csv(texts: list[str]) -> str:
    rows = [f'{number},"{text.replace(chr(34), chr(34) * 2)}"' for number, text in enumerate(texts)]
    return "\n".join(["id,text", *rows]) + "\n"


def test_text_csv_json_and_parquet_give_the_same_documents(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS}), tmp_path / "a.parquet")
    paths = [
        write(tmp_path / "a.txt", "\n\n".join(TEXTS) + "\n"),
        write(tmp_path / "a.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)),
        write(tmp_path / "a.csv", as_csv(TEXTS)),
        tmp_path / "a.parquet",
    ]
    for path in paths:
        assert [str(text).strip() for text in read(path)] == TEXTS, path.name


def test_a_quotation_mark_in_tsv_is_only_a_character(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'id\ttext\n1\t"open\n2\tclosed"\n')
    assert read(path) == ['"open', 'closed"']


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstandard.compress)],
)
def test_compressed_files_read_like_plain_ones_and_broken_ones_are_named(
    tmp_path: Path, suffix: str, compress: Any
) -> None:
    data = "\n\n".join(f"document {number} " + "word " * 50 for number in range(500)).encode()
    whole = read(write(tmp_path / f"a.txt.{suffix}", compress(data)))
    assert whole == read(write(tmp_path / "a.txt", data))
    # Two streams one after the other are one file.
    assert len(read(write(tmp_path / f"b.txt.{suffix}", compress(data) + compress(b"\n\nlast")))) == 501
    for name, bad in ((f"cut.txt.{suffix}", compress(data)[:-20]), (f"no.txt.{suffix}", b"plain text, not packed")):
        with pytest.raises(InputError, match=f"{name}: .*get the file again|{name}: cannot be read"):
            read(write(tmp_path / name, bad))


def test_parquet_inside_gzip_is_read_too(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS}), tmp_path / "a.parquet")
    path = write(tmp_path / "b.parquet.gz", gzip.compress((tmp_path / "a.parquet").read_bytes()))
    assert read(path) == TEXTS


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ("blank-lines", ["one\ntwo", "three"]),
        ("lines", ["one", "two", "", " ", "three"]),
        ("files", ["one\ntwo\n\n \nthree\n"]),
    ],
)
def test_plain_text_is_cut_as_asked(tmp_path: Path, documents: str, expected: list[str]) -> None:
    path = write(tmp_path / "a.txt", "one\ntwo\n\n \nthree\n")
    got = [str(raw) for raw in read(path, documents=documents)]
    assert (got if documents != "blank-lines" else [text.strip() for text in got]) == expected


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_without_its_mark_such_text_is_little_endian(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "a.txt", "한국어 é".encode(f"{encoding}-le"))
    assert read(path, encoding=encoding) == ["한국어 é"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-be"])
def test_a_byte_order_mark_decides_the_encoding(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = write(tmp_path / "a.txt", (mark + "한국어 é\n\nzwei").encode(encoding))
    assert [str(text).strip() for text in read(path)] == ["한국어 é", "zwei"]


@pytest.mark.parametrize("line", ["9" * 5000, '{"id": ' + "9" * 5000 + ', "text": "a"}', "[" * 100_000, '{"text": '])
@pytest.mark.parametrize("symbols", [False, True])
def test_a_line_that_python_cannot_read_as_json_is_named(tmp_path: Path, line: str, symbols: bool) -> None:
    path = write(tmp_path / "a.jsonl", ('["fine"]' if symbols else '"fine"') + f"\n{line}\n")
    (source,) = find_sources([str(path)]).files
    with pytest.raises(InputError, match=r"a\.jsonl: line 2 is not JSON \(.*\); mend or remove the line"):
        list(read_documents(source, ReadingConfig(), Meter(), symbols=symbols))


def test_only_the_document_with_the_bad_bytes_is_undecodable(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"good\n\nb\xff\xfed\n\nalso good")
    assert read(path) == ["good", Undecodable(b"b\xff\xfed"), "also good"]
    path = write(tmp_path / "a.csv", b"text\ngood\nb\xffd\n")
    assert read(path) == ["good", Undecodable(b"b\xffd")]
    broken = b"\xff\xfe" + "good\n\n".encode("utf-16-le") + b"\x00\xd8" + "x\n\nfine".encode("utf-16-le")
    kinds = [type(raw) for raw in read(write(tmp_path / "b.txt", broken))]
    assert kinds == [str, Undecodable, str]


def test_a_line_without_end_comes_in_bounded_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_CHARS", 1000)
    text = "한" * 5000
    for documents in ("lines", "blank-lines", "files"):
        pieces = [str(raw) for raw in read(write(tmp_path / "a.txt", text), documents=documents)]
        assert "".join(pieces) == text
        assert max(map(len, pieces)) <= 1000
    (path,) = [write(tmp_path / "a.jsonl", json.dumps({"text": "ab " * 2000}))]
    assert "".join(map(str, read(path))) == "ab " * 2000


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\t "), min_size=1), min_size=1))
def test_no_text_is_lost_wherever_the_blocks_end(documents: list[str]) -> None:
    data = "\n\n".join(documents).encode()
    for size in (1, 3, 7):
        blocks = [data[place : place + size] for place in range(0, len(data), size)]
        groups = list(filter(bytes.strip, readers._paragraph_groups(blocks)))
        assert [group.decode().strip("\n") for group in groups] == documents


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "ok"}\n{"text": \n', "line 2 is not JSON"),
        ("a.jsonl", '{"body": "x"}\n', r"line 1 has no field 'text' \(it has 'body'\); choose it with --field"),
        ("a.jsonl", '{"text": 3}\n', "line 1 holds a int where text is expected"),
        ("a.csv", "id,body\n1,x\n", r"has no column 'text' \(it has 'id', 'body'\); choose it with --field"),
        ("a.csv", 'text\n"never closed\n', "not valid CSV"),
        ("a.parquet", "not parquet at all", "not a Parquet file"),
    ],
)
def test_wrong_content_is_one_sentence_with_file_and_place(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / name, content))


def test_symbols_are_lists_of_strings_or_integers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '["GET /a", 7]\n\n{"symbols": ["x"], "label": 1}\n')
    assert read(path, symbols=True) == [("GET /a", "7"), ("x",)]


@pytest.mark.parametrize("line", ["[1.5]", "[true]", '[""]', '[["a"]]', '"text"', "{}"])
def test_what_is_no_symbol_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match=r"a\.jsonl: line 2 "):
        read(write(tmp_path / "a.jsonl", f'["fine"]\n{line}\n'), symbols=True)


def test_an_unknown_encoding_is_refused_before_reading() -> None:
    with pytest.raises(ValueError, match="no such encoding"):
        ReadingConfig(encoding="utf-9")
