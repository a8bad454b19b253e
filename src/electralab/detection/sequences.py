"""What counting in normal sequences says of new ones: of each event, and of a whole sequence.

sequences -> SequenceCounts;  sequences -> EventRows -> (E, F) features of events, and one function for each simple
detector of sequences, with which every model has to be compared
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from electralab.detection.words import Floats, Ids

Keys = NDArray[np.uint64]

# The longest run of events that is counted, and how many different profiles of counts are kept to measure distances to.
LONGEST = 6
_MOST_PROFILES = 2_000
_PROFILES_AT_ONCE = 512
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class EventRows:
    """Sequences, one behind the other. An event that was never counted has the id 0; 1 and 2 are their ends."""

    ids: Ids  # (E + 2R,) with both ends of each row
    starts: Ids  # (R,) where each row begins, its begin included
    lengths: Ids  # (R,) events

    @property
    def places(self) -> Ids:
        """(E,) of the events among `ids`."""
        return np.concatenate(
            [np.arange(start + 1, start + 1 + size) for start, size in zip(self.starts, self.lengths, strict=True)]
            or [np.zeros(0, dtype=np.int64)]
        )

    @property
    def owners(self) -> Ids:
        """(E,) the row of each event."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def keys(self, size: int) -> tuple[Keys, NDArray[np.bool_]]:
        """Of the run of events that ends at each place, and whether it lies in one row."""
        key = np.zeros(len(self.ids), dtype=np.uint64)
        for back in range(size - 1, -1, -1):
            shifted = np.roll(self.ids, back).astype(np.uint64) + np.uint64(1)
            key = (key ^ shifted) * _PRIME
            key ^= key >> np.uint64(29)
        inside = np.arange(len(self.ids)) - np.repeat(self.starts, self.lengths + 2)
        return key, inside >= size - 1


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How often each run of events of one length was seen, and what may stand on each side of it."""

    keys: Keys  # (G,) increasing
    counts: Ids  # (G,)
    followed: Ids  # (G,) how often something follows the run, and
    followers: Ids  # (G,) how many different events do
    preceded: Ids
    predecessors: Ids

    def find(self, keys: Keys) -> Ids:
        """The index of each key, -1 where it was not seen."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        nearest = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[nearest] == keys, nearest, -1)


