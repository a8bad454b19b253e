"""Raw contents -> the documents worth keeping, with every dropped one counted by its reason.

Iterable[Raw] -> Iterator[list[Document]]
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.near_duplicates import NearDuplicates
from electralab.corpus.readers import Content, Raw, Undecodable
from electralab.errors import UsageError

Reason = Literal["empty", "too_short", "undecodable", "duplicate", "near_duplicate", "language"]
REASONS: tuple[Reason, ...] = get_args(Reason)

BATCH_CHARS = 1 << 19
_BATCH_DOCUMENTS = 4096


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
            places = np.minimum(np.searchsorted(run, unique), len(run) - 1)
            known |= run[places] == unique
        is_new = np.zeros(keys.shape, dtype=np.bool_)
        is_new[first[~known]] = True
        fresh = unique[~known]
        while self._runs and len(self._runs[-1]) <= 2 * len(fresh):
            fresh = np.sort(np.concatenate([self._runs.pop(), fresh]), kind="stable")
        if len(fresh):
            self._runs.append(fresh)
        return is_new


class DocumentFilter:
    """Holds what was seen so far, and the counts of what was dropped."""

    def __init__(self, config: FilterConfig, *, repair: bool) -> None:
        self.dropped: Counter[Reason] = Counter()
        self._config = config
        self._mend = _load_repair() if repair else None
        self._seen = SeenKeys()
        self._near = NearDuplicates(config.near_duplicate_threshold) if config.near_duplicates else None
        self._language = _load_language(config.languages) if config.languages else None

    def keep(self, raws: Sequence[Raw]) -> list[Document]:
        contents = [content for raw in raws if (content := self._clean(raw)) is not None]
        keys = np.array([_key(content) for content in contents], dtype=np.uint64)
        is_new = self._seen.add(keys) if self._config.duplicates else np.ones(keys.shape, dtype=np.bool_)
        self.dropped["duplicate"] += int((~is_new).sum())
        kept = (Document(contents[place], int(keys[place])) for place in np.flatnonzero(is_new))
        return [document for document in kept if self._is_wanted(document)]

    def _clean(self, raw: Raw) -> Content | None:
        if isinstance(raw, Undecodable):
            if self._mend is None:
                self.dropped["undecodable"] += 1
                return None
            raw = raw.data.decode("utf-8", "replace") if b"\x00" not in raw.data else ""
        if isinstance(raw, str):
            raw = _replace_surrogates(raw.strip())
            raw = self._mend(raw) if self._mend else raw
        if len(raw) < self._config.min_characters:
            self.dropped["too_short" if raw else "empty"] += 1
            return None
        return raw

    def _is_wanted(self, document: Document) -> bool:
        if isinstance(document.content, tuple):
            return True
        if self._language is not None and not self._language(document.content):
            self.dropped["language"] += 1
            return False
        if self._near is not None and self._near.is_known(document.content):
            self.dropped["near_duplicate"] += 1
            return False
        return True


def _key(content: Content) -> int:
    data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _replace_surrogates(text: str) -> str:
    """JSON can spell half a character, which is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def batches(raws: Iterable[Raw]) -> Iterator[list[Raw]]:
    """Runs of contents of about BATCH_CHARS: what is filtered and encoded at a time."""
    batch: list[Raw] = []
    size = 0
    for raw in raws:
        batch.append(raw)
        size += len(raw.data) if isinstance(raw, Undecodable) else len(raw)
        if size >= BATCH_CHARS or len(batch) >= _BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _load_repair() -> Callable[[str], str]:
    try:
        import ftfy
    except ImportError:
        raise UsageError("repair needs the package ftfy; install electralab[text]") from None
    repair: Callable[[str], str] = ftfy.fix_text
    return repair


def _load_language(languages: Sequence[str]) -> Callable[[str], bool]:
    try:
        import py3langid
    except ImportError:
        raise UsageError("filters.languages needs the package py3langid; install electralab[text]") from None
    wanted = frozenset(languages)
    return lambda text: py3langid.classify(text[:2000])[0] in wanted
