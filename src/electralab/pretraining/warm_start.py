"""What new training starts from: weights of ours or Hugging Face's (`--init-from`), or another run's checkpoint.

run or model folder, or one folder for each network -> weights of both networks
checkpoint of a run -> the first checkpoint of another run (`--branch-from`)

A branch takes over weights, optimizer and step; the schedule is its own. So one long run at a constant rate gives
results at many budgets: each is a short branch in which the rate decays.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from electralab.artifacts import MANIFEST, new_folder, sha256_file, sha256_json, verify_folder, write_file
from electralab.errors import InputError, UsageError
from electralab.model.electra import Generator, TwoTower
from electralab.model.encoder import DisentangledTable
from electralab.model.folders.folder import has_untrained_segments, load_any, load_encoder, locate_model, read_config
from electralab.model.folders.hf_config import AnyFile
from electralab.model.settings import EncoderConfig, GeneratorConfig, ModelConfig, derive_encoders
from electralab.model.weight_transfer import take_rows, transfer_weights
from electralab.objective.objective import Network, Objective
from electralab.records.record import Record
from electralab.records.run import CHECKPOINTS, METRICS, CheckpointState, RunFingerprint
from electralab.tokens.agreement import ABSENT, find_difference, match_tokens
from electralab.tokens.shards import PreparedData
from electralab.tokens.tokenizer import Tokenizer
from electralab.training.checkpoint import find_latest, list_checkpoints, read_weights

_NOTABLE_LOSS = 0.01
_POSITIONS = "embeddings.positions.weight"
# Weights that have a row, or a number, for each token.
_BY_TOKEN = ("embeddings.tokens.weight", "embeddings.tokens.delta", "head.bias")


def fingerprint_start(origin: Path | None, generator: Path | None = None) -> str:
    """The origin's identity: the hash of its weights, not its path; empty for a fresh start."""
    if origin is None:
        return ""
    if generator is not None:
        return sha256_json([fingerprint_start(folder) for folder, _ in _list_sources(origin, generator)])
    checkpoint = find_latest(origin / CHECKPOINTS)
    folders = [checkpoint] if checkpoint else _find_networks(origin)
    files = sorted(file for folder in folders for file in folder.glob("model*.safetensors"))
    return sha256_json([sha256_file(file) for file in files])


def find_max_positions(origin: Path) -> int:
    """The longest row that the origin's networks read; 0 where it does not say."""
    checkpoint = find_latest(origin / CHECKPOINTS)
    if checkpoint is not None and not _has_networks(origin):
        tables = [weight for name, weight in read_weights(checkpoint).items() if name.endswith(_POSITIONS)]
        return max(map(len, tables), default=0)
    longest = [AnyFile.model_validate(read_config(folder)).max_position_embeddings for folder in _find_networks(origin)]
    return max((length for length in longest if isinstance(length, int)), default=0)


def is_without_second_segment(origin: Path | None) -> bool:
    """Whether the second segment is as it was drawn in what a run starts from; one that does not say has trained it."""
    if origin is None:
        return True
    if find_latest(origin / CHECKPOINTS) is not None and not _has_networks(origin):
        return False
    return any(map(has_untrained_segments, _find_networks(origin)))


