"""A source -> the contents of its documents, one at a time, whatever its format.

    Source -> str | Undecodable | tuple[str, ...]

A document beyond MAX_CHARS is cut into several at white space, so that nothing a file holds can fill the memory.
"""

import csv
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from electralab.config import Settings
from electralab.corpus.parquet_pages import BadPage, Page, read_pages
from electralab.corpus.sources import Source
from electralab.corpus.streams import BLOCK, Encoding, Meter, open_source, read_utf8
from electralab.errors import InputError

MAX_CHARS = 1 << 20
# A line, or a row of a table, is in memory whole, several times over: as bytes, as text, as what JSON makes of it.
MAX_LINE_BYTES = 1 << 25
# Of a Parquet file: what is unpacked at once, and how much a page may grow beyond that.
_BATCH_ROWS = 256
_BATCH_BYTES = 1 << 26
_MAX_RATIO = 100

# The flag of `prepare`, and the setting by which every verb that reads text knows it.
_CHOOSE_FIELD = "choose it with --field (the setting reading.field)"

_BLANK_LINES = re.compile(rb"\n(?:[ \t\r]*\n)+")


class ReadingConfig(Settings):
    documents: Literal["blank-lines", "lines", "files"] = "blank-lines"
    """What separates documents in plain text."""
    field: str = ""
    """The field or column that holds the text; empty for 'text', or 'symbols' with --symbols."""
    encoding: Encoding = "utf-8"
    """Of text without a byte order mark."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A document whose bytes are not text in the expected encoding."""

    data: bytes


class WrongColumn(InputError):
    """A table without the wished column: passed over where it only happened to lie in a folder."""


Symbols = tuple[str, ...]
Content = str | Symbols
Raw = str | Undecodable | Symbols


def read_documents(source: Source, config: ReadingConfig, meter: Meter, *, symbols: bool) -> Iterator[Raw]:
    with open_source(source, meter) as stream:
        if symbols:
            yield from _read_symbols(source, read_utf8(stream, config.encoding), config.field or "symbols")
            return
        for raw in _READERS[source.format](source, stream, config):
            yield from _cut_long(raw) if isinstance(raw, str) and len(raw) > MAX_CHARS else (raw,)


