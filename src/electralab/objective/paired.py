"""Guessing what is hidden, and whether two segments belong together: `bert`, and `mlm` with a sentence task.

Batch -> PairedBatch -> MaskedPairs -> Answer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.electra import Generator
from electralab.model.encoder import Trace
from electralab.model.flops import row_verdict_flops
from electralab.model.heads import SentenceHead
from electralab.objective.exhibit import Exhibit
from electralab.objective.losses import Counts, Losses
from electralab.objective.masked import MaskedObjective
from electralab.objective.masking import MaskedBatch
from electralab.objective.objective import CLOSE_LOOK, Answer, Moment, Network
from electralab.objective.observation import Observation, Ratio
from electralab.objective.sentences import SentenceTask, arrange_pairs
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class MaskedPairs:
    """Rows of two segments with tokens hidden in both."""

    masked: MaskedBatch
    is_odd: Tensor  # (B,) the segments do not belong together, or in the other order
    has_pair: Tensor  # (B,) False where there is nothing to ask

    def to(self, device: torch.device) -> "MaskedPairs":
        return MaskedPairs(self.masked.to(device), self.is_odd.to(device), self.has_pair.to(device))


class PairedObjective:
    guessed = "masked"

    def __init__(self, model: Generator, task: SentenceTask, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self.guessing = MaskedObjective(model, config, tokenizer)
        self.model, self.task = model, task
        self.head = SentenceHead(model.config)
        self.networks: nn.Module = nn.ModuleDict({"model": model, "sentence": self.head})
        self.weights: Mapping[str, float] = {**self.guessing.weights, "sentence": config.loss.sentence_weight}
        self._special = tokenizer.special

    def pose(self, batch: Batch, micro_size: int, share: float, rng: Rng) -> Sequence[MaskedPairs]:
        paired = arrange_pairs(batch, self._special, self.task, rng)
        questions = self.guessing.pose(paired.batch, micro_size, share, rng)
        micros = paired.split(micro_size)
        return [
            MaskedPairs(masked, micro.is_odd, micro.has_pair) for masked, micro in zip(questions, micros, strict=True)
        ]

    def count_targets(self, question: MaskedPairs) -> Counts:
        return {**self.guessing.count_targets(question.masked), "sentence": int(question.has_pair.sum())}

    def count_tokens(self, question: MaskedPairs) -> int:
        return self.guessing.count_tokens(question.masked)

    def begin(self, moment: Moment) -> None:
        """Every step is like the others."""

    def answer(self, question: MaskedPairs, moment: Moment) -> Answer:
        del moment
        return self._judge(question, CLOSE_LOOK)

    def examine(self, question: MaskedPairs) -> Answer:
        return self._judge(question, None)

    def exhibit(self, question: MaskedPairs) -> Exhibit:
        return self.guessing.exhibit(question.masked)

    def _judge(self, question: MaskedPairs, limit: int | None) -> Answer:
        trace: Trace = {}
        guessed = self.guessing.guess(question.masked, limit, trace)
        verdicts = self.head(trace["states"]).float()[question.has_pair]
        is_odd = question.is_odd[question.has_pair]
        loss = F.binary_cross_entropy_with_logits(verdicts, is_odd.float(), reduction="sum")
        hits = int(((verdicts > 0) == is_odd).sum())
        return Answer(
            Losses({**guessed.losses.sums, "sentence": loss}),
            guessed.observation + Observation({"sentence_accuracy": Ratio(hits, len(is_odd))}),
        )

    def guessed_ids(self, question: MaskedPairs) -> Sequence[int]:
        return self.guessing.guessed_ids(question.masked)

    def count_flops(self, moment: Moment, rows: int, length: int, share: float) -> int:
        return self.guessing.count_flops(moment, rows, length, share) + 3 * row_verdict_flops(self.model.config, rows)

    def exports(self) -> Mapping[str, Network]:
        """Without the sentence head, for which no class that fits the rest has a place."""
        return self.guessing.exports()
