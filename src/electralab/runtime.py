"""The machine: device, precision, threads, environment. The only reader of the environment."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import torch

from electralab.config import Settings
from electralab.errors import UsageError

Precision = Literal["fp32", "bf16", "fp16"]


class RuntimeConfig(Settings):
    device: str = "auto"
    precision: Precision = "fp32"
    compile: bool = False


def choose_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"runtime.device: {name!r} cannot be used here ({reason}); try 'cpu'") from None
    return device


def default_threads() -> int:
    """The cores this process may use, not those the machine has: a container is often smaller than its host."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_exact_arithmetic(threads: int) -> None:
    """Same inputs, same bits: deterministic kernels, and a fixed number of threads because it changes sums."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Uninitialised memory is never read by our code; filling it would only cost time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def describe_environment(threads: int) -> dict[str, Any]:
    """What decides the bits and the speed of a run, for environment.json."""
    packages = ("electralab", "torch", "numpy", "tokenizers", "safetensors", "pydantic")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "cores": default_threads(),
        "threads": threads,
        "cuda": torch.version.cuda if torch.cuda.is_available() else "none",
        "packages": {name: _version(name) for name in packages},
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
