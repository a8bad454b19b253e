"""A model to be analysed, what it is called, and the same network before it learned anything.

MODEL -> AnalysisModel
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

import torch
from torch import nn

from electralab.artifacts import read_json, real_path
from electralab.errors import InputError, UsageError
from electralab.model import flops
from electralab.model.electra import Discriminator, TokenModel, TwoStream, TwoTower
from electralab.model.encoder import Encoder
from electralab.model.folders import folder as folders
from electralab.model.folders.hf_config import OBJECTIVE
from electralab.model.folders.native_format import is_onnx
from electralab.model.weights import init_weights
from electralab.tokens.tokenizer import Tokenizer

# The objective that it was trained with; "encoder" where its folder holds no head for tokens.
Kind = Literal["electra", "electra-15", "electric", "all-tokens-mlm", "mlm", "causal", "other", "encoder"]
_MASK_SHARE = 0.15
N = TypeVar("N", bound=nn.Module | None)


def kind_of(objective: str) -> Kind:
    name = "mlm" if objective == "bert" else objective
    return cast(Kind, name) if name in get_args(Kind)[:-2] else "other"


@dataclass(frozen=True, slots=True)
class AnalysisModel:
    name: str
    folder: Path
    networks: tuple[Path, ...]
    """The model folders that were read."""
    kind: Kind
    encoder: Encoder
    """Whose states are looked at: the discriminator's, or that of the only network."""
    discriminator: Discriminator | None
    generator: TokenModel | None
    tokenizer: Tokenizer
    flops_per_token: float | None
    """Training, forward and backward, in our convention; none where nothing says how it was trained."""
    control_of: str | None = None
    """The model whose untrained control this is."""

    @property
    def sequence_length(self) -> int:
        """What every network of it can take."""
        networks = (self.encoder, self.discriminator, self.generator)
        return min(network.config.sequence_length for network in networks if network is not None)

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    @property
    def is_pair(self) -> bool:
        """Whether it was trained as generator and discriminator."""
        return self.kind in ("electra", "electra-15", "electric")

    def require_generator(self, purpose: str) -> TokenModel:
        if self.generator is None:
            raise InputError(f"{self.name}: holds no generator, which {purpose} needs; give a run with one")
        return self.generator

    def require_discriminator(self, purpose: str) -> Discriminator:
        """A discriminator whose logits say whether a token was replaced."""
        if self.kind == "electric":
            raise InputError(
                f"{self.name}: says energies, not how likely a token was replaced, which {purpose} needs; "
                "give a run of electra"
            )
        if self.discriminator is None:
            raise InputError(f"{self.name}: holds no discriminator, which {purpose} needs; give a run with one")
        return self.discriminator


