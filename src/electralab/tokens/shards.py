"""Rows on disk: memory-mapped `.npy` shards, the tokenizer they were made with, and a manifest written last.

    documents -> numbered shards, train and held-out; data_dir -> PreparedData

A record is written after each pair of shards. A pair whose record is there and whose files match it is not encoded
again. Where shards begin depends on the documents alone, so they are the same however often the work was interrupted,
and by how many processes or machines it is done.
"""

import hashlib
import io
import itertools
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError

from electralab import artifacts
from electralab.artifacts import FileHash
from electralab.corpus import documents
from electralab.corpus.readers import Content
from electralab.errors import DamagedArtifact, InputError
from electralab.randomness import mix
from electralab.records.prepared import PreparedCounts
from electralab.records.record import Record
from electralab.tokens.packing import Ids, PackingConfig, PackingKind, pack_contiguous, pack_documents, pack_pairs
from electralab.tokens.tokenizer import TOKENIZER, SpecialIds, Tokenizer

KIND = "electralab-data"
FORMAT = 1
SHARDS = "shards"
BUILD = ".build"
Part = Literal["train", "heldout"]
R = TypeVar("R", bound=Record)

_REMEDY = "rerun 'electra prepare' to build it again"

# In characters, each document counting for a few more, so that a shard of the shortest ones fits in memory too.
SHARD_SIZE = 32 << 20
_DOCUMENT_SIZE = 128

_SPLIT = 0x5EED


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of several shards as one table."""

    shards: tuple[NDArray[np.unsignedinteger], ...]  # each (N, T)
    starts: NDArray[np.int64]
    length: int

    @classmethod
    def over(cls, shards: Sequence[NDArray[np.unsignedinteger]], length: int) -> "Rows":
        sizes = np.array([0, *(len(shard) for shard in shards)], dtype=np.int64)
        return cls(tuple(shards), np.cumsum(sizes), length)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows at these places, in this order. (B, T)"""
        rows = np.empty((len(indices), self.length), dtype=np.int64)
        # To the right: an empty shard begins where the next one does, and holds nothing.
        homes = np.searchsorted(self.starts, indices, side="right") - 1
        for home in np.unique(homes):
            here = homes == home
            rows[here] = self.shards[home][indices[here] - self.starts[home]]
        return rows


@dataclass(frozen=True, slots=True)
class PreparedData:
    path: Path
    identity: str
    """What training depends on: the hash of the shards and of the tokenizer, not how they came to be."""
    tokenizer: Tokenizer
    sequence_length: int
    packing: PackingKind
    train: Rows
    heldout: Rows


class _RowFacts(Record):
    """What the rows of a folder are, as its manifest says."""

    model_config = ConfigDict(strict=True)

    sequence_length: int = Field(ge=1)
    packing: PackingKind


def open_data(data_dir: Path) -> PreparedData:
    """Verify every hash, then map the shards; DamagedArtifact names the file that does not match."""
    first = f"run 'electra prepare {data_dir} --out DATA' first and give DATA"
    if not data_dir.exists():
        raise InputError(f"{data_dir}: no such folder; give one that 'electra prepare' has written")
    if not data_dir.is_dir():
        raise InputError(f"{data_dir}: is a file, not a folder of prepared data; {first}")
    # What was never prepared is no build that lacks its end: that has records in a hidden folder until it is done.
    if not any((data_dir / name).exists() for name in (artifacts.MANIFEST, BUILD, SHARDS)):
        if (data_dir / "run.json").is_file():
            written = "give the folder that 'electra prepare' has written"
            raise InputError(f"{data_dir}: is a run, not prepared data; {written}")
        raise InputError(f"{data_dir}: holds no prepared data (no {artifacts.MANIFEST}); if it holds text, {first}")
    manifest = artifacts.verify_folder(data_dir, _REMEDY)
    if manifest.facts.get("kind") != KIND or manifest.facts.get("format") != FORMAT:
        raise DamagedArtifact(f"{data_dir}: is not prepared data of format {FORMAT}; {_REMEDY}")
    try:
        facts = _RowFacts.model_validate(manifest.facts)
    except ValidationError:
        raise DamagedArtifact(
            f"{data_dir}: its manifest tells no length or packing of rows we know; {_REMEDY}"
        ) from None
    train, heldout = (_map_rows(data_dir, manifest.files, part, facts.sequence_length) for part in ("train", "heldout"))
    if not len(train):
        raise InputError(f"{data_dir}: holds no training row; prepare it again from more text")
    hashes = {name: file["sha256"] for name, file in manifest.files.items()}
    # Not report.json: what was left out on the way changes no row.
    hashes = {name: digest for name, digest in hashes.items() if name.startswith((f"{SHARDS}/", f"{TOKENIZER}/"))}
    tokenizer = Tokenizer.load(data_dir / TOKENIZER)
    return PreparedData(
        data_dir, artifacts.sha256_json(hashes), tokenizer, facts.sequence_length, facts.packing, train, heldout
    )


