"""A Parquet file -> the texts of one column, without a page in memory that unpacks to more than text ever does.

open file, column -> str...

A page is the least that a reader unpacks at once, and one of a few bytes may say that it unpacks to gigabytes. pyarrow
does not tell the sizes, so the headers between the pages are read here: structs in Thrift's compact protocol.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO

from electralab.corpus.sources import Source, WrongColumn
from electralab.corpus.streams import BLOCK
from electralab.errors import InputError

# What is unpacked at once, and how much a page may grow beyond that.
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


class BadPage(Exception):
    """What stands in the place of a page's header is none."""


@dataclass(frozen=True, slots=True)
class Page:
    packed_bytes: int
    unpacked_bytes: int


def read_column(source: Source, stream: BinaryIO, column: str) -> Iterator[str]:
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
    """The sizes of every page of the column, before any is unpacked; `metadata` is pyarrow's of the file."""
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
    """The integers among its fields, by number; all else is skipped."""
    if depth == 0:
        raise BadPage("the header of a page is nested too deeply")
    fields: dict[int, int] = {}
    number = 0
    while (head := _read_byte(file)) != _STOP:
        step, kind = head >> 4, head & 15
        number = number + step if step else _read_signed(file)
        if kind in _INTEGERS:
            fields[number] = _read_signed(file)
        elif kind not in _TRUTHS:  # of a field, the kind is the value
            _skip(file, kind, depth)
    return fields


def _skip(file: BinaryIO, kind: int, depth: int) -> None:
    if kind in (*_TRUTHS, _BYTE):
        _read_byte(file)
    elif kind in _INTEGERS:
        _read_signed(file)
    elif kind == _DOUBLE:
        file.seek(8, 1)
    elif kind == _BINARY:
        file.seek(_read_number(file), 1)
    elif kind in _LISTS:
        head = _read_byte(file)
        for _ in range(head >> 4 if head >> 4 < 15 else _read_number(file)):
            _skip(file, head & 15, depth - 1)
    elif kind == _STRUCT:
        _read_struct(file, depth - 1)
    else:  # a header of a page holds no map
        raise BadPage("the header of a page holds an unknown kind of field")


def _read_byte(file: BinaryIO) -> int:
    data = file.read(1)
    if not data:
        raise BadPage("the file ends inside the header of a page")
    return data[0]


def _read_number(file: BinaryIO) -> int:
    number = shift = 0
    while shift < 64:
        data = _read_byte(file)
        number |= (data & 127) << shift
        if data < 128:
            return number
        shift += 7
    raise BadPage("the header of a page holds too large a number")


def _read_signed(file: BinaryIO) -> int:
    number = _read_number(file)
    return (number >> 1) ^ -(number & 1)
