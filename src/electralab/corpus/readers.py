"""A source -> the contents of its documents, one at a time, whatever its format.

    Source -> str | DecodeError | tuple[str, ...]

Nothing that a file holds can fill the memory: a document beyond MAX_CHARS is cut into several at white space, and a
page of Parquet that unpacks to more than text ever does is refused before it is unpacked.
"""

import csv
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NamedTuple

from electralab.config import Settings
from electralab.corpus.sources import (
    BLOCK,
    CHOOSE_FIELD,
    ByteCounter,
    Encoding,
    Source,
    WrongColumn,
    open_source,
    read_utf8,
)
from electralab.errors import InputError

MAX_CHARS = 1 << 20
# A line, or a row of a table, is in memory whole, several times over: as bytes, as text, as what JSON makes of it.
MAX_LINE_BYTES = 1 << 25
_LINE_BREAK = re.compile(rb"\n")
_BLANK_LINES = re.compile(rb"\n(?:[ \t\r]*\n)+")
_MISSING = object()

# Of Parquet, what is unpacked at once, and how much a page may grow beyond that.
_BATCH_ROWS = 256
_BATCH_BYTES = 1 << 26
_MAX_RATIO = 100

# Structs inside structs; a header of a page has three.
_DEPTH = 8

# Kinds of Thrift's compact protocol.
_STOP = 0
_TRUTHS = (1, 2)
_BYTE = 3
_INTEGERS = (4, 5, 6)
_DOUBLE = 7
_BINARY = 8
_LISTS = (9, 10)
_STRUCT = 12


class ReadingConfig(Settings):
    documents: Literal["blank-lines", "lines", "files"] = "blank-lines"
    """What separates documents in plain text."""
    field: str = ""
    """The field or column that holds the text; empty for 'text', or 'symbols' with --symbols."""
    encoding: Encoding = "utf-8"
    """Of text without a byte order mark."""


@dataclass(frozen=True, slots=True)
class DecodeError:
    """A document whose bytes are not text in the expected encoding."""

    data: bytes


Symbols = tuple[str, ...]
Content = str | Symbols
Raw = str | DecodeError | Symbols


def read_documents(
    source: Source, config: ReadingConfig, counter: ByteCounter | None = None, *, symbols: bool = False
) -> Iterator[Raw]:
    if symbols and source.format not in ("jsonl", "txt"):
        raise InputError(f"{source.path}: symbols are read from JSON lines only; convert the {source.format} file")
    field = config.field or ("symbols" if symbols else "text")
    with open_source(source, counter) as stream:
        raws: Iterable[Raw]
        if symbols or source.format == "jsonl":
            raws = _read_json(source, read_utf8(stream, config.encoding), field, symbols=symbols)
        elif source.format == "parquet":
            raws = _read_parquet(source, stream, field)
        elif source.format == "txt":
            raws = _read_text(read_utf8(stream, config.encoding), config.documents)
        else:
            raws = _read_table(source, read_utf8(stream, config.encoding), field)
        for raw in raws:
            start = 0
            while isinstance(raw, str) and len(raw) - start > MAX_CHARS:
                end = max(raw.rfind("\n", start, start + MAX_CHARS), raw.rfind(" ", start, start + MAX_CHARS))
                end = end if end > start else start + MAX_CHARS
                yield raw[start:end]
                start = end
            yield raw[start:] if isinstance(raw, str) else raw


def _decode(data: bytes) -> str | DecodeError:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return DecodeError(data)


def _read_text(blocks: Iterable[bytes], documents: str) -> Iterator[Raw]:
    if documents == "files":
        return map(_decode, _bounded(blocks))
    if documents == "lines":
        return map(_decode, _split_bounded(blocks, _LINE_BREAK))
    return map(_decode, filter(bytes.strip, _split_bounded(blocks, _BLANK_LINES)))


def _split_bounded(blocks: Iterable[bytes], separator: re.Pattern[bytes]) -> Iterator[bytes]:
    """What stands between the separators; beyond MAX_CHARS it comes in several pieces."""
    rest = b""
    for block in blocks:
        *whole, rest = separator.split(rest + block)
        yield from whole
        if len(rest) > MAX_CHARS:
            *whole, rest = _bounded([rest])
            yield from whole
    if rest:
        yield rest