def load_pretrained(
    origin: Path,
    objective: Objective[Any],
    data: PreparedData,
    *,
    generator: Path | None = None,
    by_text: bool = False,
) -> list[str]:
    """Take over the origin's weights in place; returned is what the user should know about how well they fitted.

    The generator's weights may lie in a folder of their own. Ids of the data must mean the origin's tokens; `by_text`,
    the rows of tokens that both vocabularies have are carried over, and the others begin as drawn.
    """
    checkpoint = find_latest(origin / CHECKPOINTS) if generator is None else None
    weights = read_weights(checkpoint) if checkpoint else {}
    if checkpoint is None or (_names(weights) != _names(_learning(objective.networks)) and _has_networks(origin)):
        # Of another objective the exports may still fit: networks are told by their roles there.
        return _load_networks(origin, generator, objective.exports(), data, by_text)
    # A run's exports would do less well: what Hugging Face's classes cannot say was merged in them.
    stored = RunFingerprint.read(origin)
    settings = _NetworkSettings.model_validate(stored.settings)
    mine = next(iter(objective.exports().values())).config
    sizes = {"vocab_size": mine.vocab_size, "sequence_length": mine.sequence_length}
    theirs = derive_encoders(settings.model, settings.generator, **sizes)
    alone = theirs[1].model_copy(update={"is_causal": settings.objective == "causal"})
    notes: list[str] = []
    for role, network in objective.exports().items():
        by_role = {"generator": theirs[0], "model": alone}
        notes += _check_compatible(checkpoint, by_role.get(role, theirs[1]), network.config)
    rows: Tensor | None = None
    if stored.data != data.identity:
        exported = _find_networks(origin) if _has_networks(origin) else []
        rows, told = _match_rows(origin, exported[0] if exported else checkpoint, data, by_text)
        notes += told
    _copy(checkpoint, weights, objective.networks, rows)
    return notes


class _NetworkSettings(Record):
    """What the stored settings of a run say of its networks."""

    model: ModelConfig
    generator: GeneratorConfig
    objective: str = ""


def _match_rows(origin: Path, folder: Path, data: PreparedData, by_text: bool) -> tuple[Tensor | None, list[str]]:
    """(V,) the row of each token of the data in the origin's table, or None where all ids agree; and what to say."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        if by_text:
            raise InputError(
                f"{folder}: holds no tokenizer, so --match-tokens cannot tell its tokens; put its tokenizer.json or "
                "vocab.txt there"
            )
        return None, [
            f"{origin}: holds no tokenizer, so that its ids are those of {data.path} is taken on trust; put its "
            "tokenizer.json or vocab.txt there to have it checked"
        ]
    theirs = Tokenizer.load(folder)
    difference = find_difference(data.tokenizer, theirs)
    if not difference:
        return None, []
    if not by_text:
        raise InputError(
            f"{folder}: its tokenizer {difference}, compared with {data.path}, so its weights would read other words; "
            f"prepare the text with --tokenizer {folder}, or carry over the tokens that both have: --match-tokens"
        )
    rows = match_tokens(data.tokenizer, theirs)
    carried = int(np.count_nonzero(rows != ABSENT))
    return torch.from_numpy(rows), [
        f"{origin}: {carried:,} of {len(rows):,} tokens are carried over by their text, {len(rows) - carried:,} start "
        "from random weights"
    ]


def _learning(networks: nn.Module) -> dict[str, Tensor]:
    return {name: parameter for name, parameter in networks.named_parameters() if parameter.requires_grad}


def _names(weights: Iterable[str]) -> set[str]:
    """Heads of the origin's own tasks stay behind, those of new tasks begin as drawn."""
    return {name for name in weights if not name.startswith("heads.")}


