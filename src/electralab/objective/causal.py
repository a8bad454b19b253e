"""Guessing the next token from those before it: `causal`, as GPT trains.

Batch -> NextTokens -> Answer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from electralab.model.electra import Generator
from electralab.model.flops import generator_flops
from electralab.objective.losses import Counts, Losses, guess_loss
from electralab.objective.objective import CLOSE_LOOK, Answer, Moment, Network
from electralab.objective.observation import observe_guesses
from electralab.randomness import Rng
from electralab.tokens.batches import Batch


@dataclass(frozen=True, slots=True)
class NextTokens:
    """Every token but the first of a row, [SEP] included: where a text ends can be foreseen too."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)

    def to(self, device: torch.device) -> "NextTokens":
        return NextTokens(self.batch.to(device), self.positions.to(device), self.target_ids.to(device))


def ask_next(batch: Batch) -> NextTokens:
    is_asked = ~batch.is_pad
    is_asked[:, 0] = False
    positions = is_asked.flatten().nonzero().squeeze(1)
    return NextTokens(batch, positions, batch.original_ids.flatten()[positions])


class CausalObjective:
    guessed = "next"

    def __init__(self, model: Generator) -> None:
        assert model.config.is_causal
        self.model = model
        self.networks: nn.Module = nn.ModuleDict({"model": model})
        self.weights: Mapping[str, float] = {"next": 1.0}

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[NextTokens]:
        del share, rng
        return [ask_next(micro) for micro in batch.split(micro_size)]

    def count_targets(self, question: NextTokens) -> Counts:
        return {"next": len(question.positions)}

    def count_tokens(self, question: NextTokens) -> int:
        return question.batch.token_count

    def begin(self, moment: Moment) -> None:
        """Every step is like the others."""

    def answer(self, question: NextTokens, moment: Moment) -> Answer:
        del moment
        return self._guess(question, CLOSE_LOOK)

    def examine(self, question: NextTokens) -> Answer:
        return self._guess(question, None)

    def exhibit(self, question: NextTokens) -> None:
        """Nothing is hidden: every token is guessed before it is read."""
        del question

    def _guess(self, question: NextTokens, limit: int | None) -> Answer:
        batch = question.batch
        guesses = self.model(batch.original_ids, batch.segment_ids, batch.attention_pad, question.positions)
        losses = Losses({"next": guess_loss(guesses, question.target_ids)})
        is_hidden = torch.ones_like(question.target_ids, dtype=torch.bool)
        return Answer(losses, observe_guesses("next", guesses, question.target_ids, is_hidden, limit))

    def guessed_ids(self, question: NextTokens) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: Moment, rows: int, length: int, share: float) -> int:
        """A guess for every token but the first; attention counts in full, as for the others."""
        del moment, share
        return 3 * generator_flops(self.model.config, rows, length, rows * (length - 1))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}
