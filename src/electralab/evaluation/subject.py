"""The model under evaluation, as far as its folder goes: both networks of a pair, or one.

MODEL -> Subject
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from electralab.errors import InputError
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.folders.folder import load_any, locate_networks, outputs_energies, read_config
from electralab.model.folders.hf_config import OBJECTIVE
from electralab.tokens.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Subject:
    path: Path
    tokenizer: Tokenizer
    discriminator: Discriminator | None
    generator: TokenModel | None
    """Of a pair, or the one network of a run."""
    objective: str = ""
    """What it was taught by, where its folder says so."""
    has_energies: bool = False
    """Whether the discriminator says energies, minus log p up to a constant, not how likely a token is replaced."""

    @property
    def sequence_length(self) -> int:
        """What every network of the model can take."""
        networks = (self.discriminator, self.generator)
        return min(network.config.sequence_length for network in networks if network is not None)

    def need_discriminator(self, purpose: str) -> Discriminator:
        if self.discriminator is None:
            raise InputError(f"{self.path}: holds no discriminator, which {purpose} needs; give a run or its folder")
        return self.discriminator

    def need_generator(self, purpose: str) -> TokenModel:
        if self.generator is None:
            raise InputError(f"{self.path}: holds no generator, which {purpose} needs; give a run or its folder")
        return self.generator


def load_subject(path: Path, device: torch.device) -> Subject:
    """From a run or a pair both networks, from a run of one network or a model folder that one."""
    folders = locate_networks(path)
    networks = [_load(folder).to(device) for folder in folders]
    tokenizers = [Tokenizer.load(folder) for folder in folders]
    if len({tokenizer.to_json() for tokenizer in tokenizers}) > 1:
        raise InputError(f"{path}: its two networks have different tokenizers; evaluate their folders one by one")
    for network in networks:
        tokenizers[0].require_fit(network.config.vocab_size, path)
    return Subject(
        path,
        tokenizers[0],
        discriminator=next((network for network in networks if isinstance(network, Discriminator)), None),
        generator=next((network for network in networks if isinstance(network, TokenModel)), None),
        objective=_read_objective(folders[-1]),
        has_energies=outputs_energies(folders[0]),
    )


def _read_objective(folder: Path) -> str:
    """Whatever the run was for, its generator beside the model is taught to guess what [MASK] hides."""
    return "" if folder.name == "generator" else str(read_config(folder).get(OBJECTIVE, ""))


def _load(folder: Path) -> Discriminator | TokenModel:
    network = load_any(folder)
    if not isinstance(network, Discriminator | TokenModel):
        raise InputError(f"{folder}: is a tuned model, which neither judges nor guesses tokens; give a pre-trained one")
    return network


def require_text(tokenizer: Tokenizer, where: str) -> None:
    if tokenizer.is_symbols:
        raise InputError(f"{where}: is a model of symbols, which cannot read text; give prepared data to rtd or mlm")
