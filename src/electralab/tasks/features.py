"""Examples as the network takes them, and what it says of them.

    Feature... -> TaskBatch -> logits -> RowLogits...

The order of an epoch is a pure function of (seed, epoch). Rows of like length lie together, so that little is padded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from electralab.config import Settings
from electralab.model.task_model import SpanLogits, TaskModel
from electralab.randomness import mix, permute
from electralab.runtime import share_numbers, spread
from electralab.stopping import StopSignal
from electralab.tokens.tokenizer import Tokenizer

Ids = NDArray[np.int64]

IGNORED = -1
"""The target of a position that carries none: a class is never negative."""
NO_TARGETS: Ids = np.zeros(0, dtype=np.int64)
"""The targets of a row whose answer is not known."""

# Rows are sorted by length among this many batches: enough for little padding, few enough for epochs to differ.
_BATCHES_SORTED_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class Feature:
    """One row for the network, special tokens included, not padded."""

    example: int
    """The index of its example in the split; a long one may have several features."""
    ids: Ids  # (T,)
    segment_ids: Ids  # (T,)
    targets: Ids | NDArray[np.float32]
    """As the loss of its kind of task takes them: (1,) for a row, (T,) for its tokens; (0,) where not known."""


FeatureT = TypeVar("FeatureT", bound=Feature)


@dataclass(frozen=True, slots=True)
class EncodedSplit(Generic[FeatureT]):
    """The rows of a split, in the order of its examples; an example may have several."""

    features: list[FeatureT]
    truncated: list[int]
    """Indices of the examples that did not fit a row: texts are cut, sentences and contexts go on in another."""
    notes: list[str] = field(default_factory=list)
    """What the rows do not say of their examples, counted."""


class SpanConfig(Settings):
    stride: int = Field(default=128, ge=1)
    """How many tokens of the context one window begins after another; at most half a window."""
    max_question: int = Field(default=64, ge=1)
    """Tokens of the question that are kept; at most half a row."""
    max_answer: int = Field(default=30, ge=1)
    """The most tokens an answer may have."""
    best: int = Field(default=20, ge=1)
    """How many spans of each window are compared with those of the others."""


@dataclass(frozen=True, slots=True)
class FeatureEncoder:
    """What every row of a run is made with."""

    tokenizer: Tokenizer
    labels: tuple[str, ...]
    sequence_length: int
    spans: SpanConfig = field(default_factory=SpanConfig)

    @property
    def class_ids(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    def add_special_tokens(self, parts: Sequence[Ids]) -> tuple[Ids, Ids]:
        """[CLS] A [SEP] or [CLS] A [SEP] B [SEP], and 0 or 1 for the segment."""
        special = self.tokenizer.special
        pieces, segments = [np.array([special.cls])], [np.zeros(1, dtype=np.int64)]
        for number, part in enumerate(parts):
            pieces += [part, np.array([special.sep])]
            segments.append(np.full(len(part) + 1, number, dtype=np.int64))
        return np.concatenate(pieces), np.concatenate(segments)


@dataclass(frozen=True, slots=True)
class TaskBatch:
    input_ids: Tensor  # (B, T)
    segment_ids: Tensor  # (B, T)
    is_pad: Tensor  # (B, T)
    targets: Tensor  # (B, T) of tagged words, else (B, number of targets)
    has_padding: bool
    token_count: int

    @property
    def attention_pad(self) -> Tensor | None:
        """What the encoder takes: None says that no row has padding, which spares it the attention mask."""
        return self.is_pad if self.has_padding else None


def order_epoch(lengths: Ids, batch_size: int, *, seed: int, epoch: int) -> list[Ids]:
    """The batches of an epoch: every row once, neighbours in length together, batches in random order."""
    count = len(lengths)
    # permute gives each row its place; argsort turns places into an order.
    shuffled = np.argsort(permute(np.arange(count), count, seed=seed, epoch=epoch))
    chunk = batch_size * _BATCHES_SORTED_TOGETHER
    batches = []
    for start in range(0, count, chunk):
        rows = shuffled[start : start + chunk]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        batches += [rows[first : first + batch_size] for first in range(0, len(rows), batch_size)]
    # Another stream than that of the rows: batches in the order of their rows would come by length again.
    order = permute(np.arange(len(batches)), len(batches), seed=int(mix(seed, 1)) >> 1, epoch=epoch)
    return [batches[index] for index in np.argsort(order)]


def collate(features: Sequence[Feature], pad_id: int, device: torch.device) -> TaskBatch:
    lengths = np.array([len(feature.ids) for feature in features])
    width = int(lengths.max())
    ids = np.full((len(features), width), pad_id, dtype=np.int64)
    segments = np.zeros_like(ids)
    target_width = max(len(feature.targets) for feature in features)
    # Only targets of tokens differ in number from row to row; where one has no token, there is nothing to learn.
    targets = np.full((len(features), target_width), IGNORED, dtype=features[0].targets.dtype)
    for row, feature in enumerate(features):
        ids[row, : lengths[row]] = feature.ids
        segments[row, : lengths[row]] = feature.segment_ids
        targets[row, : len(feature.targets)] = feature.targets
    is_pad = np.arange(width) >= lengths[:, None]
    input_ids, segment_ids, pad, target_ids = (
        torch.from_numpy(array).to(device) for array in (ids, segments, is_pad, targets)
    )
    return TaskBatch(
        input_ids,
        segment_ids,
        pad,
        target_ids,
        has_padding=bool(is_pad.any()),
        token_count=int(lengths.sum()),
    )


def group_by_length(features: Sequence[Feature], batch_tokens: int) -> Iterator[Ids]:
    """Rows to predict together, longest first, so that what does not fit the memory shows at once."""
    lengths = np.array([len(feature.ids) for feature in features], dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, batch_tokens // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size


@dataclass(frozen=True, slots=True)
class RowLogits:
    """What the network says of one row, padding left out."""

    logits: NDArray[np.float32]
    """(L,) of a row, (T, L) of its tokens; of spans (T, 2): as the first, as the last token of the answer."""
    answerable: float
    """Above 0: the row holds an answer. Not a number (NaN) without such a head."""


def predict_logits(
    network: TaskModel, features: Sequence[Feature], pad_id: int, batch_tokens: int, stop: StopSignal, workers: int = 1
) -> list[RowLogits]:
    """In the order of the features, however they were batched, and by however many workers."""
    outputs = predict_share(network, features, pad_id, batch_tokens, stop, workers)
    return [outputs[row] for row in range(len(features))]


def predict_share(
    network: TaskModel,
    features: Sequence[Feature],
    pad_id: int,
    batch_tokens: int,
    stop: StopSignal,
    workers: int = 1,
    rank: int = 0,
    num_ranks: int = 1,
) -> dict[int, RowLogits]:
    """By the number of the feature, those of a rank's share of the batches."""
    was_training = network.training
    network.eval()
    device = next(network.parameters()).device
    outputs: dict[int, RowLogits] = {}

    @torch.inference_mode()
    def predict(rows: Ids) -> None:
        stop.check()
        batch = collate([features[row] for row in rows], pad_id, device)
        raw = network(batch.input_ids, batch.segment_ids, batch.attention_pad)
        answerable = np.full(len(rows), np.nan, dtype=np.float32)
        if isinstance(raw, SpanLogits):
            # NumPy has no bfloat16, so float() comes before numpy().
            logits = torch.stack([raw.start, raw.end], dim=-1).float().cpu().numpy()  # (B, T, 2)
            if raw.answerable is not None:
                answerable = raw.answerable.float().cpu().numpy()
        else:
            logits = raw.float().cpu().numpy()
        for index, row in enumerate(rows):
            own = logits[index, : len(features[row].ids)] if logits.ndim == 3 else logits[index]
            outputs[int(row)] = RowLogits(own, float(answerable[index]))

    batches = list(group_by_length(features, batch_tokens))
    spread(predict, [batches[number] for number in share_numbers(len(batches), rank, num_ranks)], workers)
    network.train(was_training)
    return outputs


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    probs: NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return probs


