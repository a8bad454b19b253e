"""A model folder is Hugging Face's, or like it where theirs has no such network: config.json + weights <-> network.

The caller owns the folder (its temporary name, its manifest) and adds the tokenizer's files.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast, get_args

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from electralab.artifacts import MANIFEST, read_json, verify_folder, write_file, write_json
from electralab.errors import DamagedArtifact, InputError, quote, shorten
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import Encoder
from electralab.model.folders import hf_config, hf_weights, native_format
from electralab.model.folders.hf_config import (
    CONFIG,
    OBJECTIVE,
    UNTRAINED_SEGMENTS,
    AnyFile,
    ConfigTree,
    SpecialTokenIds,
)
from electralab.model.folders.native_format import is_onnx, network_name
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import TaskModel
from electralab.records.kinds import find_kind

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"

# How weights are stored. They are computed with as fp32 whatever they were stored as.
Storage = Literal["fp32", "fp16", "bf16"]
_DTYPES: dict[Storage, torch.dtype] = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

# The networks of a run by the names of their folders, and what to call them. A run that is not about a pair has a
# model, pre-trained or tuned.
Role = Literal["discriminator", "generator", "model"]
_ROLES: dict[Role, str] = {"discriminator": "a discriminator", "generator": "a generator", "model": "a tuned model"}


# ---------------------------------------------------------------------------------------------------------------- save


def save_network(
    folder: Path,
    network: nn.Module,
    *,
    pad_id: int,
    cls_id: int | None = None,
    sep_id: int | None = None,
    objective: str = "",
    has_untrained_segments: bool = False,
    storage: Storage = "fp32",
) -> None:
    """A network of any class. `objective` is the name of what a pre-trained one was taught by."""
    assert isinstance(network.config, EncoderConfig)
    ids = SpecialTokenIds(pad_id, cls_id, sep_id)
    if isinstance(network, TaskModel):
        config, is_theirs = hf_config.export_task_config(network, ids), hf_config.has_plain_encoder(network)
    elif is_theirs := hf_config.is_expressible(network):
        config = hf_config.export_config(network, ids)
    else:
        config = hf_config.export_encoder_config(network.config, ids)
    if is_theirs:
        tensors = hf_weights.export_weights(network)
    else:
        config, tensors = native_format.export_own_config(network, config), native_format.export_own_weights(network)
    if objective:
        config[OBJECTIVE] = objective
    if has_untrained_segments:
        config[UNTRAINED_SEGMENTS] = True
    if storage != "fp32":
        dtype = _DTYPES[storage]
        tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
        large = [name for name, tensor in tensors.items() if not tensor.isfinite().all()]
        if large:
            raise InputError(f"{folder}: {large[0]} has weights too large for {storage}; store them as bf16 or fp32")
        config |= {"dtype": str(dtype).removeprefix("torch.")}
    write_file(folder / WEIGHTS, safetensors.torch.save(tensors, metadata={"format": "pt"}))
    write_json(folder / CONFIG, config)


# ---------------------------------------------------------------------------------------------------------------- load


def load_network(folder: Path) -> Generator | Discriminator:
    """A generator or a discriminator, whichever the folder holds, ready for evaluation."""
    network = _load(folder, hf_weights.import_network)
    if not isinstance(network, Generator | Discriminator):
        raise InputError(f"{folder}: holds a {network_name(network).lower()}; give a generator or a discriminator")
    return network


def load_task_model(folder: Path) -> TaskModel:
    """A network tuned for a task, here or with `transformers`, ready for evaluation."""
    network = _load(folder, hf_weights.import_task_model)
    if not isinstance(network, TaskModel):
        raise InputError(
            f"{folder}: holds a {network_name(network).lower()}, which is not tuned for a task; "
            f"run 'electra finetune {folder}' and give its result"
        )
    return network


def load_any(folder: Path, *, takes_bare_encoder: bool = False) -> nn.Module:
    """Whichever network the folder holds; its settings are its `config`.

    An encoder without a head answers nothing by itself: it is for callers that only need its states.
    """

    def import_any(config: ConfigTree, tensors: dict[str, Tensor], where: str) -> nn.Module:
        if takes_bare_encoder and not hf_weights.has_head(tensors):
            return hf_weights.import_encoder(config, tensors, where)
        is_tuned = hf_config.TUNED_OUTPUTS & tensors.keys() and not hf_config.has_verdicts(config, tensors)
        return (hf_weights.import_task_model if is_tuned else hf_weights.import_network)(config, tensors, where)

    return _load(folder, import_any, takes_bert=True)


def load_encoder(folder: Path) -> Encoder:
    """The encoder alone, from a folder with any head or none."""
    if is_onnx(folder):
        raise InputError(f"{folder}: is a graph, which only answers; give the model that it was exported from")
    network = _load(folder, hf_weights.import_encoder, takes_bert=True)
    encoder = network if isinstance(network, Encoder) else getattr(network, "encoder", None)
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"{folder}: holds a {network_name(network).lower()}, which has not one encoder; give another model"
        )
    return encoder


def _load(
    folder: Path,
    import_foreign: Callable[[ConfigTree, dict[str, Tensor], str], nn.Module],
    *,
    takes_bert: bool = False,
) -> nn.Module:
    """A network in our own words, as weights or as a graph; or in Hugging Face's, which `import_foreign` reads, BERT's,
    where it is taken, in those of ELECTRA."""
    if (folder / MANIFEST).is_file():
        verify_folder(folder, f"restore it, or delete {MANIFEST} if you changed the file on purpose")
    config = read_config(folder)
    if is_onnx(folder):
        return native_format.load_onnx(folder, config)
    if native_format.OWN in config:
        return native_format.import_own(config, _read_tensors(folder), str(folder)).eval()
    # The sizes are held against the header of the weights first: a file that lies about them is not read at all.
    shapes: dict[str, hf_weights.Shape] = {}
    for path in _list_weights(folder):
        with _damage(path), safetensors.safe_open(path, framework="pt") as file:
            shapes.update({name: tuple(file.get_slice(name).get_shape()) for name in file.keys()})  # noqa: SIM118
    is_bert = takes_bert and AnyFile.model_validate(config).model_type == "bert"
    if is_bert:
        config, shapes = hf_weights.translate_config(config), hf_weights.translate_names(shapes)
    hf_weights.require_sizes(config, shapes, str(folder))
    tensors = _read_tensors(folder)
    tensors = hf_weights.translate_names(tensors) if is_bert else tensors
    return import_foreign(config, tensors, str(folder)).eval()


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    """Their name -> tensor, from one file or from the shards that an index names."""
    tensors: dict[str, Tensor] = {}
    for path in _list_weights(folder):
        with _damage(path):
            tensors.update(safetensors.torch.load_file(path))
    return tensors


def _list_weights(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return list_shards(folder / INDEX)
    for name in (PICKLE, PICKLE_INDEX):
        if (folder / name).is_file():
            raise InputError(
                f"{folder}: holds {name}, a pickle, which can run code when read; "
                f"convert it with 'electra import {folder} --out NEW' and use NEW"
            )
    raise InputError(f"{folder}: has no {WEIGHTS}; give a folder with the weights")


def list_shards(index_path: Path) -> list[Path]:
    """The files that an index names, all of them in its own folder."""
    index = read_json(index_path)
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise DamagedArtifact(f"{index_path}: has no weight_map; the file is damaged")
    shards = [index_path.parent / name for name in sorted(set(files.values()))]
    for name, shard in zip(sorted(set(files.values())), shards, strict=True):
        # By name, not by where it leads: in a download cache the files of a folder are links to elsewhere.
        if Path(name).name != name or name in ("", ".", ".."):
            raise InputError(f"{index_path}: names {quote(name)}, which is not a file of this folder; do not trust it")
        if not shard.is_file():
            raise InputError(f"{index_path}: names {shorten(name)}, which is missing; copy the whole folder again")
    return shards


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise DamagedArtifact(f"{path}: cannot be read ({error}); the file is damaged, copy it again") from None


# --------------------------------------------------------------------------------------------------- config.json alone


def read_config(folder: Path) -> ConfigTree:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give a model folder")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder}: has no {CONFIG}, so it is not a model folder; give one that has")
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise DamagedArtifact(f"{folder / CONFIG}: not a JSON object; the file is damaged")
    return config


def has_untrained_segments(folder: Path) -> bool:
    """Whether its second segment, that of the second text of a pair, has never been seen in training."""
    return AnyFile.model_validate(read_config(folder)).untrained_segments is True


def read_objective(folder: Path) -> str:
    """What its network was taught by; empty where it does not say."""
    return str(AnyFile.model_validate(read_config(folder)).objective or "")


def outputs_energies(folder: Path) -> bool:
    """Whether its discriminator says energies, minus log p up to a constant, not how likely a token is replaced."""
    return read_objective(folder) == "electric"


# ----------------------------------------------------------------------------------------- what a MODEL argument means


def locate_model(path: Path, *roles: Role) -> Path:
    """The first of these networks that a run or a pair has, or the model folder itself."""
    try:
        for folder in (*(parent / role for parent in (path / "export", path) for role in roles), path):
            if (folder / CONFIG).is_file():
                return folder
        others = [parent / role for parent in (path / "export", path) for role in get_args(Role)]
        others = [folder for folder in others if (folder / CONFIG).is_file()]
        absence = "" if others else _explain_absence(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); change its permissions or give another") from None
    if not others:
        raise InputError(f"{path}: {absence}")
    names = []
    for folder in others:
        is_language_model = folder.name == "model" and read_objective(folder) != ""
        names.append("a language model" if is_language_model else _ROLES[cast(Role, folder.name)])
    remedy = "give a run or a model folder with one"
    if roles == ("model",):
        remedy = f"run 'electra finetune {path}' and give its result"
    raise InputError(f"{path}: holds {' and '.join(names)}, but not {_ROLES[roles[0]]}; {remedy}")


def locate_encoder(path: Path) -> Path:
    """Where only the encoder matters: the discriminator, else the one model of a run, or a model folder itself."""
    return locate_model(path, "discriminator", "model")


def locate_networks(path: Path) -> list[Path]:
    """What there is: both networks of a pair, or the only one, the one model of a run, or a model folder itself."""
    first = locate_model(path, "discriminator", "model", "generator")
    return sorted({first, locate_model(path, "model", "generator", "discriminator")})


def _explain_absence(path: Path) -> str:
    """Why there is no model at a path, by what is there instead."""
    if not path.exists():
        return "no such file or folder; give a run or a model folder"
    if not path.is_dir():
        return "is a file, not a model; give a run or a model folder"
    kind = find_kind(path)
    if kind is not None and kind.name == "fit" and (path / "fit.json").is_file():
        return "holds a fitted model that is not one network; it predicts, and each tuning-N in it is a fine-tuning run"
    if kind is not None and kind.name in ("run", "fine-tuning run", "fit"):
        return f"this run has not exported its networks yet; let 'electra {kind.verb}' finish it"
    if kind is not None and kind.name == "data":
        return f"is prepared data, not a model; train one with 'electra pretrain --data {path} --out RUN' and give RUN"
    if kind is not None:
        return f"holds {kind.noun}, not a model; give a run or a model folder"
    return f"holds no model (no {CONFIG}); give a run or a model folder"
