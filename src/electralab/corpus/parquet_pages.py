"""A Parquet file -> the sizes of its pages, before any is unpacked.

    open file -> Iterator[Page]

A page is the least that a reader unpacks at once, and one of a few bytes may say that it unpacks to gigabytes. pyarrow
does not tell the sizes, so the headers between the pages are read here: structs in Thrift's compact protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

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


def read_pages(file: BinaryIO, metadata: Any, column: str) -> Iterator[Page]:
    """Of every part of the column; `metadata` is pyarrow's of the file."""
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for chunk in (group.column(number) for number in range(group.num_columns)):
            if chunk.path_in_schema == column:
                yield from _read_chunk(file, chunk)


def _read_chunk(file: BinaryIO, chunk: Any) -> Iterator[Page]:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    place, end = start, start + chunk.total_compressed_size
    while 0 <= place < end:
        file.seek(place)
        fields = _read_struct(file, _DEPTH)
        unpacked, packed = (fields.get(number, -1) for number in (2, 3))
        if min(unpacked, packed) < 0:
            raise BadPage("the header of a page tells no sizes")
        yield Page(packed, unpacked)
        place = file.tell() + packed


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
