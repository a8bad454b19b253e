"""The machine: device, precision, threads, environment. The only reader of the environment.

torch is imported where it is used: preparing a corpus asks for the number of cores, and its workers must not load it.
"""

import os
import platform
import shlex
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from electralab.config import GivenSettings, Settings
from electralab.errors import UsageError
from electralab.records.run import Environment

if TYPE_CHECKING:
    import torch

Precision = Literal["auto", "fp32", "bf16", "fp16"]
Item = TypeVar("Item")
Output = TypeVar("Output")

# Any of these is the user's own word on how OpenMP's threads wait: GCC's runtime (Linux) reads the first two, LLVM's
# (macOS) the first and the last.
_WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


# FLOPs, about ten milliseconds of one core: a product that is worth sharing out to the threads of a worker.
_SHARED_PRODUCT = 1e9


class RuntimeConfig(Settings):
    device: str = "auto"
    precision: Precision = "fp32"
    """What networks are multiplied in; weights, norms, losses and the optimizer's state are in 32 bits. auto: bf16
    where a short probe finds it faster on this machine, else fp32; a run keeps what was found."""
    compile: bool = False

    def settle(self, begun: GivenSettings | None, shape: tuple[int, int, int]) -> "RuntimeConfig":
        """With a precision in place of auto: that of the settings that a run was begun with, else what a probe finds
        at matrices of this shape (rows, inputs, outputs)."""
        if self.precision != "auto":
            return self
        if begun is None:
            chosen = probe_precision(choose_device(self.device), *shape)
        else:
            chosen = RuntimeConfig.model_validate(begun.get("runtime", {})).precision
        return self.model_copy(update={"precision": chosen})


def choose_device(name: str) -> "torch.device":
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise UsageError(f"runtime.device: {name!r} cannot be used here ({reason}); try 'cpu'") from None
    return device