def load_analysis_model(folder: Path, name: str = "", device: torch.device | None = None) -> AnalysisModel:
    """Both networks of a run or a pair; of a run of one network or a model folder, that one."""
    paths, device = tuple(folders.locate_networks(folder)), device or torch.device("cpu")
    if graph := next(filter(is_onnx, paths), None):
        raise InputError(f"{graph}: is a graph, which shows no states; give the model that it was exported from")
    tokenizer = Tokenizer.load(paths[0])
    if any(Tokenizer.load(other).to_json() != tokenizer.to_json() for other in paths[1:]):
        raise InputError(f"{folder}: its two networks have different tokenizers; analyze their folders one by one")
    discriminator: Discriminator | None = None
    generator: TokenModel | None = None
    for path in paths:
        try:
            network = folders.load_any(path)
        except InputError:
            if len(paths) > 1:
                raise
            # A body without a head, as many folders are. What is wrong with the encoder itself is said when that is
            # read below.
            break
        if isinstance(network, Discriminator):
            discriminator = network.to(device)
        elif isinstance(network, TokenModel):
            generator = network.to(device)
    encoder = _main_encoder(discriminator, generator) or folders.load_encoder(paths[0]).to(device)
    # A table that is too small for the tokenizer would fail far from its cause.
    tokenizer.require_fit(encoder.config.vocab_size, folder)
    run = folder / "run.json"
    settings = read_json(run).get("settings", {}) if run.is_file() else {}
    kind: Kind
    if objective := str(folders.read_config(paths[0]).get(OBJECTIVE) or settings.get("objective", "")):
        kind = kind_of(objective)
    elif discriminator is not None:
        kind = "electra"
    elif generator is None:
        kind = "encoder"
    else:
        kind = "causal" if generator.config.is_causal else "mlm"
    # FLOPs of one token of a full row. Known for kinds whose step is one pass of each network over the row.
    per_token = None
    is_counted = kind in ("electra", "electra-15", "mlm", "causal")
    if generator is not None and not isinstance(generator, TwoStream) and is_counted:
        length = generator.config.sequence_length
        mask_share = settings.get("masking", {}).get("mask_share", _MASK_SHARE)
        num_targets = length - 1 if kind == "causal" else flops.count_masked(length, mask_share)
        count = flops.two_tower_flops if isinstance(generator, TwoTower) else flops.generator_flops
        forward = count(generator.config, 1, length, num_targets)
        if discriminator is not None:
            forward += flops.discriminator_flops(discriminator.config, 1, length, discriminator.head.kind)
        # A backward pass takes twice a forward one.
        per_token = 3 * forward / length
    name = name or folder.resolve().name
    return AnalysisModel(name, folder, paths, kind, encoder, discriminator, generator, tokenizer, per_token)


def _main_encoder(discriminator: Discriminator | None, generator: TokenModel | None) -> Encoder | None:
    """The network that the model is made for; None where only a folder tells, as of two towers."""
    if discriminator is not None:
        return discriminator.encoder
    return None if generator is None or isinstance(generator, TwoTower) else generator.encoder


def reinitialise(model: AnalysisModel, seed: int) -> AnalysisModel:
    """The untrained control: the same shape, weights as first drawn."""

    def redraw(network: N) -> N:
        if network is None:
            return network
        # First weights are a function of the seed and the parameters' names: every analysis has the same control.
        drawn = copy.deepcopy(network)
        init_weights(drawn, seed)
        return drawn.eval()

    discriminator, generator = redraw(model.discriminator), redraw(model.generator)
    encoder = _main_encoder(discriminator, generator) or redraw(model.encoder)
    untrained = replace(model, encoder=encoder, discriminator=discriminator, generator=generator)
    return replace(untrained, name=f"{model.name}, untrained", control_of=model.name)


def name_models(models: Sequence[Path]) -> list[str]:
    """By the last part of a path; of those that have it in common (a/run, b/run), by what comes before.

    >>> name_models([Path("/a/run"), Path("/b/run"), Path("/c/small")])
    ['a', 'b', 'small']
    """
    paths = [real_path(path).parts for path in models]
    if len(set(paths)) < len(paths):
        twice = next(str(path) for index, path in enumerate(models) if paths[index] in paths[:index])
        raise UsageError(f"analyze: {twice} is given twice; give it once")
    names = []
    for parts in paths:
        alike = [other for other in paths if other[-1:] == parts[-1:]]
        if len(alike) == 1:
            names.append(parts[-1] if parts else "model")
            continue
        # The fewest parts that tell a path from those that end alike, without the end that all of them have.
        while len({other[-1:] for other in alike}) == 1:
            parts, alike = parts[:-1], [other[:-1] for other in alike]
        depth = 1
        while len({other[-depth:] for other in alike}) < len(alike):
            depth += 1
        names.append("/".join(parts[-depth:]))
    if len(set(names)) < len(names):
        names = ["/".join(parts[1:]) for parts in paths]
    files = [slug(name) for name in names]
    # Where files would have one name ("run 1" and "run-1"), the later is numbered.
    return [f"{name} ({index + 1})" if files[index] in files[:index] else name for index, name in enumerate(names)]


def slug(name: str) -> str:
    """For files: letters, digits and what is harmless."""
    kept = "".join(letter if letter.isalnum() or letter in "_." else "-" for letter in name.replace(", ", "."))
    return "-".join(part for part in kept.split("-") if part)