def _bounded(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces of at most about MAX_CHARS bytes, cut at white space, never inside a character."""
    rest = b""
    for block in blocks:
        rest += block
        while len(rest) > MAX_CHARS:
            end = max(rest.rfind(b"\n", 0, MAX_CHARS), rest.rfind(b" ", 0, MAX_CHARS))
            if end <= 0:
                end = MAX_CHARS
                # A byte 10xxxxxx goes on with the character before it.
                while end > MAX_CHARS - 4 and rest[end] & 0xC0 == 0x80:
                    end -= 1
            yield rest[:end]
            rest = rest[end:]
    yield rest


def split_lines(source: Source, blocks: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for block in blocks:
        first, *others = block.split(b"\n")
        held.append(first)
        size += len(first)
        if size > MAX_LINE_BYTES:
            raise InputError(f"{source.path}: a line is longer than {MAX_LINE_BYTES >> 20} MB; break it up")
        for other in others:
            yield b"".join(held)
            held, size = [other], len(other)
    yield b"".join(held)


def _read_json(source: Source, blocks: Iterable[bytes], field: str, *, symbols: bool) -> Iterator[Raw]:
    """The field of each object, or the line itself where it is none; blank lines are skipped."""
    for number, line in enumerate(split_lines(source, blocks), start=1):
        if not line.strip():
            continue
        text = _decode(line)
        if isinstance(text, DecodeError):
            yield text
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:  # ValueError also for an integer of too many digits
            raise InputError(
                f"{source.path}: line {number} is not JSON ({error}); correct or remove the line"
            ) from None
        content = value.get(field, _MISSING) if isinstance(value, dict) else value
        complaint = ""
        if symbols and not isinstance(content, list):
            complaint = f"is no list of symbols; give a JSON list or a field {field!r}"
        elif symbols:
            for symbol in content:
                if isinstance(symbol, bool) or not isinstance(symbol, str | int) or symbol == "":
                    complaint = f"holds {symbol!r}; a symbol is a non-empty string or an integer"
        elif content is _MISSING:
            complaint = f"has no field {field!r} (it has {', '.join(map(repr, value)) or 'none'}); {CHOOSE_FIELD}"
        elif content is not None and not isinstance(content, str):
            complaint = f"holds a {type(content).__name__} where text is expected; {CHOOSE_FIELD}"
        if complaint:
            raise InputError(f"{source.path}: line {number} {complaint}")
        yield tuple(map(str, content)) if symbols else content or ""


def _read_table(source: Source, blocks: Iterable[bytes], column: str) -> Iterator[Raw]:
    """CSV quotes its fields; TSV does not, a quotation mark there is text."""
    # Bytes that do not decode go through the table parser as lone surrogates, to be found again in their field.
    lines = (line.decode("utf-8", "surrogateescape") for line in split_lines(source, blocks))
    rows: Iterator[list[str]] = (line.rstrip("\r").split("\t") for line in lines)
    held = 0

    def bounded_lines() -> Iterator[str]:
        """A quoted field may span lines, and so a row may, which is bounded as a line is."""
        nonlocal held
        for line in lines:
            held += len(line) + 1
            if held > MAX_LINE_BYTES:
                raise InputError(
                    f"{source.path}: a row is longer than {MAX_LINE_BYTES >> 20} MB; break it up, close its quotes, "
                    "or name the file .tsv if unquoted"
                )
            yield line + "\n"

    if source.format == "csv":
        csv.field_size_limit(MAX_LINE_BYTES)
        rows = csv.reader(bounded_lines(), strict=True)
    try:
        header = next(rows, [])
        if column not in header:
            raise WrongColumn(source, column, header)
        index = header.index(column)
        held = 0
        for row in rows:
            held = 0
            if not row or row == [""]:
                continue
            text = row[index] if index < len(row) else ""
            try:
                text.encode()
            except UnicodeEncodeError:
                yield DecodeError(text.encode("utf-8", "surrogateescape"))
            else:
                yield text
    except csv.Error as error:
        raise InputError(
            f"{source.path}: not valid CSV ({error}); correct the file, or name it .tsv if unquoted"
        ) from None


class BadPage(Exception):
    """What stands in the place of a page's header is none."""


class Page(NamedTuple):
    packed_bytes: int
    unpacked_bytes: int


def _read_parquet(source: Source, stream: BinaryIO, column: str) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet
    import pyarrow.types as types

    is_text = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    with ExitStack() as opened:
        if source.compression:  # Parquet is read from its end: a compressed one is unpacked into a file first
            unpacked = opened.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, unpacked, BLOCK)
            unpacked.seek(0)
            stream = unpacked
        try:
            file = pyarrow.parquet.ParquetFile(stream, pre_buffer=False)
            if column not in file.schema_arrow.names:
                raise WrongColumn(source, column, file.schema_arrow.names)
            kind = file.schema_arrow.field(column).type
            if not any(test(kind.value_type if types.is_dictionary(kind) else kind) for test in is_text):
                raise InputError(f"{source.path}: column {column!r} holds {kind}, not text; name another")
            # Read without the buffer of the stream, whose blocks would fetch the whole file a first time.
            headers = stream if source.compression else opened.enter_context(source.path.open("rb", 4096))
            largest = 1
            for page in read_pages(headers, file.metadata, column):
                # Large ones are common where texts are long, but none of text is packed as tightly as one made to
                # fill the memory.
                if page.unpacked_bytes > max(_BATCH_BYTES, _MAX_RATIO * page.packed_bytes):
                    raise InputError(
                        f"{source.path}: a page of {page.packed_bytes:,} bytes unpacks to "
                        f"{page.unpacked_bytes >> 20} MB, as text never does; get the file again, or write it with "
                        "smaller pages"
                    )
                largest = max(largest, page.unpacked_bytes)
            # Many rows may share a value, but none is larger than a page.
            rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // largest))
            for batch in file.iter_batches(batch_size=rows, columns=[column]):
                for value in batch.column(0):
                    yield value.as_py() or ""
        except (pyarrow.ArrowException, BadPage) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{source.path}: not a Parquet file ({reason}); get it again") from None


