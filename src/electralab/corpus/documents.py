"""Sources -> batches of kept documents, the same ones in the same order every time; each dropped one is counted.

Sources -> Raw... -> Iterator[list[Document]]
"""

import hashlib
import heapq
import importlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.readers import Content, DecodeError, Raw, ReadingConfig, read_documents
from electralab.corpus.scripts import UNIT
from electralab.corpus.sources import ByteCounter, Sources, WrongColumn
from electralab.errors import UsageError
from electralab.randomness import mix
from electralab.stopping import StopSignal

Reason = Literal["empty", "too_short", "undecodable", "duplicate", "near_duplicate", "language"]

# What is filtered and encoded at a time.
BATCH_CHARS = 1 << 19
_BATCH_DOCUMENTS = 4096

# What a held document costs beside its text: without it a sample of single words would fill the memory.
_ENTRY_BYTES = 200

NEAR_DUPLICATE_RULE = "threshold"
"""The name of how near-duplicates are found, for the identity of what is prepared by it."""
_SHINGLE_UNITS = 3
_SKETCH_SIZE = 256
_SKETCH_SEED = 42
# How surely a document that is just as similar as the threshold asks is among those that are compared.
_SURE = 0.99
# Longer than any word: such a run of characters is written without spaces, in whatever script.
_LONGEST_WORD = 40


class FilterConfig(Settings):
    min_characters: int = Field(default=1, ge=1)
    """Shorter documents are dropped; with --symbols the fewest symbols."""
    duplicates: bool = True
    """Drop a document that is exactly like an earlier one; where it is not set, --symbols keeps it."""
    near_duplicates: bool = False
    """Drop a document that is nearly like an earlier one (MinHash)."""
    near_duplicate_threshold: float = Field(default=0.8, gt=0.0, le=1.0)
    """How much of what two documents say in three words, or in scripts without spaces three characters, they must share
    (Jaccard index)."""
    languages: tuple[str, ...] = ()
    """Keep documents in these languages only (ISO 639-1 codes); empty keeps all."""


@dataclass(frozen=True, slots=True)
class Document:
    """A kept document. `key` is a hash of its content: it decides the split and whether it enters a sample."""

    content: Content
    key: int


class SeenKeys:
    """A set of 64-bit keys at eight bytes each: sorted runs, merged as they double in size."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the keys are new, the first of equal ones counting as new; all are known afterwards."""
        unique, first = np.unique(keys, return_index=True)
        known = np.zeros(unique.shape, dtype=np.bool_)
        for run in self._runs:
            nearest = np.minimum(np.searchsorted(run, unique), len(run) - 1)
            known |= run[nearest] == unique
        is_new = np.zeros(keys.shape, dtype=np.bool_)
        is_new[first[~known]] = True
        fresh = unique[~known]
        while self._runs and len(self._runs[-1]) <= 2 * len(fresh):
            fresh = np.sort(np.concatenate([self._runs.pop(), fresh]), kind="stable")
        if len(fresh):
            self._runs.append(fresh)
        return is_new


def shingle(text: str) -> set[str]:
    """Every three words in a row; where there are no spaces between words, characters."""
    units: list[str] = []
    for unit in UNIT.findall(text.lower()):
        units += unit if len(unit) > _LONGEST_WORD else (unit,)
    starts = range(max(1, len(units) - _SHINGLE_UNITS + 1))
    return {" ".join(units[start : start + _SHINGLE_UNITS]) for start in starts}