@dataclass(frozen=True, slots=True)
class SequenceCounts:
    """What was counted in normal sequences.

    >>> counts = SequenceCounts.count([["open", "read", "close"]] * 9)
    >>> counts.measure_events(counts.encode([["open", "close"]]))[:, EVENT_COUNTS.index("unseen_run")].tolist()
    [0.5, 1.0]
    """

    names: tuple[str, ...]
    runs: tuple[RunCounts, ...]
    """Of 1, 2, … events."""
    profiles: Floats  # (P, V + 1) how often each event is in a row; 0 are unseen ones
    known_counts: Keys
    """Of the counts of all rows, also of those that are no profile here; `known_sets` of their events."""
    known_sets: Keys

    @classmethod
    def count(cls, rows: Sequence[Sequence[str]]) -> "SequenceCounts":
        names = tuple(sorted({name for row in rows for name in row}))
        encoded = encode(names, rows)
        runs: list[RunCounts] = []
        tables = [np.unique(_select(encoded, size), return_counts=True) for size in range(1, LONGEST + 1)]
        for size, (keys, counts) in enumerate(tables, start=1):
            sides = [np.zeros(len(keys), dtype=np.int64) for _ in range(4)]
            if size < LONGEST:
                longer, is_inside = encoded.keys(size + 1)
                own = encoded.keys(size)[0]
                places = np.flatnonzero(is_inside)
                for side, context in enumerate((own[places - 1], own[places])):
                    index = np.searchsorted(keys, context)
                    np.add.at(sides[2 * side], index, 1)
                    _, first = np.unique(longer[places], return_index=True)
                    np.add.at(sides[2 * side + 1], index[first], 1)
            runs.append(RunCounts(keys, counts, *sides))
        profiles = np.unique(profile(encoded, len(names)), axis=0)
        known = np.unique(hash_profiles(profiles)), np.unique(hash_profiles(profiles > 0))
        if len(profiles) > _MOST_PROFILES:
            profiles = profiles[np.linspace(0, len(profiles) - 1, _MOST_PROFILES).astype(np.int64)]
        return cls(names, tuple(runs), profiles, *known)

    def encode(self, rows: Sequence[Sequence[str]]) -> EventRows:
        return encode(self.names, rows)

    def measure_events(self, rows: EventRows) -> Floats:
        """(E, F) in the order of EVENT_COUNTS."""
        seen = [run.find(rows.keys(size)[0]) for size, run in enumerate(self.runs, start=1)]
        inside = [rows.keys(size)[1] for size in range(1, LONGEST + 1)]
        places = rows.places
        total = int(self.runs[0].counts.sum())
        counts = np.where(seen[0] >= 0, self.runs[0].counts[seen[0]], 0)
        rarity = -np.log((counts + 0.5) / (total + 1))
        unseen_run = np.zeros(len(rows.ids))
        longest = np.zeros(len(rows.ids))
        for size in range(1, LONGEST + 1):
            is_seen = inside[size - 1] & (seen[size - 1] >= 0)
            longest = np.where(is_seen, size, longest)
        # The share of the runs that an event is part of and that were never seen: of the longest, or of pairs.
        pair_unseen = (inside[1] & (seen[1] < 0)).astype(np.float64)
        unseen_run = (pair_unseen + np.roll(pair_unseen, -1)) / 2
        long_unseen = (inside[-1] & (seen[-1] < 0)).astype(np.float64)
        covering = np.zeros(len(rows.ids))
        for ahead in range(LONGEST):
            shifted = np.roll(long_unseen, -ahead)
            covering += np.where(np.roll(inside[-1], -ahead), shifted, 0.0)
        surprise = [self._surprise(rows, seen, inside, is_backward=side) for side in (False, True)]
        # That a row ends after an event, or begins before it, is the event's surprise too.
        last = rows.starts + rows.lengths
        surprise[0][last] = np.maximum(surprise[0][last], surprise[0][last + 1])
        surprise[1][rows.starts + 1] = np.maximum(surprise[1][rows.starts + 1], surprise[1][rows.starts])
        columns = (
            (rows.ids == 0).astype(np.float64),
            rarity,
            unseen_run,
            covering / LONGEST,
            1 - longest / LONGEST,
            *surprise,
            np.minimum(*surprise),
        )
        return np.stack([column[places] for column in columns], axis=1)

    def _surprise(
        self, rows: EventRows, seen: Sequence[Ids], inside: Sequence[NDArray[np.bool_]], *, is_backward: bool
    ) -> Floats:
        """−log p of each event after (before) the events next to it; runs of all lengths, each weighed by how many
        different events were seen there (Witten and Bell)."""
        p = np.full(len(rows.ids), 1 / (len(self.names) + 3))
        for size in range(1, LONGEST + 1):
            run = self.runs[size - 1]
            # Where the run begins that ends `size - 1` places further on.
            ahead = size - 1 if is_backward else 0
            index, is_inside = (np.roll(values, -ahead) for values in (seen[size - 1], inside[size - 1]))
            count = np.where(index >= 0, run.counts[index], 0)
            if size == 1:
                times = np.full(len(p), int(run.counts.sum()))
                kinds = np.full(len(p), len(run.keys))
            else:
                shorter = self.runs[size - 2]
                context = np.roll(seen[size - 2], -ahead if is_backward else 1)
                times, kinds = (
                    np.where(context >= 0, values[context], 0)
                    for values in (
                        (shorter.preceded, shorter.predecessors)
                        if is_backward
                        else (shorter.followed, shorter.followers)
                    )
                )
            is_known = is_inside & (times > 0)
            p = np.where(is_known, (count + kinds * p) / np.maximum(times + kinds, 1), p)
        surprise: Floats = -np.log(np.maximum(p, 1e-12))
        return surprise

    def find_set_angles(self, rows: EventRows) -> Floats:
        """(R,) the cosine distance of the set of a row's events to the nearest counted profile's."""
        own = (profile(rows, len(self.names)) > 0).astype(np.float64)
        known = np.unique(self.profiles > 0, axis=0).astype(np.float64)
        sizes = np.sqrt(np.maximum(known.sum(axis=1), 1))
        distances = np.ones(len(own))
        for start in range(0, len(own), _PROFILES_AT_ONCE):
            part = own[start : start + _PROFILES_AT_ONCE]
            lengths = np.sqrt(np.maximum(part.sum(axis=1), 1))
            distances[start : start + _PROFILES_AT_ONCE] -= (part @ known.T / sizes / lengths[:, None]).max(axis=1)
        return distances

    def find_neighbours(self, rows: EventRows) -> tuple[Floats, Floats, Ids]:
        """Of each row the distance (cosine, then Euclidean, of logarithms of counts) to the nearest counted profile,
        and which that is."""
        own, known = np.log1p(profile(rows, len(self.names))), np.log1p(self.profiles)
        sizes = (known**2).sum(axis=1)
        cosine, euclidean = np.ones(len(own)), np.full(len(own), np.inf)
        nearest = np.zeros(len(own), dtype=np.int64)
        for start in range(0, len(own), _PROFILES_AT_ONCE):
            part = slice(start, start + _PROFILES_AT_ONCE)
            lengths = (own[part] ** 2).sum(axis=1)
            products = own[part] @ known.T
            angles = products / np.maximum(np.sqrt(lengths[:, None] * sizes), 1e-12)
            squares = lengths[:, None] + sizes - 2 * products
            cosine[part] = 1 - angles.max(axis=1)
            nearest[part] = squares.argmin(axis=1)
            euclidean[part] = np.sqrt(squares.min(axis=1).clip(0))
        return cosine, euclidean, nearest


