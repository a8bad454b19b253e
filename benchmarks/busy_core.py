"""Training and serving with another program on one of the cores, for each way in which threads can wait and share.

    python benchmarks/busy_core.py [--steps 60] [--rounds 7] [--json]
    python benchmarks/busy_core.py --serve [--seconds 5] [--rounds 7] [--json]

Training by workers, and fine-tuning, are in workers.py. Every cell is a process of its own, since the policy is read
when torch is loaded: steps of the `tiny` preset on random rows of 128, batch 8, as many threads as there are cores
unless the policy says one. The rounds are interleaved and the medians shown. Losses must be the same bits under every
policy with the same number of threads, or the benchmark fails.

Serving: milliseconds in which the middle one of many requests for a sentence of about 25 words is answered (p50), asked
over one connection and over eight, each again as soon as it is answered. An untrained pair of `tiny` has as much work
as a trained one. Each way of sharing the cores is a server of its own; they take turns.
"""

import argparse
import asyncio
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POLICIES: dict[str, dict[str, str]] = {
    "spinning (the runtime's default)": {},
    "passive (electralab's default)": {"OMP_WAIT_POLICY": "passive"},
    "GOMP_SPINCOUNT=1000": {"GOMP_SPINCOUNT": "1000"},
    "GOMP_SPINCOUNT=20000": {"GOMP_SPINCOUNT": "20000"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


# Words of `electra serve`, and its environment.
SERVERS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "as it comes (passive threads)": ((), {}),
    "spinning threads": ((), {"GOMP_SPINCOUNT": "infinite"}),
    "one thread": (("--threads", "1"), {}),
    "one thread, 2 workers": (("--threads", "1", "--batching.workers", "2"), {}),
}
CONNECTIONS = (1, 8)


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


async def time_answers(port: int, connections: int, seconds: float) -> float:
    """The middle one of all times from a question to its answer."""
    from serve import SENTENCE, Line, make_texts

    texts, took = make_texts(SENTENCE), list[float]()
    lines = [await Line(port).open() for _ in range(connections)]
    end = time.monotonic() + seconds

    async def keep_asking(line: Line, turn: int) -> None:
        while (asked := time.monotonic()) < end:
            status, _ = await line.ask(texts[turn % len(texts)])
            assert status == 200, status
            took.append(time.monotonic() - asked)
            turn += connections

    await asyncio.gather(*(keep_asking(line, number) for number, line in enumerate(lines)))
    for line in lines:
        line.writer.close()
    return statistics.median(took)


def measure_serving(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """By way and number of connections: p50 in milliseconds, quiet and busy, and their ratio."""
    from serve import make_pair, start

    times: dict[tuple[str, int, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = make_pair(Path(folder) / "pair")
        for _ in range(rounds):
            for name, (words, environment) in SERVERS.items():
                variables = [f"{key}={value}" for key, value in environment.items()]
                command = [sys.executable, "-m", "electralab", "serve", str(model), "--port", "0", *words]
                with start("env", "-u", "OMP_NUM_THREADS", "-u", "OMP_WAIT_POLICY", *variables, *command) as port:
                    for connections in CONNECTIONS:
                        asyncio.run(time_answers(port, connections, seconds / 4))  # the first ones pay for warming up
                        calm = asyncio.run(time_answers(port, connections, seconds))
                        with one_core_busy():
                            loaded = asyncio.run(time_answers(port, connections, seconds))
                        for state, value in (("quiet", calm), ("busy", loaded)):
                            times.setdefault((name, connections, state), []).append(1000 * value)
    rows = {}
    for name in SERVERS:
        for connections in CONNECTIONS:
            calm, loaded = (statistics.median(times[name, connections, state]) for state in ("quiet", "busy"))
            row = {"quiet_ms": calm, "one_core_busy_ms": loaded, "ratio": loaded / calm}
            rows[f"{name}, {connections} connection{'s' if connections > 1 else ''}"] = row
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--serve", action="store_true", help="time the answers of a server instead of training")
    parser.add_argument("--seconds", type=float, default=5.0, help="for which a server is asked in each cell")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        train_here(arguments.steps)
        return
    if arguments.serve:
        served = measure_serving(arguments.rounds, arguments.seconds)
        if arguments.json:
            print(json.dumps(served))
            return
        print(f"{'p50, ms':<48}{'quiet':>8}{'one core busy':>15}{'ratio':>7}")
        for name, row in served.items():
            print(f"{name:<48}{row['quiet_ms']:>8.1f}{row['one_core_busy_ms']:>15.1f}{row['ratio']:>7.2f}")
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
