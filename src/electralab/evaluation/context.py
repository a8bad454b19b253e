"""What every suite is given, the model under evaluation, and what a suite returns.

MODEL -> EvalModel; EvalModel, data, EvalContext -> Progress... -> SuiteResult
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import torch

from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError
from electralab.events import Progress
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.folders.folder import load_any, locate_networks, outputs_energies, read_config
from electralab.model.folders.hf_config import OBJECTIVE
from electralab.records.evaluation import GroupScores, Scores
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
    folders = locate_networks(path)
    networks: list[Discriminator | TokenModel] = []
    for folder in folders:
        network = load_any(folder)
        if not isinstance(network, Discriminator | TokenModel):
            raise InputError(
                f"{folder}: is a tuned model, which neither judges nor guesses tokens; give a pre-trained one"
            )
        networks.append(network.to(device))
    tokenizers = [Tokenizer.load(folder) for folder in folders]
    if len({tokenizer.to_json() for tokenizer in tokenizers}) > 1:
        raise InputError(f"{path}: its two networks have different tokenizers; evaluate their folders one by one")
    for network in networks:
        tokenizers[0].require_fit(network.config.vocab_size, path)
    # Whatever the run was for, the generator beside its model is taught to guess what [MASK] hides.
    last = folders[-1]
    return EvalModel(
        path,
        tokenizers[0],
        discriminator=next((network for network in networks if isinstance(network, Discriminator)), None),
        generator=next((network for network in networks if isinstance(network, TokenModel)), None),
        objective="" if last.name == "generator" else str(read_config(last).get(OBJECTIVE, "")),
        outputs_energies=outputs_energies(folders[0]),
    )


def require_text(tokenizer: Tokenizer, where: str) -> None:
    if tokenizer.is_symbols:
        raise InputError(f"{where}: is a model of symbols, which cannot read text; give prepared data to rtd or mlm")
