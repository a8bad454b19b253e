"""Batches of documents -> numbered shards on disk, train and held-out, with a record written after each pair.

    Iterable[list[Document]] -> Iterator[ShardProgress]

A pair whose record is there and whose files match it is not encoded again. Where shards begin depends on the documents
alone, so they are the same however often the work was interrupted.
"""

import hashlib
import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError

from electralab.artifacts import FileHash, read_json, sha256_file, sha256_json, write_file, write_json
from electralab.corpus.documents import Document
from electralab.errors import DamagedArtifact
from electralab.randomness import mix
from electralab.records.prepared import PreparedCounts
from electralab.tokens.packing import Ids, PackingConfig, pack_contiguous, pack_documents, pack_pairs
from electralab.tokens.shards import BUILD, Part, shard_bytes, shard_dtype, shard_name
from electralab.tokens.tokenizer import Tokenizer

# In characters, each document counting for a few more, so that a shard of the shortest ones fits in memory too.
SHARD_SIZE = 32 << 20
_DOCUMENT_SIZE = 128

# Two calls in flight keep the cores busy while the ids of a third become arrays.
_WORKERS = 2
_AHEAD = 3

_SPLIT = 0x5EED


class ShardRecord(PreparedCounts):
    """What one pair of shards holds; `files` are they with size and hash, as a manifest records them."""

    model_config = ConfigDict(populate_by_name=True)

    heldout_threshold: int = Field(alias="bar")
    files: dict[str, FileHash]


@dataclass(frozen=True, slots=True)
class ShardProgress:
    documents: int
    tokens: int


def split_ranks(documents: Sequence[Document], seed: int) -> NDArray[np.uint64]:
    """A document is held out if its rank, a hash of its content, lies below the threshold."""
    keys = np.array([document.key for document in documents], dtype=np.uint64)
    return mix(seed, _SPLIT, keys.view(np.int64))


@dataclass(frozen=True, slots=True)
class _EncodedBatch:
    documents: list[list[Ids]]
    """Each in one piece, or for pairs line by line."""
    is_heldout: NDArray[np.bool_]
    characters: int
    tokens: int
    unknown_tokens: int


class ShardWriter:
    def __init__(
        self, out: Path, tokenizer: Tokenizer, packing: PackingConfig, *, seed: int, heldout_threshold: int
    ) -> None:
        self._out = out
        self._tokenizer = tokenizer
        self._packing = packing
        self._seed = seed
        self._heldout_threshold = heldout_threshold
        self._dtype = shard_dtype(tokenizer.vocab_size)
        self.records: list[ShardRecord] = []

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
                    record = self._write_shards(number, encoded)
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
        if self._tokenizer.is_symbols:
            encoded = [[self._tokenizer.encode_symbols(document.content)] for document in documents]
        elif self._packing.kind != "pairs":
            encoded = [[ids] for ids in self._tokenizer.encode_many(texts)]
        else:
            lines = [text.split("\n") for text in texts]
            flat_lines = iter(self._tokenizer.encode_many(list(itertools.chain.from_iterable(lines))))
            encoded = [[next(flat_lines) for _ in document] for document in lines]
        flat = np.concatenate([ids for document in encoded for ids in document])
        return _EncodedBatch(
            documents=[[ids.astype(self._dtype) for ids in document] for document in encoded],
            is_heldout=split_ranks(documents, self._seed) < self._heldout_threshold,
            characters=sum(len(document.content) for document in documents),
            tokens=len(flat),
            unknown_tokens=int(np.count_nonzero(flat == self._tokenizer.special.unk)),
        )

    def _write_shards(self, number: int, batches: Sequence[_EncodedBatch]) -> ShardRecord:
        length, special = self._packing.sequence_length, self._tokenizer.special
        files: dict[str, FileHash] = {}
        rows: dict[Part, int] = {}
        heldout_documents = 0
        for side, part in enumerate[Part](("train", "heldout")):
            documents = [
                document
                for batch in batches
                for document, is_heldout in zip(batch.documents, batch.is_heldout, strict=True)
                if is_heldout == (part == "heldout")
            ]
            if self._packing.kind == "pairs":
                packed = pack_pairs(documents, length, special, self._seed, number, side)
            else:
                pack = pack_documents if self._packing.kind == "documents" else pack_contiguous
                packed = pack([ids for (ids,) in documents], length, special)
            rows[part] = len(packed)
            heldout_documents = len(documents)
            if len(packed):
                data = shard_bytes(packed, self._tokenizer.vocab_size)
                write_file(self._out / shard_name(part, number), data)
                files[shard_name(part, number)] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        record = ShardRecord(
            heldout_threshold=self._heldout_threshold,
            documents=sum(len(batch.documents) for batch in batches),
            heldout_documents=heldout_documents,
            characters=sum(batch.characters for batch in batches),
            tokens=sum(batch.tokens for batch in batches),
            unknown_tokens=sum(batch.unknown_tokens for batch in batches),
            train_rows=rows["train"],
            heldout_rows=rows["heldout"],
            files=files,
        )
        stored = record.to_json()
        write_json(self._record_path(number), {**stored, "sha256": sha256_json(stored)})
        return record

    def _record_path(self, number: int) -> Path:
        return self._out / BUILD / f"part-{number:05d}.json"

    def _read_record(self, number: int) -> ShardRecord | None:
        """The record of a pair that is finished for this split, whole itself, and whose files are what it says."""
        path = self._record_path(number)
        try:
            stored = read_json(path) if path.is_file() else None
            if not isinstance(stored, dict) or stored.pop("sha256", "") != sha256_json(stored):
                return None
            record = ShardRecord.model_validate(stored)
        except (DamagedArtifact, ValidationError):
            return None
        is_whole = all(
            (self._out / name).is_file() and sha256_file(self._out / name) == entry["sha256"]
            for name, entry in record.files.items()
        )
        return record if is_whole and record.heldout_threshold == self._heldout_threshold else None
