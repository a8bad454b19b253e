"""`--init-from`: the weights that new training starts from, ours or Hugging Face's.

run or model folder -> weights of both networks
"""

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electralab.artifacts import read_json, sha256_file, sha256_json
from electralab.errors import InputError
from electralab.model.adoption import adopt_weights
from electralab.model.electra import Generator
from electralab.model.embeddings import DisentangledTable
from electralab.model.encoder import EncoderConfig
from electralab.model.folder import load_any, load_encoder
from electralab.model.settings import GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.towers import TwoTower
from electralab.objective.objective import Network, Objective
from electralab.training.checkpoint import find_latest, read_weights

_NOTABLE_LOSS = 0.01


def describe_origin(origin: Path | None) -> str:
    """The origin's identity: the hash of its weights, not its path; empty for a fresh start."""
    if origin is None:
        return ""
    checkpoint = _find_checkpoint(origin)
    folders = [checkpoint] if checkpoint else _find_networks(origin)
    files = sorted(file for folder in folders for file in folder.glob("model*.safetensors"))
    return sha256_json([sha256_file(file) for file in files])


def load_origin(origin: Path, objective: Objective[Any]) -> list[str]:
    """Take over the origin's weights in place; returned is what the user should know about how well they fitted."""
    checkpoint = _find_checkpoint(origin)
    weights = read_weights(checkpoint) if checkpoint else {}
    if checkpoint is None or (_names(weights) != _names(_learning(objective.networks)) and _has_networks(origin)):
        # Of another objective the exports may still fit: networks are told by their roles there.
        return _load_networks(_find_networks(origin), objective.exports())
    # A run's exports would do less well: what Hugging Face's classes cannot say was merged in them.
    settings = read_json(origin / "run.json")["settings"]
    mine = next(iter(objective.exports().values())).config
    theirs = derive_encoders(
        ModelConfig.model_validate(settings["model"]),
        GeneratorConfig.model_validate(settings["generator"]),
        vocab_size=mine.vocab_size,
        sequence_length=mine.sequence_length,
    )
    alone = theirs[1].model_copy(update={"is_causal": settings.get("objective") == "causal"})
    for role, network in objective.exports().items():
        by_role = {"generator": theirs[0], "model": alone}
        _require_same(checkpoint, by_role.get(role, theirs[1]), network.config)
    _copy(checkpoint, weights, objective.networks)
    return []


def _names(weights: Mapping[str, Tensor]) -> set[str]:
    """Heads of the origin's own tasks stay behind, those of new tasks begin as drawn."""
    return {name for name in weights if not name.startswith("heads.")}


def _learning(networks: nn.Module) -> dict[str, Tensor]:
    return {name: one for name, one in networks.named_parameters() if one.requires_grad}


def _load_networks(folders: list[Path], networks: Mapping[str, Network]) -> list[str]:
    """Each into the network of its role; where only one is trained, whatever encoder there is begins it."""
    mine = {role: network for role, network in networks.items() if _learning(network)}
    plain = {role: network for role, network in mine.items() if not isinstance(network, TwoTower)}
    if any(isinstance(network.encoder.embeddings.tokens, DisentangledTable) for network in plain.values()):
        folders = folders[::-1]  # the generator's table first: the discriminator's is a difference from it
    notes = []
    settled: list[nn.Parameter] = []
    for folder in folders:
        found = load_any(folder)
        network = mine.get(_find_role(folder, found, mine))
        if network is None:
            continue
        if isinstance(network, TwoTower) or isinstance(found, TwoTower):
            notes += _load_towers(folder, found, network)
            continue
        source = found if isinstance(found, type(network)) else load_encoder(folder)
        _require_same(folder, source.config, network.config)
        lost = adopt_weights(network, source, str(folder), settled=settled)
        if lost > _NOTABLE_LOSS and settled:
            notes.append(
                f"{folder}: its token table is not the one that both networks share from now on (they differ by "
                f"{lost:.0%}), so it has to learn to read with that one; keep both with --model.sharing none"
            )
        elif lost > _NOTABLE_LOSS:
            notes.append(f"{folder}: {lost:.0%} of its token table does not fit the factors of the settings")
        settled += network.parameters()
        if len(mine) == 1:
            break
    return notes


def _load_towers(folder: Path, found: nn.Module, network: Network) -> list[str]:
    if not (isinstance(network, TwoTower) and isinstance(found, TwoTower)):
        return [f"{folder}: two towers and a single network do not begin as each other; the generator begins anew"]
    _require_same(folder, found.config, network.config)
    _copy(folder, dict(found.named_parameters()), network)
    return []


def _find_role(folder: Path, found: nn.Module, roles: Container[str]) -> str:
    """Its own name's if there is such a role, else the one that what it was taught is nearest to."""
    if folder.name in roles:
        return folder.name
    if "model" in roles:
        return "model"
    return "generator" if isinstance(found, Generator) and "generator" in roles else "discriminator"


def _require_same(where: Path, theirs: EncoderConfig, mine: EncoderConfig) -> None:
    """What decides how weights are used but not their shapes: these would load, and mean something else."""
    has_windows = theirs.local_attention or mine.local_attention
    names = ["backbone", "num_layers", "num_heads", "norm_eps", "is_causal"]
    if mine.is_modern:
        names += ["local_attention", "global_rope_theta"]
        names += ["local_layers", "local_rope_theta"] if has_windows else []
    for name in names:
        if getattr(theirs, name) != getattr(mine, name):
            raise InputError(
                f"{where}: has {name} {getattr(theirs, name)}, the settings say {getattr(mine, name)}; "
                "give the model settings of what to start from"
            )


def _find_checkpoint(origin: Path) -> Path | None:
    return find_latest(origin / "checkpoints", lambda _: None)


def _has_networks(origin: Path) -> bool:
    return any((origin / "export").glob("*/config.json"))


def _find_networks(origin: Path) -> list[Path]:
    """A folder with `discriminator` and `generator` in it, or one network alone.

    The generator last: of a table that both have, the wider network knows more.
    """
    for parent in (origin / "export", origin):
        found = [
            parent / name
            for name in ("discriminator", "model", "generator")
            if (parent / name / "config.json").is_file()
        ]
        if found:
            return found
    if (origin / "config.json").is_file():
        return [origin]
    raise InputError(f"{origin}: holds no model to start from (no config.json); give a run or a model folder")


@torch.no_grad()
def _copy(where: Path, theirs: Mapping[str, Tensor], target: nn.Module) -> None:
    known = _learning(target)
    for name in sorted(_names(theirs) - {name for name, _ in target.named_parameters()}):
        raise InputError(f"{where}: has {name}, the settings do not; give the model settings of what to start from")
    for name in sorted(_names(known)):
        parameter, found = known[name], theirs.get(name)
        if found is not None and name.endswith("embeddings.positions.weight"):
            found = found[: len(parameter)]  # a model of longer rows knows the positions of shorter ones
        if found is None or found.shape != parameter.shape:
            got = "absent" if found is None else list(found.shape)
            raise InputError(
                f"{where}: {name} is {got} there, {list(parameter.shape)} here; choose the --size, the settings and "
                "the tokenizer of the model to start from"
            )
        parameter.copy_(found)
