"""Training speed with another program on one of the cores, for each way in which OpenMP's threads can wait.

    python benchmarks/busy_core.py [--steps 60] [--rounds 3] [--json]

Every cell is a process of its own, since the policy is read when torch is loaded: steps of the `tiny` preset on random
rows of 128, batch 8, as many threads as there are cores unless the policy says one. The rounds are interleaved and the
medians shown. Losses must be the same bits under every policy with the same number of threads, or the benchmark fails.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

POLICIES: dict[str, dict[str, str]] = {
    "spinning (the runtime's default)": {},
    "passive (electralab's default)": {"OMP_WAIT_POLICY": "passive"},
    "GOMP_SPINCOUNT=1000": {"GOMP_SPINCOUNT": "1000"},
    "GOMP_SPINCOUNT=20000": {"GOMP_SPINCOUNT": "20000"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def train_here(steps: int) -> None:
    """Run in the child: tokens per second, and a hash of all losses and gradient norms."""
    import torch
    from pretrain_throughput import LENGTH, PRESET_BATCH, our_steps, settings_of

    from electralab.runtime import default_threads, use_exact_arithmetic

    threads = 1 if os.environ.get("OMP_NUM_THREADS") == "1" else default_threads()
    use_exact_arithmetic(threads, torch.device("cpu"))
    training = our_steps(PRESET_BATCH, settings_of(PRESET_BATCH))
    digest = hashlib.sha256()
    next(training)
    started = time.perf_counter()
    for _ in range(steps):
        report = next(training)
        digest.update(f"{report.loss.hex()} {report.gradient_norm.hex()}\n".encode())
    speed = steps * PRESET_BATCH.rows * LENGTH / (time.perf_counter() - started)
    print(json.dumps({"tokens_per_second": speed, "threads": threads, "sha256": digest.hexdigest()}))


@contextmanager
def one_core_busy() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(environment: dict[str, str], steps: int) -> dict[str, Any]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    command = [sys.executable, __file__, "--steps", str(steps), "--child"]
    out = subprocess.run(command, env=inherited | environment, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(out)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        train_here(arguments.steps)
        return
    quiet: dict[str, list[float]] = {name: [] for name in POLICIES}
    busy: dict[str, list[float]] = {name: [] for name in POLICIES}
    hashes: dict[int, set[str]] = {}
    for _ in range(arguments.rounds):
        for name, environment in POLICIES.items():
            result = measure(environment, arguments.steps)
            quiet[name].append(result["tokens_per_second"])
            hashes.setdefault(result["threads"], set()).add(result["sha256"])
            with one_core_busy():
                busy[name].append(measure(environment, arguments.steps)["tokens_per_second"])
    rows = {name: (statistics.median(quiet[name]), statistics.median(busy[name])) for name in POLICIES}
    assert all(len(digests) == 1 for digests in hashes.values()), "a waiting policy changed the bits of training"
    if arguments.json:
        print(json.dumps({name: {"quiet": values[0], "one_core_busy": values[1]} for name, values in rows.items()}))
        return
    print(f"{'tokens/s':<36}{'quiet':>10}{'one core busy':>16}")
    for name, (calm, loaded) in rows.items():
        print(f"{name:<36}{calm:>10,.0f}{loaded:>16,.0f}")


if __name__ == "__main__":
    main()
