"""A file of any table format -> its rows; what is no row is named, with its line.

path -> LabelledTable

CSV quotes its fields. TSV does not: a quotation mark there is text, as in GLUE's files.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from electralab.corpus.sources import Source, find_sources, open_source, read_utf8
from electralab.errors import InputError

# How many lines a quoted field may span: an open quotation mark costs this much and not the rest of the file.
MAX_RECORD_LINES = 1000
UNDECODABLE = "holds bytes that do not decode (--data.encoding says how)"
PACKED = (".gz", ".bz2", ".xz", ".zst")

_HALVES = re.compile("[\ud800-\udfff]")
_SAMPLE = 10_000


@dataclass(frozen=True, slots=True)
class BadRow:
    row: int
    """Counted from 1 as an editor counts lines; for formats without lines, the record's number."""
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    """As that of a bad row."""
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LabelledTable:
    path: Path
    columns: tuple[str, ...]
    rows: Sequence[Row | BadRow]

    @property
    def good_rows(self) -> list[Row]:
        return [row for row in self.rows if isinstance(row, Row)]

    def find_column(self, names: Iterable[str], taken: Sequence[str] = ()) -> str:
        """The first of the names that a column has, whatever its case; empty if none."""
        lowered = {column.lower(): column for column in self.columns if column not in taken}
        return next((lowered[name] for name in names if name in lowered), "")

    def sample(self, column: str) -> list[object]:
        """Some of its values: enough to tell what it holds."""
        return [row.fields.get(column) for row in self.rows[:_SAMPLE] if isinstance(row, Row)]


@dataclass(frozen=True, slots=True)
class Columns:
    """What to read from where; as a request, what is empty is to be found."""

    texts: tuple[str, ...] = ()
    """For tags the words; for answers the question and the context."""
    label: str = ""
    """Empty where there is none, as in a test set."""
    id: str = ""
    """Empty: the number of the row."""


Cells = tuple[int, list[str]]
"""The number of a row, and its fields without names."""


def _find_source(path: Path) -> Source:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give a file")
    return find_sources([str(path)]).files[0]


def read_text(path: Path, encoding: str) -> str:
    """The whole file; bytes that are no text come as lone surrogates, so that the row around them can be named."""
    with open_source(_find_source(path)) as stream:
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


def read_suffix(path: Path) -> str:
    """The suffix that says the format: .json of data.json.xz."""
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()


def read_table(path: Path, encoding: str, headless: tuple[str, ...] = (), list_column: str = "") -> LabelledTable:
    """`headless` names the columns of a file whose first line holds none of these names; `list_column` that of lists
    which stand in JSON without a name, empty where they are no rows."""
    if read_suffix(path) == ".json":
        # A list of objects, alone or under "data"; or, as many write it, one object per line.
        text = read_text(path, encoding)
        lines = text.rstrip().split("\n")
        if len(lines) > 1 and all(line.startswith("{") for line in lines[:2]) and lines[0].rstrip().endswith("}"):
            return _from_objects(path, _parse_json_lines(lines), list_column)
        value = parse_json(path, text)
        values = value.get("data") if isinstance(value, dict) else value
        if not isinstance(values, list):
            raise InputError(f"{path}: is no list of objects; give a JSON list, or one object per line")
        return _from_objects(path, enumerate(values, start=1), list_column)
    source = _find_source(path)
    if source.format == "parquet":
        import pyarrow
        import pyarrow.parquet

        with open_source(source) as stream:
            try:
                table = pyarrow.parquet.read_table(io.BytesIO(stream.read()))
            except pyarrow.ArrowException as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"{path}: not a Parquet file ({reason}); get it again") from None
        return _from_objects(path, enumerate(table.to_pylist(), start=1), "")
    lines = read_lines(path, encoding)
    if source.format == "jsonl":
        return _from_objects(path, _parse_json_lines(lines), list_column)
    records = _split_csv(lines) if source.format == "csv" else _split_tabs(lines)
    first = next(records, None)
    if not isinstance(first, tuple):
        reason = first.reason if first else "is blank"
        raise InputError(f"{path}: line 1, which names the columns, {reason}; correct it")
    # People put spaces behind the commas of a header.
    columns = tuple(name.strip() for name in first[1])
    if headless and not set(headless) & set(columns):
        columns = headless
        records = chain([first], records)
    if twice := {name for name in columns if columns.count(name) > 1}:
        raise InputError(f"{path}: two columns are named {min(twice)!r}; rename one")
    rows: list[Row | BadRow] = []
    for record in records:
        if isinstance(record, BadRow):
            rows.append(record)
            continue
        number, fields = record
        if len(fields) == len(columns):
            rows.append(Row(number, dict(zip(columns, fields, strict=True))))
        else:
            rows.append(BadRow(number, f"has {len(fields)} field{'s' * (len(fields) > 1)} for {len(columns)} columns"))
    return LabelledTable(path, columns, rows)


