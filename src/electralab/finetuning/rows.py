"""A file of any table format -> its rows; what is no row is named, with its line.

path -> Table

CSV quotes its fields. TSV does not: a quotation mark there is text, as in GLUE's files.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electralab.corpus.sources import Source, find_sources
from electralab.corpus.streams import open_source, read_utf8
from electralab.errors import InputError
from electralab.finetuning.examples import BadRow

# How many lines a quoted field may span: an open quotation mark costs this much and not the rest of the file.
MAX_RECORD_LINES = 1000

_HALVES = re.compile("[\ud800-\udfff]")
UNDECODABLE = "holds bytes that do not decode (--data.encoding says how)"


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    """Counted from 1 as an editor counts lines; for formats without lines, the record's number."""
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    path: Path
    columns: tuple[str, ...]
    rows: Sequence[Row | BadRow]

    @property
    def good_rows(self) -> list[Row]:
        return [row for row in self.rows if isinstance(row, Row)]


Record = tuple[int, list[str]]


def find_source(path: Path) -> Source:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file")
    return find_sources([str(path)]).files[0]


def read_text(path: Path, encoding: str) -> str:
    """The whole file; bytes that are no text come as lone surrogates, so that the row around them can be named."""
    with open_source(find_source(path)) as stream:
        data = b"".join(read_utf8(stream, encoding))
    return data.decode("utf-8", "surrogateescape")


def read_lines(path: Path, encoding: str) -> list[str]:
    """Without their breaks, and without the blank ones at the end."""
    lines = [line.removesuffix("\r") for line in read_text(path, encoding).split("\n")]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def is_damaged(line: str) -> bool:
    """Whether it holds halves of characters: bytes that did not decode, or a broken escape in JSON."""
    return not line.isascii() and _HALVES.search(line) is not None


def read_table(path: Path, encoding: str, headless: tuple[str, ...] = (), list_column: str = "") -> Table:
    """`headless` names the columns of a file whose first line holds none of these names; `list_column` that of lists
    which stand in JSON without a name, empty where they are no rows."""
    if read_suffix(path) == ".json":
        return _read_json(path, encoding, list_column)
    source = find_source(path)
    match source.format:
        case "parquet":
            return _read_parquet(source)
        case "jsonl":
            return _from_objects(path, parse_json_lines(read_lines(path, encoding)), list_column)
        case "csv":
            return _with_header(path, _split_csv(read_lines(path, encoding)), headless)
        case _:
            return _with_header(path, _split_tabs(read_lines(path, encoding)), headless)


def read_suffix(path: Path) -> str:
    """The suffix that says the format: .json of data.json.xz."""
    inner = path.with_suffix("") if path.suffix.lower() in (".gz", ".bz2", ".xz", ".zst") else path
    return inner.suffix.lower()


def _with_header(path: Path, records: Iterator[Record | BadRow], headless: tuple[str, ...]) -> Table:
    first = next(records, None)
    if not isinstance(first, tuple):
        reason = first.reason if first else "is blank"
        raise InputError(f"{path}: line 1, which names the columns, {reason}; mend it")
    columns = tuple(name.strip() for name in first[1])
    rows: list[Row | BadRow] = []
    if headless and not set(headless) & set(columns):
        columns = headless
        rows.append(_name_fields(first, columns))
    if twice := {name for name in columns if columns.count(name) > 1}:
        raise InputError(f"{path}: two columns are named {min(twice)!r}; rename one")
    rows += (record if isinstance(record, BadRow) else _name_fields(record, columns) for record in records)
    return Table(path, columns, rows)


def _name_fields(record: Record, columns: tuple[str, ...]) -> Row | BadRow:
    number, fields = record
    if len(fields) != len(columns):
        plural = "s" if len(fields) > 1 else ""
        return BadRow(number, f"has {len(fields)} field{plural} for {len(columns)} columns")
    return Row(number, dict(zip(columns, fields, strict=True)))


def _split_tabs(lines: Sequence[str]) -> Iterator[Record | BadRow]:
    for number, line in enumerate(lines, start=1):
        if is_damaged(line):
            yield BadRow(number, UNDECODABLE)
        elif not line:
            yield BadRow(number, "is blank")
        else:
            yield number, line.split("\t")


