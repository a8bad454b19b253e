"""A text of any length -> stretches that fit a model, each token judged where it has the most context.

count of tokens -> Window...
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.tokens.tokenizer import SpecialIds

Ids = NDArray[np.int64]


class WindowConfig(Settings):
    overlap: float = Field(0.5, ge=0, lt=1)
    """How much of a window of a long text is seen again by the next one."""
    batch_tokens: int = Field(1024, ge=1)
    """Tokens that go through the network at once, padding included."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of the tokens that fits the model; of what is said of it only [keep_from, keep_to) is used."""

    start: int
    end: int
    keep_from: int
    keep_to: int


def cut_windows(count: int, size: int, overlap: float) -> list[Window]:
    """Cover `count` tokens so that each is judged once, where it has the most context on both sides."""
    if count <= size:
        return [Window(0, count, 0, count)] if count else []
    stride = max(1, round(size * (1 - overlap)))
    starts = [*range(0, count - size, stride), count - size]
    borders = [0, *((start + before + size) // 2 for before, start in pairwise(starts)), count]
    return [
        Window(start, start + size, keep_from, keep_to)
        for start, keep_from, keep_to in zip(starts, borders[:-1], borders[1:], strict=True)
    ]


def frame(ids: Ids, special: SpecialIds) -> Ids:
    """[CLS] ids [SEP]"""
    return np.concatenate([[special.cls], ids, [special.sep]])


@dataclass(frozen=True, slots=True)
class TextWindow:
    """A window of one of several texts."""

    text: int
    window: Window

    @property
    def columns(self) -> slice:
        """Where the kept tokens stand in the window's row, after its [CLS]."""
        window = self.window
        return slice(window.keep_from - window.start + 1, window.keep_to - window.start + 1)


def split_into_windows(counts: Sequence[int], size: int, overlap: float) -> list[TextWindow]:
    return [
        TextWindow(text, window) for text, count in enumerate(counts) for window in cut_windows(count, size, overlap)
    ]
