"""What the user named -> the files to read, in a fixed order, with their format, size and hash.

    files, folders, globs, "-" -> list[Source]

A file that the user named must be usable; one found in a folder that is no text we know is passed over and reported.
"""

import glob
import hashlib
import os
import select
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electralab.artifacts import real_path, storage_errors
from electralab.errors import InputError, UsageError
from electralab.stopping import StopSignal

Format = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
Compression = Literal["", "gz", "bz2", "xz", "zst"]

_FORMATS: dict[str, Format] = {
    ".txt": "txt",
    ".text": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".bz2": "bz2", ".xz": "xz", ".zst": "zst"}
_BLOCK = 1 << 20
_POLL_SECONDS = 0.2

# The flag of `prepare`, and the setting by which every verb that reads text knows it.
CHOOSE_FIELD = "choose it with --field (the setting reading.field)"

STANDARD_INPUT = "-"


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
    default: Format = "jsonl" if symbols else "txt"
    for name in inputs:
        if name == STANDARD_INPUT:
            files += [] if spool is None else [_describe(spool, default, named=True)]
            continue
        paths = [Path(name).expanduser()]
        if not os.path.lexists(paths[0]):
            # Path.glob takes no absolute pattern.
            matches = sorted(glob.glob(str(paths[0]), recursive=True)) if glob.has_magic(name) else []  # noqa: PTH207
            if not matches:
                raise InputError(f"{name}: no such file or folder; check the path")
            paths = [Path(match) for match in matches]
        for path in paths:
            if not path.is_dir():
                files.append(_describe(path, default, named=True))
                continue
            for file in _walk(path):
                if _format_of(file)[0] is None or not file.is_file():
                    passed_over.append(str(file))
                else:
                    files.append(_describe(file, "txt", named=False))
    unique = {real_path(source.path): source for source in reversed(files)}
    kept = [source for source in files if unique.get(real_path(source.path)) is source]
    if not kept and STANDARD_INPUT not in inputs:
        raise InputError(f"{inputs[0]}: holds no .txt, .jsonl, .csv, .tsv or .parquet file; name files with text")
    return Sources(kept, [name for name in passed_over if real_path(Path(name)) not in unique])


def spool_standard_input(path: Path, stop: StopSignal) -> None:
    """Until its end, or until a signal arrives, even while nothing does."""
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
                    block = os.read(descriptor, _BLOCK)
                except OSError as error:
                    raise InputError(f"standard input: cannot be read ({error.strerror}); pipe text into it") from None
                file.write(block)


def _walk(folder: Path) -> Iterator[Path]:
    """Every file below, sorted, hidden ones left out; links to folders are not followed, so no loop can trap it."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: cannot be listed ({error.strerror}); change its permissions") from None

    for directory, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(directory, name) for name in sorted(names) if not name.startswith("."))


def _format_of(path: Path) -> tuple[Format | None, Compression]:
    compression = _COMPRESSIONS.get(path.suffix.lower(), "")
    inner = path.with_suffix("") if compression else path
    return _FORMATS.get(inner.suffix.lower()), compression


def _describe(path: Path, default: Format, *, named: bool) -> Source:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: is not a regular file; give a file, or pipe it in with -")
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise InputError(f"{path}: is a link to nothing; mend or remove it") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check it and its permissions") from None
    kind, compression = _format_of(path)
    if status.st_size == 0 and named:
        raise InputError(f"{path}: is empty; give a file with text")
    return Source(path, kind or default, compression, status.st_size, status.st_mtime_ns, named)


def hash_source(source: Source, advance: Callable[[int], None]) -> str:
    """The SHA-256 of the file as it lies there; `advance` hears of every block, to show progress or to stop."""
    digest = hashlib.sha256()
    try:
        with source.path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                advance(len(block))
    except OSError as error:
        raise InputError(f"{source.path}: cannot be read ({error.strerror}); check the disk") from None
    return digest.hexdigest()


def is_unchanged(source: Source) -> bool:
    status = source.path.stat()
    return (status.st_size, status.st_mtime_ns) == (source.bytes, source.modified_ns)
