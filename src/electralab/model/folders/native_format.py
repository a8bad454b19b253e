"""A network that no class of `transformers` expresses is saved in our own words: network <-> config.json and tensors.

config.json says what to build, under "electralab_network"; the tensors have our parameters' names, a shared one once.
The model_type begins with "electralab-", so that no other library takes the folder for what it is not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from electralab.config import Settings, SettingsTree
from electralab.errors import InputError, quote, shorten
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import Encoder, EncoderConfig, merge_tables
from electralab.model.folders.hf_config import OURS, describe
from electralab.model.folders.hf_weights import fill, gather
from electralab.model.heads import RTDHeadKind
from electralab.model.task_model import HeadConfig, TaskModel
from electralab.model.token_models import CopyMLM, TwoStream, TwoTower

OWN = "electralab_network"
# Shared layers cost no tensors, so that their number says nothing about the file; beyond this it is a damaged one.
_MOST_SHARED_LAYERS = 1000


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """How a class is built from its encoder's settings and from those of its own that `describe` returned."""

    build: Callable[[EncoderConfig, SettingsTree], nn.Module]
    describe: Callable[[Any], SettingsTree] = lambda _: {}


class _Judge(Settings):
    verdict_head: RTDHeadKind
    verdict_adds_cls: bool = False


def _build_discriminator(config: EncoderConfig, own: SettingsTree) -> Discriminator:
    judge = _Judge(verdict_head=own["verdict_head"], verdict_adds_cls=own.get("verdict_adds_cls", False))
    return Discriminator(config, judge.verdict_head, adds_cls=judge.verdict_adds_cls)


def _describe_discriminator(network: Discriminator) -> SettingsTree:
    kind = "linear" if network.head.dense is None else "dense"
    return {"verdict_head": kind, "verdict_adds_cls": network.head.adds_cls}


# A new class of networks needs one line here, and an EncoderConfig as its `config`.
NETWORK_SPECS: dict[str, NetworkSpec] = {
    "Generator": NetworkSpec(lambda config, _: Generator(config)),
    "Discriminator": NetworkSpec(_build_discriminator, _describe_discriminator),
    "Copying": NetworkSpec(lambda config, _: CopyMLM(config)),
    "TwoTower": NetworkSpec(lambda config, _: TwoTower(config)),
    "TwoStream": NetworkSpec(lambda config, _: TwoStream(config)),
    "Tuned": NetworkSpec(
        lambda config, own: TaskModel(Encoder(config), HeadConfig.model_validate(own["head"])),
        lambda network: {"head": network.head_config.model_dump(mode="json")},
    ),
}


# Files keep the names that these classes had when the format was made.
_SAVED_NAMES = {
    "CopyMLM": "Copying",
    "TaskModel": "Tuned",
    "OnnxDiscriminator": "GraphDiscriminator",
    "OnnxGenerator": "GraphGenerator",
    "OnnxTaskModel": "GraphTuned",
}


def network_name(network: nn.Module) -> str:
    """The network's class by the name that config.json and `--json` have for it."""
    name = type(network).__name__
    return _SAVED_NAMES.get(name, name)


def is_expressible(network: nn.Module) -> TypeGuard[Generator | Discriminator]:
    """Whether a class of `transformers` gives the same logits as this pre-trained network."""
    if isinstance(network, Discriminator) and network.head.adds_cls:
        return False
    if isinstance(network, Generator) and network.config.own_head_projection:
        return False
    return type(network) in (Generator, Discriminator) and has_plain_encoder(network)


def has_plain_encoder(network: nn.Module) -> bool:
    """Whether the classes of `transformers` have the network's encoder; a causal one only below a head that guesses."""
    config = network.config
    if isinstance(config, EncoderConfig) and config.is_causal and not isinstance(network, Generator):
        return False
    return isinstance(config, EncoderConfig) and not (
        config.discrepancy_attention
        or config.adaptive_norm
        or config.qk_norm
        or config.shapes
        or config.is_gated != config.is_modern
    )


def is_own(tree: Mapping[str, Any]) -> bool:
    return OWN in tree


def export_own_config(network: nn.Module, described: SettingsTree) -> SettingsTree:
    """`described` says sizes, ids and labels in the words of Hugging Face, for people and cards; nothing reads it."""
    name, config = network_name(network), network.config
    assert isinstance(config, EncoderConfig)
    encoder = config.model_dump(mode="json", exclude=None if config.shapes else {"shapes"})
    own = {"class": name, "encoder": encoder} | NETWORK_SPECS[name].describe(network)
    model_type = OURS + described["model_type"].removeprefix(OURS)
    return {key: value for key, value in described.items() if key != "architectures"} | {
        "model_type": model_type,
        OWN: own,
    }


def export_own_weights(network: nn.Module) -> dict[str, Tensor]:
    weights = merge_tables(network, {name: parameter.detach() for name, parameter in network.named_parameters()})
    return {name: weight.clone(memory_format=torch.contiguous_format) for name, weight in weights.items()}


def read_own(tree: Mapping[str, Any], where: str) -> tuple[str, EncoderConfig, SettingsTree]:
    """The name of the class, its encoder's settings, and all that config.json says of the network."""
    own = tree.get(OWN)
    if not isinstance(own, dict) or not isinstance(own.get("encoder"), dict):
        raise InputError(f"{where}: {OWN} in config.json does not describe a network; restore the file")
    if str(own.get("class")) not in NETWORK_SPECS:
        known = ", ".join(NETWORK_SPECS)
        raise InputError(f"{where}: config.json names the class {quote(own.get('class'))}; known are {known}")
    try:
        return str(own["class"]), EncoderConfig.model_validate(own["encoder"]), own
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error)}; this model cannot be built") from None


def import_own(tree: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> nn.Module:
    """The network of one of the classes above; `where` begins every error."""
    name, config, own = read_own(tree, where)
    recipe = NETWORK_SPECS[name]
    try:
        most_layers = _MOST_SHARED_LAYERS if config.share_layers else len(tensors)
        if config.num_layers > most_layers:
            raise InputError(f"{where}: config.json says {config.num_layers} layers, but the weights are fewer")
        with torch.device("meta"):
            blueprint = recipe.build(config, own)
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error)}; this model cannot be built") from None
    except KeyError as error:
        raise InputError(f"{where}: {OWN} in config.json lacks {error}; restore the file") from None
    saved = {id(parameter): name for name, parameter in blueprint.named_parameters()}
    named = blueprint.named_parameters(remove_duplicate=False)
    weights = gather({name: (saved[id(parameter)],) for name, parameter in named}, tensors, "", where)
    strangers = sorted(tensors.keys() - saved.values())
    if strangers:
        raise InputError(
            f"{where}: holds the tensor {shorten(strangers[0])}, which this architecture lacks; cannot be read"
        )
    return fill(lambda: recipe.build(config, own), weights, where)
