"""A run that goes on from a checkpoint of another; weights, optimizer and step are taken over, the schedule is its own.

checkpoint of a run -> the first checkpoint of another run

So one long run at a constant rate gives results at many budgets: each is a short branch in which the rate decays.
"""

import shutil
from pathlib import Path

from electralab.artifacts import MANIFEST, new_folder, read_json, sha256_file, verify_folder, write_file
from electralab.errors import InputError, UsageError
from electralab.tokens.shards import PreparedData
from electralab.training.checkpoint import find_latest, list_checkpoints
from electralab.training.metrics import METRICS

_CHECKPOINTS = "checkpoints"


def find_branch_point(path: Path) -> Path:
    """The checkpoint that is meant: the folder itself, or the latest of a run."""
    found = path if path.parent.name == _CHECKPOINTS else find_latest(path / _CHECKPOINTS, lambda _: None)
    if found is None or not (found / MANIFEST).is_file():
        raise InputError(
            f"{path}: holds no checkpoint to go on from; give a folder such as RUN/checkpoints/step-1000, or a run"
        )
    verify_folder(found, "give another checkpoint")
    return found


def describe_branch_point(path: Path) -> str:
    """What it is, not where it lies: the hash of its manifest, which has those of its files."""
    return f"branch {sha256_file(find_branch_point(path) / MANIFEST)}"


def step_of(checkpoint: Path) -> int:
    return int(read_json(checkpoint / "state.json")["progress"]["step"])


def require_room(path: Path, data: PreparedData, total_steps: int) -> None:
    """The rows already seen are told by the step alone, so the data must be the same; and steps must be left."""
    checkpoint = find_branch_point(path)
    run_dir = checkpoint.parent.parent
    if read_json(run_dir / "run.json")["data"] != data.identity:
        raise InputError(f"{run_dir}: was trained on other data than {data.path}; give --branch-from a run on the same")
    if step_of(checkpoint) >= total_steps:
        raise UsageError(
            f"--branch-from: {checkpoint} is at step {step_of(checkpoint):,}, and this run would have {total_steps:,} "
            "steps in all; give a larger budget or an earlier checkpoint"
        )


def begin_branch(run_dir: Path, path: Path) -> None:
    """Copy the checkpoint and what was logged up to it, unless the run has checkpoints already."""
    if list_checkpoints(run_dir / _CHECKPOINTS):
        return
    checkpoint = find_branch_point(path)
    log = checkpoint.parent.parent / METRICS
    if log.is_file():  # what was logged after the checkpoint is cut off when the log is opened
        write_file(run_dir / METRICS, log.read_bytes())
    step = step_of(checkpoint)
    with new_folder(run_dir / _CHECKPOINTS / f"step-{step}", kind="checkpoint", step=step) as folder:
        for file in checkpoint.iterdir():
            if file.name != MANIFEST:
                shutil.copyfile(file, folder / file.name)
