"""Encoders that are quick to build and to run."""

from typing import Any

from electralab.model.electra import build_electra
from electralab.model.encoder import Encoder
from electralab.model.settings import EncoderConfig, GeneratorConfig, ModelConfig, derive_encoders

_SIZES = {"num_layers": 1, "hidden_size": 16, "embedding_size": 16, "num_heads": 2, "feedforward_size": 32}


def make_encoder(*, vocab_size: int = 50, sequence_length: int = 16, **model: Any) -> Encoder:
    config = ModelConfig(**(_SIZES | model))
    pair = build_electra(config, GeneratorConfig(), vocab_size=vocab_size, sequence_length=sequence_length, seed=1)
    return pair.discriminator.encoder


def make_encoder_config(*, sequence_length: int = 16, **model: Any) -> EncoderConfig:
    """Of any size, since nothing is built."""
    config = ModelConfig(**(_SIZES | model))
    _, judging = derive_encoders(config, GeneratorConfig(), vocab_size=50, sequence_length=sequence_length)
    return judging
