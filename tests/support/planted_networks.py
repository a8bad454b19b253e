"""Networks and rows so small that what a study finds in them is known."""

import numpy as np
import torch
from little_models import TOKENIZER
from torch import nn

from electralab.model.electra import Discriminator, Electra, Generator, build_electra
from electralab.model.encoder import Encoder, EncoderLayer
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.objective.corruption import CorruptedBatch, corrupt
from electralab.objective.masking import MaskedBatch, MaskingConfig, mask_tokens, mask_vocabulary
from electralab.randomness import Rng
from electralab.tokens.batches import make_batch

LENGTH = 24


def build_networks(**model: object) -> Electra:
    """Two layers, drawn so widely that what one token says is heard by the others."""
    sizes = {"embedding_size": 16, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "feedforward_size": 32}
    config = ModelConfig.model_validate(sizes | {"init_std": 0.5, "sharing": "none"} | model)
    pair = build_electra(
        config, GeneratorConfig(width_share=1.0), vocab_size=TOKENIZER.vocab_size, sequence_length=LENGTH, seed=1
    )
    return pair.eval()


def deafen(encoder: Encoder, *layers: int) -> None:
    """In these layers, or in all, no token hears another."""
    for index in layers or range(encoder.config.num_layers):
        layer = encoder.layers[index]
        assert isinstance(layer, EncoderLayer)
        for parameter in layer.attention.output.parameters():
            nn.init.zeros_(parameter)


def judge_of(pair: Electra) -> Discriminator:
    return pair.discriminator


def guesser_of(pair: Electra) -> Generator:
    assert isinstance(pair.generator, Generator)
    return pair.generator


def mask_some(rows: int = 6, *, lengths: tuple[int, ...] = (), share: float = 0.25) -> MaskedBatch:
    """Rows [CLS] tokens [SEP], the first of them as long as `lengths` say and padded."""
    special, rng = TOKENIZER.special, np.random.default_rng(0)
    ordinary = np.flatnonzero(TOKENIZER.is_ordinary)
    ids = rng.choice(ordinary, size=(rows, LENGTH)).astype(np.int64)
    ids[:, 0], ids[:, -1] = special.cls, special.sep
    for row, length in enumerate(lengths):
        ids[row, length - 1] = special.sep
        ids[row, length:] = special.pad
    batch = make_batch(ids, TOKENIZER, is_pairs=False)
    return mask_tokens(batch, mask_vocabulary(TOKENIZER), MaskingConfig(), share, Rng(0, 1))


def replace_all(masked: MaskedBatch) -> CorruptedBatch:
    """Every masked token becomes the ordinary one after it in the vocabulary, so that all are replaced."""
    ordinary = torch.from_numpy(np.flatnonzero(TOKENIZER.is_ordinary))
    places = torch.searchsorted(ordinary, masked.target_ids)
    return corrupt(masked, ordinary[(places + 1) % len(ordinary)])
