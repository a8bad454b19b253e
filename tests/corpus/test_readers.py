"""Every format gives the same documents; whatever is broken is named."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from electralab.corpus import readers
from electralab.corpus.readers import DecodeError, Raw, ReadingConfig, read_documents, read_pages
from electralab.corpus.sources import find_sources
from electralab.errors import InputError

TEXTS = ["First line.\nSecond line.", 'A "quoted" word, and a comma', "한국어 中文 é"]


def read(path: Path, *, symbols: bool = False, **settings: Any) -> list[Raw]:
    (source,) = find_sources([str(path)], symbols=symbols).files
    return list(read_documents(source, ReadingConfig(**settings), symbols=symbols))


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_text_csv_json_and_parquet_give_the_same_documents(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS}), tmp_path / "a.parquet")
    rows = [f'{number},"{text.replace(chr(34), chr(34) * 2)}"' for number, text in enumerate(TEXTS)]
    paths = [
        write(tmp_path / "a.txt", "\n\n".join(TEXTS) + "\n"),
        write(tmp_path / "a.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)),
        write(tmp_path / "a.csv", "\n".join(["id,text", *rows]) + "\n"),
        tmp_path / "a.parquet",
        write(tmp_path / "b.parquet.gz", gzip.compress((tmp_path / "a.parquet").read_bytes())),
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


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-be"])
def test_a_byte_order_mark_decides_the_encoding(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = write(tmp_path / "a.txt", (mark + "한국어 é\n\nzwei").encode(encoding))
    assert read(path) == ["한국어 é", "zwei"]
    if encoding in ("utf-16", "utf-32"):  # without a mark little-endian
        assert read(write(tmp_path / "b.txt", "한국어 é".encode(f"{encoding}-le")), encoding=encoding) == ["한국어 é"]


def test_only_the_document_with_the_bad_bytes_is_undecodable(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"good\n\nb\xff\xfed\n\nalso good")
    assert read(path) == ["good", DecodeError(b"b\xff\xfed"), "also good"]
    path = write(tmp_path / "a.csv", b"text\ngood\nb\xffd\n")
    assert read(path) == ["good", DecodeError(b"b\xffd")]
    broken = b"\xff\xfe" + "good\n\n".encode("utf-16-le") + b"\x00\xd8" + "x\n\nfine".encode("utf-16-le")
    kinds = [type(raw) for raw in read(write(tmp_path / "b.txt", broken))]
    assert kinds == [str, DecodeError, str]


def test_a_line_without_end_comes_in_bounded_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_CHARS", 1000)
    text = "한" * 5000
    for documents in ("lines", "blank-lines", "files"):
        pieces = [str(raw) for raw in read(write(tmp_path / "a.txt", text), documents=documents)]
        assert "".join(pieces) == text
        assert max(map(len, pieces)) <= 1000
    pieces = [str(raw) for raw in read(write(tmp_path / "a.jsonl", json.dumps({"text": "ab " * 2000})))]
    assert "".join(pieces) == "ab " * 2000
    assert max(map(len, pieces)) <= 1000


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\t "), min_size=1), min_size=1))
def test_no_text_is_lost_wherever_the_blocks_end(documents: list[str]) -> None:
    data = "\n\n".join(documents).encode()
    for size in (1, 3, 7):
        blocks = [data[place : place + size] for place in range(0, len(data), size)]
        groups = list(filter(bytes.strip, readers._split_bounded(blocks, readers._BLANK_LINES)))
        assert [group.decode().strip("\n") for group in groups] == documents


NO_JSON = ("9" * 5000, '{"id": ' + "9" * 5000 + ', "text": "a"}', "[" * 100_000, '{"text": ')


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"body": "x"}\n', r"line 1 has no field 'text' \(it has 'body'\); choose it with --field"),
        ("a.jsonl", '{"text": 3}\n', "line 1 holds a int where text is expected"),
        ("a.csv", "id,body\n1,x\n", r"has no column 'text' \(it has 'id', 'body'\); choose it with --field"),
        ("a.csv", 'text\n"never closed\n', "not valid CSV"),
        ("a.parquet", "not parquet at all", "not a Parquet file"),
        *(
            ("a.jsonl", f'"fine"\n{line}\n', r"a\.jsonl: line 2 is not JSON \(.*\); correct or remove")
            for line in NO_JSON
        ),
    ],
)
def test_wrong_content_is_one_sentence_with_file_and_place(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / name, content))


def test_symbols_are_lists_of_strings_or_integers_and_what_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '["GET /a", 7]\n\n{"symbols": ["x"], "label": 1}\n')
    assert read(path, symbols=True) == [("GET /a", "7"), ("x",)]
    for line in ("[1.5]", "[true]", '[""]', '[["a"]]', '"text"', "{}", *NO_JSON):
        with pytest.raises(InputError, match=r"a\.jsonl: line 2 "):
            read(write(tmp_path / "a.jsonl", f'["fine"]\n{line}\n'), symbols=True)
    with pytest.raises(ValueError, match="no such encoding"):
        ReadingConfig(encoding="utf-9")


def peak_of_first_document(path: Path) -> int:
    """Bytes of memory that reading takes until the first document is there, in a process of its own."""
    code = """
