"""One network that predicts tokens: `mlm` (hidden ones), `causal` (the next one), `permutation` (in a random order).

Batch -> MaskedBatch | CausalBatch | PermutedBatch -> ObjectiveOutput

Two segments per row, and for about half of the rows a wrong pair: what the sentence tasks ask about.

    Batch -> PairedBatch

How long a row and its segments are must not say whether the pair is wrong, or a network learns to count tokens instead
of reading them. So lengths are settled before the label is drawn, and a wrong pair has the lengths that the right one
has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from electralab.model.electra import Generator, TwoStream
from electralab.model.encoder import HiddenStates, SentencePairHead
from electralab.model.flops import count_masked, generator_flops, pair_head_flops, two_stream_flops
from electralab.objective.losses import Counts, Losses, lm_loss
from electralab.objective.masking import MaskedBatch, MaskingConfig, MaskVocabulary, mask_tokens, mask_vocabulary
from electralab.objective.metrics import BatchMetrics, ExampleRows, RunningMean, lm_metrics
from electralab.objective.objective import METRICS_SAMPLE, Network, Objective, ObjectiveOutput, StepInfo, TokenInputs
from electralab.objective.settings import ObjectiveConfig
from electralab.randomness import Rng
from electralab.tokens.batches import Batch
from electralab.tokens.tokenizer import SpecialIds, Tokenizer


class _Targets(TokenInputs, Protocol):
    @property
    def positions(self) -> Tensor: ...

    @property
    def is_hidden(self) -> Tensor: ...


LMInputs = TypeVar("LMInputs", bound=_Targets)


class _LanguageModelObjective(Objective[LMInputs]):
    """One network, one loss: the cross-entropy of the tokens at some positions."""

    model: Generator | TwoStream

    def _use(self, model: Generator | TwoStream) -> None:
        self.networks = nn.ModuleDict({"model": model})
        self.weights = {self.lm_loss_name: 1.0}

    def logits(self, inputs: LMInputs, hidden_states: HiddenStates | None = None) -> Tensor:
        """(M, V) at the positions of the targets."""
        raise NotImplementedError

    def predict(
        self, inputs: LMInputs, sample: int | None, hidden_states: HiddenStates | None = None
    ) -> ObjectiveOutput:
        logits, targets = self.logits(inputs, hidden_states), inputs.target_ids
        losses = Losses({self.lm_loss_name: lm_loss(logits, targets)})
        return ObjectiveOutput(losses, lm_metrics(self.lm_loss_name, logits, targets, inputs.is_hidden, sample))

    def count_targets(self, inputs: LMInputs) -> Counts:
        return {self.lm_loss_name: len(inputs.positions)}

    def training_step(self, inputs: LMInputs, step: StepInfo) -> ObjectiveOutput:
        del step
        return self.predict(inputs, METRICS_SAMPLE)

    def evaluation_step(self, inputs: LMInputs) -> ObjectiveOutput:
        return self.predict(inputs, None)

    def examples(self, inputs: LMInputs) -> ExampleRows | None:
        return ExampleRows(inputs.batch, inputs.positions, self.logits(inputs))

    def exports(self) -> Mapping[str, Network]:
        return {"model": self.model}


class MLMObjective(_LanguageModelObjective[MaskedBatch]):
    """`mlm`: predict what is hidden, as BERT and RoBERTa train.

    >>> objective = MLMObjective(Generator(tiny_encoder()), tiny_objective("mlm"), tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['masked']
    """

    lm_loss_name = "masked"
    model: Generator

    def __init__(self, model: Generator, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self._use(model)
        self.model, self.config = model, config
        self._vocabulary = mask_vocabulary(tokenizer)

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[MaskedBatch]:
        masking, micros = self.config.masking, batch.split(micro_size)
        return [mask_tokens(micro, self._vocabulary, masking, mask_share, rng) for micro in micros]

    def logits(self, inputs: MaskedBatch, hidden_states: HiddenStates | None = None) -> Tensor:
        batch = inputs.batch
        logits: Tensor = self.model(
            inputs.input_ids, batch.segment_ids, batch.attention_pad, inputs.positions, hidden_states
        )
        return logits

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        del step
        return 3 * generator_flops(self.model.config, rows, length, rows * count_masked(length, mask_share))


@dataclass(frozen=True, slots=True)
class CausalBatch:
    """Every token but the first of a row is a target, [SEP] included: where a text ends can be foreseen too."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)
    is_hidden: Tensor  # (M,) True: no token is read before it is predicted

    def to(self, device: torch.device) -> "CausalBatch":
        tensors = (self.positions, self.target_ids, self.is_hidden)
        return CausalBatch(self.batch.to(device), *(tensor.to(device) for tensor in tensors))


def shift_targets(batch: Batch) -> CausalBatch:
    is_target = ~batch.is_pad
    is_target[:, 0] = False
    positions = is_target.flatten().nonzero().squeeze(1)
    return CausalBatch(
        batch, positions, batch.original_ids.flatten()[positions], torch.ones_like(positions, dtype=torch.bool)
    )


class CausalObjective(_LanguageModelObjective[CausalBatch]):
    """`causal`: predict the next token from those before it, as GPT trains.

    >>> objective = CausalObjective(Generator(tiny_encoder(is_causal=True)))
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> objective.count_targets(inputs)
    {'next': 28}
    """

    lm_loss_name = "next"
    model: Generator

    def __init__(self, model: Generator) -> None:
        assert model.config.is_causal
        self._use(model)
        self.model = model

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[CausalBatch]:
        del mask_share, rng
        return [shift_targets(micro) for micro in batch.split(micro_size)]

    def logits(self, inputs: CausalBatch, hidden_states: HiddenStates | None = None) -> Tensor:
        batch = inputs.batch
        logits: Tensor = self.model(
            batch.original_ids, batch.segment_ids, batch.attention_pad, inputs.positions, hidden_states
        )
        return logits

    def examples(self, inputs: CausalBatch) -> None:
        """Nothing is hidden: every token is predicted before it is read."""
        del inputs

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        """A prediction for every token but the first; attention counts in full, as for the others."""
        del step, mask_share
        return 3 * generator_flops(self.model.config, rows, length, rows * (length - 1))


@dataclass(frozen=True, slots=True)
class PermutedBatch:
    """The end of a factorization order of each row: what stands before it is known from the beginning."""

    batch: Batch
    positions: Tensor  # (M,) into the flattened (B * T)
    target_ids: Tensor  # (M,)
    order: Tensor  # (B, T) 1, 2, ... where a token is a target, in the order of predicting; else 0
    is_hidden: Tensor  # (M,) True: every target is hidden until its turn

    def to(self, device: torch.device) -> "PermutedBatch":
        tensors = (self.positions, self.target_ids, self.order, self.is_hidden)
        return PermutedBatch(self.batch.to(device), *(tensor.to(device) for tensor in tensors))


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
    return PermutedBatch(
        batch,
        masked.positions,
        masked.target_ids,
        torch.from_numpy(order.reshape(row_count, length)),
        torch.ones_like(masked.target_ids, dtype=torch.bool),
    )


class PermutationObjective(_LanguageModelObjective[PermutedBatch]):
    """`permutation`: predict some tokens one after the other, in an order drawn anew each time, as XLNet trains.

    >>> objective = PermutationObjective(TwoStream(tiny_encoder()), tiny_objective("permutation"), tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.evaluation_step(inputs).losses.sums)
    ['permuted']
    """

    lm_loss_name = "permuted"
    model: TwoStream

    def __init__(self, model: TwoStream, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self._use(model)
        self.model, self.config = model, config
        self._vocabulary = mask_vocabulary(tokenizer)

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[PermutedBatch]:
        masking, micros = self.config.masking, batch.split(micro_size)
        return [permute_targets(micro, self._vocabulary, masking, mask_share, rng) for micro in micros]

    def logits(self, inputs: PermutedBatch, hidden_states: HiddenStates | None = None) -> Tensor:
        batch = inputs.batch
        logits: Tensor = self.model(
            batch.original_ids, batch.segment_ids, batch.attention_pad, inputs.positions, inputs.order, hidden_states
        )
        return logits

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        del step
        return 3 * two_stream_flops(self.model.config, rows, length, rows * count_masked(length, mask_share))


SentenceTask = Literal["next-sentence", "sentence-order"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PairedBatch:
    """Rows [CLS] A [SEP] B [SEP]; a row without room for two segments is left as it was."""

    batch: Batch
    is_mismatched: Tensor  # (B,) B is another row's, or comes before A
    has_pair: Tensor  # (B,) False where there is nothing to ask

    def to(self, device: torch.device) -> "PairedBatch":
        return PairedBatch(self.batch.to(device), self.is_mismatched.to(device), self.has_pair.to(device))

    def split(self, size: int) -> list["PairedBatch"]:
        starts = range(0, len(self.is_mismatched), size)
        return [
            PairedBatch(part, self.is_mismatched[start : start + size], self.has_pair[start : start + size])
            for start, part in zip(starts, self.batch.split(size), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Texts:
    """The rows without [CLS], their last [SEP] and, in a pair, the [SEP] between its segments."""

    ids: Ints  # (B, T) the text, then whatever
    is_ordinary: Flags  # (B, T)
    sizes: Ints  # (B,)
    boundaries: Ints  # (B,) the tokens of a pair's first segment; 0 where the row was not prepared as a pair


@dataclass(frozen=True, slots=True)
class _Segments:
    """A stretch of text for each row of the batch, which may be another row's."""

    rows: Ints  # (B,)
    starts: Ints  # (B,)
    sizes: Ints  # (B,)

    def where(self, condition: Flags, other: "_Segments") -> "_Segments":
        return _Segments(
            np.where(condition, self.rows, other.rows),
            np.where(condition, self.starts, other.starts),
            np.where(condition, self.sizes, other.sizes),
        )

    def indices(self, columns: Ints) -> tuple[Flags, Ints]:
        """For (B, T) columns counted from the segment's first token: which are inside, and where in the flat texts."""
        is_inside = (columns >= 0) & (columns < self.sizes[:, None])
        length = columns.shape[1]
        return is_inside, (self.rows * length + self.starts)[:, None] + np.where(is_inside, columns, 0)


def arrange_pairs(batch: Batch, special: SpecialIds, task: SentenceTask, rng: Rng) -> PairedBatch:
    """The step's whole batch before it is split: the wrong B of "next-sentence" is another row's.

    "sentence-order" swaps A and B instead. Each row's own uniforms decide which pairs are wrong.
    """
    texts = _read_texts(batch)
    if task == "sentence-order":
        first, second = _halve(texts, rng.uniforms("sentence cut", batch.row_numbers, 1)[:, 0] < 0.5)
        swapped_first, swapped_second = second, first
    else:
        first, second, foreign = _borrow(texts)
        swapped_first, swapped_second = first, foreign
    has_pair = (first.sizes > 0) & (second.sizes > 0)
    is_mismatched = has_pair & (rng.uniforms(task, batch.row_numbers, 1)[:, 0] < 0.5)
    first, second = swapped_first.where(is_mismatched, first), swapped_second.where(is_mismatched, second)
    paired = _lay_out(batch, texts, special, first, second, has_pair)
    return PairedBatch(paired, torch.from_numpy(is_mismatched), torch.from_numpy(has_pair))


def _read_texts(batch: Batch) -> _Texts:
    """A full row that was not prepared as a pair loses its last token, for it needs a second [SEP]."""
    row_count, length = batch.original_ids.shape
    used = (~batch.is_pad.numpy()).sum(axis=1)
    in_second = (batch.segment_ids.numpy() == 1).sum(axis=1)
    is_pair = in_second > 0
    boundaries = np.where(is_pair, used - in_second - 2, 0)
    columns = np.arange(length)[None] + 1
    columns = columns + (is_pair[:, None] & (columns > boundaries[:, None]))
    flat = np.arange(row_count)[:, None] * length + np.minimum(columns, length - 1)
    return _Texts(
        batch.original_ids.numpy().ravel()[flat],
        batch.is_ordinary.numpy().ravel()[flat],
        np.where(is_pair, used - 3, np.clip(used - 2, 0, length - 3)),
        boundaries,
    )


def _halve(texts: _Texts, first_is_longer: Flags) -> tuple[_Segments, _Segments]:
    """A and B of "sentence-order": two halves, and an odd token goes to either by a coin.

    The segments of a prepared pair will not do: the second is what the first left room for, so that their lengths tell
    which was first.
    """
    rows = np.arange(len(texts.sizes))
    first = (texts.sizes + first_is_longer) // 2
    return _Segments(rows, np.zeros_like(rows), first), _Segments(rows, first, texts.sizes - first)


def _borrow(texts: _Texts) -> tuple[_Segments, _Segments, _Segments]:
    """A, B and another row's B for "next-sentence": a prepared pair's own segments, or halves.

    The other row is half a batch on. The next one would not do: held-out rows are in order, and it may go on with the
    same text. Both B are cut to the shorter of the two, whichever is then taken, and where there is no other B the row
    has none either: it is not asked about.
    """
    rows = np.arange(len(texts.sizes))
    others = np.roll(rows, -(len(rows) // 2))
    first = np.where(texts.boundaries > 0, texts.boundaries, texts.sizes // 2)
    second = np.where(others == rows, 0, np.minimum(texts.sizes - first, (texts.sizes - first)[others]))
    return (
        _Segments(rows, np.zeros_like(rows), first),
        _Segments(rows, first, second),
        _Segments(others, first[others], second),
    )


def _lay_out(
    batch: Batch, texts: _Texts, special: SpecialIds, first: _Segments, second: _Segments, has_pair: Flags
) -> Batch:
    row_count, length = batch.original_ids.shape
    columns = np.broadcast_to(np.arange(length), (row_count, length))
    second_start = first.sizes[:, None] + 2
    end = second_start + second.sizes[:, None]  # where the last [SEP] is
    in_first, first_indices = first.indices(columns - 1)
    in_second, second_indices = second.indices(columns - second_start)
    is_text, indices = in_first | in_second, np.where(in_first, first_indices, second_indices)

    specials = np.select([columns == 0, columns <= end], [special.cls, special.sep], special.pad)
    keep = ~has_pair[:, None]
    ids = np.where(keep, batch.original_ids.numpy(), np.where(is_text, texts.ids.ravel()[indices], specials))
    is_ordinary = is_text & texts.is_ordinary.ravel()[indices]
    is_pad = np.where(keep, batch.is_pad.numpy(), columns > end)
    segments = np.where(keep, batch.segment_ids.numpy(), (columns >= second_start) & (columns <= end))
    return replace(
        batch,
        original_ids=torch.from_numpy(ids),
        segment_ids=torch.from_numpy(segments.astype(np.int64)),
        is_pad=torch.from_numpy(is_pad),
        is_ordinary=torch.from_numpy(np.where(keep, batch.is_ordinary.numpy(), is_ordinary)),
        has_padding=bool(is_pad.any()),
    )


@dataclass(frozen=True, slots=True)
class MaskedPairBatch:
    """Rows of two segments with tokens hidden in both."""

    masked: MaskedBatch
    is_mismatched: Tensor  # (B,) the segments do not belong together, or in the other order
    has_pair: Tensor  # (B,) False where there is nothing to ask

    @property
    def batch(self) -> Batch:
        return self.masked.batch

    @property
    def target_ids(self) -> Tensor:
        return self.masked.target_ids

    def to(self, device: torch.device) -> "MaskedPairBatch":
        return MaskedPairBatch(self.masked.to(device), self.is_mismatched.to(device), self.has_pair.to(device))


class SentencePairObjective(Objective[MaskedPairBatch]):
    """`bert`, and `mlm` with a sentence task: predict what is hidden, and whether two segments belong together.

    >>> config = tiny_objective("mlm", sentence_task="sentence-order")
    >>> objective = SentencePairObjective(Generator(tiny_encoder()), "sentence-order", config, tiny_tokenizer())
    >>> inputs, = objective.make_inputs(tiny_batch(), micro_size=4, mask_share=0.25, rng=Rng(seed=0, step=1))
    >>> sorted(objective.training_step(inputs, StepInfo(1, 10)).losses.sums)
    ['masked', 'sentence']
    """

    lm_loss_name = "masked"

    def __init__(self, model: Generator, task: SentenceTask, config: ObjectiveConfig, tokenizer: Tokenizer) -> None:
        self.mlm = MLMObjective(model, config, tokenizer)
        self.model, self.task = model, task
        self.head = SentencePairHead(model.config)
        self.networks = nn.ModuleDict({"model": model, "sentence": self.head})
        self.weights = {**self.mlm.weights, "sentence": config.loss.sentence_weight}
        self._special = tokenizer.special

    def make_inputs(self, batch: Batch, micro_size: int, mask_share: float, rng: Rng) -> Sequence[MaskedPairBatch]:
        paired = arrange_pairs(batch, self._special, self.task, rng)
        masked = self.mlm.make_inputs(paired.batch, micro_size, mask_share, rng)
        micros = zip(masked, paired.split(micro_size), strict=True)
        return [MaskedPairBatch(inputs, micro.is_mismatched, micro.has_pair) for inputs, micro in micros]

    def count_targets(self, inputs: MaskedPairBatch) -> Counts:
        return {**self.mlm.count_targets(inputs.masked), "sentence": int(inputs.has_pair.sum())}

    def training_step(self, inputs: MaskedPairBatch, step: StepInfo) -> ObjectiveOutput:
        del step
        return self._losses(inputs, METRICS_SAMPLE)

    def evaluation_step(self, inputs: MaskedPairBatch) -> ObjectiveOutput:
        return self._losses(inputs, None)

    def examples(self, inputs: MaskedPairBatch) -> ExampleRows | None:
        return self.mlm.examples(inputs.masked)

    def _losses(self, inputs: MaskedPairBatch, sample: int | None) -> ObjectiveOutput:
        hidden_states: HiddenStates = {}
        output = self.mlm.predict(inputs.masked, sample, hidden_states)
        logits = self.head(hidden_states["states"]).float()[inputs.has_pair]
        is_mismatched = inputs.is_mismatched[inputs.has_pair]
        loss = F.binary_cross_entropy_with_logits(logits, is_mismatched.float(), reduction="sum")
        hits = int(((logits > 0) == is_mismatched).sum())
        return ObjectiveOutput(
            Losses({**output.losses.sums, "sentence": loss}),
            output.metrics + BatchMetrics({"sentence_accuracy": RunningMean(hits, len(is_mismatched))}),
        )

    def count_flops(self, step: StepInfo, rows: int, length: int, mask_share: float) -> int:
        return self.mlm.count_flops(step, rows, length, mask_share) + 3 * pair_head_flops(self.model.config, rows)

    def exports(self) -> Mapping[str, Network]:
        """Without the sentence head, for which no class that fits the rest has a place."""
        return self.mlm.exports()
