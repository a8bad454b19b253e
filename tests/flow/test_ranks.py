"""Pre-training started by torchrun: the same bits on any number of ranks; a run whose rank died can go on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import state_of, train

pytestmark = pytest.mark.flow


def start(shell: Shell, count: int, out: str, steps: int) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}"]
    launcher += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--module", "electralab"]
    words = [*launcher, *map(str, train(out, "--steps", steps, *SLICED))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(words, cwd=shell.folder, env=environment, text=True, stdout=pipe, stderr=subprocess.STDOUT)


SLICED = ("--batch.slices", 4, "--save-every", 20)


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, out
    return out


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 240
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.1)


def ranks_of(launcher: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return sorted(map(int, children))


def test_weights_are_the_same_on_one_process_two_ranks_and_four(shell: Shell) -> None:
    shell.must(*train("one", "--steps", 6, *SLICED, "--workers", 1))
    printed = finish(start(shell, 2, "two", 6))
    assert printed.count("starting at step 1 of 6") == 1, "the first rank speaks for all"
    finish(start(shell, 4, "four", 6))
    assert state_of(shell.folder / "one", 6) == state_of(shell.folder / "two", 6) == state_of(shell.folder / "four", 6)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told to stop"])
def test_a_run_goes_on_after_its_ranks_ended(shell: Shell, number: int) -> None:
    """One of two is killed, or both are told to stop; then one process goes on, to the same end."""
    shell.must(*train("whole", "--steps", 200, *SLICED, "--workers", 1))
    process = start(shell, 2, "cut", 200)
    wait_for(shell.folder / "cut/checkpoints/step-20")
    began = time.monotonic()
    os.kill(ranks_of(process)[-1] if number == signal.SIGKILL else process.pid, number)
    out, _ = process.communicate(timeout=120)
    assert process.returncode != 0, out
    assert time.monotonic() - began < 60
    assert not (shell.folder / "cut/export").exists()
    if number == signal.SIGKILL:
        assert "rank 0: another rank ended or does not answer" in out
        assert "[rank0]: Traceback" not in out
    shell.must(*train("cut", "--steps", 200, *SLICED, "--workers", 1))
    assert state_of(shell.folder / "cut", 200) == state_of(shell.folder / "whole", 200)
