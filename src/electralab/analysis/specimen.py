"""A model to be looked at, and the same network before it learned anything.

MODEL -> Specimen
"""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import torch
from torch import nn

from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.evaluation.states import Frozen
from electralab.model.electra import Discriminator, Guesser
from electralab.model.encoder import Encoder
from electralab.model.flops import count_masked, discriminator_flops, generator_flops, two_tower_flops
from electralab.model.folder import load_any, load_encoder, locate_networks, read_config
from electralab.model.graph import is_graph
from electralab.model.hf_config import OBJECTIVE
from electralab.model.streams import TwoStream
from electralab.model.towers import TwoTower
from electralab.model.weights import initialise
from electralab.tokens.tokenizer import Tokenizer

Kind = Literal["electra", "electra-15", "electric", "all-tokens-mlm", "mlm", "causal", "other", "encoder"]
"""What it was taught by; "encoder" where its folder holds no head that judges or guesses tokens."""

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


@dataclass(frozen=True, slots=True)
class Specimen:
    name: str
    folder: Path
    networks: tuple[Path, ...]
    """The model folders that were read."""
    kind: Kind
    encoder: Encoder
    """Whose states are looked at: the discriminator's, or that of the only network."""
    discriminator: Discriminator | None
    generator: Guesser | None
    tokenizer: Tokenizer
    flops_per_token: float | None
    """Of training, forward and backward, in our convention; none where nothing says how it was trained."""
    control_of: str | None = None
    """The model whose untrained twin this is."""

    @property
    def num_layers(self) -> int:
        return self.encoder.config.num_layers

    @property
    def sequence_length(self) -> int:
        """What every network of it can take."""
        networks = (self.encoder, self.discriminator, self.generator)
        return min(network.config.sequence_length for network in networks if network is not None)

    @property
    def frozen(self) -> Frozen:
        return Frozen(self.encoder, self.tokenizer)

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    def need_discriminator(self, purpose: str) -> Discriminator:
        if self.discriminator is None:
            raise InputError(f"{self.name}: holds no discriminator, which {purpose} needs; give a run with one")
        return self.discriminator

    def need_generator(self, purpose: str) -> Guesser:
        if self.generator is None:
            raise InputError(f"{self.name}: holds no generator, which {purpose} needs; give a run with one")
        return self.generator


def open_specimen(folder: Path, name: str = "", device: torch.device | None = None) -> Specimen:
    """From a run or a pair both networks, from a run of one network or a model folder that one."""
    folders = tuple(locate_networks(folder))
    if graph := next(filter(is_graph, folders), None):
        raise InputError(f"{graph}: is a graph, which shows no states; give the model that it was exported from")
    tokenizer = Tokenizer.load(folders[0])
    if any(Tokenizer.load(other).to_json() != tokenizer.to_json() for other in folders[1:]):
        raise InputError(f"{folder}: its two networks have different tokenizers; analyze their folders one by one")
    judge, guesser, encoder = _load_networks(folders, device or torch.device("cpu"))
    tokenizer.require_fit(encoder.config.vocab_size, folder)
    run = folder / "run.json"
    settings = read_json(run).get("settings", {}) if run.is_file() else {}
    kind = _find_kind(judge, guesser, str(read_config(folders[0]).get(OBJECTIVE) or settings.get("objective", "")))
    share = settings.get("masking", {}).get("mask_share", _MASK_SHARE)
    flops = _count_flops(kind, judge, guesser, share)
    return Specimen(name or folder.resolve().name, folder, folders, kind, encoder, judge, guesser, tokenizer, flops)


def _load_networks(
    folders: tuple[Path, ...], device: torch.device
) -> tuple[Discriminator | None, Guesser | None, Encoder]:
    judge: Discriminator | None = None
    guesser: Guesser | None = None
    for folder in folders:
        network = load_any(folder) if len(folders) > 1 else _load_whole(folder)
        if isinstance(network, Discriminator):
            judge = network.to(device)
        elif isinstance(network, Guesser):
            guesser = network.to(device)
    if judge is not None:
        return judge, guesser, judge.encoder
    if guesser is not None and not isinstance(guesser, TwoTower):
        return judge, guesser, guesser.encoder
    return judge, guesser, load_encoder(folders[0]).to(device)


def _load_whole(folder: Path) -> nn.Module | None:
    """None where only its encoder can be read: a body without a head, as many folders are."""
    try:
        return load_any(folder)
    except InputError:
        # What is wrong with the encoder itself is said when that is read.
        return None


def find_kind(objective: str) -> Kind:
    return _KINDS.get(objective, "other")


def _find_kind(judge: Discriminator | None, guesser: Guesser | None, objective: str) -> Kind:
    if objective:
        return find_kind(objective)
    if judge is not None:
        return "electra"
    if guesser is None:
        return "encoder"
    return "causal" if guesser.config.is_causal else "mlm"


def _count_flops(kind: Kind, judge: Discriminator | None, guesser: Guesser | None, share: float) -> float | None:
    """Of one token of a full row. Told for kinds whose step is one pass of each network over the row."""
    if guesser is None or isinstance(guesser, TwoStream) or kind in ("electric", "all-tokens-mlm", "other", "encoder"):
        return None
    length = guesser.config.sequence_length
    asked = length - 1 if kind == "causal" else count_masked(length, share)
    count = two_tower_flops if isinstance(guesser, TwoTower) else generator_flops
    forward = count(guesser.config, 1, length, asked)
    if judge is not None:
        forward += discriminator_flops(judge.config, 1, length, judge.head.kind)
    return 3 * forward / length


def draw_untrained(specimen: Specimen, seed: int) -> Specimen:
    """The control: the same shape, weights as first drawn."""
    judge, guesser = _redraw(specimen.discriminator, seed), _redraw(specimen.generator, seed)
    encoder: Encoder
    if judge is not None:
        encoder = judge.encoder
    elif guesser is not None and not isinstance(guesser, TwoTower):
        encoder = guesser.encoder
    else:
        encoder = _redraw(specimen.encoder, seed)
    return replace(
        specimen,
        name=f"{specimen.name}, untrained",
        encoder=encoder,
        discriminator=judge,
        generator=guesser,
        control_of=specimen.name,
    )


def _redraw(network: N, seed: int) -> N:
    if network is None:
        return network
    drawn = copy.deepcopy(network)
    initialise(drawn, seed)
    return drawn.eval()
