"""Pairs small enough to train in a second, on rows that count: every token follows from the one before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from toy import CLS, MASK, PAD, SEP, UNK

from electralab.model.electra import AnyGenerator, Discriminator, Electra, FixedGenerator, Generator
from electralab.model.settings import GeneratorConfig, GeneratorKind, ModelConfig, derive_encoders
from electralab.model.weights import init_weights
from electralab.objective.electra import ElectraObjective
from electralab.objective.losses import LossConfig
from electralab.objective.settings import ObjectiveConfig
from electralab.tokens.batches import Batch, make_batch
from electralab.tokens.tokenizer import SpecialIds, Tokenizer

FIRST, WORDS = 5, 23
LENGTH = 16
VOCAB = FIRST + WORDS
CPU = torch.device("cpu")


@dataclass(frozen=True)
class CountingTokenizer:
    special: SpecialIds = field(default_factory=lambda: SpecialIds(pad=PAD, unk=UNK, cls=CLS, sep=SEP, mask=MASK))
    is_ordinary: NDArray[np.bool_] = field(default_factory=lambda: np.arange(VOCAB) >= FIRST)
    continues_word: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(VOCAB, dtype=np.bool_))


def count_row(start: int, length: int) -> list[int]:
    return [CLS, *(FIRST + (start + place) % WORDS for place in range(length - 2)), SEP]


def counting_rows(count: int, length: int = LENGTH, *, seed: int = 0) -> Batch:
    """No two rows are alike: each has a start of its own."""
    starts = np.random.default_rng(seed).choice(WORDS, count, replace=False)
    return batch_of([count_row(int(start), length) for start in starts])


def batch_of(rows: Sequence[Sequence[int]]) -> Batch:
    return make_batch(np.array(rows, dtype=np.int64), cast(Tokenizer, CountingTokenizer()), is_pairs=False)


def make_objective(
    loss: Mapping[str, Any] | None = None,
    *,
    kind: GeneratorKind = "transformer",
    model: Mapping[str, Any] | None = None,
) -> ElectraObjective:
    sizes: dict[str, Any] = {
        "backbone": "modern",
        "embedding_size": 32,
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 2,
        "feedforward_size": 48,
        "dropout": 0.0,
        "attention_dropout": 0.0,
        "sharing": "embeddings" if kind == "transformer" else "none",
    }
    config = ObjectiveConfig(
        model=ModelConfig(**(sizes | dict(model or {}))),
        generator=GeneratorConfig(kind=kind, width_share=0.5),
        loss=LossConfig(**(loss or {})),
    )
    guessing, judging = derive_encoders(config.model, config.generator, vocab_size=VOCAB, sequence_length=LENGTH)
    shares = torch.full((VOCAB,), -np.log(WORDS)).masked_fill(torch.arange(VOCAB) < FIRST, -torch.inf)
    generator: AnyGenerator = FixedGenerator(shares) if kind == "uniform" else Generator(guessing)
    pair = Electra(generator, Discriminator(judging), config.model.sharing)
    objective = ElectraObjective(pair, config, cast(Tokenizer, CountingTokenizer()), CPU)
    init_weights(pair, 1)
    return objective
