"""`--init-from`: the weights that new training starts from, ours or Hugging Face's.

model folder -> weights of both networks
"""

from pathlib import Path

import torch
from torch import nn

from electralab.artifacts import sha256_file, sha256_json
from electralab.errors import InputError
from electralab.model.electra import Discriminator, Electra, Generator
from electralab.model.folder import load_network


def _folders(origin: Path) -> list[Path]:
    """A run's two exports, a folder with `discriminator` and `generator` in it, or one network alone."""
    for parent in (origin / "export", origin):
        found = [parent / name for name in ("discriminator", "generator") if (parent / name / "config.json").is_file()]
        if found:
            return found
    if (origin / "config.json").is_file():
        return [origin]
    raise InputError(f"{origin}: holds no model to start from (no config.json); give a run or a model folder")


def describe_origin(origin: Path | None) -> str:
    """The origin's identity: the hash of its weights, not its path; empty for a fresh start."""
    if origin is None:
        return ""
    files = sorted(file for folder in _folders(origin) for file in folder.glob("*.safetensors"))
    return sha256_json([sha256_file(file) for file in files])


def load_origin(origin: Path, model: Electra) -> None:
    for folder in _folders(origin):
        network = load_network(folder)
        mine = model.generator if isinstance(network, Generator) else model.discriminator
        _copy(folder, network, mine)


@torch.no_grad()
def _copy(folder: Path, source: Generator | Discriminator, target: nn.Module) -> None:
    theirs = dict(source.named_parameters())
    for name, parameter in target.named_parameters():
        found = theirs.get(name)
        if found is None or found.shape != parameter.shape:
            got = "absent" if found is None else list(found.shape)
            raise InputError(
                f"{folder}: {name} is {got} there, {list(parameter.shape)} here; choose the --size, the settings and "
                "the tokenizer of the model to start from"
            )
        parameter.copy_(found)
