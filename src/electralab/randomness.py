"""Counter-based randomness: a number is a pure function of (seed, stream, keys), never of what was drawn before.

So resuming, another batch split or another number of workers cannot change what is drawn.
"""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ALL_BITS = 2**64 - 1
Words = NDArray[np.uint64]


def _scramble(words: Words) -> Words:
    """The finaliser of SplitMix64: a bijection on 64-bit words with full avalanche."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def mix(*keys: int | NDArray[np.integer]) -> Words:
    """Hash the keys, broadcast against each other, into one 64-bit word each; the order of keys matters."""
    state = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for key in keys:
            words = np.asarray(key & _ALL_BITS if isinstance(key, int) else key).astype(np.uint64)
            state = _scramble((state ^ _scramble(words + _GOLDEN)) * np.uint64(3) + _GOLDEN)
    return state


@dataclass(frozen=True, slots=True)
class Rng:
    """The randomness of one step: every draw names its stream and the rows it is for."""

    seed: int
    step: int

    def uniforms(self, stream: str, rows: NDArray[np.int64], count: int) -> NDArray[np.float64]:
        """(R, count) numbers in [0, 1), the same for a row whatever other rows are drawn with it."""
        columns = np.arange(count, dtype=np.int64)[None, :]
        words = mix(self.seed, self.step, _stream_key(stream), rows[:, None], columns)
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def torch_seed(self, stream: str, part: int) -> int:
        """A seed for torch's own generator, for what only torch can draw (dropout)."""
        return int(mix(self.seed, self.step, _stream_key(stream), part)) >> 1


def _stream_key(stream: str) -> int:
    """A stream's name as a number that is the same in every process (str.__hash__ is salted)."""
    return zlib.crc32(stream.encode())


def permute(indices: NDArray[np.int64], size: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Where each index of 0..size-1 goes in the epoch's shuffle: a keyed bijection, no list of size in memory.

    A four-round Feistel network on the next power of four, walked until the result falls below size.

    >>> sorted(permute(np.arange(5), 5, seed=0, epoch=1).tolist())
    [0, 1, 2, 3, 4]
    """
    assert indices.size == 0 or 0 <= indices.min() <= indices.max() < size, "an index outside 0..size-1 would collide"
    half_bits = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
    half_mask = np.uint64((1 << half_bits) - 1)
    words = indices.astype(np.uint64)
    outside = np.ones(words.shape, dtype=bool)
    while outside.any():
        walked = words[outside]
        left, right = walked >> np.uint64(half_bits), walked & half_mask
        for round_number in range(4):
            key = mix(seed, epoch, round_number, right.astype(np.int64))
            left, right = right, (left ^ key) & half_mask
        words[outside] = (left << np.uint64(half_bits)) | right
        outside = words >= np.uint64(size)
    return words.astype(np.int64)
