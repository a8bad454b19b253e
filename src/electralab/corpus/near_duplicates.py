"""Documents that are nearly alike, by the shingles they share: MinHash finds them without comparing all with all.

    text -> shingles -> sketch -> is_known

Similarity is the Jaccard index of two sets of shingles. The share of the 256 numbers of their sketches that two
documents have in common is that index, give or take 0.03; bands of a sketch are looked up to find whom to compare with.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electralab.corpus.scripts import SPACELESS
from electralab.errors import UsageError

RULE = "threshold"
"""The name of what is done here, for the identity of what is prepared by it."""

_SHINGLE = 3
_NUMBERS = 256
_SEED = 42
# How surely a document that is just as similar as the threshold asks is among those that are compared.
_SURE = 0.99
# Longer than any word: such a run of characters is written without spaces, in whatever script.
_LONGEST_WORD = 40

_UNIT = re.compile(f"[{SPACELESS}]|[^\\s{SPACELESS}]+")


def split_units(text: str) -> list[str]:
    """Words; where there are no spaces between them, characters."""
    units: list[str] = []
    for unit in _UNIT.findall(text.lower()):
        units += unit if len(unit) > _LONGEST_WORD else (unit,)
    return units


def shingle(text: str) -> set[str]:
    """Every three units in a row."""
    units = split_units(text)
    return {" ".join(units[place : place + _SHINGLE]) for place in range(max(1, len(units) - _SHINGLE + 1))}


def count_bands(threshold: float) -> int:
    """The fewest bands, so the fewest to compare with, that find surely enough what is as similar as the threshold."""
    for rows in (64, 32, 16, 8, 4, 2):
        if 1 - (1 - threshold**rows) ** (_NUMBERS // rows) >= _SURE:
            return _NUMBERS // rows
    return _NUMBERS


class NearDuplicates:
    """The documents kept so far, as sketches of a kilobyte each."""

    def __init__(self, threshold: float) -> None:
        try:
            import rensa
        except ImportError:
            raise UsageError("filters.near_duplicates needs the package rensa; install electralab[text]") from None
        self._threshold = threshold
        self._minhash: Any = rensa.RMinHash
        self._bands: Any = rensa.RMinHashLSH(threshold=threshold, num_perm=_NUMBERS, num_bands=count_bands(threshold))
        self._sketches: list[NDArray[np.uint32]] = []

    def is_known(self, text: str) -> bool:
        """Whether a document kept before is as similar as the threshold asks; if not, this one is kept."""
        minhash = self._minhash(num_perm=_NUMBERS, seed=_SEED)
        minhash.update(sorted(shingle(text)))
        sketch = np.array(minhash.digest(), dtype=np.uint32)
        candidates = self._bands.query(minhash)
        if any((self._sketches[place] == sketch).mean() >= self._threshold for place in candidates):
            return True
        self._bands.insert(len(self._sketches), minhash)
        self._sketches.append(sketch)
        return False
