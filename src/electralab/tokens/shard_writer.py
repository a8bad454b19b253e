"""Batches of documents -> numbered parts on disk, each a train and a held-out shard with a record written after them.

    Iterable[list[Document]] -> Iterator[ShardProgress]

A part whose record is there and whose shards match it is not encoded again. Where parts begin depends on the documents
alone, so the shards are the same however often the work was interrupted.
"""

import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from electralab.artifacts import read_json, sha256_file, sha256_json, write_file, write_json
from electralab.corpus.documents import Document
from electralab.errors import DamagedArtifact
from electralab.randomness import mix
from electralab.tokens.packing import Ids, PackingConfig, pack_contiguous, pack_documents, pack_pairs
from electralab.tokens.shards import BUILD, Part, shard_bytes, shard_dtype, shard_name
from electralab.tokens.tokenizer import Tokenizer

SHARD_SIZE = 32 << 20
_DOCUMENT_SIZE = 128

# Two calls in flight keep the cores busy while the ids of a third become arrays.
_WORKERS = 2
_AHEAD = 3

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """What one part holds; `files` are its shards with size and hash, as a manifest records them."""

    bar: int
    documents: int
    heldout_documents: int
    characters: int
    tokens: int
    unknown_tokens: int
    train_rows: int
    heldout_rows: int
    files: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ShardProgress:
    documents: int
    tokens: int


def split_ranks(documents: Sequence[Document], seed: int) -> NDArray[np.uint64]:
    """A document is held out if its rank, a hash of its content, lies below the bar."""
    keys = np.array([document.key for document in documents], dtype=np.uint64)
    return mix(seed, _SPLIT, keys.view(np.int64))


_SPLIT = 0x5EED


@dataclass(slots=True)
class _Filling:
    """The documents of the part being filled, encoded."""

    train: list[list[Ids]] = field(default_factory=list)
    heldout: list[list[Ids]] = field(default_factory=list)
    characters: int = 0
    tokens: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class _EncodedBatch:
    lines: list[list[Ids]]
    is_heldout: NDArray[np.bool_]
    characters: int
    tokens: int
    unknown: int