def as_plain_text(path: Path, lines: Sequence[str]) -> LabelledTable:
    """One text a line."""
    numbered = enumerate(lines, start=1)
    rows = [BadRow(place, UNDECODABLE) if is_damaged(line) else Row(place, {"text": line}) for place, line in numbered]
    return LabelledTable(path, ("text",), rows)


def _split_tabs(lines: Sequence[str]) -> Iterator[Cells | BadRow]:
    for number, line in enumerate(lines, start=1):
        if is_damaged(line) or not line:
            yield BadRow(number, UNDECODABLE if line else "is blank")
        else:
            yield number, line.split("\t")


def _split_csv(lines: Sequence[str]) -> Iterator[Cells | BadRow]:
    """A quotation mark that nobody closes spoils its own line only: reading goes on with the next."""
    csv.field_size_limit(1 << 28)
    header = lines[0] if lines else ""
    # Spreadsheets of some countries write semicolons, or tabs, into a file that they call .csv.
    delimiter = "," if "," in header else max(",;\t", key=header.count)
    width = index = 0
    while index < len(lines):
        start = index
        index += 1
        if '"' in lines[start]:
            following = (line + "\n" for line in lines[start : start + MAX_RECORD_LINES])
            reader = csv.reader(following, strict=True, delimiter=delimiter)
            try:
                fields, span = next(reader), reader.line_num
            except csv.Error as error:
                yield BadRow(start + 1, f"has broken quoting ({error})")
                continue
        else:
            fields, span = lines[start].split(delimiter), 1
        width = width or len(fields)
        # A quotation mark that was text swallows lines up to the next one, and the number of fields shows it.
        if span > 1 and len(fields) != width:
            yield BadRow(start + 1, "has broken quoting (a quotation mark that is not closed in its row)")
            continue
        index = start + span
        if any(map(is_damaged, fields)) or not lines[start]:
            yield BadRow(start + 1, UNDECODABLE if lines[start] else "is blank")
        else:
            yield start + 1, fields


def _parse_json_lines(lines: Sequence[str]) -> Iterator[tuple[int, Any] | BadRow]:
    for number, line in enumerate(lines, start=1):
        if is_damaged(line) or not line.strip():
            yield BadRow(number, UNDECODABLE if line.strip() else "is blank")
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:  # ValueError also for an integer of too many digits
            yield BadRow(number, f"is not JSON ({error})")


def parse_json(path: Path, text: str) -> Any:
    if is_damaged(text):
        raise InputError(f"{path}: {UNDECODABLE}; correct the file")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); correct the file") from None


def _from_objects(path: Path, values: Iterable[tuple[int, Any] | BadRow], list_column: str) -> LabelledTable:
    rows: list[Row | BadRow] = []
    columns: dict[str, None] = {}
    for item in values:
        if isinstance(item, BadRow):
            rows.append(item)
            continue
        number, value = item
        if list_column and isinstance(value, list):
            value = {list_column: value}
        if isinstance(value, dict):
            rows.append(Row(number, value))
            columns.update(dict.fromkeys(value))
        else:
            rows.append(BadRow(number, f"is a JSON {type(value).__name__}, not an object with fields"))
    return LabelledTable(path, tuple(columns), rows)
