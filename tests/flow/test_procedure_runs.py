"""Whole runs of every procedure and of energies: resumed bit for bit, exported, stopped by FLOPs where they should."""

import json
import shutil
from itertools import pairwise

import pytest
from electra_process import Shell
from little_runs import SMALL, exports_of, metrics_of, state_of

pytestmark = pytest.mark.flow

Words = tuple[str | int, ...]
WAYS: dict[str, Words] = {
    "two-stage": ("--procedure", "two-stage"),
    "adversarial": ("--procedure", "adversarial"),
    "minimax": ("--procedure", "minimax", "--procedure-options.generator-updates", "2"),
    "electric": ("--objective", "electric"),
}


def train(run: str, *more: str | int) -> Words:
    return ("pretrain", "--data", "data", "--out", run, *SMALL, "--log-every", 1, *more)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_goes_on_exactly_across_stages_and_turns(shell: Shell, way: str) -> None:
    """Six steps: the second stage begins with the fourth, right after the checkpoint that the twin knows."""
    words: Words = (*WAYS[way], "--steps", 6, "--save-every", 3, "--keep", 5, "--evaluation.times", 2)
    shell.must(*train("whole", *words))
    shutil.copytree(shell.folder / "whole", shell.folder / "half")
    for later in ("checkpoints/step-6", "export"):
        shutil.rmtree(shell.folder / "half" / later)
    (shell.folder / "half" / "results.json").unlink()
    shell.must(*train("half", *words))
    assert state_of(shell.folder / "half", 6) == state_of(shell.folder / "whole", 6)
    assert metrics_of(shell.folder / "half") == metrics_of(shell.folder / "whole")
    assert exports_of(shell.folder / "half") == exports_of(shell.folder / "whole")
    folders = {role: shell.folder / "whole" / "export" / role for role in ("discriminator", "generator")}
    configs = {role: json.loads((folder / "config.json").read_text()) for role, folder in folders.items()}
    assert {config["electralab_objective"] for config in configs.values()} == {
        "electric" if way == "electric" else "electra"
    }
    assert ("electralab_network" in configs["generator"]) == (way == "electric")
    assert "electralab_network" not in configs["discriminator"]


@pytest.mark.parametrize("way", ["two-stage", "minimax"])
def test_a_budget_of_flops_knows_that_steps_differ(shell: Shell, way: str) -> None:
    budget = 600_000_000
    shell.must(*train("run", *WAYS[way], "--flops", budget))
    spent = metrics_of(shell.folder / "run")
    per_step = [after["flops"] - before["flops"] for before, after in pairwise(spent)]
    assert len(set(per_step)) == 2
    assert budget - max(per_step) < spent[-1]["flops"] < budget + max(per_step)
