"""Guessing what is hidden, and nothing else: `mlm`, as RoBERTa trains.

MaskedBatch -> guesses -> Answer
"""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from electralab.model.electra import Generator
from electralab.model.encoder import Trace
from electralab.model.flops import count_masked, generator_flops
from electralab.objective.exhibit import Exhibit
from electralab.objective.losses import Counts, Losses, guess_loss
from electralab.objective.masking import MaskedBatch, mask_tokens, mask_vocabulary
from electralab.objective.objective import CLOSE_LOOK, Answer, Moment, Network
from electralab.objective.observation import observe_guesses
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


class MaskedObjective:
    guessed = "masked"

    def __init__(self, model: Generator, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self.model = model
        self.networks: nn.Module = nn.ModuleDict({"model": model})
        self.config = config
        self.weights: Mapping[str, float] = {"masked": 1.0}
        self._vocabulary = mask_vocabulary(tokenizer)

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[MaskedBatch]:
        micros = batch.split(micro_size)
        return [mask_tokens(micro, self._vocabulary, self.config.masking, share, rng) for micro in micros]

    def count_targets(self, question: MaskedBatch) -> Counts:
        return {"masked": len(question.positions)}

    def count_tokens(self, question: MaskedBatch) -> int:
        return question.batch.token_count

    def begin(self, moment: Moment) -> None:
        """Every step is like the others."""

    def answer(self, question: MaskedBatch, moment: Moment) -> Answer:
        del moment
        return self.guess(question, CLOSE_LOOK)

    def examine(self, question: MaskedBatch) -> Answer:
        return self.guess(question, None)

    def exhibit(self, question: MaskedBatch) -> Exhibit:
        return Exhibit(question.batch, question.positions, self._read(question, None))

    def guess(self, question: MaskedBatch, limit: int | None, trace: Trace | None = None) -> Answer:
        guesses = self._read(question, trace)
        losses = Losses({"masked": guess_loss(guesses, question.target_ids)})
        return Answer(losses, observe_guesses("masked", guesses, question.target_ids, question.is_hidden, limit))

    def _read(self, question: MaskedBatch, trace: Trace | None) -> Tensor:
        batch = question.batch
        guesses: Tensor = self.model(
            question.input_ids, batch.segment_ids, batch.attention_pad, question.positions, trace
        )  # (M, V)
        return guesses

    def guessed_ids(self, question: MaskedBatch) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: Moment, rows: int, length: int, share: float) -> int:
        del moment
        return 3 * generator_flops(self.model.config, rows, length, rows * count_masked(length, share))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}
