"""The machine is described as it is, and asking about it does not load torch."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from electralab.errors import UsageError
from electralab.runtime import (
    RuntimeConfig,
    choose_device,
    choose_worker_threads,
    choose_workers,
    default_threads,
    describe_environment,
    name_command,
    probe_precision,
    spread,
)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64), ("200000 100000", 2), ("150000 100000", 2)])
def test_quota_of_a_container_limits_the_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)))
    (tmp_path / "cpu.max").write_text(quota + "\n")
    assert default_threads(tmp_path / "cpu.max") == cores
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {3, 5, 7})
    assert default_threads(tmp_path / "absent") == 3  # without a quota affinity is the limit


@pytest.mark.parametrize("name", ["nonsense", "meta", "cuda:99"])
def test_device_that_cannot_compute_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^runtime.device: '{name}' cannot be used here \(.+\); try 'cpu'$"):
        choose_device(name)
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


def run_without_a_policy(program: str, **environment: str) -> str:
    """A process of its own: the policy is read when torch is loaded. Two cores are claimed wherever it runs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    head = "import os, sys, warnings, electralab.runtime\nelectralab.runtime.default_threads = lambda: 2\n"
    return subprocess.run(
        [sys.executable, "-c", head + program],
        env=inherited | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


SHELL = """
from electralab.shell.cli import main
assert "torch" not in sys.modules
main(["flops", "--config", "tiny", "--vocab-size", "100", "--sequence-length", "16", "--json"])
assert "torch" in sys.modules
"""
PYTHON = """
import electralab
electralab.flops
"""


@pytest.mark.parametrize("used", [SHELL, PYTHON], ids=["shell", "python"])
def test_threads_wait_passively_before_torch_is_loaded(used: str) -> None:
    assert run_without_a_policy(used + 'print(os.environ["OMP_WAIT_POLICY"])').endswith("passive\n")


@pytest.mark.parametrize(
    ("name", "value"), [("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "20000"), ("KMP_BLOCKTIME", "200")]
)
def test_a_users_own_way_of_waiting_wins(name: str, value: str) -> None:
    said = "print(electralab.runtime.describe_waiting(), electralab.runtime.describe_environment(2)['thread_waiting'])"
    assert run_without_a_policy(PYTHON + said, **{name: value}) == f"{name}={value} {name}={value}\n"


def test_torch_loaded_first_is_one_warning_that_names_the_variable() -> None:
    program = """
import torch, electralab
with warnings.catch_warnings(record=True) as caught:
    for _ in range(2):
        electralab.flops, electralab.show
print(len(caught), caught[0].category.__name__, "OMP_WAIT_POLICY=passive" in str(caught[0].message))
print(electralab.runtime.describe_waiting())
"""
    assert run_without_a_policy(program) == "1 RuntimeWarning True\nthe runtime's default (spinning)\n"


def test_one_thread_has_nobody_to_wait_for() -> None:
    program = "warnings.simplefilter('error')\nimport torch, electralab\nelectralab.flops\nprint('quiet')"
    assert run_without_a_policy(program, OMP_NUM_THREADS="1") == "quiet\n"


def write_script(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("electra", "python"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder / "electra"


@pytest.mark.parametrize(
    ("path", "called", "typed"),
    [
        ("venv/bin", "venv/bin/electra", "electra"),  # activated
        ("link", "link/electra", "electra"),  # as pipx installs it
        ("other/bin", "venv/bin/electra", "venv/bin/electra"),  # another installation is the one on the path
        ("", "venv/bin/electra", "venv/bin/electra"),
        ("", "electralab/__main__.py", "{here}/venv/bin/electra"),  # python -m electralab
        ("", "my_script.py", "{here}/venv/bin/electra"),
    ],
)
def test_a_command_is_named_as_it_can_be_typed(
    path: str, called: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = write_script(tmp_path / "venv/bin")
    write_script(tmp_path / "other/bin")
    (tmp_path / "link").mkdir()
    (tmp_path / "link/electra").symlink_to(ours)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / path) if path else "/nowhere")
    monkeypatch.setattr(sys, "executable", str(ours.with_name("python")))
    monkeypatch.setattr(sys, "argv", [called])
    assert name_command() == typed.format(here=tmp_path)


def test_without_a_script_the_module_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my env/python"))
    monkeypatch.setattr(sys, "argv", ["electralab/__main__.py"])
    assert name_command() == f"'{tmp_path}/my env/python' -m electralab"


def test_probe_chooses_what_is_faster_at_these_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    real = torch.nn.functional.linear

    def slow_in(dtype: torch.dtype) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        def linear(matrix: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            product = real(matrix, weight)
            time.sleep(0.01 if product.dtype == dtype else 0.0)
            return product

        return linear

    for slow, chosen in ((torch.float32, "bf16"), (torch.bfloat16, "fp32")):
        monkeypatch.setattr(torch.nn.functional, "linear", slow_in(slow))
        assert probe_precision(device, 8, 8, 8) == chosen
        assert RuntimeConfig(precision="auto").settle(None, (8, 8, 8)).precision == chosen
    assert RuntimeConfig(precision="auto").settle({"runtime": {"precision": "fp16"}}, (8, 8, 8)).precision == "fp16"
    assert RuntimeConfig(precision="bf16").settle({"runtime": {"precision": "fp16"}}, (8, 8, 8)).precision == "bf16"


@pytest.mark.parametrize(
    ("slices", "product", "threads", "num_workers"),
    [
        (8, (2048, 256, 1024), 2, 8),
        (8, (512, 128, 512), 1, 8),
        (2, (8192, 768, 3072), 8, 2),
        (32, (8192, 768, 3072), 1, 16),
    ],
    ids=["spare cores", "small products", "few slices", "many slices"],
)
def test_spare_cores_become_threads_where_products_are_large(
    monkeypatch: pytest.MonkeyPatch, slices: int, product: tuple[int, int, int], threads: int, num_workers: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert choose_worker_threads(slices, product) == threads
    assert choose_workers(0, slices, threads, torch.device("cpu")) == num_workers
    assert choose_workers(3, slices, threads, torch.device("cpu")) == min(3, slices)
    assert choose_workers(0, slices, threads, torch.device("cuda")) == 1


def test_what_is_spread_over_threads_comes_in_order_with_the_same_bits() -> None:
    rows = torch.randn(40, 64, 64)
    alone = spread(lambda row: row @ row.T, list(rows), 1)
    together = spread(lambda row: row @ row.T, list(rows), 4)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(alone, together, strict=True))
    with pytest.raises(ZeroDivisionError):
        spread(lambda number: 1 / number, [1, 0, 2], 2)
