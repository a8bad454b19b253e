"""One network that predicts tokens: `mlm` (hidden ones), `bert` (with a task about two segments), `causal` (the next
one) and `permutation` (in a random order).

Batch -> TokenInputs | MaskedBatch | MaskedPairBatch | PermutedBatch -> ObjectiveOutput
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electralab.model.electra import Generator, TwoStream
from electralab.model.encoder import LAST_STATES, HiddenStates, SentencePairHead
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch, MaskingConfig, MaskVocabulary, TokenInputs, mask_tokens
from electralab.objective.metrics import BatchMetrics, ExampleRows, RunningMean, lm_metrics
from electralab.objective.objective import Inputs, Network, Objective, ObjectiveOutput, StepInfo
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import SpecialIds, Tokenizer


class LanguageModelObjective(Objective[Inputs]):
    """One network, one loss: the cross-entropy of the tokens at some positions."""

    def __init__(self, model: Generator | TwoStream, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        super().__init__(config, tokenizer)
        self.model = model
        self.networks = nn.ModuleDict({"model": model})
        self.weights = {self.lm_loss_name: 1.0}

    def logits(self, inputs: Inputs, hidden_states: HiddenStates | None = None) -> Tensor:
        """(M, V) at the positions of the targets."""
        segment_ids, is_pad = inputs.batch.segment_ids, inputs.batch.attention_pad
        order = {"order": inputs.order} if isinstance(inputs, PermutedBatch) else {}
        logits: Tensor = self.model(
            inputs.input_ids, segment_ids, is_pad, inputs.positions, hidden_states=hidden_states, **order
        )
        return logits

    def count_targets(self, inputs: Inputs) -> Counts:
        return {self.lm_loss_name: len(inputs.positions)}

    def compute(
        self, inputs: Inputs, progress: float, sample: int | None, hidden_states: HiddenStates | None = None
    ) -> ObjectiveOutput:
        del progress
        logits, targets = self.logits(inputs, hidden_states), inputs.target_ids
        losses = Losses({self.lm_loss_name: lm_loss(logits, targets)})
        return ObjectiveOutput(losses, lm_metrics(self.lm_loss_name, logits, targets, inputs.is_hidden, sample))

    def examples(self, inputs: Inputs) -> ExampleRows | None:
        return ExampleRows(inputs.batch, inputs.positions, self.logits(inputs))

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        del step
        return 3 * self.model.count_flops(rows, length, num_masked)

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}


class MLMObjective(LanguageModelObjective[MaskedBatch]):
    """`mlm`: predict what is hidden, as BERT and RoBERTa train.

    >>> objective = MLMObjective(Generator(tiny_encoder()), tiny_objective("mlm"), tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['masked']
    """

    lm_loss_name = "masked"


class CausalObjective(LanguageModelObjective[TokenInputs]):
    """`causal`: predict the next token from those before it, as GPT trains.

    >>> model = Generator(tiny_encoder(is_causal=True))
    >>> objective = CausalObjective(model, tiny_objective("causal"), tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> objective.count_targets(inputs)
    {'next': 28}
    """

    lm_loss_name = "next"

    def make_micro_inputs(self, batch: Batch, mask_share: float, rng: Rng) -> TokenInputs:
        del mask_share, rng
        return shift_targets(batch)

    def examples(self, inputs: TokenInputs) -> None:
        """Nothing is hidden: every token is predicted before it is read."""
        del inputs

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        """A prediction for every token but the first; attention counts in full, as for the others."""
        del num_masked
        return super().count_flops(step, rows, length, rows * (length - 1))


def shift_targets(batch: Batch) -> TokenInputs:
    """Every token but the first of a row is a target, [SEP] included: where a text ends can be foreseen too."""
    is_target = ~batch.is_pad
    is_target[:, 0] = False
    positions = is_target.flatten().nonzero().squeeze(1)
    # All count as hidden: no token is read before it is predicted.
    is_hidden = torch.ones_like(positions, dtype=torch.bool)
    return TokenInputs(batch, batch.original_ids, positions, batch.original_ids.flatten()[positions], is_hidden)


@dataclass(frozen=True, slots=True)
class PermutedBatch(TokenInputs):
    """The end of a factorization order of each row: what stands before it is known from the beginning."""

    order: Tensor  # (B, T) 1, 2, ... where a token is a target, in the order of predicting; else 0


class PermutationObjective(LanguageModelObjective[PermutedBatch]):
    """`permutation`: predict some tokens one after the other, in an order drawn anew each time, as XLNet trains.

    >>> objective = PermutationObjective(TwoStream(tiny_encoder()), tiny_objective("permutation"), tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.evaluation_step(inputs).losses.sums)
    ['permuted']
    """

    lm_loss_name = "permuted"

    def make_micro_inputs(self, batch: Batch, mask_share: float, rng: Rng) -> PermutedBatch:
        return permute_targets(batch, self.vocabulary, self.config.masking, mask_share, rng)


def permute_targets(
    batch: Batch, vocabulary: MaskVocabulary, config: MaskingConfig, mask_share: float, rng: Rng
) -> PermutedBatch:
    """What masking would hide is a target, and hidden only until its turn."""
    masked = mask_tokens(batch, vocabulary, config, mask_share, rng)
    row_count, length = batch.original_ids.shape
    uniforms = np.full(row_count * length, 2.0)  # no target has such a one, so all others sort behind the targets
    targets = masked.positions.numpy()
    uniforms[targets] = rng.uniforms("turn", batch.row_numbers, length).ravel()[targets]
    ranks = uniforms.reshape(row_count, length).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    order = ranks.ravel() + 1
    order[uniforms > 1.0] = 0
    is_hidden = torch.ones_like(masked.target_ids, dtype=torch.bool)
    permuted = torch.from_numpy(order.reshape(row_count, length))
    return PermutedBatch(batch, batch.original_ids, masked.positions, masked.target_ids, is_hidden, permuted)


# -------------------------------------------------------------------------------------------------------- two segments

PairTask = Literal["next-sentence", "sentence-order"]


@dataclass(frozen=True, slots=True)
class PairedBatch:
    """Rows [CLS] A [SEP] B [SEP]; a row without room for two segments is left as it was."""

    batch: Batch
    is_mismatched: Tensor  # (B,) B is another row's, or comes before A
    has_pair: Tensor  # (B,) False where there is nothing to ask


@dataclass(frozen=True, slots=True)
class MaskedPairBatch(MaskedBatch):
    """Rows of two segments with tokens hidden in both."""

    is_mismatched: Tensor  # (B,) the segments do not belong together, or in the other order
    has_pair: Tensor  # (B,) False where there is nothing to ask


def arrange_pairs(batch: Batch, special: SpecialIds, task: PairTask, rng: Rng) -> PairedBatch:
    """Two segments per row, and for about half of the rows a wrong pair: what the sentence tasks ask about.

    It takes the step's whole batch before it is split: the wrong B of "next-sentence" is another row's;
    "sentence-order" swaps A and B instead. Each row's own uniforms decide which pairs are wrong.

    How long a row and its segments are must not say whether the pair is wrong, or a network learns to count tokens
    instead of reading them. So lengths are settled before the label is drawn, and a wrong pair has the lengths that the
    right one has.
    """
    row_count, length = batch.original_ids.shape
    rows, columns = np.arange(row_count), np.arange(length)

    # The texts: rows without [CLS], their last [SEP] and, in a prepared pair, the [SEP] between its segments. A full
    # row that was not prepared as a pair loses its last token, for it needs a second [SEP].
    used = (~batch.is_pad.numpy()).sum(axis=1)
    in_second = (batch.segment_ids.numpy() == 1).sum(axis=1)
    is_prepared = in_second > 0
    boundaries = np.where(is_prepared, used - in_second - 2, 0)  # (B,) the tokens of a prepared first segment
    sizes = np.where(is_prepared, used - 3, np.clip(used - 2, 0, length - 3))
    sources = columns[None] + 1
    sources = sources + (is_prepared[:, None] & (sources > boundaries[:, None]))
    sources = rows[:, None] * length + np.minimum(sources, length - 1)  # (B, T) where in the flat batch
    text_ids = batch.original_ids.numpy().ravel()[sources].ravel()
    text_is_ordinary = batch.is_ordinary.numpy().ravel()[sources].ravel()

    # A and B of the right pair and of the wrong one, each as (3, B): whose text, from where in it, how many tokens.
    zeros = np.zeros_like(rows)
    if task == "sentence-order":
        # Halves, and an odd token goes to either by a coin. The segments of a prepared pair will not do: the second is
        # what the first left room for, so that their lengths tell which was first.
        first_size = (sizes + (rng.uniforms("sentence cut", batch.row_numbers, 1)[:, 0] < 0.5)) // 2
        first, second = np.stack([rows, zeros, first_size]), np.stack([rows, first_size, sizes - first_size])
        wrong_first, wrong_second = second, first
    else:
        # A prepared pair's own segments, or halves. The other B is that of the row half a batch on. The next row would
        # not do: held-out rows are in order, and it may go on with the same text. Both B are cut to the shorter of the
        # two, whichever is then taken, and where there is no other row there is no B either: it is not asked about.
        others = np.roll(rows, -(row_count // 2))
        first_size = np.where(boundaries > 0, boundaries, sizes // 2)
        second_size = np.where(others == rows, 0, np.minimum(sizes - first_size, (sizes - first_size)[others]))
        first, second = np.stack([rows, zeros, first_size]), np.stack([rows, first_size, second_size])
        wrong_first, wrong_second = first, np.stack([others, first_size[others], second_size])
    has_pair = (first[2] > 0) & (second[2] > 0)
    is_mismatched = has_pair & (rng.uniforms(task, batch.row_numbers, 1)[:, 0] < 0.5)
    first, second = np.where(is_mismatched, wrong_first, first), np.where(is_mismatched, wrong_second, second)

    # The new rows, column by column: is there a token of A, or of B, and which?
    second_start = first[2][:, None] + 2
    end = second_start + second[2][:, None]  # where the last [SEP] is
    is_text = np.zeros((row_count, length), dtype=bool)
    indices = np.zeros((row_count, length), dtype=np.int64)  # into the flat texts
    for (owners, starts, counts), begin in ((second, second_start), (first, 1)):
        is_inside = (columns >= begin) & (columns < begin + counts[:, None])
        indices = np.where(is_inside, (owners * length + starts)[:, None] + columns - begin, indices)
        is_text |= is_inside
    specials = np.select([columns == 0, columns <= end], [special.cls, special.sep], special.pad)
    keep = ~has_pair[:, None]
    ids = np.where(keep, batch.original_ids.numpy(), np.where(is_text, text_ids[indices], specials))
    is_pad = np.where(keep, batch.is_pad.numpy(), columns > end)
    segments = np.where(keep, batch.segment_ids.numpy(), (columns >= second_start) & (columns <= end))
    is_ordinary = np.where(keep, batch.is_ordinary.numpy(), is_text & text_is_ordinary[indices])
    paired = replace(
        batch,
        original_ids=torch.from_numpy(ids),
        segment_ids=torch.from_numpy(segments.astype(np.int64)),
        is_pad=torch.from_numpy(is_pad),
        is_ordinary=torch.from_numpy(is_ordinary),
        has_padding=bool(is_pad.any()),
    )
    return PairedBatch(paired, torch.from_numpy(is_mismatched), torch.from_numpy(has_pair))


class SentencePairObjective(MLMObjective):
    """`bert`, and `mlm` with a sentence task: predict what is hidden, and whether two segments belong together.

    >>> config = tiny_objective("mlm", sentence_task="sentence-order")
    >>> objective = SentencePairObjective(Generator(tiny_encoder()), config, tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['masked', 'sentence']
    """

    def __init__(self, model: Generator, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        super().__init__(model, config, tokenizer)
        self._special = tokenizer.special
        # It is not exported: no class that fits the rest has a place for it.
        self.head = SentencePairHead(model.config)
        self.networks = nn.ModuleDict({"model": model, "sentence": self.head})
        self.weights = {**self.weights, "sentence": config.loss.sentence_weight}

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[MaskedPairBatch]:
        assert self.config.sentence_task != "none"
        paired = arrange_pairs(batch, self._special, self.config.sentence_task, rng)
        masked = super().make_inputs(paired.batch, micro_size, mask_share, rng)
        labels = (torch.split(label, micro_size) for label in (paired.is_mismatched, paired.has_pair))
        inputs = []
        for micro, is_mismatched, has_pair in zip(masked, *labels, strict=True):
            values: dict[str, Any] = {field.name: getattr(micro, field.name) for field in fields(micro)}
            inputs.append(MaskedPairBatch(**values, is_mismatched=is_mismatched, has_pair=has_pair))
        return inputs

    def count_targets(self, inputs: MaskedBatch) -> Counts:
        assert isinstance(inputs, MaskedPairBatch)
        return {**super().count_targets(inputs), "sentence": int(inputs.has_pair.sum())}

    def compute(
        self, inputs: MaskedBatch, progress: float, sample: int | None, hidden_states: HiddenStates | None = None
    ) -> ObjectiveOutput:
        assert isinstance(inputs, MaskedPairBatch)
        hidden_states = {} if hidden_states is None else hidden_states
        output = super().compute(inputs, progress, sample, hidden_states)
        logits = self.head(hidden_states[LAST_STATES]).float()[inputs.has_pair]
        is_mismatched = inputs.is_mismatched[inputs.has_pair]
        loss = F.binary_cross_entropy_with_logits(logits, is_mismatched.float(), reduction="sum")
        hits = int(((logits > 0) == is_mismatched).sum())
        metrics = output.metrics + BatchMetrics({"sentence_accuracy": RunningMean(hits, len(is_mismatched))})
        return ObjectiveOutput(Losses({**output.losses.sums, "sentence": loss}), metrics)

    def count_flops(self, step: StepInfo, rows: int, length: int, num_masked: int) -> int:
        """With one number a row from the state of its first token."""
        return super().count_flops(step, rows, length, num_masked) + 3 * rows * 2 * self.model.config.hidden_size
