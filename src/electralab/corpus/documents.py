"""Sources -> documents, each of which is kept or dropped for a reason that is counted.

    Sources -> Raw... -> COUNTED (what a document says by itself) -> the reason (beside all documents before it)

What a document says by itself, its hash and sketch among it, is found in any order by any number of processes. Whether
it is like an earlier one needs these few numbers only, not its text.
"""

import hashlib
import importlib
import itertools
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.readers import Content, DecodeError, Raw, ReadingConfig, read_documents
from electralab.corpus.scripts import UNIT
from electralab.corpus.sources import ByteCounter, Source, WrongColumn
from electralab.errors import InputError, UsageError
from electralab.randomness import mix
from electralab.stopping import StopSignal

Reason = Literal["", "empty", "too_short", "undecodable", "duplicate", "near_duplicate", "language"]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""Why a document is dropped, by number; 0 is one that is kept."""
_DUPLICATE, _NEAR_DUPLICATE, _LANGUAGE = map(REASONS.index, ("duplicate", "near_duplicate", "language"))

# What is filtered and encoded at a time.
BATCH_CHARS = 1 << 19
BATCH_DOCUMENTS = 4096

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


def counted_dtype(*, has_sketch: bool) -> np.dtype[np.void]:
    """What is known of a document without its text, packed as it is written to disk.

    `size` is its length as it was read, of symbols their number; `reason` why it is dropped whatever the others are;
    `key` a hash of its content, which decides the split and whether it enters a sample; `characters` and `bytes` are of
    the content as it is kept. Of dropped ones only the first two count.
    """
    fields: list[tuple[str, str] | tuple[str, str, tuple[int, ...]]] = [
        *(("size", "<u4"), ("reason", "u1"), ("key", "<u8"), ("characters", "<u4"), ("bytes", "<u4"))
    ]
    return np.dtype(fields + ([("sketch", "<u4", (_SKETCH_SIZE,))] if has_sketch else []))


class SeenKeys:
    """A set of 64-bit keys at eight bytes each: sorted runs, merged as they double in size."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of the keys are new, the first of equal ones counting as new; all are known afterwards."""
        unique, first = np.unique(keys, return_index=True)
        known = np.zeros(unique.shape, dtype=np.bool_)
        for run in self._runs:
            # A key above all of a run would be looked up behind its end.
            nearest = np.minimum(np.searchsorted(run, unique), len(run) - 1)
            known |= run[nearest] == unique
        is_new = np.zeros(keys.shape, dtype=np.bool_)
        is_new[first[~known]] = True
        fresh = unique[~known]
        # As in a merge sort: there are never more than a few dozen runs to search, and each key is merged rarely.
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
        self._threshold = threshold
        self._bands: list[dict[int, list[int]]] = [{} for _ in range(count_bands(threshold))]
        self._sketches: list[NDArray[np.uint32]] = []

    def is_known(self, sketch: NDArray[np.uint32]) -> bool:
        """Whether a document kept before is as similar as the threshold asks; if not, this one is kept."""
        data, width = sketch.tobytes(), sketch.nbytes // len(self._bands)
        keys = [hash(data[start : start + width]) for start in range(0, len(data), width)]
        candidates = {place for band, key in zip(self._bands, keys, strict=True) for place in band.get(key, ())}
        if any((self._sketches[place] == sketch).mean() >= self._threshold for place in candidates):
            return True
        for band, key in zip(self._bands, keys, strict=True):
            band.setdefault(key, []).append(len(self._sketches))
        self._sketches.append(sketch)
        return False


