"""Knowing only frequencies: the guess that a generator must beat to have learned anything.

rows -> log p(token)
"""

import numpy as np
from numpy.typing import NDArray

from electralab.tokens.tokenizer import Tokenizer


def unigram_log_shares(ids: NDArray[np.integer], tokenizer: Tokenizer) -> NDArray[np.float64]:
    """(V,) of the ordinary tokens among the ids; minus infinity for all others."""
    counts = np.bincount(ids.ravel(), minlength=tokenizer.vocab_size).astype(np.float64)
    counts = np.where(tokenizer.is_ordinary, counts + 1.0, 0.0)  # add-one: an unseen token has a finite loss
    log_shares: NDArray[np.float64] = np.log(counts / counts.sum(), out=np.full_like(counts, -np.inf), where=counts > 0)
    return log_shares
