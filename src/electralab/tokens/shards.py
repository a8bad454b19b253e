"""Rows on disk: memory-mapped `.npy` shards, the tokenizer they were made with, and a manifest written last.

    Iterable[list[Document]] -> numbered shards, train and held-out; data_dir -> PreparedData

A record is written after each pair of shards. A pair whose record is there and whose files match it is not encoded
again. Where shards begin depends on the documents alone, so they are the same however often the work was interrupted.
"""

import hashlib
import io
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError

from electralab import artifacts
from electralab.artifacts import FileHash
from electralab.corpus.documents import Document
from electralab.errors import DamagedArtifact, InputError
from electralab.randomness import mix
from electralab.records.prepared import PreparedCounts
from electralab.records.record import Record
from electralab.tokens.packing import Ids, PackingConfig, PackingKind, pack_contiguous, pack_documents, pack_pairs
from electralab.tokens.tokenizer import TOKENIZER, Tokenizer

KIND = "electralab-data"
FORMAT = 1
SHARDS = "shards"
BUILD = ".build"
Part = Literal["train", "heldout"]

_REMEDY = "rerun 'electra prepare' to build it again"

# In characters, each document counting for a few more, so that a shard of the shortest ones fits in memory too.
SHARD_SIZE = 32 << 20
_DOCUMENT_SIZE = 128

# Two calls in flight keep the cores busy while the ids of a third become arrays.
_WORKERS = 2
_AHEAD = 3

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
    hashes = {name: digest for name, digest in hashes.items() if name.startswith((f"{SHARDS}/", f"{TOKENIZER}/"))}
    tokenizer = Tokenizer.load(data_dir / TOKENIZER)
    return PreparedData(
        data_dir, artifacts.sha256_json(hashes), tokenizer, facts.sequence_length, facts.packing, train, heldout
    )


def _map_rows(data_dir: Path, files: Mapping[str, FileHash], part: str, length: int) -> Rows:
    shards = []
    for name in sorted(name for name in files if name.startswith(f"{SHARDS}/{part}-")):
        try:
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


def split_ranks(documents: Sequence[Document], seed: int) -> NDArray[np.uint64]:
    """A document is held out if its rank, a hash of its content, lies below the threshold."""
    keys = np.array([document.key for document in documents], dtype=np.uint64)
    return mix(seed, _SPLIT, keys.view(np.int64))


class ShardRecord(PreparedCounts):
    """What one pair of shards holds; `files` are they with size and hash, as a manifest records them."""

    model_config = ConfigDict(populate_by_name=True)

    heldout_threshold: int = Field(alias="bar")
    files: dict[str, FileHash]


class ShardProgress(NamedTuple):
    documents: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _EncodedBatch:
    documents: list[list[Ids]]
    """Each in one piece, or for pairs line by line."""
    is_heldout: NDArray[np.bool_]
    characters: int
    tokens: int
    unknown_tokens: int


