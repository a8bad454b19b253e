"""A frozen encoder's states: one vector for a text, or for a word, at every layer.

texts -> Sentences -> {layer: (N, D)}
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
from electralab.evaluation.context import EvalContext, Progressive, require_text
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

_TEXTS_AT_ONCE = 4096


class StatesConfig(Settings):
    network: Literal["discriminator", "generator"] = "discriminator"
    """Whose encoder, where the model has both."""
    pooling: Pooling = "mean"
    """A text's vector: the mean of its tokens, or the state of its first ([CLS]) or last token ([SEP])."""
    examples: int = Field(5000, ge=0)
    """The most training examples to encode, drawn by the seed; 0 means all."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """Rows [CLS] … [SEP], not padded, each different one once however often it was asked for."""

    rows: list[NDArray[np.int64]]
    row_ids: NDArray[np.int64]  # (N,) the row of each text
    truncated: int
    """How many of the texts were too long and lost their end."""


def encode_sentences(tokenizer: Tokenizer, texts: Sequence[str], sequence_length: int) -> Sentences:
    special = tokenizer.special
    numbers: dict[bytes, int] = {}
    rows: list[NDArray[np.int64]] = []
    row_ids = np.empty(len(texts), dtype=np.int64)
    truncated = 0
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        for index, ids in enumerate(tokenizer.encode_many(texts[start : start + _TEXTS_AT_ONCE]), start):
            truncated += len(ids) > sequence_length - 2
            row = np.concatenate([[special.cls], ids[: sequence_length - 2], [special.sep]])
            row_ids[index] = numbers.setdefault(row.tobytes(), len(rows))
            if row_ids[index] == len(rows):
                rows.append(row)
    return Sentences(rows, row_ids, truncated)


@dataclass(frozen=True, slots=True)
class FrozenEncoder:
    """An encoder that is looked at and not trained, whatever head it had."""

    encoder: Encoder
    tokenizer: Tokenizer

    @property
    def sequence_length(self) -> int:
        return self.encoder.config.sequence_length

    def reinitialised(self, seed: int) -> "FrozenEncoder":
        """The control: the same network before it learned anything."""
        device = next(self.encoder.parameters()).device
        encoder = Encoder(self.encoder.config)
        init_weights(encoder, seed)
        return FrozenEncoder(encoder.to(device).eval(), self.tokenizer)


def load_frozen_encoder(path: Path, config: StatesConfig, device: str) -> FrozenEncoder:
    # Whatever was tuned from a discriminator has its encoder.
    folder = locate_encoder(path) if config.network == "discriminator" else locate_model(path, config.network)
    tokenizer = Tokenizer.load(folder)
    require_text(tokenizer, str(folder))
    return FrozenEncoder(load_encoder(folder).to(device), tokenizer)


def pooled_states(
    frozen: FrozenEncoder, sentences: Sentences, pooling: Pooling, context: EvalContext, phase: str
) -> Progressive[Layers]:
    """A vector for each of the texts. (N, D)"""
    parts: dict[str, list[Vectors]] = {}
    order: list[NDArray[np.int64]] = []
    done = 0
    for batch, hidden_states in _forward_batches(frozen, sentences.rows, context):
        order.append(batch.rows)
        for layer, states in hidden_states.items():
            parts.setdefault(layer, []).append(pool_states(states, batch.is_pad, pooling).cpu().numpy())
        done += len(batch.rows)
        yield Progress(phase, done, len(sentences.rows))
    back = np.argsort(np.concatenate(order))[sentences.row_ids]
    return {layer: np.concatenate(vectors)[back] for layer, vectors in parts.items()}


def token_states(
    frozen: FrozenEncoder, rows: Rows, columns: Sequence[NDArray[np.int64]], context: EvalContext, phase: str
) -> Progressive[Layers]:
    """The vectors of the tokens at each row's columns, one row after the other. (N, D)"""
    parts: dict[str, list[Vectors]] = {}
    row_ids: list[NDArray[np.int64]] = []
    done = 0
    for batch, hidden_states in _forward_batches(frozen, rows, context):
        lengths = [len(columns[row]) for row in batch.rows]
        indices = np.repeat(np.arange(len(batch.rows)), lengths), np.concatenate([columns[row] for row in batch.rows])
        row_ids.append(np.repeat(batch.rows, lengths))
        for layer, states in hidden_states.items():
            parts.setdefault(layer, []).append(states.cpu().numpy()[indices])
        done += len(batch.rows)
        yield Progress(phase, done, len(rows))
    # Stable: the tokens of a row stay in their order.
    back = np.argsort(np.concatenate(row_ids), kind="stable")
    return {layer: np.concatenate(vectors)[back] for layer, vectors in parts.items()}


def _forward_batches(
    frozen: FrozenEncoder, rows: Rows, context: EvalContext
) -> Iterator[tuple[RowBatch, HiddenStates]]:
    device = next(frozen.encoder.parameters()).device
    for batch in batch_by_length(rows, frozen.tokenizer.special, context.batch_tokens, device):
        context.check()
        hidden_states: HiddenStates = {}
        with torch.inference_mode():
            frozen.encoder(batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad, hidden_states)
        if not frozen.encoder.config.is_modern:
            del hidden_states["states"]  # the last layer's once more: only `modern` has a norm after it
        yield batch, hidden_states
