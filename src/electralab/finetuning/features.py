"""An example as the network takes it.

Example -> Feature
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IGNORED = -1
"""The target of a position that carries none: a class is never negative."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One row for the network, special tokens included, not padded."""

    example: int
    """The place of its example in the split; a long one may have several features."""
    ids: NDArray[np.int64]  # (T,)
    segment_ids: NDArray[np.int64]  # (T,)
    targets: NDArray[np.int64] | NDArray[np.float32]
    """classify: (1,) class; regress: (1,) number; label: (T,) class or IGNORED; qa: (3,) first and last token of the
    answer in this row, and whether it can be answered from it; (0,) where the answer is not known."""
