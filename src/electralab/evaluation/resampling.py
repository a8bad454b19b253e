"""Which of many are taken, and which are drawn again: the same for every model by the seed.

count, seed -> places
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from electralab.randomness import mix

Places = NDArray[np.int64]


def choose_some(count: int, limit: int, seed: int) -> Places:
    """At most `limit` of them, in their order; all where the limit is 0."""
    if not limit or count <= limit:
        return np.arange(count, dtype=np.int64)
    return np.sort(np.argsort(mix(seed, np.arange(count)), kind="stable")[:limit])


def draw_again(count: int, times: int, seed: int) -> Places:
    """(times, count) places drawn with replacement."""
    words = mix(seed, np.arange(times)[:, None], np.arange(count)[None, :])
    return (words % np.uint64(max(count, 1))).astype(np.int64)


def find_interval(values: Iterable[float]) -> list[float]:
    """Where the middle 95 % of the values lie."""
    low, high = np.quantile(list(values), (0.025, 0.975))
    return [float(low), float(high)]


def bootstrap(score: Callable[[Places], float], count: int, times: int, seed: int) -> list[float]:
    """The 95 % interval of a score of `count` independent examples, drawn again."""
    return find_interval(score(places) for places in draw_again(count, times, seed))