def _load_networks(
    origin: Path, generator: Path | None, networks: Mapping[str, Network], data: PreparedData, by_text: bool
) -> list[str]:
    """Each into the network of its role; where only one is trained, whatever encoder there is begins it."""
    mine = {role: network for role, network in networks.items() if _learning(network)}
    if generator is not None and "generator" not in mine:
        raise UsageError("--init-generator: these settings train no generator; leave it out")
    plain = {role: network for role, network in mine.items() if not isinstance(network, TwoTower)}
    sources = _list_sources(origin, generator)
    if any(isinstance(network.encoder.embeddings.tokens, DisentangledTable) for network in plain.values()):
        sources = sources[::-1]  # the generator's table first: the discriminator's is a difference from it
    notes = []
    begun: set[str] = set()
    settled: list[nn.Parameter] = []
    for folder, asked_role in sources:
        loaded = load_any(folder)
        role = asked_role or _find_role(folder, loaded, mine)
        if asked_role == "generator" and not isinstance(loaded, Generator | TwoTower):
            raise InputError(f"{folder}: holds no generator, which --init-generator needs; give the folder of one")
        if asked_role is None and generator is not None and role == "generator":
            raise InputError(f"{folder}: holds a generator; give --init-from the discriminator that goes with it")
        network = mine.get(role)
        if network is None:
            continue
        rows, told = _match_rows(folder if asked_role else origin, folder, data, by_text)
        notes += told
        if isinstance(network, TwoTower) or isinstance(loaded, TwoTower):
            if isinstance(network, TwoTower) and isinstance(loaded, TwoTower):
                _check_compatible(folder, loaded.config, network.config)
                _copy(folder, dict(loaded.named_parameters()), network, rows)
            else:
                notes.append(
                    f"{folder}: two towers and a single network cannot start from each other; "
                    "the generator starts from random weights"
                )
            begun.add(role)
            continue
        source = loaded if isinstance(loaded, type(network)) else load_encoder(folder)
        notes += _check_compatible(folder, source.config, network.config)
        lost = transfer_weights(network, source, str(folder), settled=settled, rows=rows)
        if lost > _NOTABLE_LOSS and settled:
            notes.append(
                f"{folder}: its token table is not the one that both networks share from now on (they differ by "
                f"{lost:.0%}), so it has to learn to read with that one; keep both with --model.sharing none"
            )
        elif lost > _NOTABLE_LOSS:
            notes.append(f"{folder}: {lost:.0%} of its token table does not fit the factors of the settings")
        if source is not loaded:
            notes.append(
                f"{folder}: has no head of the kind that the {role} needs; the {role}'s head starts from random weights"
            )
        settled += network.parameters()
        begun.add(role)
        if len(mine) == 1:
            break
    for role in mine.keys() - begun:
        remedy = "; give one with --init-generator" if role == "generator" else ""
        settled_ids = {id(parameter) for parameter in settled}
        is_shared = any(id(parameter) in settled_ids for parameter in mine[role].parameters())
        shared = "what it does not share" if is_shared else "it"
        notes.append(f"{origin}: holds no {role} to start from: {shared} starts from random weights{remedy}")
    # Once each: both networks of a pair may say the same of their tokenizer.
    return list(dict.fromkeys(notes))


def _find_role(folder: Path, loaded: nn.Module, networks: Mapping[str, Network]) -> str:
    """Its own name's if there is such a role, else the one that what it was taught is nearest to.

    A language model begins the generator if it has its size, else the discriminator.
    """
    if folder.name in networks:
        return folder.name
    if "model" in networks:
        return "model"
    generator = networks.get("generator")
    if isinstance(loaded, Generator) and generator is not None:
        theirs, mine = loaded.config, generator.config
        has_its_size = (theirs.hidden_size, theirs.num_layers) == (mine.hidden_size, mine.num_layers)
        return "generator" if has_its_size or "discriminator" not in networks else "discriminator"
    return "discriminator"


def _check_compatible(where: Path, theirs: EncoderConfig, mine: EncoderConfig) -> list[str]:
    """What decides how weights are used but not their shapes: these would load, and mean something else.

    Returned is what the user should know.
    """
    has_windows = theirs.local_attention or mine.local_attention
    names = ["backbone", "num_layers", "num_heads", "norm_eps", "qk_norm", "gated_feedforward", "own_head_projection"]
    if mine.is_causal:  # one that looked ahead knows what it is to guess; the other way round there is only more to see
        names.append("is_causal")
    if mine.is_modern:
        names += ["local_attention", "global_rope_theta"]
        names += ["local_layers", "local_rope_theta"] if has_windows else []
    for name in names:
        if getattr(theirs, name) != getattr(mine, name):
            raise InputError(
                f"{where}: has {name} {getattr(theirs, name)}, the settings say {getattr(mine, name)}; "
                "give the model settings of what to start from"
            )
    if theirs.is_causal and not mine.is_causal:
        return [f"{where}: read from left to right; from now on every token sees both sides"]
    return []


def _has_networks(origin: Path) -> bool:
    return any((origin / "export").glob("*/config.json"))