def wait_for(device: "torch.device") -> None:
    """Until it has done all that it was given: an accelerator's calls return before."""
    import torch

    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def default_threads(cpu_quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The cores this process may use, not those the machine has: a container is often smaller than its host."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cpu_quota.is_file():
        # "200000 100000": two cores' worth of time in each period; "max 100000": no limit.
        quota, period = cpu_quota.read_text().split()
        if quota != "max":
            cores = min(cores, -(-int(quota) // int(period)))
    return cores


def cache_dir() -> Path:
    """Where this user's programs keep what they can get again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "electralab"


def find_memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def count_cores() -> int:
    """For workers to be shared out to; OMP_NUM_THREADS, where it is set, is the user's word on how many there are."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return int(stated) if stated.isdigit() and int(stated) else default_threads()


def choose_workers(asked: int, slices: int, threads: int, device: "torch.device") -> int:
    """As many as asked for, or (0) as there are cores for their threads; no more than there are slices for.

    An accelerator does the slices one after the other: its workers would only wait for each other.
    """
    return min(slices, asked or max(1, count_cores() // threads)) if device.type == "cpu" else 1


def choose_worker_threads(slices: int, shape: tuple[int, int, int]) -> int:
    """Of each worker of a new run: one, or a share of the cores that are more than the slices.

    Only where the products of a slice (rows, inputs, outputs) are so large that threads need not wait for each other
    most of the time. A step that is not cut has all cores for its threads.
    """
    if slices == 1:
        return default_threads()
    rows, inputs, outputs = shape
    return max(1, count_cores() // slices) if 2 * rows * inputs * outputs >= _SHARED_PRODUCT else 1


def spread(compute: Callable[[Item], Output], items: Sequence[Item], workers: int) -> list[Output]:
    """What is computed of each item, in order, by so many threads of Python, which are inside torch most of the time.

    An item is computed whole by one of them, each with as many threads inside its operations as this one has: the bits
    are those of one after the other. Whether gradients are wanted is for `compute` to say, in its own thread.
    """
    if min(workers, len(items)) < 2:
        return [compute(item) for item in items]
    import torch

    initial = (torch.set_num_threads, (torch.get_num_threads(),))
    with ThreadPoolExecutor(min(workers, len(items)), "evaluation", *initial) as pool:
        return list(pool.map(compute, items))


def share_numbers(count: int, rank: int, num_ranks: int) -> list[int]:
    """Which of so many items this rank computes. Every rank computes equally many, since they may have to do it
    together: where there are none left, the last one again.

    >>> share_numbers(5, 0, 2), share_numbers(5, 1, 2)
    ([0, 2, 4], [1, 3, 4])
    """
    return [min(number, count - 1) for number in range(rank, -(-count // num_ranks) * num_ranks, num_ranks)]


def find_rank() -> tuple[int, int]:
    """This process's number among those that torchrun started together, and how many they are; else 0 of 1."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def is_launched() -> bool:
    """Whether torchrun started this process, which may be the only one that is left."""
    return "WORLD_SIZE" in os.environ


def count_launched() -> int:
    """How many ranks torchrun itself started; 1 without it, whatever a cluster put into WORLD_SIZE."""
    return find_rank()[1] if "TORCHELASTIC_RUN_ID" in os.environ else 1


def find_local_rank() -> int:
    """This process's number among those of its host: the accelerator that is its own."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def child_environment(threads: int) -> dict[str, str]:
    """For a process that computes for this one: the same modules, and threads of its own number."""
    path = os.pathsep.join(filter(None, sys.path))
    counts = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS"), str(threads))  # torch's, and those of tokenizers
    return {**os.environ, **counts, "PYTHONPATH": path}


def wait_passively() -> None:
    """Let OpenMP's threads sleep at a barrier instead of spinning; has to come before torch is loaded.

    A spinning thread keeps its partner off the core: with one of two cores busy, training falls to a fortieth of its
    speed; asleep it keeps half, and loses about a quarter on a quiet machine. The load of the moment cannot choose:
    it says nothing about the hours of a run, and a wrong guess costs far more than a right one gains.
    """
    if any(name in os.environ for name in _WAIT_VARIABLES):
        return
    if "torch" not in sys.modules:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    elif default_threads() > 1 and os.environ.get("OMP_NUM_THREADS") != "1":
        # Said once in a process: Python remembers the place of a warning.
        warnings.warn(
            "torch was imported before electralab, so its threads spin while they wait and training may be many times "
            "slower on a busy machine; set OMP_WAIT_POLICY=passive before Python starts, or use electralab first",
            RuntimeWarning,
            stacklevel=3,
        )


def describe_waiting() -> str:
    """How OpenMP's threads wait in this process: what the environment said when torch was loaded."""
    settings = [f"{name}={os.environ[name]}" for name in _WAIT_VARIABLES if name in os.environ]
    return ", ".join(settings) or "the runtime's default (spinning)"


def count_descriptors() -> int:
    """Connections that this process may have open, by its limit of descriptors; some are left for its own files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if most == resource.RLIM_INFINITY else max(1, most - 64, most // 2)


def use_exact_arithmetic(threads: int, device: "torch.device") -> None:
    """Same inputs, same bits: deterministic kernels, and a fixed number of threads because it changes sums.

    Promised on the CPU only: torch has no deterministic cumulative sum on CUDA, which sampling needs.
    """
    import torch

    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(device.type == "cpu")
    # Uninitialised memory is never read by our code; filling it would only cost time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def use_threads(threads: int) -> None:
    """0 means: as many as there are cores."""
    import torch

    torch.set_num_threads(threads or default_threads())


def estimate_speed() -> float:
    """FLOP/s that training reaches here: half of what a square float32 matrix product has now, as we measured it."""
    import torch

    matrix = torch.randn(1024, 1024)
    for _ in range(2):
        matrix @ matrix
    started = time.perf_counter()
    for _ in range(8):
        matrix @ matrix
    return 0.5 * 8 * 2 * 1024**3 / (time.perf_counter() - started)


def probe_precision(device: "torch.device", rows: int, inputs: int, outputs: int) -> Precision:
    """bf16 where products of such matrices are clearly faster in it, casts included; else fp32.

    Some processors multiply 16 bits in hardware, and are two to four times faster; others emulate it, and are slower.
    """
    import torch

    matrix, weight = torch.randn(rows, inputs, device=device), torch.randn(outputs, inputs, device=device)
    times: dict[Precision, list[float]] = {"fp32": [], "bf16": []}
    for _ in range(9):  # in turns, and the fastest counts: another program may take the core for a moment
        for precision, taken in times.items():
            started = time.perf_counter()
            with autocast(device, precision):
                for _ in range(4):
                    torch.nn.functional.linear(matrix, weight)
            wait_for(device)
            taken.append(time.perf_counter() - started)
    return "bf16" if min(times["bf16"]) * 1.3 < min(times["fp32"]) else "fp32"


def autocast(device: "torch.device", precision: Precision) -> AbstractContextManager[None]:
    """What the networks compute in; weights, losses and sampling stay in float32."""
    assert precision != "auto", "a choice is made before anything is computed"
    if precision == "fp32":
        return nullcontext()
    import torch

    dtype = torch.bfloat16 if precision == "bf16" else torch.float16
    return torch.autocast(device.type, dtype=dtype)


def name_command() -> str:
    """How to type `electra` here: by its name where PATH leads to this installation, else by the path that was used."""
    called, on_path, ours = Path(sys.argv[0]), shutil.which("electra"), Path(sys.executable).parent
    if on_path and Path(on_path).resolve().parent == ours.resolve():
        return "electra"
    if called.name == "electra" and called.is_file():
        return shlex.quote(str(called))
    script = ours / "electra"
    return shlex.quote(str(script)) if script.is_file() else f"{shlex.quote(sys.executable)} -m electralab"


def describe_environment(threads: int, **facts: str) -> Environment:
    """What decides the bits and the speed of a run; `facts` are other fields of the record."""
    import torch

    versions = {}
    for name in ("electralab", "torch", "numpy", "tokenizers", "safetensors", "pydantic"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cores=default_threads(),
        threads=threads,
        thread_waiting=describe_waiting(),
        cuda=torch.version.cuda if torch.cuda.is_available() else "none",
        packages=versions,
        command=[Path(sys.argv[0]).name, *sys.argv[1:]],
        **facts,
    )