@dataclass(slots=True)
class ShardWriter:
    out: Path
    tokenizer: Tokenizer
    packing: PackingConfig
    seed: int
    heldout_threshold: int
    records: list[ShardRecord] = field(default_factory=list)
    """Of each pair of shards that is finished."""

    def write(self, batches: Iterable[list[Document]]) -> Iterator[ShardProgress]:
        characters = documents = tokens = 0

        def shard_of(batch: list[Document]) -> int:
            nonlocal characters
            number = characters // SHARD_SIZE
            characters += sum(len(document.content) + _DOCUMENT_SIZE for document in batch)
            return number

        with ThreadPoolExecutor(_WORKERS) as pool:
            for number, shard in itertools.groupby(batches, shard_of):
                record = self._read_record(number)
                if record is not None:
                    for batch in shard:
                        documents += len(batch)
                        yield ShardProgress(documents, tokens)
                    tokens += record.tokens
                else:
                    encoded = []
                    for encoded_batch in self._encode_all(pool, shard):
                        encoded.append(encoded_batch)
                        documents += len(encoded_batch.documents)
                        tokens += encoded_batch.tokens
                        yield ShardProgress(documents, tokens)
                    record = self._write_pair(number, encoded)
                self.records.append(record)
                yield ShardProgress(documents, tokens)

    def _encode_all(self, pool: ThreadPoolExecutor, batches: Iterable[list[Document]]) -> Iterator[_EncodedBatch]:
        """In the order of the batches, a few ahead of the one asked for."""
        pending: deque[Future[_EncodedBatch]] = deque()
        for batch in batches:
            pending.append(pool.submit(self._encode, batch))
            if len(pending) > _AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def _encode(self, documents: list[Document]) -> _EncodedBatch:
        texts = [str(document.content) for document in documents]
        if self.tokenizer.is_symbols:
            encoded = [[self.tokenizer.encode_symbols(document.content)] for document in documents]
        elif self.packing.kind != "pairs":
            encoded = [[ids] for ids in self.tokenizer.encode_many(texts)]
        else:
            lines = [text.split("\n") for text in texts]
            flat_lines = iter(self.tokenizer.encode_many(list(itertools.chain.from_iterable(lines))))
            encoded = [[next(flat_lines) for _ in document] for document in lines]
        flat = np.concatenate([ids for document in encoded for ids in document])
        dtype = shard_dtype(self.tokenizer.vocab_size)
        return _EncodedBatch(
            documents=[[ids.astype(dtype) for ids in document] for document in encoded],
            is_heldout=split_ranks(documents, self.seed) < self.heldout_threshold,
            characters=sum(len(document.content) for document in documents),
            tokens=len(flat),
            unknown_tokens=int(np.count_nonzero(flat == self.tokenizer.special.unk)),
        )

    def _write_pair(self, number: int, batches: Sequence[_EncodedBatch]) -> ShardRecord:
        length, special = self.packing.sequence_length, self.tokenizer.special
        files: dict[str, FileHash] = {}
        rows: list[int] = []
        heldout_documents = 0
        for side, part in enumerate[Part](("train", "heldout")):
            documents = [
                document
                for batch in batches
                for document, is_heldout in zip(batch.documents, batch.is_heldout, strict=True)
                if is_heldout == (part == "heldout")
            ]
            if self.packing.kind == "pairs":
                packed = pack_pairs(documents, length, special, self.seed, number, side)
            else:
                pack = pack_documents if self.packing.kind == "documents" else pack_contiguous
                packed = pack([ids for (ids,) in documents], length, special)
            rows.append(len(packed))
            heldout_documents = len(documents)
            if len(packed):
                data = shard_bytes(packed, self.tokenizer.vocab_size)
                artifacts.write_file(self.out / shard_name(part, number), data)
                files[shard_name(part, number)] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        record = ShardRecord(
            heldout_threshold=self.heldout_threshold,
            documents=sum(len(batch.documents) for batch in batches),
            heldout_documents=heldout_documents,
            characters=sum(batch.characters for batch in batches),
            tokens=sum(batch.tokens for batch in batches),
            unknown_tokens=sum(batch.unknown_tokens for batch in batches),
            train_rows=rows[0],
            heldout_rows=rows[1],
            files=files,
        )
        stored = record.to_json()
        artifacts.write_json(self._record_path(number), {**stored, "sha256": artifacts.sha256_json(stored)})
        return record

    def _record_path(self, number: int) -> Path:
        return self.out / BUILD / f"part-{number:05d}.json"

    def _read_record(self, number: int) -> ShardRecord | None:
        """The record of a pair that is finished for this split, whole itself, and whose files are what it says."""
        path = self._record_path(number)
        try:
            stored = artifacts.read_json(path) if path.is_file() else None
            if not isinstance(stored, dict) or stored.pop("sha256", "") != artifacts.sha256_json(stored):
                return None
            record = ShardRecord.model_validate(stored)
        except (DamagedArtifact, ValidationError):
            return None
        is_whole = all(
            (self.out / name).is_file() and artifacts.sha256_file(self.out / name) == entry["sha256"]
            for name, entry in record.files.items()
        )
        return record if is_whole and record.heldout_threshold == self.heldout_threshold else None