def count_bands(threshold: float) -> int:
    """The fewest bands, so the fewest to compare with, that find surely enough what is as similar as the threshold."""
    for rows in (64, 32, 16, 8, 4, 2):
        if 1 - (1 - threshold**rows) ** (_SKETCH_SIZE // rows) >= _SURE:
            return _SKETCH_SIZE // rows
    return _SKETCH_SIZE


class NearDuplicates:
    """The documents kept so far, as sketches of a kilobyte each: MinHash finds similar ones without comparing all.

    Similarity is the Jaccard index of two sets of shingles. The share of the 256 numbers of their sketches that two
    documents have in common is that index, give or take 0.03; bands of a sketch are looked up to find candidates.
    """

    def __init__(self, threshold: float) -> None:
        rensa = _import_extra("rensa", "filters.near_duplicates")
        self._threshold = threshold
        self._minhash = rensa.RMinHash
        self._bands = rensa.RMinHashLSH(threshold=threshold, num_perm=_SKETCH_SIZE, num_bands=count_bands(threshold))
        self._sketches: list[NDArray[np.uint32]] = []

    def is_known(self, text: str) -> bool:
        """Whether a document kept before is as similar as the threshold asks; if not, this one is kept."""
        minhash = self._minhash(num_perm=_SKETCH_SIZE, seed=_SKETCH_SEED)
        minhash.update(sorted(shingle(text)))
        sketch = np.array(minhash.digest(), dtype=np.uint32)
        candidates = self._bands.query(minhash)
        if any((self._sketches[place] == sketch).mean() >= self._threshold for place in candidates):
            return True
        self._bands.insert(len(self._sketches), minhash)
        self._sketches.append(sketch)
        return False


def _import_extra(package: str, setting: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UsageError(f"{setting} needs the package {package}; install electralab[text]") from None


class DocumentFilter:
    """Holds what was seen so far, and the counts of what was dropped."""

    def __init__(self, config: FilterConfig, *, repair: bool) -> None:
        self.dropped: Counter[Reason] = Counter()
        self._config = config
        self._seen = SeenKeys()
        self._ftfy = _import_extra("ftfy", "repair") if repair else None
        self._langid = _import_extra("py3langid", "filters.languages") if config.languages else None
        self._near = NearDuplicates(config.near_duplicate_threshold) if config.near_duplicates else None

    def keep(self, raws: Sequence[Raw]) -> list[Document]:
        contents = [content for raw in raws if (content := self._clean(raw)) is not None]
        data = [content if isinstance(content, str) else json.dumps(content) for content in contents]
        hashes = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in data]
        keys = np.array([int.from_bytes(digest, "little") for digest in hashes], dtype=np.uint64)
        is_new = self._seen.add(keys) if self._config.duplicates else np.ones(keys.shape, dtype=np.bool_)
        self.dropped["duplicate"] += int((~is_new).sum())
        kept = []
        for index in np.flatnonzero(is_new):
            content = contents[index]
            text = content if isinstance(content, str) else ""  # what follows is about text, not about symbols
            if text and self._langid and self._langid.classify(text[:2000])[0] not in self._config.languages:
                self.dropped["language"] += 1
            elif text and self._near and self._near.is_known(text):
                self.dropped["near_duplicate"] += 1
            else:
                kept.append(Document(content, int(keys[index])))
        return kept

    def _clean(self, raw: Raw) -> Content | None:
        if isinstance(raw, DecodeError):
            if self._ftfy is None:
                self.dropped["undecodable"] += 1
                return None
            raw = raw.data.decode("utf-8", "replace") if b"\x00" not in raw.data else ""
        if isinstance(raw, str):
            raw = raw.strip()
            try:
                raw.encode()
            except UnicodeEncodeError:  # JSON can spell half a character, which is no text
                raw = raw.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            raw = self._ftfy.fix_text(raw) if self._ftfy else raw
        if len(raw) < self._config.min_characters:
            self.dropped["too_short" if raw else "empty"] += 1
            return None
        return raw


class DocumentStream:
    """One pass over the sources; `counter` says how far it is, `dropped` and `passed_over` what was left out.

    `read` and `undecodable` count the documents of each source, by its path.
    """

    def __init__(
        self, sources: Sources, reading: ReadingConfig, kept: DocumentFilter, *, symbols: bool, stop: StopSignal
    ) -> None:
        self.counter = ByteCounter()
        self.passed_over = list(sources.passed_over)
        self.read: Counter[str] = Counter()
        self.undecodable: Counter[str] = Counter()
        self._sources, self._reading, self._symbols = sources, reading, symbols
        self._filter, self._stop = kept, stop

    @property
    def dropped(self) -> dict[str, int]:
        return {reason: count for reason, count in sorted(self._filter.dropped.items()) if count}

    def __iter__(self) -> Iterator[list[Document]]:
        batch: list[Raw] = []
        size = 0
        for raw in self._read_all():
            batch.append(raw)
            size += len(raw.data) if isinstance(raw, DecodeError) else len(raw)
            if size >= BATCH_CHARS or len(batch) >= _BATCH_DOCUMENTS:
                self._stop.check()
                yield self._filter.keep(batch)
                batch, size = [], 0
        self._stop.check()
        if batch:
            yield self._filter.keep(batch)

    def _read_all(self) -> Iterator[Raw]:
        for source in self._sources.files:
            name = str(source.path)
            try:
                for raw in read_documents(source, self._reading, self.counter, symbols=self._symbols):
                    self.read[name] += 1
                    self.undecodable[name] += isinstance(raw, DecodeError)
                    yield raw
            except WrongColumn:
                if source.is_named:
                    raise
                self.passed_over.append(name)


class DocumentSample:
    """Documents from all over the corpus, at most `limit` bytes of them, chosen by their keys, not by their order.

    Each has a rank, a hash of its key; those of the lowest ranks that fit are held, whatever the order they came in.
    """

    def __init__(self, limit: int, seed: int) -> None:
        self._limit = limit
        self._seed = seed
        self._threshold = 1 << 64
        self._held: list[tuple[int, str, int]] = []  # a heap, the highest rank first
        self._bytes = 0

    def offer(self, documents: Sequence[Document]) -> None:
        keys = np.array([document.key for document in documents], dtype=np.uint64)
        ranks = mix(self._seed, keys.view(np.int64))
        for index in np.flatnonzero(ranks < self._threshold).tolist():
            rank, text = int(ranks[index]), str(documents[index].content)
            if rank >= self._threshold:  # it has fallen since the ranks were compared
                continue
            size = len(text.encode()) + _ENTRY_BYTES
            heapq.heappush(self._held, (-rank, text, size))
            self._bytes += size
            while self._bytes > self._limit and len(self._held) > 1:
                highest, _, dropped_size = heapq.heappop(self._held)
                self._threshold = -highest
                self._bytes -= dropped_size

    def texts(self) -> list[str]:
        return [text for _, text, _ in sorted(self._held, reverse=True)]