EVENT_COUNTS = (
    "unseen",  # whether the event was never counted
    "rarity",  # -log of its share
    "unseen_run",  # the share of its pairs with a neighbour that were never seen
    "unseen_long_run",  # the share of the runs of six with it that were never seen
    "short_past",  # how few of the events before it were ever seen so together
    "surprise_after",  # -log p after the events before it
    "surprise_before",  # and before the events after it
    "surprise_both",  # the smaller of both
)


def encode(names: Sequence[str], rows: Sequence[Sequence[str]]) -> EventRows:
    numbers = {name: number for number, name in enumerate(names, start=3)}
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    ids = [number for row in rows for number in (1, *(numbers.get(name, 0) for name in row), 2)]
    starts = np.cumsum(lengths + 2) - lengths - 2
    return EventRows(np.array(ids, dtype=np.int64), starts, lengths)


def profile(rows: EventRows, events: int) -> Floats:
    """(R, V + 1) how often each event is in each row, unseen ones first."""
    counts = np.zeros((len(rows.lengths), events + 1))
    ids = rows.ids[rows.places]
    np.add.at(counts, (rows.owners, np.where(ids == 0, 0, ids - 2)), 1)
    return counts


def hash_profiles(profiles: NDArray[np.generic]) -> Keys:
    """(P, V) -> (P,) a sum of odd numbers, one for each event, which two different profiles hardly share."""
    factors = np.arange(1, profiles.shape[1] + 1, dtype=np.uint64) * _PRIME
    factors = ((factors ^ (factors >> np.uint64(29))) * _PRIME) | np.uint64(1)
    keys: Keys = (profiles.astype(np.uint64) * factors).sum(axis=1)
    return keys


