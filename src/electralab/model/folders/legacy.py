"""The one reader of old weights: a pickled PyTorch model or a released TensorFlow checkpoint -> model folder(s).

A pickle can run code when it is read. So it is read by a process of its own
(`python -m electralab.model.folders.legacy`), with torch's reader of tensors alone, and leaves that process as
safetensors only.
"""

import importlib
import importlib.util
import pickle
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from electralab.artifacts import new_folder, write_file, write_json
from electralab.errors import DamagedArtifact, ElectraError, InputError
from electralab.model.folders.folder import INDEX, PICKLE, PICKLE_INDEX, WEIGHTS, list_shards, load_encoder, read_config
from electralab.model.folders.hf_config import CONFIG, ConfigTree

TOKENIZER_FILES = (
    *("vocab.txt", "vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "spiece.model"),
)
_NETWORKS = ("discriminator", "generator")


def import_legacy(old: Path, out: Path) -> list[Path]:
    """The model folders made of OLD: `out` itself, or one below it for each network of a TensorFlow checkpoint."""
    if not old.is_dir():
        raise InputError(f"{old}: no such folder; give the folder that holds the old weights")
    if (old / WEIGHTS).is_file() or (old / INDEX).is_file():
        raise InputError(f"{old}: already holds safetensors, there is nothing to convert; use it as it is")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not empty; choose another --out")
    has_config = not _is_tensorflow(old)
    if has_config:
        read_config(old)
    with new_folder(out) as temporary:
        # -P: a file named torch.py beside the downloaded weights must not be imported.
        command = [sys.executable, "-P", "-m", "electralab.model.folders.legacy", str(old), str(temporary)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            reason = answer.stderr.strip().splitlines()[-1:] or [f"the reading process ended with {answer.returncode}"]
            raise InputError(reason[0].replace(str(temporary), str(out)))
        folders = [temporary] if has_config else [temporary / network for network in _NETWORKS]
        for folder in folders:
            for name in (CONFIG, *TOKENIZER_FILES) if has_config else TOKENIZER_FILES:
                if (old / name).is_file():
                    shutil.copyfile(old / name, folder / name)
            try:  # what cannot be read back must not be left behind
                load_encoder(folder)
            except (InputError, DamagedArtifact) as error:
                # The user knows the folder OLD, not the temporary one.
                raise type(error)(str(error).replace(str(temporary), str(old))) from None
    return [out / folder.relative_to(temporary) for folder in folders]


def main(old: Path, into: Path) -> int:
    """The separate process: its last line on standard error is the reason of a failure."""
    try:
        if not _is_tensorflow(old):
            _write_weights(into / WEIGHTS, rename_tensors(_read_pickles(old)))
            return 0
        prefix = sorted(old.glob("*.index"))[-1].with_suffix("")
        if importlib.util.find_spec("tensorflow") is None:
            raise InputError(
                f"{prefix}: is a TensorFlow checkpoint and TensorFlow is not installed; "
                "run 'pip install tensorflow' and the same command again"
            )
        reader: Any = importlib.import_module("tensorflow").train.load_checkpoint(str(prefix))
        names = reader.get_variable_to_shape_map()
        variables = {name: torch.from_numpy(reader.get_tensor(name)) for name in names}
        for network, tensors in translate_tensorflow(variables).items():
            if not tensors:
                raise InputError(f"{old}: holds no {network}; give a released ELECTRA checkpoint with both networks")
            _write_weights(into / network / WEIGHTS, tensors)
            write_json(into / network / CONFIG, infer_config(tensors))
    except ElectraError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _is_tensorflow(old: Path) -> bool:
    return not (old / PICKLE).is_file() and not (old / PICKLE_INDEX).is_file() and any(old.glob("*.index"))


def _write_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    # A tensor may be a view of another one's storage; a file holds each on its own.
    alone = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    write_file(path, safetensors.torch.save(alone, metadata={"format": "pt"}))


def _read_pickles(old: Path) -> dict[str, Tensor]:
    if (old / PICKLE).is_file():
        paths = [old / PICKLE]
    elif (old / PICKLE_INDEX).is_file():
        paths = list_shards(old / PICKLE_INDEX)
    else:
        raise InputError(
            f"{old}: has neither {PICKLE} nor a TensorFlow checkpoint; give the folder with the old weights"
        )
    tensors: dict[str, Tensor] = {}
    for path in paths:
        try:
            content: Any = torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise InputError(f"{path}: holds more than tensors, so reading it could run code; it is refused") from None
        except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"{path}: cannot be read ({reason}); the file is damaged, copy it again") from None
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict) or not content:
            raise InputError(f"{path}: holds no dictionary of tensors; give a model's saved weights")
        for name, value in content.items():
            if not isinstance(name, str) or not isinstance(value, Tensor):
                raise InputError(f"{path}: its entry {name!r} is not a named tensor; give a model's saved weights")
        tensors.update(content)
    return tensors


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names of older versions -> today's: no DataParallel prefix, norms with weight and bias, no saved counters."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        today = re.sub(r"^(module\.)+", "", name)
        today = re.sub(r"\b(LayerNorm|norm)\.gamma$", r"\1.weight", today)
        today = re.sub(r"\b(LayerNorm|norm)\.beta$", r"\1.bias", today)
        if not today.endswith(("embeddings.position_ids", "embeddings.token_type_ids")):
            renamed[today] = tensor
    return renamed