def read_pages(file: BinaryIO, metadata: Any, column: str) -> Iterator[Page]:
    """The sizes of every page of the column, before any is unpacked; `metadata` is pyarrow's of the file.

    A page is the least that a reader unpacks at once, and one of a few bytes may say that it unpacks to gigabytes.
    pyarrow does not tell the sizes, so the headers between the pages are read here.
    """
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for chunk in (group.column(number) for number in range(group.num_columns)):
            if chunk.path_in_schema != column:
                continue
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            offset, end = start, start + chunk.total_compressed_size
            while 0 <= offset < end:
                file.seek(offset)
                fields = _read_struct(file, _DEPTH)
                unpacked, packed = (fields.get(number, -1) for number in (2, 3))
                if min(unpacked, packed) < 0:
                    raise BadPage("the header of a page tells no sizes")
                yield Page(packed, unpacked)
                offset = file.tell() + packed


def _read_struct(file: BinaryIO, depth: int) -> dict[int, int]:
    """The fields of a struct in Thrift's compact protocol by their numbers; what is no integer is -1."""
    if depth == 0:
        raise BadPage("the header of a page is nested too deeply")
    fields: dict[int, int] = {}
    number = 0
    while (head := _read_byte(file)) != _STOP:
        step, kind = head >> 4, head & 15
        number = number + step if step else _read_value(file, _INTEGERS[0], depth)
        if kind not in _TRUTHS:  # of a field, the kind is the value
            fields[number] = _read_value(file, kind, depth)
    return fields


def _read_value(file: BinaryIO, kind: int, depth: int) -> int:
    """The value of an integer; anything else is skipped, and is -1."""
    if kind in _INTEGERS:  # zigzag: the sign is the last bit
        number = _read_number(file)
        return (number >> 1) ^ -(number & 1)
    if kind in (*_TRUTHS, _BYTE):
        _read_byte(file)
    elif kind == _DOUBLE:
        file.seek(8, 1)
    elif kind == _BINARY:
        file.seek(_read_number(file), 1)
    elif kind in _LISTS:
        head = _read_byte(file)
        for _ in range(head >> 4 if head >> 4 < 15 else _read_number(file)):
            _read_value(file, head & 15, depth - 1)
    elif kind == _STRUCT:
        _read_struct(file, depth - 1)
    else:  # a header of a page holds no map
        raise BadPage("the header of a page holds an unknown kind of field")
    return -1


def _read_byte(file: BinaryIO) -> int:
    data = file.read(1)
    if not data:
        raise BadPage("the file ends inside the header of a page")
    return data[0]


def _read_number(file: BinaryIO) -> int:
    """Seven bits of it in each byte, the lowest first; the eighth says that more follow."""
    number = 0
    for shift in range(0, 64, 7):
        data = _read_byte(file)
        number |= (data & 127) << shift
        if data < 128:
            return number
    raise BadPage("the header of a page holds too large a number")
