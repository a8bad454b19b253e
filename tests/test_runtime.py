"""The machine is described as it is, and asking about it does not load torch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from electralab.errors import UsageError
from electralab.runtime import choose_device, default_threads, describe_environment


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64), ("200000 100000", 2), ("150000 100000", 2)])
def test_quota_of_a_container_limits_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)))
    (tmp_path / "cpu.max").write_text(quota + "\n")
    assert default_threads(tmp_path / "cpu.max") == cores


def test_affinity_limits_the_threads_without_a_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {3, 5, 7})
    assert default_threads(tmp_path / "absent") == 3


@pytest.mark.parametrize("name", ["nonsense", "meta", "cuda:99"])
def test_device_that_cannot_compute_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^runtime.device: '{name}' cannot be used here \(.+\); try 'cpu'$"):
        choose_device(name)


def test_cpu_is_always_there() -> None:
    assert choose_device("cpu").type == "cpu"


def test_environment_names_what_decides_the_bits() -> None:
    facts = describe_environment(threads=3)
    assert facts["threads"] == 3
    assert facts["cpu_capability"]
    assert facts["packages"]["torch"] != "not installed"


def test_exact_arithmetic_fixes_threads_and_kernels() -> None:
    program = """
import torch
from electralab.runtime import use_exact_arithmetic
use_exact_arithmetic(1, torch.device("cpu"))
assert torch.get_num_threads() == 1
assert torch.are_deterministic_algorithms_enabled()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
