"""Tasks so small that a variant takes a moment: a tuned network on rows of four words, a pair on a text of one line."""

import random
from pathlib import Path
from typing import Any

import torch
from little_models import TEXT, build_pair, save_pair
from little_tasks import QUICK, make_request, save_origin, tune, write_animals

from electralab.compression.settings import CompressConfig, CompressRequest
from electralab.compression.stage import compress
from electralab.compression.task import CompressionTask, load_compression_task
from electralab.config import SettingsTree
from electralab.events import Event, run_to_end
from electralab.records.compression import Tradeoff
from electralab.stopping import StopSignal

CPU = torch.device("cpu")
# So little that a whole trade-off takes a second.
BRIEF: SettingsTree = {
    "importance": {"rows": 16, "batch_size": 8},
    "recovery": {"steps": 4, "batch_size": 8},
    "measure": {"rounds": 1, "bootstrap": 5},
    "verdicts": {"limit": 8},
}


def write_text(path: Path, documents: int = 40) -> Path:
    rng, words = random.Random(0), TEXT.split()
    path.write_text("\n\n".join(" ".join(rng.choices(words, k=30)) for _ in range(documents)))
    return path


def make_run(folder: Path, *, seeds: int = 1) -> tuple[Path, Path]:
    """A fine-tuning run of two layers that knows cats from dogs, and its data."""
    data = write_animals(folder / "animals")
    origin = save_origin(folder / "origin", num_layers=2)
    tune(make_request(origin, "classify", data, folder / "run", QUICK | {"epochs": 4}, seeds=seeds))
    return folder / "run", data


def make_pair_run(folder: Path) -> tuple[Path, Path]:
    return save_pair(folder / "pair", build_pair()), write_text(folder / "text.txt")


def open_pair(folder: Path, **settings: Any) -> CompressionTask:
    return open_task(*make_pair_run(folder), **settings)


def open_task(model: Path, data: Path, **settings: Any) -> CompressionTask:
    return load_compression_task(ask_for(model, data, Path("nowhere"), **settings), CPU, StopSignal())


def make_config(**settings: object) -> CompressConfig:
    return CompressConfig.model_validate(BRIEF | settings)


def ask_for(model: Path, data: Path, out: Path, **asked: Any) -> CompressRequest:
    """What is no field of a request is a setting."""
    names = ("generator", "task", "target_speedup", "max_loss")
    given = {name: asked.pop(name, None) for name in names}
    return CompressRequest(model, data, out, make_config(**asked), **given, threads=1)


def follow(request: CompressRequest) -> list[Event[Tradeoff]]:
    return list(compress(request, StopSignal()))


def run(request: CompressRequest) -> Tradeoff:
    return run_to_end(compress(request, StopSignal()))
