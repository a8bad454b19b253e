"""Sources -> batches of kept documents, the same ones in the same order every time.

Sources -> Iterator[list[Document]]
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from electralab.corpus.filters import Document, DocumentFilter, FilterConfig, batches
from electralab.corpus.readers import Raw, ReadingConfig, Undecodable, WrongColumn, read_documents
from electralab.corpus.sources import Sources
from electralab.corpus.streams import Meter
from electralab.randomness import mix
from electralab.stopping import StopSignal

# What a held document costs beside its text: without it a sample of single words would fill the memory.
_ENTRY_BYTES = 200


class DocumentStream:
    """One pass over the sources; `meter` says how far it is, `dropped` and `passed_over` what was left out.

    `read` and `undecodable` count the documents of each source, by its path.
    """

    def __init__(
        self,
        sources: Sources,
        reading: ReadingConfig,
        filters: FilterConfig,
        *,
        repair: bool,
        symbols: bool,
        stop: StopSignal,
    ) -> None:
        self.meter = Meter()
        self.passed_over = list(sources.passed_over)
        self.read: Counter[str] = Counter()
        self.undecodable: Counter[str] = Counter()
        self._sources = sources
        self._reading = reading
        self._symbols = symbols
        self._filter = DocumentFilter(filters, repair=repair)
        self._stop = stop

    @property
    def dropped(self) -> dict[str, int]:
        return {reason: count for reason, count in sorted(self._filter.dropped.items()) if count}

    def __iter__(self) -> Iterator[list[Document]]:
        for batch in batches(self._read()):
            self._stop.check()
            yield self._filter.keep(batch)

    def _read(self) -> Iterator[Raw]:
        for source in self._sources.files:
            name = str(source.path)
            try:
                for raw in read_documents(source, self._reading, self.meter, symbols=self._symbols):
                    self.read[name] += 1
                    self.undecodable[name] += isinstance(raw, Undecodable)
                    yield raw
            except WrongColumn:
                if source.is_named:
                    raise
                self.passed_over.append(name)


class DocumentSample:
    """Documents from all over the corpus, at most `limit` bytes of them, chosen by their keys, not by their place.

    Each has a rank, a hash of its key; those of the lowest ranks that fit are held, whatever the order they came in.
    """

    def __init__(self, limit: int, seed: int) -> None:
        self._limit = limit
        self._seed = seed
        self._bar = 1 << 64
        self._held: list[tuple[int, str, int]] = []  # a heap, the highest rank first
        self._bytes = 0

    def offer(self, documents: Sequence[Document]) -> None:
        keys = np.array([document.key for document in documents], dtype=np.uint64)
        ranks = mix(self._seed, keys.view(np.int64))
        for place in np.flatnonzero(ranks < self._bar).tolist():
            self._hold(int(ranks[place]), str(documents[place].content))

    def _hold(self, rank: int, text: str) -> None:
        if rank >= self._bar:
            return
        size = len(text.encode()) + _ENTRY_BYTES
        heapq.heappush(self._held, (-rank, text, size))
        self._bytes += size
        while self._bytes > self._limit and len(self._held) > 1:
            highest, _, gone = heapq.heappop(self._held)
            self._bar = -highest
            self._bytes -= gone

    def texts(self) -> list[str]:
        return [text for _, text, _ in sorted(self._held, reverse=True)]
