"""A tuned network on many rows, alike in length together, answered in the order they came.

Feature... -> RowOutput...
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.finetuning.batches import collate, group_by_length
from electralab.finetuning.features import Feature
from electralab.model.task_model import SpanLogits, TaskModel
from electralab.stopping import StopSignal

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RowOutput:
    """What the network says of one row, padding left out."""

    logits: Floats
    """classify (L,), regress (1,), label (T, L), qa (T, 2): as the first, as the last token of the answer."""
    answerable: float
    """Above 0: the row holds an answer. Not a number (NaN) without such a head."""


@torch.inference_mode()
def run_network(
    network: TaskModel, features: Sequence[Feature], pad_id: int, batch_tokens: int, stop: StopSignal
) -> list[RowOutput]:
    was_training = network.training
    network.eval()
    device = next(network.parameters()).device
    outputs: dict[int, RowOutput] = {}
    for rows in group_by_length(features, batch_tokens):
        stop.check()
        batch = collate([features[row] for row in rows], pad_id, device)
        said = network(batch.input_ids, batch.segment_ids, batch.attention_pad)
        logits, answerable = _unpack(said)
        for place, row in enumerate(rows):
            length = len(features[row].ids)
            own = logits[place, :length] if logits.ndim == 3 else logits[place]
            outputs[int(row)] = RowOutput(own, float(answerable[place]))
    network.train(was_training)
    return [outputs[row] for row in range(len(features))]


def _unpack(said: torch.Tensor | SpanLogits) -> tuple[Floats, Floats]:
    if not isinstance(said, SpanLogits):
        return said.float().cpu().numpy(), np.full(len(said), np.nan, dtype=np.float32)
    logits = torch.stack([said.start, said.end], dim=-1).float().cpu().numpy()  # (B, T, 2)
    if said.answerable is None:
        return logits, np.full(len(logits), np.nan, dtype=np.float32)
    return logits, said.answerable.float().cpu().numpy()


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    chances: NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return chances


def average_outputs(of_networks: Sequence[Sequence[RowOutput]], *, are_classes: bool) -> list[RowOutput]:
    """The answers of several networks as one: the mean of their probabilities, or of their numbers."""

    def blend(outputs: Sequence[RowOutput]) -> RowOutput:
        logits = np.stack([output.logits for output in outputs])
        if are_classes:
            blended = np.log(np.maximum(softmax(logits).mean(axis=0), 1e-30))
        else:
            blended = logits.astype(np.float64).mean(axis=0)
        return RowOutput(blended.astype(np.float32), float(np.mean([output.answerable for output in outputs])))

    return [blend(outputs) for outputs in zip(*of_networks, strict=True)]
