"""A source file -> its bytes, decompressed block by block: whatever it unpacks to, a block is all that is in memory."""

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, BinaryIO, cast

import zstandard
from pydantic import AfterValidator

from electralab.corpus.sources import Source
from electralab.errors import InputError

BLOCK = 1 << 20
_ZSTD_BLOCK = 1 << 9

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNDECODABLE = "electralab-undecodable"


def _require_encoding(name: str) -> str:
    try:
        "".encode(name)
    except LookupError:
        raise ValueError("no such encoding; try utf-8, latin-1 or cp1252") from None
    return name


Encoding = Annotated[str, AfterValidator(_require_encoding)]
"""The name of a way to write text as bytes."""


class ByteCounter:
    """How many bytes of the source files have been read, compressed as they are."""

    def __init__(self) -> None:
        self.done = 0


class _CountedFile(io.RawIOBase):
    def __init__(self, file: BinaryIO, counter: ByteCounter) -> None:
        self._file = file
        self._counter = counter

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(place, whence)

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        block = self._file.read(len(view))
        view[: len(block)] = block
        self._counter.done += len(block)
        return len(block)


@contextmanager
def open_source(source: Source, counter: ByteCounter | None = None) -> Iterator[BinaryIO]:
    """The decompressed bytes; whatever the decompressor objects to is one sentence that names the file."""
    try:
        with source.path.open("rb") as file:
            raw = cast(BinaryIO, io.BufferedReader(_CountedFile(file, counter or ByteCounter()), BLOCK))
            match source.compression:
                case "gz":
                    yield cast(BinaryIO, gzip.GzipFile(fileobj=raw))
                case "bz2":
                    yield cast(BinaryIO, bz2.BZ2File(raw))
                case "xz":
                    yield cast(BinaryIO, lzma.LZMAFile(raw))  # noqa: SIM115  closed with the file below it
                case "zst":
                    yield cast(BinaryIO, io.BufferedReader(_WholeFrames(raw), BLOCK))
                case _:
                    yield raw
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(
            f"{source.path}: truncated or not {source.compression} data ({error}); get the file again"
        ) from None
    except OSError as error:
        raise InputError(f"{source.path}: cannot be read ({error.strerror or error}); check the file") from None


class _WholeFrames(io.RawIOBase):
    """Zstandard frames one after the other; a frame that breaks off is an error, which zstandard's reader ignores.

    It is fed a few bytes at a time because each may unpack to thousands.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_inside = False
        self._packed = b""
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        while not self._unpacked:
            self._packed = self._packed or self._raw.read(_ZSTD_BLOCK)
            if not self._packed:
                if self._is_inside:
                    raise EOFError("the last frame breaks off")
                return 0
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._unpacked = memoryview(self._frame.decompress(self._packed))
            self._is_inside = not self._frame.eof
            self._packed = self._frame.unused_data if self._frame.eof else b""
        view = memoryview(buffer)  # type: ignore[arg-type]
        count = min(len(view), len(self._unpacked))
        view[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count


def read_utf8(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    """Blocks of UTF-8, whatever the encoding; a byte order mark wins over `encoding` and is left out.

    What does not decode becomes bytes that are not valid UTF-8 either, so the document around them can be found out.
    """
    first = stream.read(BLOCK)
    while 0 < len(first) < 4 and (more := stream.read(BLOCK)):
        first += more
    for mark, name in _BOMS:
        if first.startswith(mark):
            encoding, first = name, first[len(mark) :]
            break
    # Python's own utf-16 insists on the mark that is missing here.
    encoding = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(codecs.lookup(encoding).name, encoding)
    if codecs.lookup(encoding).name in ("utf-8", "ascii"):
        yield first
        while block := stream.read(BLOCK):
            yield block
        return

    def replace_undecodable(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeDecodeError)
        return "\udcff", error.end

    codecs.register_error(_UNDECODABLE, replace_undecodable)
    decoder = codecs.getincrementaldecoder(encoding)(_UNDECODABLE)
    block = first
    while block:
        yield decoder.decode(block).encode("utf-8", "surrogatepass")
        block = stream.read(BLOCK)
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")
