"""Arrays as estimators take them, and what is asked of them first.

values -> counts, areas, or one sentence that says what is missing
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from electralab.errors import InputError
from electralab.statistics import FloatArray as FloatArray
from electralab.statistics import Indices as Indices

# (N, D), one row for each token, word or text.
Matrix = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]


def require_count(name: str, count: int, least: int, what: str, *arrays: NDArray[np.floating[Any]]) -> None:
    """At least so many of something, and every number of the arrays finite."""
    if count < least:
        raise InputError(f"{name}: needs at least {least:,} {what}, got {count:,}; give more")
    for values in arrays:
        if bad := int((~np.isfinite(values)).sum()):
            raise InputError(
                f"{name}: {bad:,} of {values.size:,} numbers are not finite; see whether the model diverged"
            )


def normalise(vectors: Matrix) -> FloatArray:
    """Rows of length 1; a row of zeros stays one."""
    wide = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1), dtype=np.float64)


def auc(values: NDArray[np.floating[Any]], is_positive: BoolArray) -> float:
    """The chance that a positive has a higher value than a negative, a tie being half a chance; 1/2 where there is
    only one kind.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    from scipy.stats import rankdata

    positives = int(is_positive.sum())
    negatives = len(is_positive) - positives
    if not positives or not negatives:
        return 0.5
    # By ranks, so that drawing again thousands of times takes seconds.
    total = float(rankdata(values)[is_positive].sum())
    return (total - positives * (positives + 1) / 2) / (positives * negatives)


def count_at(indices: IntArray, count: int, weights: NDArray[Any] | None = None) -> FloatArray:
    """(count,) how often each index is named, or the sum of the weights it is named with."""
    return np.bincount(indices, weights, minlength=count).astype(np.float64)


def label_ids(labels: Any) -> IntArray:
    """(N,) each label as a number from 0 on, in the order of the labels."""
    return np.unique(labels, return_inverse=True)[1]