class ShardWriter:
    def __init__(self, out: Path, tokenizer: Tokenizer, packing: PackingConfig, *, seed: int, bar: int) -> None:
        self._out = out
        self._tokenizer = tokenizer
        self._packing = packing
        self._seed = seed
        self._bar = bar
        self._dtype = shard_dtype(tokenizer.vocab_size)
        self.records: list[ShardRecord] = []

    def write(self, batches: Iterable[list[Document]]) -> Iterator[ShardProgress]:
        documents = tokens = 0
        with ThreadPoolExecutor(_WORKERS) as pool:
            for number, part in enumerate(_cut_parts(batches)):
                record = read_record(self._out, number, self._bar)
                if record is not None:
                    for batch in part:
                        documents += len(batch)
                        yield ShardProgress(documents, tokens)
                    tokens += record.tokens
                else:
                    filling = _Filling()
                    for encoded in _in_order(pool, self._encode, part):
                        _fill(filling, encoded)
                        documents += len(encoded.lines)
                        tokens += encoded.tokens
                        yield ShardProgress(documents, tokens)
                    record = self._finish(number, filling)
                self.records.append(record)
                yield ShardProgress(documents, tokens)

    def _encode(self, documents: list[Document]) -> _EncodedBatch:
        lines = self._encode_lines(documents)
        flat = np.concatenate([ids for document in lines for ids in document])
        return _EncodedBatch(
            lines=[[ids.astype(self._dtype) for ids in document] for document in lines],
            is_heldout=split_ranks(documents, self._seed) < self._bar,
            characters=sum(len(document.content) for document in documents),
            tokens=len(flat),
            unknown=int(np.count_nonzero(flat == self._tokenizer.special.unk)),
        )

    def _encode_lines(self, documents: list[Document]) -> list[list[NDArray[np.int64]]]:
        """Per document its ids: in one piece, or for pairs line by line."""
        if self._tokenizer.is_symbols:
            return [[self._tokenizer.encode_symbols(document.content)] for document in documents]
        texts = [str(document.content) for document in documents]
        if self._packing.kind != "pairs":
            return [[ids] for ids in self._tokenizer.encode_many(texts)]
        lines = [text.split("\n") for text in texts]
        encoded = iter(self._tokenizer.encode_many(list(itertools.chain.from_iterable(lines))))
        return [[next(encoded) for _ in document] for document in lines]

    def _finish(self, number: int, filling: _Filling) -> ShardRecord:
        files: dict[str, dict[str, Any]] = {}
        rows = {}
        for side, part in enumerate[Part](("train", "heldout")):
            packed = self._pack(filling.train if part == "train" else filling.heldout, number, side)
            rows[part] = len(packed)
            if len(packed):
                data = shard_bytes(packed, self._tokenizer.vocab_size)
                write_file(self._out / shard_name(part, number), data)
                digest = hashlib.sha256(data).hexdigest()
                files[shard_name(part, number)] = {"bytes": len(data), "sha256": digest}
        record = ShardRecord(
            bar=self._bar,
            documents=len(filling.train) + len(filling.heldout),
            heldout_documents=len(filling.heldout),
            characters=filling.characters,
            tokens=filling.tokens,
            unknown_tokens=filling.unknown,
            train_rows=rows["train"],
            heldout_rows=rows["heldout"],
            files=files,
        )
        write_json(_record_path(self._out, number), {**asdict(record), "sha256": sha256_json(asdict(record))})
        return record

    def _pack(self, documents: list[list[Ids]], number: int, side: int) -> Ids:
        length, special = self._packing.sequence_length, self._tokenizer.special
        if self._packing.kind == "pairs":
            return pack_pairs(documents, length, special, self._seed, number, side)
        pack = pack_documents if self._packing.kind == "documents" else pack_contiguous
        return pack([ids for (ids,) in documents], length, special)


def _fill(filling: _Filling, encoded: _EncodedBatch) -> None:
    for lines, heldout in zip(encoded.lines, encoded.is_heldout, strict=True):
        (filling.heldout if heldout else filling.train).append(lines)
    filling.characters += encoded.characters
    filling.tokens += encoded.tokens
    filling.unknown += encoded.unknown


def _cut_parts(batches: Iterable[list[Document]]) -> Iterator[Iterator[list[Document]]]:
    """By characters, each document counting for a few more, so that a part of the shortest ones fits in memory too."""
    seen = 0

    def number(batch: list[Document]) -> int:
        nonlocal seen
        current = seen // SHARD_SIZE
        seen += sum(len(document.content) + _DOCUMENT_SIZE for document in batch)
        return current

    return (part for _, part in itertools.groupby(batches, number))


def _in_order(pool: ThreadPoolExecutor, work: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """The results in the order of the items, a few ahead of the one asked for."""
    pending: deque[Future[B]] = deque()
    for item in items:
        pending.append(pool.submit(work, item))
        if len(pending) > _AHEAD:
            yield pending.popleft().result()
    while pending:
        yield pending.popleft().result()


def _record_path(out: Path, number: int) -> Path:
    return out / BUILD / f"part-{number:05d}.json"


def read_record(out: Path, number: int, bar: int) -> ShardRecord | None:
    """The record of a part that is finished for this split, whole itself, and whose shards are what it says."""
    path = _record_path(out, number)
    if not path.is_file():
        return None
    try:
        stored = read_json(path)
    except DamagedArtifact:
        return None
    if not isinstance(stored, dict) or stored.pop("sha256", "") != sha256_json(stored):
        return None
    record = ShardRecord(**stored)
    whole = all(
        (out / name).is_file() and sha256_file(out / name) == entry["sha256"] for name, entry in record.files.items()
    )
    return record if whole and record.bar == bar else None
