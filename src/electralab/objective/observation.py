"""What is worth knowing of an answer beside its loss: how often it was right, how sure, and against whom.

guesses, verdicts, truth -> Observation -> scores by name
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electralab.objective.corruption import CorruptedBatch
from electralab.objective.losses import Counts, Losses
from electralab.objective.verdicts import Verdicts, join_verdicts, read_verdicts

_CONFIDENCES = ("unsure", "middling", "sure")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A mean that can be added to another."""

    total: float
    count: int

    def __add__(self, other: "Ratio") -> "Ratio":
        return Ratio(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> float:
        return self.total / max(self.count, 1)


@dataclass(frozen=True, slots=True)
class Draws:
    """The replacements: what the discriminator said of each, and how likely the generator had found it."""

    logits: NDArray[np.float32]
    log_probs: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Observation:
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    verdicts: Sequence[Verdicts] = ()
    draws: Sequence[Draws] = ()

    def __add__(self, other: "Observation") -> "Observation":
        names = [*self.ratios, *(name for name in other.ratios if name not in self.ratios)]
        nothing = Ratio(0.0, 0)
        ratios = {name: self.ratios.get(name, nothing) + other.ratios.get(name, nothing) for name in names}
        return Observation(ratios, [*self.verdicts, *other.verdicts], [*self.draws, *other.draws])

    def describe(self, *scores: str) -> dict[str, float]:
        """Every ratio, and of the verdicts, where there are any, the scores named."""
        means = {name: ratio.mean for name, ratio in self.ratios.items()}
        if not self.verdicts:
            return means
        verdicts = join_verdicts(self.verdicts)
        return means | {name: float(getattr(verdicts, name)) for name in scores}

    def describe_by_confidence(self) -> dict[str, float]:
        """AUC and recall on the third of the replacements that the generator was least, middling and most sure of."""
        logits = np.concatenate([draws.logits for draws in self.draws]) if self.draws else np.empty(0, np.float32)
        if len(logits) < len(_CONFIDENCES):
            return {}
        verdicts = join_verdicts(self.verdicts)
        originals = verdicts.logits[~verdicts.is_replaced]
        order = np.argsort(np.concatenate([draws.log_probs for draws in self.draws]), kind="stable")
        scores: dict[str, float] = {}
        for name, third in zip(_CONFIDENCES, np.array_split(logits[order], len(_CONFIDENCES)), strict=True):
            truth = np.arange(len(third) + len(originals)) < len(third)
            against = Verdicts(np.concatenate([third, originals]), truth)
            scores |= {f"auc_{name}": against.auc, f"recall_{name}": against.recall}
        return scores


def observe_losses(losses: Losses, counts: Counts) -> Observation:
    return Observation({f"{name}_loss": Ratio(total.item(), counts[name]) for name, total in losses.sums.items()})


@torch.no_grad()
def observe_guesses(
    name: str, guesses: Tensor, target_ids: Tensor, is_hidden: Tensor, limit: int | None = None
) -> Observation:
    """How often the likeliest guess is right where the target was truly hidden, and the entropy of the guesses.

    A `limit` looks at the first so many only: what a step may spend on knowing itself.
    """
    seen = guesses[:limit].float()
    is_hit = (seen.argmax(dim=-1) == target_ids[:limit]) & is_hidden[:limit]
    log_probs = torch.log_softmax(seen, dim=-1)
    entropy = -(log_probs.exp() * log_probs.clamp_(min=-1e4)).sum()  # an impossible token adds nothing
    return Observation(
        {
            f"{name}_accuracy": Ratio(float(is_hit.sum()), int(is_hidden[:limit].sum())),
            f"{name}_entropy": Ratio(float(entropy), len(seen)),
        }
    )


def observe_verdicts(verdicts: Tensor, corrupted: CorruptedBatch, *, only_masked: bool = False) -> Observation:
    return Observation(verdicts=[read_verdicts(verdicts, corrupted, only_masked=only_masked)])


@torch.no_grad()
def observe_draws(guesses: Tensor, verdicts: Tensor, corrupted: CorruptedBatch) -> Observation:
    positions = corrupted.masked.positions
    drawn_ids = corrupted.input_ids.flatten()[positions]
    is_replaced = corrupted.is_replaced.flatten()[positions].cpu().numpy()
    log_probs = torch.log_softmax(guesses.float(), dim=-1).gather(1, drawn_ids[:, None]).squeeze(1)
    logits = verdicts.detach().float().flatten()[positions]
    return Observation(draws=[Draws(logits.cpu().numpy()[is_replaced], log_probs.cpu().numpy()[is_replaced])])
