"""Finished pre-training runs as points of a scaling law.

folder of runs -> RunPoint...
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from electralab.analysis.finding import Floats
from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.pretraining.exports import name_main

_LOSSES = ("discriminator_loss", "masked_loss", "next_loss", "permuted_loss")


@dataclass(frozen=True, slots=True)
class RunPoint:
    name: str
    objective: str
    parameters: int
    """Of the network that the run is made for."""
    tokens: int
    flops: int
    loss: float
    """Held out, of the main network: of verdicts or of guesses, in nats."""


def read_points(folder: Path) -> list[RunPoint]:
    """All finished runs in a folder, or in folders of it."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give one that holds pre-training runs")
    found = sorted(
        {*folder.glob("*/results.json"), *folder.glob("*/*/results.json"), *folder.glob("*/*/*/results.json")}
    )
    points = [point for path in found if (point := _read(path.parent)) is not None]
    if not points:
        raise InputError(f"{folder}: holds no finished pre-training run; give a folder of runs or a study")
    return points


def _read(run: Path) -> RunPoint | None:
    """None where it is no run of pre-training."""
    results, identity = (
        read_json(run / name) if (run / name).is_file() else {} for name in ("results.json", "run.json")
    )
    heldout, settings = results.get("heldout"), identity.get("settings", {})
    objective = settings.get("objective")
    if not isinstance(heldout, dict) or not isinstance(objective, str):
        return None
    weights = run / "export" / name_main(objective) / "model.safetensors"
    loss = next((float(heldout[name]) for name in _LOSSES if name in heldout), None)
    if loss is None or not weights.is_file():
        return None
    return RunPoint(str(run), objective, count_parameters(weights), int(results["tokens"]), int(results["flops"]), loss)


def count_parameters(weights: Path) -> int:
    """By the shapes at the head of the file."""
    with weights.open("rb") as file:
        header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(int(np.prod(one["shape"])) for name, one in header.items() if name != "__metadata__")


def list_column(points: Sequence[RunPoint], name: str) -> Floats:
    return np.array([getattr(point, name) for point in points], dtype=np.float64)