def average_logits(by_network: Sequence[Sequence[RowLogits]], *, are_classes: bool) -> list[RowLogits]:
    """The outputs of several networks as one: the mean of their probabilities, or of their numbers."""
    averaged = []
    for outputs in zip(*by_network, strict=True):
        logits = np.stack([output.logits for output in outputs])
        if are_classes:
            # As logits again, so that whoever decodes need not know of an ensemble; log(0) would be infinite.
            mean = np.log(np.maximum(softmax(logits).mean(axis=0), 1e-30))
        else:
            mean = logits.astype(np.float64).mean(axis=0)
        answerable = float(np.mean([output.answerable for output in outputs]))
        averaged.append(RowLogits(mean.astype(np.float32), answerable))
    return averaged


def soft_cross_entropy(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Kullback and Leibler's divergence of (N, L) classes from the teacher's, summed over N.

    Both sides are softened by the temperature t and the loss is multiplied by t², so that gradients keep their size
    (Hinton et al., 2015).
    """
    student, teacher = (F.log_softmax(side.float() / temperature, dim=-1) for side in (logits, teacher_logits))
    return F.kl_div(student, teacher, reduction="sum", log_target=True) * temperature**2


def soft_binary_cross_entropy(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """As `soft_cross_entropy` for yes and no, plus a constant: with the teacher's probability of yes, summed."""
    probs = (teacher_logits.float() / temperature).sigmoid()
    return F.binary_cross_entropy_with_logits(logits.float() / temperature, probs, reduction="sum") * temperature**2