def _split_csv(lines: Sequence[str]) -> Iterator[Record | BadRow]:
    """A quotation mark that nobody closes spoils its own line only: reading goes on with the next."""
    csv.field_size_limit(1 << 28)
    delimiter = _find_delimiter(lines)
    width = 0
    place = 0
    while place < len(lines):
        start = place
        place += 1
        try:
            fields, span = _take_record(lines, start, delimiter)
        except csv.Error as error:
            yield BadRow(start + 1, f"has broken quoting ({error})")
            continue
        width = width or len(fields)
        if span > 1 and len(fields) != width:
            yield BadRow(start + 1, "has broken quoting (a quotation mark that is not closed in its row)")
            continue
        place = start + span
        if any(map(is_damaged, fields)):
            yield BadRow(start + 1, UNDECODABLE)
        elif not lines[start]:
            yield BadRow(start + 1, "is blank")
        else:
            yield start + 1, fields


def _take_record(lines: Sequence[str], start: int, delimiter: str) -> tuple[list[str], int]:
    """The fields of the record that begins at a line, and how many lines it spans."""
    if '"' not in lines[start]:
        return lines[start].split(delimiter), 1
    places = range(start, min(start + MAX_RECORD_LINES, len(lines)))
    reader = csv.reader((lines[place] + "\n" for place in places), strict=True, delimiter=delimiter)
    return next(reader), reader.line_num


def _find_delimiter(lines: Sequence[str]) -> str:
    """Spreadsheets of some countries write semicolons, or tabs, into a file that they call .csv."""
    header = lines[0] if lines else ""
    return "," if "," in header else max(",;\t", key=header.count)


def parse_json_lines(lines: Sequence[str]) -> Iterator[tuple[int, Any] | BadRow]:
    for number, line in enumerate(lines, start=1):
        if is_damaged(line):
            yield BadRow(number, UNDECODABLE)
            continue
        if not line.strip():
            yield BadRow(number, "is blank")
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:  # ValueError also for an integer of too many digits
            yield BadRow(number, f"is not JSON ({error})")


def parse_json(path: Path, text: str) -> Any:
    if is_damaged(text):
        raise InputError(f"{path}: {UNDECODABLE}; mend the file")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); mend the file") from None


def _read_json(path: Path, encoding: str, list_column: str) -> Table:
    """A list of objects, alone or under "data"; or, as many write it, one object per line."""
    text = read_text(path, encoding)
    lines = text.rstrip().split("\n")
    if len(lines) > 1 and all(line.startswith("{") for line in lines[:2]) and lines[0].rstrip().endswith("}"):
        return _from_objects(path, parse_json_lines(lines), list_column)
    value = parse_json(path, text)
    values = value.get("data") if isinstance(value, dict) else value
    if not isinstance(values, list):
        raise InputError(f"{path}: is no list of objects; give a JSON list, or one object per line")
    return _from_objects(path, enumerate(values, start=1), list_column)


def _from_objects(path: Path, values: Iterable[tuple[int, Any] | BadRow], list_column: str = "") -> Table:
    rows: list[Row | BadRow] = []
    columns: dict[str, None] = {}
    for item in values:
        if isinstance(item, BadRow):
            rows.append(item)
        elif isinstance(item[1], dict):
            rows.append(Row(*item))
            columns.update(dict.fromkeys(item[1]))
        elif list_column and isinstance(item[1], list):
            rows.append(Row(item[0], {list_column: item[1]}))
            columns[list_column] = None
        else:
            rows.append(BadRow(item[0], f"is a JSON {type(item[1]).__name__}, not an object with fields"))
    return Table(path, tuple(columns), rows)


def _read_parquet(source: Source) -> Table:
    import pyarrow
    import pyarrow.parquet

    with open_source(source) as stream:
        try:
            table = pyarrow.parquet.read_table(io.BytesIO(stream.read()))
        except pyarrow.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{source.path}: not a Parquet file ({reason}); get it again") from None
    return _from_objects(source.path, enumerate(table.to_pylist(), start=1))
