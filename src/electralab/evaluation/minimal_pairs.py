"""Pairs of an acceptable and an unacceptable sentence, in the layout of BLiMP.

blimp.tar.xz | folder | .jsonl -> PairsRead
"""

import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from electralab.corpus.sources import find_sources, open_source
from electralab.errors import InputError

MAX_LINE_BYTES = 1 << 20
MAX_MEMBER_BYTES = 1 << 28
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TAR_ENDINGS = (".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True, slots=True)
class MinimalPair:
    good: str
    bad: str
    uid: str
    """The paradigm it was made by; without one, the name of its file."""
    linguistics_term: str
    field: str


@dataclass(frozen=True, slots=True)
class PairsRead:
    pairs: list[MinimalPair]
    bad_rows: tuple[str, ...]


NumberedLine = tuple[str, int, bytes]
"""The file, the number of the line in it, and what it holds."""


def read_pairs(data: Path, max_bad_share: float) -> PairsRead:
    pairs: list[MinimalPair] = []
    bad_rows: list[str] = []
    for file, number, content in _read_lines(data):
        pair = _parse(file, number, content)
        if isinstance(pair, MinimalPair):
            pairs.append(pair)
        else:
            bad_rows.append(f"{file}: line {number}: {pair}")
    if len(bad_rows) > max_bad_share * (len(pairs) + len(bad_rows)):
        raise InputError(
            f"{data}: {len(bad_rows):,} of {len(pairs) + len(bad_rows):,} lines hold no pair, the first is "
            f"{bad_rows[0]}; mend them, or raise --data.max-bad-share"
        )
    if not pairs:
        raise InputError(f"{data}: holds no pair; give BLiMP's archive, a folder or a .jsonl file")
    return PairsRead(pairs, tuple(bad_rows))


def _parse(file: str, number: int, content: bytes) -> MinimalPair | str:
    """A pair, or why there is none."""
    try:
        record = json.loads(content.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error})"
    if not isinstance(record, dict):
        return "is not a JSON object"
    good, bad = record.get("sentence_good"), record.get("sentence_bad")
    for name, sentence in (("sentence_good", good), ("sentence_bad", bad)):
        if not isinstance(sentence, str) or not sentence.strip():
            return f"has no text in {name!r}"
        if _LONE_SURROGATE.search(sentence):
            return f"has half a character in {name!r}"
    uid = record.get("UID") or Path(file).name.split(".")[0]
    # BLiMP spells one field in two ways: "syntax_semantics" and "syntax/semantics".
    field = str(record.get("field", "")).replace("/", "_")
    return MinimalPair(str(good), str(bad), str(uid), str(record.get("linguistics_term", "")), field)


def _read_lines(data: Path) -> Iterator[NumberedLine]:
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give BLiMP's archive, a folder or a .jsonl file")
    if data.is_file() and data.name.lower().endswith(_TAR_ENDINGS):
        yield from _read_archive(data)
        return
    for source in find_sources([str(data)]).files:
        # A folder may hold a README or a table beside the pairs; a file that was named must hold pairs.
        if source.format == "jsonl" or source.is_named:
            with open_source(source) as stream:
                yield from _split_lines(str(source.path), stream)


def _read_archive(path: Path) -> Iterator[NumberedLine]:
    """As a stream: nothing is unpacked onto the disk, so that no name in it can lead anywhere."""
    try:
        with tarfile.open(path, "r|*") as archive:
            for member in archive:
                name = Path(member.name).name
                if not member.isfile() or not name.endswith(".jsonl") or name.startswith("."):
                    continue
                if member.size > MAX_MEMBER_BYTES:
                    raise InputError(f"{path}: {member.name} is larger than {MAX_MEMBER_BYTES >> 20} MB; split it up")
                stream = archive.extractfile(member)
                assert stream is not None, "a regular file has content"
                yield from _split_lines(member.name, stream)  # type: ignore[arg-type]
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError) as error:
        raise InputError(f"{path}: truncated or not a tar archive ({error}); get the file again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the file") from None


def _split_lines(file: str, stream: BinaryIO) -> Iterator[NumberedLine]:
    number = 0
    while content := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(content) > MAX_LINE_BYTES:
            raise InputError(f"{file}: line {number} is longer than {MAX_LINE_BYTES >> 20} MB; break it up")
        if content.strip():
            yield file, number, content
