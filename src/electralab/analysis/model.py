"""A model to be analysed, and the same network before it learned anything.

MODEL -> AnalysisModel
"""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import nn

from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.evaluation.states import FrozenEncoder
from electralab.model.electra import Discriminator, TokenModel, TwoStream, TwoTower
from electralab.model.encoder import Encoder
from electralab.model.flops import count_masked, discriminator_flops, generator_flops, two_tower_flops
from electralab.model.folders.folder import load_any, load_encoder, locate_networks, read_config
from electralab.model.folders.hf_config import OBJECTIVE
from electralab.model.folders.native_format import is_onnx
from electralab.model.weights import init_weights
from electralab.tokens.tokenizer import Tokenizer

# The objective that it was trained with; "encoder" where its folder holds no head for tokens.
Kind = Literal["electra", "electra-15", "electric", "all-tokens-mlm", "mlm", "causal", "other", "encoder"]

_KINDS: dict[str, Kind] = {
    "electra": "electra",
    "electra-15": "electra-15",
    "electric": "electric",
    "all-tokens-mlm": "all-tokens-mlm",
    "mlm": "mlm",
    "bert": "mlm",
    "causal": "causal",
}
_MASK_SHARE = 0.15
N = TypeVar("N", bound=nn.Module | None)


def kind_of(objective: str) -> Kind:
    return _KINDS.get(objective, "other")


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
    def num_layers(self) -> int:
        return self.encoder.config.num_layers

    @property
    def sequence_length(self) -> int:
        """What every network of it can take."""
        networks = (self.encoder, self.discriminator, self.generator)
        return min(network.config.sequence_length for network in networks if network is not None)

    @property
    def frozen(self) -> FrozenEncoder:
        return FrozenEncoder(self.encoder, self.tokenizer)

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
    folders = tuple(locate_networks(folder))
    if graph := next(filter(is_onnx, folders), None):
        raise InputError(f"{graph}: is a graph, which shows no states; give the model that it was exported from")
    tokenizer = Tokenizer.load(folders[0])
    if any(Tokenizer.load(other).to_json() != tokenizer.to_json() for other in folders[1:]):
        raise InputError(f"{folder}: its two networks have different tokenizers; analyze their folders one by one")
    discriminator, generator, encoder = _load_networks(folders, device or torch.device("cpu"))
    # A table that is too small for the tokenizer would fail far from its cause.
    tokenizer.require_fit(encoder.config.vocab_size, folder)
    run = folder / "run.json"
    settings = read_json(run).get("settings", {}) if run.is_file() else {}
    kind: Kind
    if objective := str(read_config(folders[0]).get(OBJECTIVE) or settings.get("objective", "")):
        kind = kind_of(objective)
    elif discriminator is not None:
        kind = "electra"
    elif generator is None:
        kind = "encoder"
    else:
        kind = "causal" if generator.config.is_causal else "mlm"
    mask_share = settings.get("masking", {}).get("mask_share", _MASK_SHARE)
    flops = _count_flops(kind, discriminator, generator, mask_share)
    name = name or folder.resolve().name
    return AnalysisModel(name, folder, folders, kind, encoder, discriminator, generator, tokenizer, flops)


def _load_networks(
    folders: tuple[Path, ...], device: torch.device
) -> tuple[Discriminator | None, TokenModel | None, Encoder]:
    discriminator: Discriminator | None = None
    generator: TokenModel | None = None
    for folder in folders:
        try:
            network = load_any(folder)
        except InputError:
            if len(folders) > 1:
                raise
            # A body without a head, as many folders are. What is wrong with the encoder itself is said when that is
            # read below.
            break
        if isinstance(network, Discriminator):
            discriminator = network.to(device)
        elif isinstance(network, TokenModel):
            generator = network.to(device)
    if discriminator is not None:
        return discriminator, generator, discriminator.encoder
    if generator is not None and not isinstance(generator, TwoTower):
        return discriminator, generator, generator.encoder
    return discriminator, generator, load_encoder(folders[0]).to(device)


def _count_flops(
    kind: Kind, discriminator: Discriminator | None, generator: TokenModel | None, mask_share: float
) -> float | None:
    """One token of a full row. Known for kinds whose step is one pass of each network over the row."""
    is_counted = kind in ("electra", "electra-15", "mlm", "causal")
    if generator is None or isinstance(generator, TwoStream) or not is_counted:
        return None
    length = generator.config.sequence_length
    num_targets = length - 1 if kind == "causal" else count_masked(length, mask_share)
    count = two_tower_flops if isinstance(generator, TwoTower) else generator_flops
    forward = count(generator.config, 1, length, num_targets)
    if discriminator is not None:
        forward += discriminator_flops(discriminator.config, 1, length, discriminator.head.kind)
    # A backward pass takes twice a forward one.
    return 3 * forward / length


def reinitialise(model: AnalysisModel, seed: int) -> AnalysisModel:
    """The untrained control: the same shape, weights as first drawn."""
    discriminator, generator = _redraw(model.discriminator, seed), _redraw(model.generator, seed)
    encoder: Encoder
    if discriminator is not None:
        encoder = discriminator.encoder
    elif generator is not None and not isinstance(generator, TwoTower):
        encoder = generator.encoder
    else:
        encoder = _redraw(model.encoder, seed)
    return replace(
        model,
        name=f"{model.name}, untrained",
        encoder=encoder,
        discriminator=discriminator,
        generator=generator,
        control_of=model.name,
    )


def _redraw(network: N, seed: int) -> N:
    if network is None:
        return network
    # First weights are a function of the seed and the parameters' names: every analysis has the same control.
    drawn = copy.deepcopy(network)
    init_weights(drawn, seed)
    return drawn.eval()
