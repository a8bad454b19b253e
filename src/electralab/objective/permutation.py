"""Guessing some tokens of a row one after the other, in an order drawn anew each time: `permutation`, as XLNet trains.

Batch -> Turns -> Answer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from electralab.model.flops import count_masked, two_stream_flops
from electralab.model.streams import TwoStream
from electralab.objective.exhibit import Exhibit
from electralab.objective.losses import Counts, Losses, guess_loss
from electralab.objective.masking import MaskingConfig, MaskVocabulary, mask_tokens, mask_vocabulary
from electralab.objective.objective import CLOSE_LOOK, Answer, Moment, Network
from electralab.objective.observation import observe_guesses
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Turns:
    """The end of a permutation of each row: what stands before it is known from the beginning."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)
    turns: Tensor  # (B, T) 1, 2, ... where a token is asked for, in the order of the asking; else 0

    def to(self, device: torch.device) -> "Turns":
        return Turns(
            self.batch.to(device), self.positions.to(device), self.target_ids.to(device), self.turns.to(device)
        )


def ask_in_turn(batch: Batch, vocabulary: MaskVocabulary, config: MaskingConfig, share: float, rng: Rng) -> Turns:
    """What masking would hide is asked for, and hidden only until its turn."""
    masked = mask_tokens(batch, vocabulary, config, share, rng)
    row_count, length = batch.original_ids.shape
    luck = np.full(row_count * length, 2.0)  # no token asked for has such luck
    asked = masked.positions.numpy()
    luck[asked] = rng.uniforms("turn", batch.row_numbers, length).ravel()[asked]
    order = luck.reshape(row_count, length).argsort(axis=1, kind="stable")
    turns = order.argsort(axis=1, kind="stable").ravel() + 1
    turns[luck > 1.0] = 0
    return Turns(batch, masked.positions, masked.target_ids, torch.from_numpy(turns.reshape(row_count, length)))


class PermutationObjective:
    guessed = "permuted"

    def __init__(self, model: TwoStream, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self.model = model
        self.networks: nn.Module = nn.ModuleDict({"model": model})
        self.config = config
        self.weights: Mapping[str, float] = {"permuted": 1.0}
        self._vocabulary = mask_vocabulary(tokenizer)

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[Turns]:
        micros = batch.split(micro_size)
        return [ask_in_turn(micro, self._vocabulary, self.config.masking, share, rng) for micro in micros]

    def count_targets(self, question: Turns) -> Counts:
        return {"permuted": len(question.positions)}

    def count_tokens(self, question: Turns) -> int:
        return question.batch.token_count

    def begin(self, moment: Moment) -> None:
        """Every step is like the others."""

    def answer(self, question: Turns, moment: Moment) -> Answer:
        del moment
        return self._guess(question, CLOSE_LOOK)

    def examine(self, question: Turns) -> Answer:
        return self._guess(question, None)

    def exhibit(self, question: Turns) -> Exhibit:
        return Exhibit(question.batch, question.positions, self._read(question))

    def _read(self, question: Turns) -> Tensor:
        batch = question.batch
        guesses: Tensor = self.model(
            batch.original_ids, batch.segment_ids, batch.attention_pad, question.positions, question.turns
        )  # (M, V)
        return guesses

    def _guess(self, question: Turns, limit: int | None) -> Answer:
        guesses, target_ids = self._read(question), question.target_ids
        losses = Losses({"permuted": guess_loss(guesses, target_ids)})
        is_hidden = torch.ones_like(target_ids, dtype=torch.bool)
        return Answer(losses, observe_guesses("permuted", guesses, target_ids, is_hidden, limit))

    def guessed_ids(self, question: Turns) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: Moment, rows: int, length: int, share: float) -> int:
        del moment
        return 3 * two_stream_flops(self.model.config, rows, length, rows * count_masked(length, share))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}
