"""Mending what a generator replaced: `replace-mlm` and `all-tokens-mlm`, the paper's steps from BERT to ELECTRA.

MaskedBatch -> CorruptedBatch -> Answer
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from electralab.model.copying import Copying, take_states
from electralab.model.electra import AnyGenerator, FixedGenerator, Generator, share_weights
from electralab.model.encoder import Trace
from electralab.model.flops import copying_flops, count_masked, generator_flops
from electralab.objective.corruption import CorruptedBatch, corrupt, sample_ids, sampling_prohibition
from electralab.objective.electra import guessing_flops, make_guesses
from electralab.objective.exhibit import Exhibit
from electralab.objective.losses import Counts, Losses, guess_loss
from electralab.objective.masking import MaskedBatch, mask_tokens, mask_vocabulary
from electralab.objective.objective import CLOSE_LOOK, Answer, Moment, Network
from electralab.objective.observation import Observation, Ratio, observe_guesses
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer

M = TypeVar("M", Generator, Copying)


class _Replacing(Generic[M]):
    """A generator that replaces, and a model that reads the row with the replacements and says what was there."""

    guessed = "masked"
    mended: str
    """The model's loss."""

    def __init__(
        self,
        model: M,
        generator: AnyGenerator,
        config: ObjectiveConfig,
        tokenizer: Tokenizer,
        device: torch.device,
    ) -> None:
        self.model: M = model
        self.generator = generator
        share_weights(generator, model.encoder, config.model.sharing)
        # The model first, so that what is shared goes by its name.
        self.networks: nn.Module = nn.ModuleDict({"model": model, "generator": generator})
        self.config = config
        self.prohibition = sampling_prohibition(tokenizer, device)
        self.weights: Mapping[str, float] = {"generator": config.loss.generator_weight, self.mended: 1.0}
        self._vocabulary = mask_vocabulary(tokenizer)

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[MaskedBatch]:
        micros = batch.split(micro_size)
        return [mask_tokens(micro, self._vocabulary, self.config.masking, share, rng) for micro in micros]

    def count_targets(self, question: MaskedBatch) -> Counts:
        return {"generator": len(question.positions), self.mended: self._count_mended(question)}

    def count_tokens(self, question: MaskedBatch) -> int:
        return question.batch.token_count

    def begin(self, moment: Moment) -> None:
        """Every step is like the others."""

    def answer(self, question: MaskedBatch, moment: Moment) -> Answer:
        answer = self._hold(question, moment.progress, CLOSE_LOOK)
        # A generator that has nothing to learn has no loss to learn from.
        learnable = {name: total for name, total in answer.losses.sums.items() if total.requires_grad}
        return Answer(Losses(learnable), answer.observation)

    def examine(self, question: MaskedBatch) -> Answer:
        return self._hold(question, 0.0, None)

    def exhibit(self, question: MaskedBatch) -> Exhibit:
        guesses, corrupted = self._replace(question, 0.0)
        return Exhibit(question.batch, question.positions, guesses, corrupted)

    def _hold(self, question: MaskedBatch, progress: float, limit: int | None) -> Answer:
        guesses, corrupted = self._replace(question, progress)
        targets, is_hidden = question.target_ids, question.is_hidden
        loss, mending = self._mend(corrupted, limit)
        losses = Losses({"generator": guess_loss(guesses, targets), self.mended: loss})
        return Answer(losses, observe_guesses("generator", guesses, targets, is_hidden, limit) + mending)

    def _replace(self, question: MaskedBatch, progress: float) -> tuple[Tensor, CorruptedBatch]:
        guesses = make_guesses(self.generator, question)  # (M, V)
        sampling, luck, targets = self.config.sampling, question.sampling_uniforms, question.target_ids
        drawn = sample_ids(guesses, luck, self.prohibition, sampling, progress=progress, target_ids=targets)
        return guesses, corrupt(question, drawn)

    def guessed_ids(self, question: MaskedBatch) -> Sequence[int]:
        return question.target_ids.tolist()

    def count_flops(self, moment: Moment, rows: int, length: int, share: float) -> int:
        del moment
        masked = rows * count_masked(length, share)
        return 3 * self._mending_flops(rows, length, masked) + guessing_flops(self.generator, rows, length, masked)

    def exports(self) -> Mapping[str, Network]:
        model: dict[str, Network] = {"model": self.model}
        return model if isinstance(self.generator, FixedGenerator) else model | {"generator": self.generator}

    def _count_mended(self, question: MaskedBatch) -> int:
        raise NotImplementedError

    def _mend(self, corrupted: CorruptedBatch, limit: int | None) -> tuple[Tensor, Observation]:
        raise NotImplementedError

    def _mending_flops(self, rows: int, length: int, masked: int) -> int:
        """Forward."""
        raise NotImplementedError


class ReplaceObjective(_Replacing[Generator]):
    """`replace-mlm`: asked about the masked positions only, like a masked language model that never sees [MASK]."""

    mended = "masked"

    def _count_mended(self, question: MaskedBatch) -> int:
        return len(question.positions)

    def _mend(self, corrupted: CorruptedBatch, limit: int | None) -> tuple[Tensor, Observation]:
        masked = corrupted.masked
        batch, targets = masked.batch, masked.target_ids
        guesses = self.model(corrupted.input_ids, batch.segment_ids, batch.attention_pad, masked.positions)
        return guess_loss(guesses, targets), observe_guesses("masked", guesses, targets, masked.is_hidden, limit)

    def _mending_flops(self, rows: int, length: int, masked: int) -> int:
        return generator_flops(self.model.config, rows, length, masked)


class AllTokensObjective(_Replacing[Copying]):
    """`all-tokens-mlm`: asked about every token, with the choice to leave it as it stands."""

    mended = "tokens"

    def _count_mended(self, question: MaskedBatch) -> int:
        return self.count_tokens(question)

    def _mend(self, corrupted: CorruptedBatch, limit: int | None) -> tuple[Tensor, Observation]:
        masked = corrupted.masked
        batch, seen_ids = masked.batch, corrupted.input_ids
        asked = (~batch.is_pad).flatten().nonzero().squeeze(1)
        targets = batch.original_ids.flatten()[asked]
        trace: Trace = {}
        log_probs = self.model.recall(seen_ids, batch.segment_ids, batch.attention_pad, asked, targets, trace)
        at_masked = log_probs.detach()[torch.isin(asked, masked.positions)]
        seen = Observation({"masked_loss": Ratio(-float(at_masked.sum()), len(at_masked))})
        if limit is None:  # in a step, the vocabulary at the masked positions once more would cost too much
            guesses = self.model.mix(*take_states(trace["states"], seen_ids, masked.positions))
            seen += observe_guesses("masked", guesses, masked.target_ids, masked.is_hidden)
        return -log_probs.sum(), seen

    def _mending_flops(self, rows: int, length: int, masked: int) -> int:
        del masked
        return copying_flops(self.model.config, rows, length)