def _list_sources(origin: Path, generator: Path | None) -> list[tuple[Path, str | None]]:
    """Folders, and the role of the one that was named by it; the generator last, as in a folder of both."""
    folders: list[tuple[Path, str | None]] = [(folder, None) for folder in _find_networks(origin)]
    if generator is None:
        return folders
    others = [(folder, role) for folder, role in folders if folder == origin or folder.name != "generator"]
    return [*others, (locate_model(generator, "generator"), "generator")]


def _find_networks(origin: Path) -> list[Path]:
    """A folder with `discriminator` and `generator` in it, or one network alone.

    The generator last: of a table that both have, the wider network knows more.
    """
    for parent in (origin / "export", origin):
        folders = [parent / name for name in ("discriminator", "model", "generator")]
        networks = [folder for folder in folders if (folder / "config.json").is_file()]
        if networks:
            return networks
    if (origin / "config.json").is_file():
        return [origin]
    raise InputError(f"{origin}: holds no model to start from (no config.json); give a run or a model folder")


@torch.no_grad()
def _copy(where: Path, theirs: Mapping[str, Tensor], target: nn.Module, rows: Tensor | None) -> None:
    known = _learning(target)
    for name in sorted(_names(theirs) - {name for name, _ in target.named_parameters()}):
        raise InputError(f"{where}: has {name}, the settings do not; give the model settings of what to start from")
    for name in sorted(_names(known)):
        parameter, weight = known[name], theirs.get(name)
        if weight is not None and rows is not None and name.endswith(_BY_TOKEN):
            weight = take_rows(weight, parameter, rows)
        if weight is not None and name.endswith(_POSITIONS):
            weight = weight[: len(parameter)]  # a model of longer rows knows the positions of shorter ones
        if weight is None or weight.shape != parameter.shape:
            got = "absent" if weight is None else list(weight.shape)
            raise InputError(
                f"{where}: {name} is {got} there, {list(parameter.shape)} here; choose the --size, the settings and "
                "the tokenizer of the model to start from"
            )
        parameter.copy_(weight)


def find_branch_point(path: Path) -> Path:
    """The checkpoint that is meant: the folder itself, or the latest of a run."""
    checkpoint = path if path.parent.name == CHECKPOINTS else find_latest(path / CHECKPOINTS)
    if checkpoint is None or not (checkpoint / MANIFEST).is_file():
        raise InputError(
            f"{path}: holds no checkpoint to go on from; give a folder such as RUN/checkpoints/step-1000, or a run"
        )
    verify_folder(checkpoint, "give another checkpoint")
    return checkpoint


def check_branch(checkpoint: Path, data: PreparedData, total_steps: int) -> None:
    """The rows already seen are told by the step alone, so the data must be the same; and steps must be left."""
    run_dir = checkpoint.parent.parent
    if RunFingerprint.read(run_dir).data != data.identity:
        raise InputError(f"{run_dir}: was trained on other data than {data.path}; give --branch-from a run on the same")
    step = CheckpointState.read(checkpoint).progress.step
    if step >= total_steps:
        raise UsageError(
            f"--branch-from: {checkpoint} is at step {step:,}, and this run would have {total_steps:,} steps in all; "
            "give a larger budget or an earlier checkpoint"
        )


def begin_branch(run_dir: Path, checkpoint: Path) -> None:
    """Copy the checkpoint and what was logged up to it, unless the run has checkpoints already."""
    if list_checkpoints(run_dir / CHECKPOINTS):
        return
    log = checkpoint.parent.parent / METRICS
    if log.is_file():  # what was logged after the checkpoint is cut off when the log is opened
        write_file(run_dir / METRICS, log.read_bytes())
    step = CheckpointState.read(checkpoint).progress.step
    with new_folder(run_dir / CHECKPOINTS / f"step-{step}", kind="checkpoint", step=step) as folder:
        for file in checkpoint.iterdir():
            if file.name != MANIFEST:
                shutil.copyfile(file, folder / file.name)
