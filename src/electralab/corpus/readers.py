"""A source -> the contents of its documents, one at a time, whatever its format.

    Source -> str | DecodeError | tuple[str, ...]

A document beyond MAX_CHARS is cut into several at white space, so that nothing a file holds can fill the memory.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from electralab.config import Settings
from electralab.corpus.parquet import read_column
from electralab.corpus.sources import CHOOSE_FIELD, Source, WrongColumn
from electralab.corpus.streams import ByteCounter, Encoding, open_source, read_utf8
from electralab.errors import InputError

MAX_CHARS = 1 << 20
# A line, or a row of a table, is in memory whole, several times over: as bytes, as text, as what JSON makes of it.
MAX_LINE_BYTES = 1 << 25
_LINE_BREAK = re.compile(rb"\n")
_BLANK_LINES = re.compile(rb"\n(?:[ \t\r]*\n)+")
_MISSING = object()


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
    with open_source(source, counter) as stream:
        if symbols:
            yield from _read_symbols(source, read_utf8(stream, config.encoding), config.field or "symbols")
            return
        for raw in _READERS[source.format](source, stream, config):
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


def _read_text(_source: Source, stream: BinaryIO, config: ReadingConfig) -> Iterator[Raw]:
    blocks = read_utf8(stream, config.encoding)
    match config.documents:
        case "files":
            yield from map(_decode, _bounded(blocks, MAX_CHARS))
        case "lines":
            yield from map(_decode, _split_bounded(blocks, _LINE_BREAK, is_end_kept=False))
        case "blank-lines":
            yield from map(_decode, filter(bytes.strip, _split_bounded(blocks, _BLANK_LINES)))


def _split_bounded(
    blocks: Iterable[bytes], separator: re.Pattern[bytes], *, is_end_kept: bool = True
) -> Iterator[bytes]:
    """What stands between the separators; beyond MAX_CHARS it comes in several pieces."""
    rest = b""
    for block in blocks:
        *whole, rest = separator.split(rest + block)
        yield from whole
        if len(rest) > MAX_CHARS:
            *whole, rest = _bounded([rest], MAX_CHARS)
            yield from whole
    if rest or is_end_kept:
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
    """(line number, value), or (line number, DecodeError); blank lines are skipped."""
    for number, line in enumerate(_whole_lines(source, blocks), start=1):
        if not line.strip():
            continue
        text = _decode(line)
        if isinstance(text, DecodeError):
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
        if isinstance(value, DecodeError):
            yield value
            continue
        text = value.get(field, _MISSING) if isinstance(value, dict) else value
        if text is _MISSING:
            known = ", ".join(map(repr, value)) or "none"
            raise InputError(f"{source.path}: line {number} has no field {field!r} (it has {known}); {CHOOSE_FIELD}")
        if text is not None and not isinstance(text, str):
            got = type(text).__name__
            raise InputError(f"{source.path}: line {number} holds a {got} where text is expected; {CHOOSE_FIELD}")
        yield text or ""


def _read_symbols(source: Source, blocks: Iterable[bytes], field: str) -> Iterator[Raw]:
    if source.format not in ("jsonl", "txt"):
        raise InputError(f"{source.path}: symbols are read from JSON lines only; convert the {source.format} file")
    for number, value in _json_lines(source, blocks):
        if isinstance(value, DecodeError):
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
    # Bytes that do not decode go through the table parser as lone surrogates, to be found again in their field.
    lines = (
        line.decode("utf-8", "surrogateescape") for line in _whole_lines(source, read_utf8(stream, config.encoding))
    )
    is_quoted = source.format == "csv"
    rows = _split_csv(source, lines) if is_quoted else (line.rstrip("\r").split("\t") for line in lines)
    try:
        header = next(rows, [])
        if column not in header:
            raise WrongColumn(source, column, header)
        index = header.index(column)
        for row in rows:
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
            f"{source.path}: not valid CSV ({error}); mend the file, or name it .tsv if unquoted"
        ) from None


def _split_csv(source: Source, lines: Iterable[str]) -> Iterator[list[str]]:
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
            yield line + "\n"

    for row in csv.reader(counted(), strict=True):
        held = 0
        yield row


def _read_parquet(source: Source, stream: BinaryIO, config: ReadingConfig) -> Iterator[Raw]:
    return read_column(source, stream, config.field or "text")


_Reader = Callable[[Source, BinaryIO, ReadingConfig], Iterator[Raw]]
_READERS: dict[str, _Reader] = {
    "txt": _read_text,
    "jsonl": _read_json,
    "csv": _read_table,
    "tsv": _read_table,
    "parquet": _read_parquet,
}
