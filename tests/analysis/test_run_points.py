"""Runs as they lie in folders, with sizes that can be counted by hand."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

from electralab.analysis.measures.scaling import read_points
from electralab.errors import InputError


def write_run(folder: Path, size: int, loss: float, objective: str = "mlm") -> None:
    name = {"electra": "discriminator"}.get(objective, "model")
    heldout = {"electra": {"generator_loss": 9.0, "discriminator_loss": loss}}.get(objective, {"masked_loss": loss})
    (folder / "export" / name).mkdir(parents=True)
    weights = {"a": torch.zeros(size, 3), "b": torch.zeros(2)}
    safetensors.torch.save_file(weights, folder / "export" / name / "model.safetensors", {"format": "pt"})
    (folder / "results.json").write_text(
        json.dumps({"tokens": 100 * (3 * size + 2), "flops": 7 * size, "heldout": heldout})
    )
    (folder / "run.json").write_text(json.dumps({"settings": {"objective": objective}}))


def test_runs_are_found_wherever_they_lie(tmp_path: Path) -> None:
    write_run(tmp_path / "one", 4, 2.5)
    write_run(tmp_path / "runs" / "deep" / "two", 5, 0.25, "electra")
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "results.json").write_text('{"task": "sst2"}')
    points = read_points(tmp_path)
    assert [(point.objective, point.parameters, point.tokens, point.flops) for point in points] == [
        ("mlm", 14, 1400, 28),
        ("electra", 17, 1700, 35),
    ]
    assert [point.loss for point in points] == [2.5, 0.25]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no finished pre-training run"):
        read_points(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        read_points(tmp_path / "nowhere")
