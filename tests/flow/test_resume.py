"""A run that is interrupted, however and whenever, ends as one that was not: bit for bit."""

import json
import random
import shutil
import signal
import time
from itertools import pairwise

import pytest
from electra_process import Shell, Words
from little_runs import assert_equal_runs, forget_after, metrics_of, state_of, train

pytestmark = pytest.mark.flow

PROCEDURES: dict[str, Words] = {
    "joint": (),
    "two-stage": ("--procedure", "two-stage"),
    "adversarial": ("--procedure", "adversarial"),
    "minimax": ("--procedure", "minimax", "--procedure-options.generator-updates", "2"),
    "electric": ("--objective", "electric"),
}


@pytest.mark.parametrize("save_every", [1, 5])
def test_a_run_killed_at_any_moment_ends_as_if_it_had_not_been(shell: Shell, kills: int, save_every: int) -> None:
    rng = random.Random(save_every)
    steps = 20 * kills
    words = ("--steps", steps, "--save-every", save_every, "--evaluation.times", 4 * kills, "--keep", 2)
    shell.must(*train("whole", *words))
    for number in range(kills):
        running = shell.start(*train("killed", *words))
        # Each sitting gets a little further; the moment within it, inside a step, a save or an evaluation, is luck.
        if number:
            running.wait_for_step("killed", 20 * number)
        time.sleep(rng.uniform(0.0, 0.1))
        running.send(signal.SIGKILL)
        assert running.wait().status == -signal.SIGKILL
    shell.must(*train("killed", *words))
    assert_equal_runs(shell.folder, "whole", "killed", steps)
    leftovers = [path for path in (shell.folder / "killed").rglob(".*.tmp") if path.is_dir()]
    assert leftovers == []


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGINT,), (signal.SIGTERM, signal.SIGINT)])
def test_a_signal_saves_and_leaves_with_its_status(shell: Shell, numbers: tuple[int, ...]) -> None:
    words = ("--steps", 40, "--save-every", 2)
    shell.must(*train("whole", *words))
    running = shell.start(*train("stopped", *words))
    running.wait_for("stopped/checkpoints/step-4")
    running.send(numbers[0])
    while len(numbers) > 1 and running.is_alive:  # an impatient hand does no harm
        running.send(numbers[1])
        time.sleep(0.001)
    ended = running.wait()
    assert ended.status in {128 + number for number in numbers}
    assert "Traceback" not in ended.err
    if len(numbers) == 1:
        assert ended.err.splitlines()[-1] == "electra: stopped; the same command continues from here"
    assert "resuming at step" in shell.must(*train("stopped", *words)).err
    assert_equal_runs(shell.folder, "whole", "stopped", 40)


def test_a_signal_before_the_first_step_is_answered_too(shell: Shell) -> None:
    running = shell.start(*train("early", "--steps", 10))
    running.wait_for("early/.lock")
    running.send(signal.SIGTERM)
    assert running.wait().status == 143
    shell.must(*train("early", "--steps", 10))
    shell.must(*train("whole", "--steps", 10))
    assert_equal_runs(shell.folder, "whole", "early", 10)


def test_how_often_is_saved_and_logged_changes_nothing_else(shell: Shell) -> None:
    shell.must(*train("often", "--steps", 6, "--save-every", 1, "--keep", 3))
    shell.must(*train("seldom", "--steps", 6, "--save-every", 4))
    assert state_of(shell.folder / "often", 6) == state_of(shell.folder / "seldom", 6)
    kept = sorted(path.name for path in (shell.folder / "often/checkpoints").iterdir())
    assert kept == ["step-4", "step-5", "step-6"]


@pytest.mark.parametrize("name", PROCEDURES)
def test_a_run_goes_on_exactly_across_stages_and_turns(shell: Shell, name: str) -> None:
    """Six steps: the second stage begins with the fourth, right after the checkpoint that the twin knows."""
    words: Words = (*PROCEDURES[name], "--steps", 6, "--save-every", 3, "--keep", 5, "--evaluation.times", 2)
    shell.must(*train("whole", *words))
    shutil.copytree(shell.folder / "whole", shell.folder / "half")
    forget_after(shell.folder / "half", 3)
    assert "resuming at step 4 of 6" in shell.must(*train("half", *words)).err
    assert_equal_runs(shell.folder, "half", "whole", 6)
    folders = {role: shell.folder / "whole" / "export" / role for role in ("discriminator", "generator")}
    configs = {role: json.loads((folder / "config.json").read_text()) for role, folder in folders.items()}
    assert {config["electralab_objective"] for config in configs.values()} == {
        "electric" if name == "electric" else "electra"
    }
    assert ("electralab_network" in configs["generator"]) == (name == "electric")
    assert "electralab_network" not in configs["discriminator"]


@pytest.mark.parametrize("name", ["two-stage", "minimax"])
def test_a_budget_of_flops_knows_that_steps_differ(shell: Shell, name: str) -> None:
    budget = 600_000_000
    shell.must(*train("run", *PROCEDURES[name], "--flops", budget))
    spent = metrics_of(shell.folder / "run")
    per_step = [after["flops"] - before["flops"] for before, after in pairwise(spent)]
    assert len(set(per_step)) == 2
    assert budget - max(per_step) < spent[-1]["flops"] < budget + max(per_step)
