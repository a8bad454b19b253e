"""Training on every core: workers with one thread each beside threads in one process, quiet and with a busy core.

    python benchmarks/workers.py [--shapes tiny,recipe,small,tune-tiny,…] [--rounds 7] [--json FILE]

Each cell is a process of its own that takes steps of pre-training or fine-tuning (`tune-`), or predicts (`predict-`,
where workers are threads of Python), on made-up text, and tells tokens per second; the rounds are interleaved and the
medians shown. "spinning" is how OpenMP's threads wait unless told otherwise; "free" is the sum of as many runs of one
thread as there are cores, side by side: what could be had if nothing had to be put together. "busy" has another program
on one of the cores. Losses must be the same bits on one worker and on all, or the benchmark fails.

Last comes a model of the speed on more cores than are here, from parts that one worker takes: the masks that every
worker makes, its slices, sum and norms, update, and what two workers measured here wait beyond that. It knows nothing
of caches and memory that more cores share.
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
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


class Shape(NamedTuple):
    preset: str
    settings: dict[str, Any]
    rows: int
    slices: int
    """As the settings have it by themselves."""
    steps: int
    """That a cell takes."""


SHAPES = {
    "tiny": Shape("tiny", {}, 8, 2, 40),
    "recipe": Shape("tiny", RECIPE, 16, 4, 12),
    "small": Shape("small", {}, 128, 8, 2),
    "tune-tiny": Shape("tiny", {}, 32, 4, 24),
    "tune-recipe": Shape("tiny", RECIPE, 32, 4, 8),
    "predict-tiny": Shape("tiny", {}, 32, 4, 40),
    "predict-recipe": Shape("tiny", RECIPE, 32, 4, 16),
}
MODELLED = (1, 2, 4, 8, 16)


def make_training(shape: Shape, data: Path, slices: int, workers: int, is_tuned: bool) -> tuple[Any, Any, Any]:
    """The task, who computes its steps, and the steps: the real path, without its files."""
    import numpy as np
    import torch

    from electralab.config import ConfigLayer
    from electralab.finetuning import task as tuning
    from electralab.finetuning.settings import resolve_finetune
    from electralab.model.encoder import Encoder
    from electralab.model.settings import derive_encoders
    from electralab.model.task_model import HeadConfig, build_task_model
    from electralab.objective.registry import build_objective
    from electralab.pretraining import task as pretraining
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.runtime import default_threads, use_exact_arithmetic
    from electralab.stopping import NO_STOP
    from electralab.tasks.catalog import find_task
    from electralab.tasks.features import Feature
    from electralab.tasks.kinds import KINDS
    from electralab.tokens.shards import open_data
    from electralab.training.schedule import StepPlan
    from electralab.training.trainer import take_steps

    device, plan = torch.device("cpu"), StepPlan.whole(10_000)
    use_exact_arithmetic(1 if slices > 1 or workers == 1 else default_threads(), device)
    cut = ConfigLayer("slices", {"batch": {"slices": slices}})
    # Fine-tuning has more rows, and so more slices, than the pre-training whose network it takes.
    layers = [read_settings(shape.preset), ConfigLayer("shape", shape.settings), *([] if is_tuned else [cut])]
    config = resolve_pretrain(layers)
    prepared = open_data(data)
    if not is_tuned:
        objective = build_objective(config, prepared, config.seed, device)
        state = pretraining.build_state(objective, config)
        task = pretraining.PretrainTask(objective, prepared, config, plan, device)
        step = pretraining.make_train_step(state, task, workers)
        return task, step, take_steps(state, step, config.optimizer, task.lr_factor, plan, NO_STOP)
    vocab_size, rng = prepared.tokenizer.vocab_size, np.random.default_rng(0)
    _, encoder = derive_encoders(config.model, config.generator, vocab_size=vocab_size, sequence_length=128)
    settings = resolve_finetune(find_task("classify"), encoder, [ConfigLayer("benchmark", {"epochs": 1}), cut])
    head = HeadConfig(kind="classify", shape="row", labels=("no", "yes"), dropout=0.1)
    network = build_task_model(Encoder(encoder), head, seed=0)
    # As long as the sentences and pairs of GLUE are.
    lengths = np.clip(rng.gamma(3, 15, 3200).astype(int), 5, 128)
    features = [
        Feature(row, rng.integers(5, vocab_size, length), np.zeros(length, dtype=np.int64), np.array([row % 2]))
        for row, length in enumerate(lengths)
    ]
    tuned = tuning.build_state(network, settings)
    work = tuning.FinetuneTask(network, KINDS["classify"], features, settings, 0, 0, device, dict)
    step = work.make_train_step(tuned, workers)
    return work, step, take_steps(tuned, step, settings.optimizer, lambda _: 1.0, plan, NO_STOP)


def time_parts(step: Any) -> dict[str, float]:
    """Seconds of each part of the steps from here on, where one worker computes all slices."""
    totals: dict[str, float] = defaultdict(float)
    memory, claim, began = step._part.memory, step._part.memory.claim_slices, 0.0

    def timed(name: str) -> None:
        function = getattr(step, name)

        def call(*arguments: Any) -> Any:
            nonlocal began
            began = time.perf_counter()
            result = function(*arguments)
            totals[name] += time.perf_counter() - began
            return result

        setattr(step, name, call)

    def claim_timed(count: int) -> Iterator[int]:
        totals["making"] += time.perf_counter() - began
        for number in claim(count):
            started = time.perf_counter()
            yield number
            totals["slices"] += time.perf_counter() - started

    for name in ("backward", "norms", "update"):
        timed(name)
    memory.claim_slices = claim_timed
    return totals


def train_here(name: str, data: Path, slices: int, workers: int, steps: int) -> None:
    """Run in the child."""
    if name.startswith("predict-"):  # slices only say that there are workers, of one thread each
        task, _, _ = make_training(SHAPES[name], data, 1, min(workers, 1), is_tuned=True)
        predict_here(task, workers, steps)
        return
    task, step, reports = make_training(SHAPES[name], data, slices, workers, name.startswith("tune-"))
    next(reports)  # the first step pays for warming up
    parts = time_parts(step) if slices > 1 and workers == 1 else {}
    digest, tokens, started = hashlib.sha256(), 0, time.perf_counter()
    for _ in range(steps):
        report = next(reports)
        tokens += task.stats.tokens
        digest.update(f"{report.loss.hex()} {report.gradient_norm.hex()}\n".encode())
    seconds = time.perf_counter() - started
    reports.close()
    memory = resource.getrusage(resource.RUSAGE_CHILDREN if workers > 1 else resource.RUSAGE_SELF).ru_maxrss
    per_step = {part: total / steps for part, total in parts.items()}
    result = {"speed": tokens / seconds, "sha256": digest.hexdigest(), "worker_mb": memory >> 10}
    print(json.dumps(result | {"parts": per_step, "step_seconds": seconds / steps, "step_tokens": tokens / steps}))


def predict_here(task: Any, workers: int, batches: int) -> None:
    """About so many batches of 8,192 tokens, by threads of Python that take one each."""
    from electralab.stopping import NO_STOP
    from electralab.tasks.features import predict_logits

    features = (task.features * 8)[: batches * 180]
    predict_logits(task.network, features[:64], 0, 8192, NO_STOP, workers)
    started, digest = time.perf_counter(), hashlib.sha256()
    for row in predict_logits(task.network, features, 0, 8192, NO_STOP, workers):
        digest.update(row.logits.tobytes())
    speed = sum(len(feature.ids) for feature in features) / (time.perf_counter() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({"speed": speed, "sha256": digest.hexdigest(), "worker_mb": memory}))


class Cells:
    """Starts processes and reads what they measured."""

    def __init__(self, data: Path, steps_share: float) -> None:
        self.data, self.steps_share = data, steps_share

    def start(self, shape: str, slices: int, workers: int, *, spinning: bool = False) -> Any:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("OMP_", "GOMP_", "KMP_"))}
        policy = {} if spinning else {"OMP_WAIT_POLICY": "passive"}
        steps = max(1, round(SHAPES[shape].steps * self.steps_share))
        words = [shape, str(self.data), str(slices), str(workers), str(steps)]
        command = [sys.executable, __file__, "--child", *words]
        return subprocess.Popen(command, env=inherited | policy, stdout=subprocess.PIPE, text=True)

    def run(self, shape: str, slices: int, workers: int, *, spinning: bool = False) -> dict[str, Any]:
        return finish(self.start(shape, slices, workers, spinning=spinning))


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


def measure_shape(cells: Cells, shape: str, rounds: int) -> dict[str, Any]:
    """Medians over interleaved rounds, and the parts of a step on one worker."""
    cores, own = len(os.sched_getaffinity(0)), SHAPES[shape].slices
    ways = {"spinning threads": (1, 0, True), "passive threads": (1, 0, False)}
    for slices in sorted({2, own}):
        ways[f"{min(cores, slices)} workers, {slices} slices"] = (slices, min(cores, slices), False)
    speeds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    memory: dict[str, int] = {}
    hashes: dict[int, set[str]] = defaultdict(set)
    waiting: list[dict[str, Any]] = []
    for _ in range(rounds):
        for name, (slices, workers, spinning) in ways.items():
            result = cells.run(shape, slices, workers, spinning=spinning)
            with one_core_busy():
                busy = cells.run(shape, slices, workers, spinning=spinning)
            speeds[name]["quiet"].append(result["speed"])
            speeds[name]["busy"].append(busy["speed"])
            memory[name] = result["worker_mb"]
            hashes[slices] |= {result["sha256"], busy["sha256"]}
            waiting += [result] if (slices, workers) == (own, 2) and "step_seconds" in result else []
        together = [cells.start(shape, 1, 1) for _ in range(cores)]
        speeds["free processes"]["quiet"].append(sum(finish(process)["speed"] for process in together))
    # One worker, as many slices as there may be cores: what a core has to do in each case.
    counts = [own] if shape.startswith("predict-") else {own, *(n for n in MODELLED if 1 < n <= SHAPES[shape].rows)}
    alone = {slices: cells.run(shape, slices, 1) for slices in sorted(counts)}
    for slices, digests in hashes.items():
        digests |= {alone[slices]["sha256"]} if slices in alone else set()
        assert slices == 1 or len(digests) == 1, f"{shape}: bits differ between numbers of workers"
    medians = {name: {key: statistics.median(some) for key, some in by.items()} for name, by in speeds.items()}
    table = {name: by | {"worker_mb": memory.get(name)} for name, by in medians.items()}
    if shape.startswith("predict-"):
        return {"speeds": table}
    lost = 0.0
    if waiting:
        lost = statistics.median(each["step_seconds"] for each in waiting) - model_step(alone[own]["parts"], own, 2)
    model = {}
    for number in MODELLED:
        slices = max((n for n in alone if n <= number), default=min(alone)) if number > own else own
        seconds = model_step(alone[slices]["parts"], slices, number) + (max(lost, 0.0) if number > 1 else 0.0)
        model[number] = {"slices": slices, "speed": alone[slices]["step_tokens"] / seconds}
    parts = {slices: result["parts"] for slices, result in alone.items()}
    return {"speeds": table, "parts_ms": to_ms(parts), "waiting_ms": round(1000 * lost, 2), "model": model}


def model_step(parts: dict[str, float], slices: int, workers: int) -> float:
    """Seconds, without waiting: masks everywhere, the slices of the busiest worker, a share of sum and update each."""
    workers = min(workers, slices)
    turns = -(-slices // workers)
    return parts["making"] + turns * parts["slices"] / slices + (parts["norms"] + parts["update"]) / workers


def to_ms(parts: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    return {slices: {name: round(1000 * value, 2) for name, value in each.items()} for slices, each in parts.items()}


def show(shape: str, result: dict[str, Any]) -> None:
    base = result["speeds"]["spinning threads"]["quiet"]
    print(f"{shape:<24}{'tokens/s':>10}{'to spinning':>13}{'busy core':>11}{'of quiet':>10}{'MB a worker':>13}")
    for name, by in result["speeds"].items():
        quiet, busy = by["quiet"], by.get("busy", float("nan"))
        mb = by["worker_mb"] or 0
        print(f"  {name:<22}{quiet:>10,.0f}{quiet / base:>13.2f}{busy:>11,.0f}{busy / quiet:>10.2f}{mb:>13,}")
    if "model" not in result:
        return
    for slices, parts in result["parts_ms"].items():
        print(f"  ms a step on one worker, {slices} slices: " + ", ".join(f"{k} {v:,.1f}" for k, v in parts.items()))
    print(f"  two workers wait {result['waiting_ms']:,.1f} ms a step beyond these parts")
    model = result["model"]
    figures = ", ".join(
        f"{number} cores {each['speed']:,.0f} ({each['speed'] / model[1]['speed']:.1f}x, {each['slices']} slices)"
        for number, each in model.items()
    )
    print(f"  MODEL, not measured, tokens/s: {figures}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps-share", type=float, default=1.0, help="of the steps that a cell takes: .1 for a try")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        cells = Cells(make_text(Path(folder)), arguments.steps_share)
        for shape in arguments.shapes.split(","):
            results[shape] = measure_shape(cells, shape, arguments.rounds)
            show(shape, results[shape])
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        shape_name, data_dir, *numbers = sys.argv[2:]
        train_here(shape_name, Path(data_dir), *map(int, numbers))
    else:
        main()
