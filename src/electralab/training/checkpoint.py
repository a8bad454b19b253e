"""A training state <-> a folder `checkpoints/step-N` of safetensors and JSON that verifies, or does not count.

model, optimizer, progress -> checkpoint -> the same, bit for bit
"""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from electralab.artifacts import new_folder, verify_folder
from electralab.errors import DamagedArtifact
from electralab.records.run import CheckpointState, RunProgress, StepRecord, StoredLossScale
from electralab.training.loop import LossScale
from electralab.training.optimizer import Optimizer

_NAME = re.compile(r"step-(\d+)")
_REMEDY = "resuming from an older checkpoint, if there is one"


@dataclass(slots=True)
class TrainingProgress:
    """Where a run is: everything beside weights and optimizer state that the next step depends on, or reports."""

    step: int = 0
    tokens: int = 0
    flops: int = 0
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    seconds: float = 0.0

    def to_record(self) -> RunProgress:
        return RunProgress(**asdict(self))


@dataclass(slots=True)
class TrainingState:
    model: nn.Module
    optimizer: Optimizer
    scale: LossScale
    progress: TrainingProgress
    pending: StepRecord | None
    """What is to be logged of the last step, if a stop came between the step and its log."""


def save_checkpoint(
    checkpoints_dir: Path, state: TrainingState, keep: int, write_moments: Callable[[Path], None] | None = None
) -> Path:
    """Write step-N beside the others, then let go of all but the newest `keep`. `write_moments` has the optimizer's
    state written into the folder by those who have it, in files of any number."""
    step = state.progress.step
    path = checkpoints_dir / f"step-{step}"
    with new_folder(path, kind="checkpoint", step=step) as folder:
        tensors = {"model": _model_tensors(state.model)}
        if write_moments is None:
            tensors["optimizer"] = state.optimizer.tensors()
        else:
            write_moments(folder)
        for name, live in tensors.items():
            assert all(tensor.is_contiguous() for tensor in live.values())
            save_file(live, folder / f"{name}.safetensors")
        stored = CheckpointState(
            progress=state.progress.to_record(),
            loss_scale=StoredLossScale(value=state.scale.value, calm_steps=state.scale.good_steps),
            pending=state.pending,
        )
        # Not by `stored.write`: the folder is synced as a whole.
        (folder / CheckpointState.FILE).write_text(json.dumps(stored.to_json(), indent=2))
    # What lies above the one just written is a damaged leftover that resuming passed over.
    checkpoints = list_checkpoints(checkpoints_dir)
    newer = [other for other in checkpoints if checkpoint_step(other) > step]
    older = [other for other in checkpoints if checkpoint_step(other) < step]
    for old in [*newer, *older[max(keep, 1) - 1 :]]:
        shutil.rmtree(old)
    return path


def write_part(folder: Path, tensors: dict[str, Tensor], rank: int, size: int) -> None:
    """A share of the optimizer's state, by a rank that has it; the folder is synced and hashed by the first."""
    save_file(tensors, folder / f"optimizer-{rank + 1:05}-of-{size:05}.safetensors")


def checkpoint_step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def list_checkpoints(checkpoints_dir: Path) -> list[Path]:
    """Newest first; temporaries begin with a dot and are not among them."""
    if not checkpoints_dir.is_dir():
        return []
    return sorted(filter(lambda path: _NAME.fullmatch(path.name), checkpoints_dir.iterdir()), key=checkpoint_step)[::-1]


def clear_leftovers(checkpoints_dir: Path) -> None:
    """What a kill left of a save: nobody reads it, and its step will be written again."""
    for suffix in ("tmp", "old"):
        for path in checkpoints_dir.glob(f".step-*.{suffix}"):
            shutil.rmtree(path)


def find_latest(checkpoints_dir: Path, warn: Callable[[str], None] = lambda _: None) -> Path | None:
    """The newest checkpoint that verifies; each damaged one on the way is named and left where it is."""
    for path in list_checkpoints(checkpoints_dir):
        try:
            verify_folder(path, _REMEDY)
        except DamagedArtifact as error:
            warn(str(error))
        else:
            return path
    return None


def load_checkpoint(path: Path, state: TrainingState) -> None:
    """Fill the live tensors in place: ties survive, and storage is our own, aligned as torch aligned it."""
    _fill([path / "model.safetensors"], _model_tensors(state.model))
    _fill(sorted(path.glob("optimizer*.safetensors")), state.optimizer.tensors())
    stored = CheckpointState.read(path)
    state.progress = TrainingProgress(**stored.progress.model_dump())
    state.pending = stored.pending
    state.scale.value = stored.loss_scale.value
    state.scale.good_steps = stored.loss_scale.calm_steps


def read_weights(path: Path) -> dict[str, Tensor]:
    """The weights of a verified checkpoint, to start something else from."""
    return load_file(path / "model.safetensors")


def _model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Each parameter that learns once, under its first name: a shared table is one tensor."""
    return {name: parameter.detach() for name, parameter in model.named_parameters() if parameter.requires_grad}


@torch.no_grad()
def _fill(paths: list[Path], live: dict[str, Tensor]) -> None:
    """From one file, or from several of which each has some of the tensors."""
    names: set[str] = set()
    for path in paths:
        try:
            with safe_open(path, framework="pt") as file:
                names.update(file.keys())
                for name in live.keys() & set(file.keys()):
                    tensor, stored = live[name], file.get_tensor(name)
                    if stored.shape != tensor.shape or stored.dtype != tensor.dtype:
                        raise DamagedArtifact(f"{path}: {name} is {list(stored.shape)}, expected {list(tensor.shape)}")
                    # Copied, not mapped: the alignment of a memory map can change the bits of a product.
                    tensor.copy_(stored)
        except SafetensorError as error:
            raise DamagedArtifact(f"{path}: not a readable safetensors file ({error})") from None
    if names != live.keys():
        odd = sorted(names ^ live.keys())[0]
        where = ", ".join(map(str, paths))
        raise DamagedArtifact(f"{where}: does not hold the tensors of this model (first difference {odd!r})")