def _cut_long(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > MAX_CHARS:
        end = max(text.rfind("\n", start, start + MAX_CHARS), text.rfind(" ", start, start + MAX_CHARS))
        end = end if end > start else start + MAX_CHARS
        yield text[start:end]
        start = end
    yield text[start:]


def _decode(data: bytes) -> str | Undecodable:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Undecodable(data)


def _read_text(_source: Source, stream: BinaryIO, config: ReadingConfig) -> Iterator[Raw]:
    blocks = read_utf8(stream, config.encoding)
    if config.documents == "files":
        yield from map(_decode, _bounded(blocks, MAX_CHARS))
    elif config.documents == "lines":
        for line in _lines(blocks, MAX_CHARS):
            yield _decode(line)
    else:
        yield from map(_decode, filter(bytes.strip, _paragraph_groups(blocks)))


def _paragraph_groups(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *whole, rest = _BLANK_LINES.split(rest + block)
        yield from whole
        if len(rest) > MAX_CHARS:
            *whole, rest = _bounded([rest], MAX_CHARS)
            yield from whole
    yield rest


def _lines(blocks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Without their line breaks; a line beyond the limit comes in several pieces."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > limit:
            *whole, rest = _bounded([rest], limit)
            yield from whole
    if rest:
        yield rest


def _bounded(blocks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Pieces of at most about `limit` bytes, cut at white space, never inside a character."""
    rest = b""
    for block in blocks:
        rest += block
        while len(rest) > limit:
            end = max(rest.rfind(b"\n", 0, limit), rest.rfind(b" ", 0, limit))
            if end <= 0:
                end = limit
                while end > limit - 4 and rest[end] & 0xC0 == 0x80:
                    end -= 1
            yield rest[:end]
            rest = rest[end:]
    yield rest


def _json_lines(source: Source, blocks: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
    """(line number, value), or (line number, Undecodable); blank lines are skipped."""
    for number, line in enumerate(_whole_lines(source, blocks), start=1):
        if not line.strip():
            continue
        text = _decode(line)
        if isinstance(text, Undecodable):
            yield number, text
            continue
        try:
            yield number, json.loads(text)
        except (ValueError, RecursionError) as error:  # ValueError also for an integer of too many digits
            raise InputError(f"{source.path}: line {number} is not JSON ({error}); mend or remove the line") from None


def _whole_lines(source: Source, blocks: Iterable[bytes]) -> Iterator[bytes]:
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


def _read_json(source: Source, stream: BinaryIO, config: ReadingConfig) -> Iterator[Raw]:
    field = config.field or "text"
    for number, value in _json_lines(source, read_utf8(stream, config.encoding)):
        if isinstance(value, Undecodable):
            yield value
            continue
        text = value.get(field, _MISSING) if isinstance(value, dict) else value
        if text is _MISSING:
            known = ", ".join(map(repr, value)) or "none"
            raise InputError(f"{source.path}: line {number} has no field {field!r} (it has {known}); {_CHOOSE_FIELD}")
        if text is not None and not isinstance(text, str):
            got = type(text).__name__
            raise InputError(f"{source.path}: line {number} holds a {got} where text is expected; {_CHOOSE_FIELD}")
        yield text or ""


_MISSING = object()


def _read_symbols(source: Source, blocks: Iterable[bytes], field: str) -> Iterator[Raw]:
    if source.format not in ("jsonl", "txt"):
        raise InputError(f"{source.path}: symbols are read from JSON lines only; convert the {source.format} file")
    for number, value in _json_lines(source, blocks):
        if isinstance(value, Undecodable):
            yield value
            continue
        symbols = value.get(field) if isinstance(value, dict) else value
        if not isinstance(symbols, list):
            raise InputError(
                f"{source.path}: line {number} is no list of symbols; give a JSON list or a field {field!r}"
            )
        wrong = next((s for s in symbols if isinstance(s, bool) or not isinstance(s, str | int) or s == ""), _MISSING)
        if wrong is not _MISSING:
            raise InputError(
                f"{source.path}: line {number} holds {wrong!r}; a symbol is a non-empty string or an integer"
            )
        yield tuple(symbol if isinstance(symbol, str) else str(symbol) for symbol in symbols)


def _read_table(source: Source, stream: BinaryIO, config: ReadingConfig) -> Iterator[Raw]:
    """CSV quotes its fields; TSV does not, a quotation mark there is text."""
    column = config.field or "text"
    blocks = read_utf8(stream, config.encoding)
    lines = _whole_lines(source, blocks)
    rows = _split_csv(source, lines) if source.format == "csv" else _split_tabs(lines)
    try:
        header = next(rows, [])
        if column not in header:
            known = ", ".join(map(repr, header[:10]))
            raise WrongColumn(f"{source.path}: has no column {column!r} (it has {known}); {_CHOOSE_FIELD}")
        place = header.index(column)
        for row in rows:
            if row and row != [""]:
                yield _unmark(row[place]) if place < len(row) else ""
    except csv.Error as error:
        raise InputError(
            f"{source.path}: not valid CSV ({error}); mend the file, or name it .tsv if unquoted"
        ) from None


def _split_tabs(lines: Iterable[bytes]) -> Iterator[list[str]]:
    return (_with_marks(line).rstrip("\r").split("\t") for line in lines)


def _split_csv(source: Source, lines: Iterable[bytes]) -> Iterator[list[str]]:
    """A quoted field may span lines, and so a row may, which is bounded as a line is."""
    csv.field_size_limit(MAX_LINE_BYTES)
    held = 0

    def counted() -> Iterator[str]:
        nonlocal held
        for line in lines:
            held += len(line) + 1
            if held > MAX_LINE_BYTES:
                raise InputError(
                    f"{source.path}: a row is longer than {MAX_LINE_BYTES >> 20} MB; break it up, close its quotes, "
                    "or name the file .tsv if unquoted"
                )
            yield _with_marks(line) + "\n"

    for row in csv.reader(counted(), strict=True):
        held = 0
        yield row


def _with_marks(line: bytes) -> str:
    """Undecodable bytes go through the table parser as lone surrogates, to be found again in their field."""
    return line.decode("utf-8", "surrogateescape")


def _unmark(text: str) -> str | Undecodable:
    try:
        text.encode()
    except UnicodeEncodeError:
        return Undecodable(text.encode("utf-8", "surrogateescape"))
    return text


def _read_parquet(source: Source, stream: BinaryIO, config: ReadingConfig) -> Iterator[Raw]:
    import pyarrow
    import pyarrow.parquet

    column = config.field or "text"
    # Parquet is read from its end: a compressed one is unpacked into a file first.
    with nullcontext(stream) if not source.compression else _unpacked(stream) as seekable:
        try:
            file = pyarrow.parquet.ParquetFile(seekable, pre_buffer=False)
            if column not in file.schema_arrow.names:
                known = ", ".join(map(repr, file.schema_arrow.names[:10]))
                raise WrongColumn(f"{source.path}: has no column {column!r} (it has {known}); {_CHOOSE_FIELD}")
            kind = file.schema_arrow.field(column).type
            if not _is_text(kind):
                raise InputError(f"{source.path}: column {column!r} holds {kind}, not text; name another")
            # Read without the buffer of the stream, whose blocks would fetch the whole file a first time.
            with nullcontext(seekable) if source.compression else source.path.open("rb", 4096) as headers:
                largest = _find_largest(source, read_pages(headers, file.metadata, column))
            # Many rows may share a value, but none is larger than a page.
            rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, largest)))
            for batch in file.iter_batches(batch_size=rows, columns=[column]):
                for value in batch.column(0):
                    yield value.as_py() or ""
        except (pyarrow.ArrowException, BadPage) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{source.path}: not a Parquet file ({reason}); get it again") from None


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(test(kind) for test in (types.is_string, types.is_large_string, types.is_string_view, types.is_null))


def _find_largest(source: Source, pages: Iterable[Page]) -> int:
    """The size of the largest page, which is unpacked whole.

    Large ones are common where texts are long, but none of text is packed as tightly as one made to fill the memory.
    """
    largest = 0
    for page in pages:
        if page.unpacked_bytes > max(_BATCH_BYTES, _MAX_RATIO * page.packed_bytes):
            raise InputError(
                f"{source.path}: a page of {page.packed_bytes:,} bytes unpacks to {page.unpacked_bytes >> 20} MB, "
                "as text never does; get the file again, or write it with smaller pages"
            )
        largest = max(largest, page.unpacked_bytes)
    return largest


@contextmanager
def _unpacked(stream: BinaryIO) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file, BLOCK)
        file.seek(0)
        yield file


_Reader = Callable[[Source, BinaryIO, ReadingConfig], Iterator[Raw]]
_READERS: dict[str, _Reader] = {
    "txt": _read_text,
    "jsonl": _read_json,
    "csv": _read_table,
    "tsv": _read_table,
    "parquet": _read_parquet,
}