def _map_rows(data_dir: Path, files: Mapping[str, FileHash], part: str, length: int) -> Rows:
    shards = []
    for name in sorted(name for name in files if name.startswith(f"{SHARDS}/{part}-")):
        try:
            # Mapped: a corpus may be larger than the memory, and workers share its pages.
            shard = np.load(data_dir / name, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise DamagedArtifact(f"{data_dir / name}: not a shard ({error}); {_REMEDY}") from None
        if shard.ndim != 2 or shard.shape[1] != length or shard.dtype.kind != "u":
            raise DamagedArtifact(f"{data_dir / name}: has shape {shard.shape}, not rows of {length}; {_REMEDY}")
        shards.append(shard)
    return Rows.over(shards, length)


def shard_dtype(vocab_size: int) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


def shard_name(part: Part, number: int) -> str:
    return f"{SHARDS}/{part}-{number:05d}.npy"


def shard_bytes(rows: NDArray[np.integer], vocab_size: int) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, rows.astype(shard_dtype(vocab_size)), allow_pickle=False)
    return buffer.getvalue()


def split_ranks(keys: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """A document is held out if its rank, a hash of its content, lies below the threshold: it is on the same side
    wherever it stands."""
    return mix(seed, _SPLIT, keys.view(np.int64))


class ShardSpan(NamedTuple):
    """The documents of a pair of shards, by their numbers over all sources; dropped ones lie between them."""

    number: int
    first: int
    last: int
    """Behind the last one, as a range ends."""
    documents: int
    """Those that are kept."""


class ShardPlan:
    """Where shards begin, from the numbers of the documents: batches fill a shard, whatever is read by whom."""

    def __init__(self) -> None:
        self.spans: list[ShardSpan] = []
        self._filled = 0  # what lies in all shards so far
        self._first = self._end = 0  # of the batch that is not full yet, in documents
        self._size = self._weight = self._kept = 0

    def add(self, sizes: NDArray[np.integer], characters: NDArray[np.integer], is_kept: NDArray[np.bool_]) -> None:
        """The next documents: `sizes` as they were read, `characters` as they are kept."""
        weights = np.where(is_kept, characters.astype(np.int64) + _DOCUMENT_SIZE, 0)
        size_sums, weight_sums, kept_sums = (
            np.concatenate([[0], np.cumsum(values, dtype=np.int64)]) for values in (sizes, weights, is_kept)
        )
        place = 0
        while place < len(sizes):
            # A batch ends with the document that fills it.
            full = int(np.searchsorted(size_sums, size_sums[place] + documents.BATCH_CHARS - self._size))
            end = min(full, place + documents.BATCH_DOCUMENTS - (self._end - self._first), len(sizes))
            self._size += int(size_sums[end] - size_sums[place])
            self._weight += int(weight_sums[end] - weight_sums[place])
            self._kept += int(kept_sums[end] - kept_sums[place])
            self._end += end - place
            place = end
            if self._size >= documents.BATCH_CHARS or self._end - self._first >= documents.BATCH_DOCUMENTS:
                self.end_batch()

    def end_batch(self) -> None:
        number = self._filled // SHARD_SIZE
        if self._kept:
            span = ShardSpan(number, self._first, self._end, self._kept)
            if self.spans and self.spans[-1].number == number:
                last = self.spans.pop()
                span = ShardSpan(number, last.first, self._end, last.documents + self._kept)
            self.spans.append(span)
        self._filled += self._weight
        self._first = self._end
        self._size = self._weight = self._kept = 0


class ShardRecord(PreparedCounts):
    """What one pair of shards holds; `files` are they with size and hash, as a manifest records them."""

    model_config = ConfigDict(populate_by_name=True)

    heldout_threshold: int = Field(alias="bar")
    files: dict[str, FileHash]
    sample: list[str] | None = None
    """The documents that the report looks at; None of a pair that was written before they were kept here."""


class EncodedTexts(NamedTuple):
    """The ids of a batch of documents, end to end: what a worker sends back."""

    ids: Ids
    lengths: list[int]
    """Of each piece: a document is one piece, or for pairs one for each line."""
    pieces: list[int]
    """Of each document."""


def make_encoder(tokenizer_dir: Path, kind: PackingKind) -> Callable[[list[Content]], EncodedTexts]:
    """What a worker answers with: the ids of the documents it is given."""
    tokenizer = Tokenizer.load(tokenizer_dir)
    dtype = shard_dtype(tokenizer.vocab_size)

    def encode(contents: list[Content]) -> EncodedTexts:
        pieces = [1] * len(contents)
        if tokenizer.is_symbols:
            encoded = [tokenizer.encode_symbols(content) for content in contents]
        elif kind != "pairs":
            encoded = tokenizer.encode_many([str(content) for content in contents])
        else:
            lines = [str(content).split("\n") for content in contents]
            pieces = [len(document) for document in lines]
            encoded = tokenizer.encode_many(list(itertools.chain.from_iterable(lines)))
        return EncodedTexts(np.concatenate(encoded).astype(dtype), [len(ids) for ids in encoded], pieces)

    return encode


class ShardBatch(NamedTuple):
    """Documents of one shard, encoded."""

    texts: EncodedTexts
    is_heldout: NDArray[np.bool_]
    characters: int
    sample: list[str]
    """Those that the report looks at."""


@dataclass(frozen=True, slots=True)
class ShardWriter:
    out: Path
    vocab_size: int
    special: SpecialIds
    packing: PackingConfig
    seed: int
    heldout_threshold: int

    def write(self, number: int, batches: Sequence[ShardBatch]) -> ShardRecord:
        sides: tuple[list[list[Ids]], list[list[Ids]]] = ([], [])  # each document in its pieces
        for batch in batches:
            pieces = iter(np.split(batch.texts.ids, np.cumsum(batch.texts.lengths[:-1])))
            for count, is_heldout in zip(batch.texts.pieces, batch.is_heldout, strict=True):
                sides[int(is_heldout)].append(list(itertools.islice(pieces, count)))
        files: dict[str, FileHash] = {}
        rows: list[int] = []
        for side, part in enumerate[Part](("train", "heldout")):
            if self.packing.kind == "pairs":
                packed = pack_pairs(sides[side], self.packing.sequence_length, self.special, self.seed, number, side)
            else:
                pack = pack_documents if self.packing.kind == "documents" else pack_contiguous
                packed = pack([ids for (ids,) in sides[side]], self.packing.sequence_length, self.special)
            rows.append(len(packed))
            if len(packed):
                data = shard_bytes(packed, self.vocab_size)
                artifacts.write_file(self.out / shard_name(part, number), data, temporary=own_path(self.out))
                files[shard_name(part, number)] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        record = ShardRecord(
            heldout_threshold=self.heldout_threshold,
            documents=sum(map(len, sides)),
            heldout_documents=len(sides[1]),
            characters=sum(batch.characters for batch in batches),
            tokens=sum(len(batch.texts.ids) for batch in batches),
            unknown_tokens=sum(int(np.count_nonzero(batch.texts.ids == self.special.unk)) for batch in batches),
            train_rows=rows[0],
            heldout_rows=rows[1],
            files=files,
            sample=[text for batch in batches for text in batch.sample],
        )
        write_sealed(self.out, f"part-{number:05d}.json", record)
        return record

    def read_record(self, number: int) -> ShardRecord | None:
        """The record of a pair that is finished for this split, whole itself, and whose files are what it says."""
        record = read_sealed(self.out, f"part-{number:05d}.json", ShardRecord)
        if record is None or record.sample is None or record.heldout_threshold != self.heldout_threshold:
            return None
        is_whole = all(
            (self.out / name).is_file() and artifacts.sha256_file(self.out / name) == entry["sha256"]
            for name, entry in record.files.items()
        )
        return record if is_whole else None


def own_path(out: Path) -> Path:
    """Where this process writes a file before it is renamed into its place: two may do the same work at a time."""
    return out / BUILD / f".{socket.gethostname()}-{os.getpid()}.tmp"


def write_sealed(out: Path, name: str, record: Record) -> None:
    """A record of the build, with a hash of itself."""
    stored = record.to_json()
    artifacts.write_json(
        out / BUILD / name, {**stored, "sha256": artifacts.sha256_json(stored)}, temporary=own_path(out)
    )


def read_sealed(out: Path, name: str, kind: type[R]) -> R | None:
    """The record, if it is there and as it was written."""
    path = out / BUILD / name
    try:
        stored = artifacts.read_json(path) if path.is_file() else None
        if not isinstance(stored, dict) or stored.pop("sha256", "") != artifacts.sha256_json(stored):
            return None
        return kind.model_validate(stored)
    except (DamagedArtifact, ValidationError):
        return None
