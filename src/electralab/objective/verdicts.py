"""What the discriminator said of tokens, beside the truth, and how often it was right.

verdicts, CorruptedBatch -> Verdicts
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from electralab.objective.corruption import CorruptedBatch


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the discriminator said of tokens, and the truth."""

    logits: NDArray[np.float32]
    is_replaced: NDArray[np.bool_]

    @property
    def auc(self) -> float:
        """The chance that a replaced token looks more replaced than an original.

        1/2, knowing nothing, where one kind is absent or a verdict is not a finite number.
        """
        if self.is_replaced.all() or not self.is_replaced.any() or not np.isfinite(self.logits).all():
            return 0.5
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(self.is_replaced, self.logits))

    @property
    def recall(self) -> float:
        return _share((self.logits > 0) & self.is_replaced, self.is_replaced)

    @property
    def precision(self) -> float:
        return _share((self.logits > 0) & self.is_replaced, self.logits > 0)

    @property
    def loss(self) -> float:
        """The mean binary cross-entropy, in nats."""
        logits = self.logits.astype(np.float64)
        return float((np.logaddexp(0.0, logits) - logits * self.is_replaced).mean())

    @property
    def called_replaced(self) -> float:
        return float((self.logits > 0).mean())

    @property
    def replaced_share(self) -> float:
        return float(self.is_replaced.mean())


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float(part.sum() / max(int(whole.sum()), 1))


def read_verdicts(verdicts: Tensor, corrupted: CorruptedBatch, *, only_masked: bool = False) -> Verdicts:
    """Of every ordinary token, or of those at masked positions, where a discriminator was taught there alone.

    [CLS], [SEP] and the unknown token are never replaced: whoever knows only that would beat guessing. The loss that is
    learned from counts them, as in the released code.
    """
    masked = corrupted.masked
    judged = masked.positions if only_masked else masked.batch.is_ordinary.flatten()
    logits = verdicts.detach().float().flatten()[judged].cpu().numpy()
    return Verdicts(logits, corrupted.is_replaced.flatten()[judged].cpu().numpy())


def join_verdicts(parts: Sequence[Verdicts]) -> Verdicts:
    return Verdicts(
        np.concatenate([part.logits for part in parts]), np.concatenate([part.is_replaced for part in parts])
    )
