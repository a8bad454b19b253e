"""What a loss beside the pair's own may look at, and what it must say of itself.

MaskedBatch, Rng -> luck; Scene -> a loss summed over its targets
"""

from dataclasses import dataclass

from torch import Tensor

from electralab.model.electra import Discriminator
from electralab.model.encoder import EncoderConfig
from electralab.model.weights import Drawn
from electralab.objective.corruption import CorruptedBatch
from electralab.objective.masking import MaskedBatch
from electralab.randomness import Rng


@dataclass(frozen=True, slots=True)
class Scene:
    """A trial as the discriminator saw it, in the one pass that its verdicts needed."""

    judge: Discriminator
    corrupted: CorruptedBatch
    states: Tensor  # (B, T, D) of the corrupted rows
    guesses: Tensor  # (M, V)
    prohibition: Tensor  # (V,) to be added to guesses

    @property
    def masked(self) -> MaskedBatch:
        return self.corrupted.masked

    @property
    def masked_states(self) -> Tensor:
        return self.states.flatten(0, 1).index_select(0, self.masked.positions)  # (M, D)

    @property
    def shown_ids(self) -> Tensor:
        """(M,) what stands at masked positions of the corrupted rows."""
        return self.corrupted.input_ids.flatten().index_select(0, self.masked.positions)

    @property
    def is_replaced(self) -> Tensor:
        return self.corrupted.is_replaced.flatten().index_select(0, self.masked.positions)  # (M,)


class Auxiliary(Drawn):
    """One more task for the discriminator, with the weights that only this task needs."""

    def weight_stds(self) -> dict[str, float]:
        return {}

    def draw_luck(self, masked: MaskedBatch, rng: Rng) -> Tensor | None:
        """The uniforms it needs, a pure function of (seed, step, row, position)."""
        del masked, rng
        return None

    def count_targets(self, masked: MaskedBatch) -> int:
        return len(masked.positions)

    def forward(self, scene: Scene) -> Tensor:
        """The loss summed over its targets, in float32."""
        raise NotImplementedError

    def count_flops(self, judge: EncoderConfig, rows: int, length: int, masked_count: int) -> int:
        """Of one step, forward and backward, beyond what the pair costs; a step counts as one micro-batch."""
        raise NotImplementedError
