"""A frozen encoder's states: one vector for a text, or for a word, at every layer.

rows -> {layer: (N, D)}
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.evaluation.outcome import Conditions, Steps
from electralab.evaluation.sentences import Sentences
from electralab.evaluation.subject import require_text
from electralab.events import Progress
from electralab.model.encoder import Encoder, HiddenStates
from electralab.model.folders.folder import load_encoder, locate_encoder, locate_model
from electralab.model.task_model import Pooling, pool_states
from electralab.model.weights import init_weights
from electralab.tokens.batches import RowBatch, batch_by_length
from electralab.tokens.tokenizer import Tokenizer

Vectors = NDArray[np.float32]
Layers = dict[str, Vectors]
Rows = Sequence[NDArray[np.int64]]


class StatesConfig(Settings):
    network: Literal["discriminator", "generator"] = "discriminator"
    """Whose encoder, where the model has both."""
    pooling: Pooling = "mean"
    """A text's vector: the mean of its tokens, or the state of its first ([CLS]) or last token ([SEP])."""
    examples: int = Field(5000, ge=0)
    """The most training examples to encode, drawn by the seed; 0 means all."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """An encoder that is looked at and not trained, whatever head it had."""

    encoder: Encoder
    tokenizer: Tokenizer

    @property
    def sequence_length(self) -> int:
        return self.encoder.config.sequence_length

    def as_first_drawn(self, seed: int) -> "Frozen":
        """The control: the same network before it learned anything."""
        device = next(self.encoder.parameters()).device
        encoder = Encoder(self.encoder.config)
        init_weights(encoder, seed)
        return Frozen(encoder.to(device).eval(), self.tokenizer)


def load_frozen(path: Path, config: StatesConfig, device: str) -> Frozen:
    # Whatever was tuned from a discriminator has its encoder.
    folder = locate_encoder(path) if config.network == "discriminator" else locate_model(path, config.network)
    tokenizer = Tokenizer.load(folder)
    require_text(tokenizer, str(folder))
    return Frozen(load_encoder(folder).to(device), tokenizer)


def pool_texts(
    frozen: Frozen, sentences: Sentences, pooling: Pooling, conditions: Conditions, phase: str
) -> Steps[Layers]:
    """A vector for each of the texts. (N, D)"""
    found: dict[str, list[Vectors]] = {}
    order: list[NDArray[np.int64]] = []
    done = 0
    for batch, trace in _look(frozen, sentences.rows, conditions):
        order.append(batch.rows)
        for layer, states in trace.items():
            found.setdefault(layer, []).append(pool_states(states, batch.is_pad, pooling).cpu().numpy())
        done += len(batch.rows)
        yield Progress(phase, done, len(sentences.rows))
    back = np.argsort(np.concatenate(order))[sentences.places]
    return {layer: np.concatenate(parts)[back] for layer, parts in found.items()}


def take_tokens(
    frozen: Frozen, rows: Rows, columns: Sequence[NDArray[np.int64]], conditions: Conditions, phase: str
) -> Steps[Layers]:
    """The vectors of the tokens at each row's columns, one row after the other. (N, D)"""
    found: dict[str, list[Vectors]] = {}
    owners: list[NDArray[np.int64]] = []
    done = 0
    for batch, trace in _look(frozen, rows, conditions):
        lengths = [len(columns[row]) for row in batch.rows]
        places = np.repeat(np.arange(len(batch.rows)), lengths), np.concatenate([columns[row] for row in batch.rows])
        owners.append(np.repeat(batch.rows, lengths))
        for layer, states in trace.items():
            found.setdefault(layer, []).append(states.cpu().numpy()[places])
        done += len(batch.rows)
        yield Progress(phase, done, len(rows))
    back = np.argsort(np.concatenate(owners), kind="stable")
    return {layer: np.concatenate(parts)[back] for layer, parts in found.items()}


def _look(frozen: Frozen, rows: Rows, conditions: Conditions) -> Iterator[tuple[RowBatch, HiddenStates]]:
    device = next(frozen.encoder.parameters()).device
    for batch in batch_by_length(rows, frozen.tokenizer.special, conditions.batch_tokens, device):
        conditions.check()
        trace: HiddenStates = {}
        with torch.inference_mode():
            frozen.encoder(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad, trace)
        if not frozen.encoder.config.is_modern:
            del trace["states"]  # the last layer's once more: only `modern` has a norm after it
        yield batch, trace
