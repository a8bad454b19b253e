"""Pre-training on every core: workers with one thread each beside threads in one process, quiet and with a busy core.

    python benchmarks/workers.py [--shapes tiny,recipe,small] [--slices 2,4] [--steps 12] [--rounds 7] [--json]

Each cell is a process of its own that takes steps of a run on made-up text, and prints tokens per second; the rounds
are interleaved and the medians shown. "spinning" is how OpenMP's threads wait unless told otherwise, "free" the sum of
as many runs of one thread as there are cores, side by side: what could be had if nothing had to be put together.
Losses must be the same bits on one worker and on all, or the benchmark fails.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from busy_core import one_core_busy

RECIPE = {
    "model": {
        "backbone": "modern",
        "hidden_size": 192,
        "num_layers": 6,
        "num_heads": 4,
        "feedforward_size": 768,
        "sharing": "embeddings",
    },
    "generator": {"width_share": 0.3333, "num_heads": 2},
    "optimizer": {"kind": "muon"},
    "loss": {"correction_weight": 1.0, "correction_gate": False},
    "batch": {"size": 16},
}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "tiny": ("tiny", {}),
    "recipe": ("tiny", RECIPE),
    "small": ("small", {}),
}


def train_here(shape: str, data: Path, slices: int, workers: int, steps: int) -> None:
    """Run in the child."""
    import torch

    from electralab.config import ConfigLayer
    from electralab.objective.registry import build_objective
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.pretraining.task import PretrainTask, build_state, make_train_step
    from electralab.runtime import default_threads, use_exact_arithmetic
    from electralab.stopping import NO_STOP
    from electralab.tokens.shards import open_data
    from electralab.training.trainer import take_steps

    preset, settings = SHAPES[shape]
    layers = [
        read_settings(preset),
        ConfigLayer("shape", settings),
        ConfigLayer("slices", {"batch": {"slices": slices}}),
    ]
    config = resolve_pretrain(layers)
    device = torch.device("cpu")
    use_exact_arithmetic(1 if slices > 1 or workers == 1 else default_threads(), device)
    prepared = open_data(data)
    objective = build_objective(config, prepared, config.seed, device)
    state = build_state(objective, config)
    task = PretrainTask(objective, prepared, config, 10_000, device)
    reports = take_steps(
        state, make_train_step(state, task, workers), config.optimizer, task.lr_factor, 10_000, NO_STOP
    )
    digest = hashlib.sha256()
    next(reports)  # the first step pays for warming up
    started, tokens = time.perf_counter(), 0
    for _ in range(steps):
        report = next(reports)
        tokens += task.count_tokens()
        digest.update(f"{report.loss.hex()} {report.gradient_norm.hex()}\n".encode())
    seconds = time.perf_counter() - started
    reports.close()
    memory = resource.getrusage(resource.RUSAGE_CHILDREN if workers > 1 else resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"speed": tokens / seconds, "sha256": digest.hexdigest(), "worker_mb": memory >> 10}))


def start(arguments: argparse.Namespace, shape: str, data: Path, slices: int, workers: int, spinning: bool) -> Any:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    policy = {} if spinning else {"OMP_WAIT_POLICY": "passive"}
    words = [shape, str(data), str(slices), str(workers), str(arguments.steps)]
    command = [sys.executable, __file__, "--child", *words]
    return subprocess.Popen(command, env=inherited | policy, stdout=subprocess.PIPE, text=True)


def finish(process: Any) -> dict[str, Any]:
    out, _ = process.communicate()
    if process.returncode:
        sys.exit(f"a cell ended with status {process.returncode}")
    result: dict[str, Any] = json.loads(out)
    return result


def make_text(folder: Path) -> Path:
    """Made-up words with the frequencies of words, enough rows for all steps."""
    import electralab
    from electralab.display import Display

    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(20_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    texts = [" ".join(rng.choices(words, weights, k=200)) for _ in range(4_000)]
    (folder / "text.txt").write_text("\n\n".join(texts))
    electralab.prepare([folder / "text.txt"], folder / "data", display=Display(quiet=True))
    return folder / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="tiny,recipe,small")
    parser.add_argument("--slices", default="2,4")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    cells = {"spinning threads": (1, 0, True), "passive threads": (1, 0, False)}
    for slices in map(int, arguments.slices.split(",")):
        cells[f"{min(cores, slices)} workers, {slices} slices"] = (slices, min(cores, slices), False)
    speeds: dict[tuple[str, str, str], list[float]] = {}
    memory: dict[tuple[str, str], int] = {}
    with tempfile.TemporaryDirectory() as folder:
        data = make_text(Path(folder))
        for shape in arguments.shapes.split(","):
            for _ in range(arguments.rounds):
                hashes: dict[int, set[str]] = {}
                for name, (slices, workers, spinning) in cells.items():
                    result = finish(start(arguments, shape, data, slices, workers, spinning))
                    speeds.setdefault((shape, name, "quiet"), []).append(result["speed"])
                    memory[shape, name] = result["worker_mb"]
                    hashes.setdefault(slices, set()).add(result["sha256"])
                    with one_core_busy():
                        result = finish(start(arguments, shape, data, slices, workers, spinning))
                    speeds.setdefault((shape, name, "busy"), []).append(result["speed"])
                    hashes[slices].add(result["sha256"])
                together = [start(arguments, shape, data, 1, 1, spinning=False) for _ in range(cores)]
                free = sum(finish(process)["speed"] for process in together)
                speeds.setdefault((shape, "free processes", "quiet"), []).append(free)
                assert all(len(digests) == 1 for digests in hashes.values()), "bits differ between cells"
            for slices, workers, _ in cells.values():
                if slices > 1:
                    alone = finish(start(arguments, shape, data, slices, 1, spinning=False))["sha256"]
                    assert alone == finish(start(arguments, shape, data, slices, workers, spinning=False))["sha256"]
    medians = {key: statistics.median(values) for key, values in speeds.items()}
    if arguments.json:
        named = {" / ".join(key): round(value, 1) for key, value in medians.items()}
        print(
            json.dumps({"tokens_per_second": named, "worker_mb": {" / ".join(key): mb for key, mb in memory.items()}})
        )
        return
    for shape in arguments.shapes.split(","):
        base = medians[shape, "spinning threads", "quiet"]
        print(f"{shape:<24}{'tokens/s':>10}{'to spinning':>13}{'busy core':>11}{'of quiet':>10}{'MB a worker':>13}")
        for name in (*cells, "free processes"):
            quiet, busy = medians[shape, name, "quiet"], medians.get((shape, name, "busy"), float("nan"))
            mb = memory.get((shape, name), 0)
            print(f"  {name:<22}{quiet:>10,.0f}{quiet / base:>13.2f}{busy:>11,.0f}{busy / quiet:>10.2f}{mb:>13,}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        shape_name, data_dir, *numbers = sys.argv[2:]
        train_here(shape_name, Path(data_dir), *map(int, numbers))
    else:
        main()