def _import_extra(package: str, setting: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UsageError(f"{setting} needs the package {package}; install electralab[text]") from None


class DocumentFilter:
    """What is known of a document by itself: its text as it is kept, or why it is not, and its numbers."""

    def __init__(self, config: FilterConfig, *, repair: bool, symbols: bool = False) -> None:
        self._config = config
        self._ftfy = _import_extra("ftfy", "repair") if repair else None
        self._langid = _import_extra("py3langid", "filters.languages") if config.languages else None
        rensa = _import_extra("rensa", "filters.near_duplicates") if config.near_duplicates else None
        # Languages and near-duplicates are about text, not about symbols.
        self._minhash = rensa.RMinHash if rensa and not symbols else None
        self.dtype = counted_dtype(has_sketch=self._minhash is not None)

    def count(self, raws: Sequence[Raw]) -> NDArray[np.void]:
        counted = np.zeros(len(raws), dtype=self.dtype)
        rows = []
        for place, raw in enumerate(raws):
            content, reason = self.clean(raw)
            text = content if isinstance(content, str) and not reason else ""
            if text and self._langid and self._langid.classify(text[:2000])[0] not in self._config.languages:
                reason = "language"
            # JSON keeps ["a", "b"] and ["a b"] apart, which joining by spaces would not.
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
            key = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
            rows.append((measure(raw), REASONS.index(reason), key, len(content), len(data)))
            if text and not reason and self._minhash:
                minhash = self._minhash(num_perm=_SKETCH_SIZE, seed=_SKETCH_SEED)
                # Sorted: a set of strings has another order in every process.
                minhash.update(sorted(shingle(text)))
                counted["sketch"][place] = minhash.digest()
        for name, values in zip(self.dtype.names or (), zip(*rows, strict=True), strict=False):
            counted[name] = values
        return counted

    def clean(self, raw: Raw) -> tuple[Content, Reason]:
        """The content as it is kept, and why it is dropped, if it is."""
        if isinstance(raw, DecodeError):
            if self._ftfy is None:
                return "", "undecodable"
            # Bytes with zeros among them are no damaged text but another kind of file.
            raw = raw.data.decode("utf-8", "replace") if b"\x00" not in raw.data else ""
        if isinstance(raw, str):
            raw = raw.strip()
            try:
                raw.encode()
            except UnicodeEncodeError:  # JSON can spell half a character, which is no text
                raw = raw.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            raw = self._ftfy.fix_text(raw) if self._ftfy else raw
        if len(raw) < self._config.min_characters:
            return raw, "too_short" if raw else "empty"
        return raw, ""


def measure(raw: Raw) -> int:
    """The length of a document as it was read: bytes, characters or symbols."""
    return len(raw.data) if isinstance(raw, DecodeError) else len(raw)


class DuplicateFilter:
    """Which documents are like earlier ones; they have to come in their order."""

    def __init__(self, config: FilterConfig) -> None:
        self._seen = SeenKeys() if config.duplicates else None
        self._near = NearDuplicates(config.near_duplicate_threshold) if config.near_duplicates else None

    def decide(self, counted: NDArray[np.void]) -> NDArray[np.uint8]:
        """The reasons for which they are dropped, 0 for those that are kept."""
        reasons = counted["reason"].copy()
        if self._seen is not None:
            # One in another language counts as seen, so that its copies are called duplicates, not it.
            places = np.flatnonzero((reasons == 0) | (reasons == _LANGUAGE))
            reasons[places[~self._seen.add(counted["key"][places])]] = _DUPLICATE
        if self._near is not None and "sketch" in (counted.dtype.names or ()):
            for place in np.flatnonzero(reasons == 0):
                if self._near.is_known(counted["sketch"][place]):
                    reasons[place] = _NEAR_DUPLICATE
        return reasons


class DocumentStream:
    """One pass over the sources in batches; `counter` says how far it is, `passed_over` which files were left out.

    `read` and `undecodable` count the documents of each source, by its path.
    """

    def __init__(self, files: Sequence[Source], reading: ReadingConfig, *, symbols: bool, stop: StopSignal) -> None:
        self.counter = ByteCounter()
        self.passed_over: list[str] = []
        self.read: Counter[str] = Counter()
        self.undecodable: Counter[str] = Counter()
        self._files, self._reading, self._symbols, self._stop = files, reading, symbols, stop

    def __iter__(self) -> Iterator[list[Raw]]:
        batch: list[Raw] = []
        size = 0
        for raw in self._read_all():
            batch.append(raw)
            size += measure(raw)
            if size >= BATCH_CHARS or len(batch) >= BATCH_DOCUMENTS:
                self._stop.check()
                yield batch
                batch, size = [], 0
        self._stop.check()
        if batch:
            yield batch

    def _read_all(self) -> Iterator[Raw]:
        for source in self._files:
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


def read_numbered(
    files: Sequence[Source],
    starts: Sequence[int],
    spans: Iterable[tuple[int, int]],
    reading: ReadingConfig,
    *,
    symbols: bool,
) -> Iterator[tuple[int, Raw]]:
    """The documents whose numbers lie in the spans, which ascend; a file without any of them is not opened.

    `starts` has the number of the first document of each file, and at its end the number of all.
    """
    wanted = deque(spans)
    for source, (begin, end) in zip(files, itertools.pairwise(starts), strict=True):
        raws, number = None, begin
        while wanted and max(wanted[0][0], begin) < min(wanted[0][1], end):
            first, last = max(wanted[0][0], begin), min(wanted[0][1], end)
            raws = raws or read_documents(source, reading, symbols=symbols)
            for raw in itertools.islice(raws, first - number, last - number):
                yield first, raw
                first += 1
            if first < last:
                raise InputError(f"{source.path}: changed while it was read; run the same command again")
            number = last
            if last < wanted[0][1]:  # it goes on in the next file
                break
            wanted.popleft()


class DocumentSample:
    """Documents from all over the corpus, at most `limit` bytes of them, chosen by their keys, not by their order.

    Each has a rank, a hash of its key; those of the lowest ranks that fit are held, by their numbers.
    """

    def __init__(self, limit: int, seed: int) -> None:
        self._limit, self._seed = limit, seed
        self._threshold = np.uint64(2**64 - 1)
        self._held = np.zeros(0, dtype=[("rank", "<u8"), ("place", "<i8"), ("bytes", "<i8")])

    def offer(self, keys: NDArray[np.uint64], sizes: NDArray[np.integer], places: NDArray[np.integer]) -> None:
        ranks = mix(self._seed, keys.view(np.int64))
        chosen = np.flatnonzero(ranks <= self._threshold)
        offered = np.empty(len(chosen), dtype=self._held.dtype)
        offered["rank"], offered["place"] = ranks[chosen], places[chosen]
        offered["bytes"] = sizes[chosen].astype(np.int64) + _ENTRY_BYTES
        held = np.concatenate([self._held, offered])
        held = held[np.lexsort((held["place"], held["rank"]))]
        count = max(1, int(np.searchsorted(np.cumsum(held["bytes"]), self._limit, side="right")))
        if count < len(held):
            self._threshold = held["rank"][count]
        self._held = held[:count]

    def places(self) -> NDArray[np.int64]:
        """Their numbers, the lowest rank first."""
        return self._held["place"]