import resource, sys
import pyarrow.parquet
from electralab.corpus.readers import ReadingConfig, read_documents
from electralab.corpus.sources import find_sources
(source,) = find_sources([sys.argv[1]]).files
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
next(read_documents(source, ReadingConfig()))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


@pytest.mark.parametrize("encoding", ["dictionary", "DELTA_BYTE_ARRAY"])
def test_values_that_rows_of_parquet_share_are_read_a_bounded_number_at_a_time(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "bomb.parquet"
    table = pyarrow.table({"text": ["ab " * 1_500_000] * 256})
    sharing: dict[str, Any] = {"use_dictionary": False, "column_encoding": encoding}
    if encoding == "dictionary":
        sharing = {"use_dictionary": True, "dictionary_pagesize_limit": 1 << 30}
    pyarrow.parquet.write_table(table, path, compression="zstd", write_statistics=False, **sharing)
    assert path.stat().st_size < 2000
    assert peak_of_first_document(path) < 400 << 20  # all 256 at once are 1.1 GB, as bytes alone


def test_a_page_of_parquet_that_unpacks_to_far_more_than_text_does_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    table = pyarrow.table({"text": ["ab " * 25_000_000]})
    pyarrow.parquet.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    with pytest.raises(InputError, match=r"bomb\.parquet: a page of [\d,]+ bytes unpacks to 71 MB, as text never does"):
        read(path)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("settings", [{}, {"use_dictionary": False}, {"row_group_size": 7}, {"write_page_index": True}])
def test_every_page_of_a_column_is_measured(tmp_path: Path, version: str, settings: dict[str, Any]) -> None:
    path = tmp_path / "a.parquet"
    texts = [f"document {number} " + "word " * (number % 50) for number in range(500)]
    table = pyarrow.table({"id": list(range(500)), "text": texts})
    small: dict[str, Any] = {"data_page_size": 1000, "write_statistics": False}
    pyarrow.parquet.write_table(table, path, data_page_version=version, **small, **settings)
    metadata = pyarrow.parquet.read_metadata(path)
    with path.open("rb") as file:
        pages = list(read_pages(file, metadata, "text"))
    groups = [metadata.row_group(number).column(1) for number in range(metadata.num_row_groups)]
    assert sum(page.packed_bytes for page in pages) < sum(group.total_compressed_size for group in groups)
    unpacked = sum(page.unpacked_bytes for page in pages)
    whole = sum(group.total_uncompressed_size for group in groups)
    # What is left are the headers between the pages: at most a few dozen bytes each.
    assert whole - 100 * len(pages) < unpacked < whole
    assert read(path) == texts


def test_bytes_that_are_no_header_of_a_page_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["some text"] * 9}), path)
    data = bytearray(path.read_bytes())
    data[4:12] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet: not a Parquet file \(the header of a page .*\); get it again"):
        read(path)


def test_a_line_is_bounded_by_bytes_however_small_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb") as file:
        file.write(b'{"text": "')
        for _ in range(40):
            file.write(b"a" * (1 << 20))
    with pytest.raises(InputError, match=r"a\.jsonl\.gz: a line is longer than 32 MB; break it up"):
        read(path)


def test_a_row_of_csv_over_many_lines_is_bounded_as_a_line_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MAX_LINE_BYTES", 1 << 20)
    rows = "text\n" + '"a\nb"\n' * 500_000  # many rows, each short
    assert len(read(write(tmp_path / "good.csv", rows))) == 500_000
    with pytest.raises(InputError, match=r"bad\.csv: a row is longer than 1 MB; break it up, close its quotes"):
        read(write(tmp_path / "bad.csv", "text\n" + '"\n",' * 500_000))
