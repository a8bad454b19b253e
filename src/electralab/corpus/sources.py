"""What the user named -> the files to read, in a fixed order, and the bytes in them, decompressed block by block.

    files, folders, globs, "-" -> Sources; Source -> bytes -> blocks of UTF-8

A file that the user named must be usable; one found in a folder that is no text we know is passed over and reported.
Whatever a file unpacks to, a block is all that is in memory.
"""

import bz2
import codecs
import glob
import gzip
import hashlib
import io
import lzma
import os
import select
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import zstandard
from pydantic import AfterValidator
from typing_extensions import Buffer

from electralab.artifacts import real_path, storage_errors
from electralab.errors import InputError, UsageError
from electralab.stopping import StopSignal

Format = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
Compression = Literal["", "gz", "bz2", "xz", "zst"]

_FORMATS: dict[str, Format] = {
    **{".txt": "txt", ".text": "txt", ".jsonl": "jsonl", ".ndjson": "jsonl"},
    **{".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"},
}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
BLOCK = 1 << 20
_ZSTD_BLOCK = 1 << 9
_POLL_SECONDS = 0.2

# The flag of `prepare`, and the setting by which every verb that reads text knows it.
CHOOSE_FIELD = "choose it with --field (the setting reading.field)"

STANDARD_INPUT = "-"

# A mark of UTF-32 begins with that of UTF-16, so it comes first.
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


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read. `is_named`: the user gave it, so whatever is wrong with it is an error."""

    path: Path
    format: Format
    compression: Compression
    bytes: int
    modified_ns: int
    is_named: bool


@dataclass(frozen=True, slots=True)
class Sources:
    files: list[Source]
    passed_over: list[str]

    @property
    def bytes(self) -> int:
        return sum(source.bytes for source in self.files)


class WrongColumn(InputError):
    """A table without the wished column: passed over where it only happened to lie in a folder."""

    def __init__(self, source: Source, column: str, known: Sequence[str]) -> None:
        names = ", ".join(map(repr, known[:10]))
        super().__init__(f"{source.path}: has no column {column!r} (it has {names}); {CHOOSE_FIELD}")


def find_sources(inputs: Sequence[str], *, symbols: bool = False, spool: Path | None = None) -> Sources:
    """`spool` is where standard input was, or is now, kept, since it is read more than once."""
    if not inputs:
        raise UsageError("no input given; name files, folders or globs, or - for standard input")
    files: list[Source] = []
    passed_over: list[str] = []

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be listed ({error.strerror}); change its permissions") from None

    for name in inputs:
        paths = [Path(name).expanduser()]
        if name == STANDARD_INPUT:
            paths = [] if spool is None else [spool]
        elif not os.path.lexists(paths[0]):
            # Path.glob takes no absolute pattern.
            matches = sorted(glob.glob(str(paths[0]), recursive=True)) if glob.has_magic(name) else []  # noqa: PTH207
            if not matches:
                raise InputError(f"{name}: no such file or folder; check the path")
            paths = [Path(match) for match in matches]
        for path in paths:
            if not path.is_dir():
                files.append(_describe(path, "jsonl" if symbols else "txt", is_named=True))
                continue
            # Links to folders are not followed, so no loop can trap the search.
            for directory, folders, entries in os.walk(path, onerror=refuse):
                folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
                for file in (Path(directory, entry) for entry in sorted(entries) if not entry.startswith(".")):
                    if _format_of(file)[0] is None or not file.is_file():
                        passed_over.append(str(file))
                    else:
                        files.append(_describe(file, "txt", is_named=False))
    unique = {real_path(source.path): source for source in reversed(files)}
    kept = [source for source in files if unique.get(real_path(source.path)) is source]
    if not kept and STANDARD_INPUT not in inputs:
        raise InputError(f"{inputs[0]}: holds no .txt, .jsonl, .csv, .tsv or .parquet file; name files with text")
    return Sources(kept, [name for name in passed_over if real_path(Path(name)) not in unique])


def _format_of(path: Path) -> tuple[Format | None, Compression]:
    compression = _COMPRESSIONS.get(path.suffix.lower(), "")
    inner = path.with_suffix("") if compression else path
    return _FORMATS.get(inner.suffix.lower()), compression


def _describe(path: Path, default: Format, *, is_named: bool) -> Source:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is not a regular file; give a file, or pipe it in with -")
        with path.open("rb"):  # a file that cannot be read is refused now, not after hours
            pass
    except FileNotFoundError:
        raise InputError(f"{path}: is a link to nothing; correct or remove it") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check it and its permissions") from None
    if status.st_size == 0 and is_named:
        raise InputError(f"{path}: is empty; give a file with text")
    kind, compression = _format_of(path)
    return Source(path, kind or default, compression, status.st_size, status.st_mtime_ns, is_named)


def spool_standard_input(path: Path, stop: StopSignal) -> None:
    """Copy standard input into a file, until its end, or until a signal arrives, even while nothing does."""
    if sys.stdin is None:
        raise InputError("standard input is closed; pipe text into it, or name files")
    descriptor = sys.stdin.fileno()
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            block = b"unread"
            while block:
                stop.check()
                # Python takes up an interrupted read by itself: only where it waits with a limit can a signal end it.
                while not select.select([descriptor], [], [], _POLL_SECONDS)[0]:
                    stop.check()
                try:
                    block = os.read(descriptor, BLOCK)
                except OSError as error:
                    raise InputError(f"standard input: cannot be read ({error.strerror}); pipe text into it") from None
                file.write(block)


def hash_source(source: Source, stop: StopSignal) -> str:
    """The SHA-256 of the file as it lies there."""
    digest = hashlib.sha256()
    try:
        with source.path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
                stop.check()
    except OSError as error:
        raise InputError(f"{source.path}: cannot be read ({error.strerror}); check the disk") from None
    return digest.hexdigest()


@dataclass(slots=True)
class ByteCounter:
    """How many bytes of the source files have been read, compressed as they are."""

    done: int = 0


class _CountedFile(io.FileIO):
    def __init__(self, path: Path, counter: ByteCounter) -> None:
        super().__init__(path)
        self._counter = counter

    def readinto(self, buffer: Buffer, /) -> int:
        count = super().readinto(buffer) or 0
        self._counter.done += count
        return count


@contextmanager
def open_source(source: Source, counter: ByteCounter | None = None) -> Iterator[BinaryIO]:
    """The decompressed bytes; whatever the decompressor objects to is one sentence that names the file."""
    try:
        with io.BufferedReader(_CountedFile(source.path, counter or ByteCounter()), BLOCK) as raw:
            yield _UNPACK[source.compression](raw)
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(
            f"{source.path}: truncated or not {source.compression} data ({error}); get the file again"
        ) from None
    except OSError as error:
        raise InputError(f"{source.path}: cannot be read ({error.strerror or error}); check the file") from None


class _WholeFrames(io.RawIOBase):
    """Zstandard frames one after the other; a frame that breaks off is an error, which zstandard's reader ignores."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_inside = False
        self._packed = b""
        self._unpacked = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        while not self._unpacked:
            # A few bytes at a time, because each may unpack to thousands.
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
        view = memoryview(buffer)
        count = min(len(view), len(self._unpacked))
        view[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count


_UNPACK: dict[Compression, Callable[[BinaryIO], Any]] = {
    "": lambda raw: raw,
    "gz": lambda raw: gzip.GzipFile(fileobj=raw),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zst": lambda raw: io.BufferedReader(_WholeFrames(raw), BLOCK),
}


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
