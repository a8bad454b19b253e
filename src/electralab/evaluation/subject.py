"""The model under evaluation, as far as its folder goes: both networks, or one.

MODEL -> Subject
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.folder import load_network, locate_model
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Subject:
    path: Path
    tokenizer: Tokenizer
    discriminator: Discriminator | None
    generator: Generator | None

    @property
    def sequence_length(self) -> int:
        """What every network of the model can take."""
        networks = (self.discriminator, self.generator)
        return min(network.config.sequence_length for network in networks if network is not None)

    def need_discriminator(self, purpose: str) -> Discriminator:
        if self.discriminator is None:
            raise InputError(f"{self.path}: holds no discriminator, which {purpose} needs; give a run or its folder")
        return self.discriminator

    def need_generator(self, purpose: str) -> Generator:
        if self.generator is None:
            raise InputError(f"{self.path}: holds no generator, which {purpose} needs; give a run or its folder")
        return self.generator


def load_subject(path: Path, device: torch.device) -> Subject:
    """From a run or a pair both networks, from a model folder the one it holds."""
    folders = {locate_model(path, "discriminator"), locate_model(path, "generator")}
    networks = [load_network(folder).to(device) for folder in sorted(folders)]
    tokenizers = [Tokenizer.load(folder) for folder in sorted(folders)]
    if len({tokenizer.to_json() for tokenizer in tokenizers}) > 1:
        raise InputError(f"{path}: its two networks have different tokenizers; evaluate their folders one by one")
    for network in networks:
        if tokenizers[0].vocab_size > network.config.vocab_size:
            raise InputError(
                f"{path}: its tokenizer has {tokenizers[0].vocab_size} entries, its model "
                f"{network.config.vocab_size}; the folder mixes files of two models, restore it"
            )
    return Subject(
        path,
        tokenizers[0],
        discriminator=next((network for network in networks if isinstance(network, Discriminator)), None),
        generator=next((network for network in networks if isinstance(network, Generator)), None),
    )


def require_text(tokenizer: Tokenizer, where: str) -> None:
    if tokenizer.is_symbols:
        raise InputError(f"{where}: is a model of symbols, which cannot read text; give prepared data to rtd or mlm")


def prohibition_for(generator: Generator, tokenizer: Tokenizer) -> Tensor:
    """(V,) 0 where an id may be sampled, else minus infinity; a network may have more ids than its tokenizer."""
    prohibition = np.full(generator.config.vocab_size, -np.inf, dtype=np.float32)
    prohibition[: tokenizer.vocab_size][tokenizer.is_ordinary] = 0.0
    return torch.from_numpy(prohibition).to(generator.encoder.embeddings.tokens.weight.device)