def _select(rows: EventRows, size: int) -> Keys:
    keys, is_inside = rows.keys(size)
    return keys[is_inside]


def mean_by_row(rows: EventRows, values: Floats) -> Floats:
    """(E,) -> (R,)"""
    sums = np.bincount(rows.owners, weights=values, minlength=len(rows.lengths))
    return sums / np.maximum(rows.lengths, 1)


SequenceDetector = Callable[[SequenceCounts, EventRows], Floats]
"""Normal sequences as they were counted, new ones -> (R,) how suspicious each is."""


def mean_rarity(counts: SequenceCounts, rows: EventRows) -> Floats:
    """−log frequency of the events, their mean."""
    return mean_by_row(rows, counts.measure_events(rows)[:, EVENT_COUNTS.index("rarity")])


def unseen_events(counts: SequenceCounts, rows: EventRows) -> Floats:
    """The share of events that were never seen."""
    return mean_by_row(rows, counts.measure_events(rows)[:, EVENT_COUNTS.index("unseen")])


def unseen_set(counts: SequenceCounts, rows: EventRows) -> Floats:
    """Whether its set of events was never seen."""
    keys = hash_profiles(profile(rows, len(counts.names)) > 0)
    return (~np.isin(keys, counts.known_sets)).astype(np.float64)


def unseen_counts(counts: SequenceCounts, rows: EventRows) -> Floats:
    """Whether its counts of events were never seen."""
    keys = hash_profiles(profile(rows, len(counts.names)))
    return (~np.isin(keys, counts.known_counts)).astype(np.float64)


def _unseen_runs(counts: SequenceCounts, rows: EventRows, size: int) -> Floats:
    keys, is_inside = rows.keys(size)
    # The ends of a row are no events.
    within = np.zeros(len(rows.ids), dtype=np.bool_)
    within[rows.places] = True
    is_inside &= within & np.roll(within, size - 1)
    owner = np.repeat(np.arange(len(rows.lengths)), rows.lengths + 2)
    unseen = is_inside & (counts.runs[size - 1].find(keys) < 0)
    total = np.bincount(owner[is_inside], minlength=len(rows.lengths))
    return np.bincount(owner[unseen], minlength=len(rows.lengths)) / np.maximum(total, 1)


def unseen_pairs(counts: SequenceCounts, rows: EventRows) -> Floats:
    """The share of pairs of neighbours that were never seen."""
    return _unseen_runs(counts, rows, 2)


def unseen_sixes(counts: SequenceCounts, rows: EventRows) -> Floats:
    """The share of runs of six events that were never seen."""
    return _unseen_runs(counts, rows, LONGEST)


def mean_surprise(counts: SequenceCounts, rows: EventRows) -> Floats:
    """−log p of the events after the five before them (n-grams), their mean."""
    return mean_by_row(rows, counts.measure_events(rows)[:, EVENT_COUNTS.index("surprise_after")])


def count_neighbour(counts: SequenceCounts, rows: EventRows) -> Floats:
    """The distance of its counts of events to the nearest that were seen (Euclidean, of logarithms)."""
    return counts.find_neighbours(rows)[1]


def count_angle(counts: SequenceCounts, rows: EventRows) -> Floats:
    """The same as a cosine distance, which the length of a row does not change."""
    return counts.find_neighbours(rows)[0]


def set_angle(counts: SequenceCounts, rows: EventRows) -> Floats:
    """The cosine distance of its set of events to the nearest that was seen, however often each event is there."""
    return counts.find_set_angles(rows)


BASELINES: Mapping[str, SequenceDetector] = {
    function.__name__: function
    for function in (
        mean_rarity,
        unseen_events,
        unseen_set,
        unseen_counts,
        unseen_pairs,
        unseen_sixes,
        mean_surprise,
        count_neighbour,
        count_angle,
        set_angle,
    )
}
