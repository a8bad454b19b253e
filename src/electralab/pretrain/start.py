"""`--init-from`: the weights that new training starts from, ours or Hugging Face's.

run or model folder -> weights of both networks
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from electralab.artifacts import sha256_file, sha256_json
from electralab.errors import InputError
from electralab.model.electra import Electra, Generator
from electralab.model.folder import load_network
from electralab.training.checkpoint import find_latest, read_weights


def describe_origin(origin: Path | None) -> str:
    """The origin's identity: the hash of its weights, not its path; empty for a fresh start."""
    if origin is None:
        return ""
    checkpoint = _find_checkpoint(origin)
    folders = [checkpoint] if checkpoint else _find_networks(origin)
    files = sorted(file for folder in folders for file in folder.glob("model*.safetensors"))
    return sha256_json([sha256_file(file) for file in files])


def load_origin(origin: Path, model: Electra) -> None:
    for where, theirs, target in _read_origin(origin, model):
        _copy(where, theirs, target)


def _read_origin(origin: Path, model: Electra) -> Iterator[tuple[Path, Mapping[str, Tensor], nn.Module]]:
    """Weights, where they lie and what they are for: of a run its checkpoint, else each network on its own.

    A run's exports would not do: what Hugging Face's classes cannot say was merged in them.
    """
    if checkpoint := _find_checkpoint(origin):
        yield checkpoint, read_weights(checkpoint), model
        return
    for folder in _find_networks(origin):
        network = load_network(folder)
        target = model.generator if isinstance(network, Generator) else model.discriminator
        yield folder, dict(network.named_parameters()), target


def _find_checkpoint(origin: Path) -> Path | None:
    return find_latest(origin / "checkpoints", lambda _: None)


def _find_networks(origin: Path) -> list[Path]:
    """A folder with `discriminator` and `generator` in it, or one network alone."""
    for parent in (origin / "export", origin):
        found = [parent / name for name in ("discriminator", "generator") if (parent / name / "config.json").is_file()]
        if found:
            return found
    if (origin / "config.json").is_file():
        return [origin]
    raise InputError(f"{origin}: holds no model to start from (no config.json); give a run or a model folder")


@torch.no_grad()
def _copy(where: Path, theirs: Mapping[str, Tensor], target: nn.Module) -> None:
    for name, parameter in target.named_parameters():
        found = theirs.get(name)
        if found is not None and name.endswith("embeddings.positions.weight"):
            found = found[: len(parameter)]  # a model of longer rows knows the positions of shorter ones
        if found is None or found.shape != parameter.shape:
            got = "absent" if found is None else list(found.shape)
            raise InputError(
                f"{where}: {name} is {got} there, {list(parameter.shape)} here; choose the --size, the settings and "
                "the tokenizer of the model to start from"
            )
        parameter.copy_(found)