def translate_tensorflow(variables: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The released names -> today's, for each network; the embeddings belong to both, the optimizer's to none."""
    discriminator: dict[str, Tensor] = {}
    generator: dict[str, Tensor] = {}
    for name, variable in variables.items():
        if name.endswith(("adam_m", "adam_v", "global_step")):
            continue
        root, _, inner = name.partition("/")
        tensor = variable.T if inner.endswith("kernel") else variable
        # layer_3/attention/output/LayerNorm/gamma -> layer.3.attention.output.LayerNorm.weight
        today = re.sub(r"\blayer_(\d+)", r"layer.\1", inner).replace("/", ".")
        today = re.sub(r"\b(kernel|gamma)$", "weight", re.sub(r"\bbeta$", "bias", today))
        today = f"{today}.weight" if today.endswith("_embeddings") else today
        match root:
            case "electra":
                discriminator[f"electra.{today}"] = tensor
                if inner.startswith("embeddings/"):
                    generator.setdefault(f"electra.{today}", tensor)
            case "generator":
                generator[f"electra.{today}"] = tensor
            case "discriminator_predictions":
                discriminator[f"{root}.{today.replace('dense_1.', 'dense_prediction.')}"] = tensor
            case "generator_predictions" if inner == "output_bias":
                generator["generator_lm_head.bias"] = tensor
            case "generator_predictions":
                generator[f"{root}.{today}"] = tensor
    return dict(zip(_NETWORKS, (discriminator, generator), strict=True))


def infer_config(tensors: Mapping[str, Tensor]) -> ConfigTree:
    """A released checkpoint has no config; all but the heads, which are 64 wide there, shows in the shapes."""
    tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    names = (*(f"embeddings.{table}" for table in tables), "encoder.layer.0.intermediate.dense")
    try:
        words, positions, segments, dense = (tensors[f"electra.{name}.weight"].shape for name in names)
    except KeyError as error:
        raise InputError(f"the checkpoint lacks {error.args[0]}; give a released ELECTRA checkpoint") from None
    layers = {int(match[1]) for name in tensors if (match := re.search(r"\.layer\.(\d+)\.", name))}
    is_generator = "generator_lm_head.bias" in tensors
    return {
        "architectures": ["ElectraForMaskedLM" if is_generator else "ElectraForPreTraining"],
        "model_type": "electra",
        "vocab_size": words[0],
        "embedding_size": words[1],
        "hidden_size": dense[1],
        "num_hidden_layers": len(layers),
        "num_attention_heads": max(1, dense[1] // 64),
        "intermediate_size": dense[0],
        "max_position_embeddings": positions[0],
        "type_vocab_size": segments[0],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
