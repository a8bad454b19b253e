"""What every suite is given, the model under evaluation, and what a suite returns; a frozen encoder's states.

MODEL -> EvalModel; EvalModel, data, EvalContext -> Progress... -> SuiteResult
MODEL -> FrozenEncoder; texts -> Sentences -> {layer: (N, D)}, one vector for a text, or for a word, at every layer
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError
from electralab.events import Progress
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.encoder import LAST_STATES, Encoder, HiddenStates
from electralab.model.folders import folder as folders
from electralab.model.task_model import Pooling, pool_states
from electralab.model.weights import init_weights
from electralab.records.evaluation import GroupScores, Scores
from electralab.tokens.batches import RowBatch, batch_by_length
from electralab.tokens.tokenizer import Tokenizer

T = TypeVar("T")
Progressive = Generator[Progress, None, T]
"""Work that tells how far it is and returns a T: `states = yield from work`."""


@dataclass(frozen=True, slots=True)
class EvalContext:
    """What every suite is told."""

    seed: int = 0
    batch_tokens: int = 8192
    max_bad_share: float = 0.05
    device: str = "cpu"
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    """How text is found in files."""
    check: Callable[[], None] = lambda: None
    """Raises where the work is to be abandoned."""


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What one suite measured; the stage adds what all suites have in common."""

    scores: Scores
    groups: GroupScores
    counts: dict[str, int]
    identity: str
    """A hash of what was asked: scores of two models are comparable where it is the same."""
    notes: tuple[str, ...] = ()
    bad_rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvalModel:
    """The model under evaluation, as far as its folder goes: both networks of a pair, or one."""

    path: Path
    tokenizer: Tokenizer
    discriminator: Discriminator | None
    generator: TokenModel | None
    """Of a pair, or the one network of a run."""
    objective: str = ""
    """What it was taught by, where its folder says so."""
    outputs_energies: bool = False
    """Whether the discriminator says energies, minus log p up to a constant, not how likely a token is replaced."""

    def require_discriminator(self, purpose: str) -> Discriminator:
        if self.discriminator is None:
            raise InputError(f"{self.path}: holds no discriminator, which {purpose} needs; give a run or its folder")
        return self.discriminator

    def require_generator(self, purpose: str) -> TokenModel:
        if self.generator is None:
            raise InputError(f"{self.path}: holds no generator, which {purpose} needs; give a run or its folder")
        return self.generator


def load_eval_model(path: Path, device: torch.device) -> EvalModel:
    """From a run or a pair both networks, from a run of one network or a model folder that one."""
    paths = folders.locate_networks(path)
    networks: list[Discriminator | TokenModel] = []
    for folder in paths:
        network = folders.load_any(folder)
        if not isinstance(network, Discriminator | TokenModel):
            raise InputError(
                f"{folder}: is a tuned model, which neither judges nor guesses tokens; give a pre-trained one"
            )
        networks.append(network.to(device))
    tokenizers = [Tokenizer.load(folder) for folder in paths]
    if len({tokenizer.to_json() for tokenizer in tokenizers}) > 1:
        raise InputError(f"{path}: its two networks have different tokenizers; evaluate their folders one by one")
    for network in networks:
        tokenizers[0].require_fit(network.config.vocab_size, path)
    # Whatever the run was for, the generator beside its model is taught to guess what [MASK] hides.
    last = paths[-1]
    return EvalModel(
        path,
        tokenizers[0],
        discriminator=next((network for network in networks if isinstance(network, Discriminator)), None),
        generator=next((network for network in networks if isinstance(network, TokenModel)), None),
        objective="" if last.name == "generator" else folders.read_objective(last),
        outputs_energies=folders.outputs_energies(paths[0]),
    )


def require_text(tokenizer: Tokenizer, where: str) -> None:
    if tokenizer.is_symbols:
        raise InputError(f"{where}: is a model of symbols, which cannot read text; give prepared data to rtd or mlm")


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
    folder = (
        folders.locate_encoder(path)
        if config.network == "discriminator"
        else folders.locate_model(path, config.network)
    )
    tokenizer = Tokenizer.load(folder)
    require_text(tokenizer, str(folder))
    return FrozenEncoder(folders.load_encoder(folder).to(device), tokenizer)


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
            del hidden_states[LAST_STATES]  # the last layer's once more: only `modern` has a norm after it
        yield batch, hidden_states
