"""Choices that are the same on every machine and in every version of Python.

name of a set -> Draw
"""

import random
import zlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Only random.random is promised to stay as it is, so every choice is made from it."""

    def __init__(self, name: str) -> None:
        self._rng = random.Random(zlib.crc32(name.encode()))

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._rng.random() * len(options))]
