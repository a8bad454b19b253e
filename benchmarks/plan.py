"""The planner beside measurements: a step on two ranks, predicted from one process and the link between two, and taken.

    python benchmarks/plan.py [--shapes tiny,recipe,small16] [--ranks 2] [--steps 12] [--rounds 5] [--json]

Each cell is a process (or, by torchrun, several) that pre-trains on made-up text with one thread. Interleaved in each
round: one process alone; as many at the same time as there will be ranks, for cores share caches and memory whether or
not they work together; a link of gloo that carries sums of the gradients' size; the ranks. What the first three say
goes into `plan_mode` as a device, and its answer beside what the ranks took and held. Medians of the rounds.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workers

SHAPES = {name: (shape.preset, shape.settings) for name, shape in workers.SHAPES.items()}
SHAPES |= {"small16": ("small", {"batch": {"size": 16, "micro_size": 0}})}
PATIENCE = 600
WARM_UP = 2


def train_here(shape: str, data: str, slices: str, steps: str) -> None:
    """Run in a child: a run, its steps timed by their parts, and its memory while it trained."""
    import torch

    import electralab
    from electralab.display import Display
    from electralab.objective.electra import ElectraObjective
    from electralab.training import loop, ranks
    from electralab.training.workers import SlicedStep

    taken: dict[str, list[float]] = {name: [] for name in ("backward", "norms", "update", "masks")}
    peak = [0]

    def timed(kind: type, method: str, name: str) -> None:
        inner: Callable[..., Any] = getattr(kind, method)

        def outer(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            answer = inner(*arguments, **named)
            taken[name].append(time.perf_counter() - started)
            peak[0] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            return answer

        setattr(kind, method, outer)

    for kind in (loop.TrainStep, SlicedStep, ranks.RankStep):
        for method in ("backward", "norms", "update"):
            if method in vars(kind):
                timed(kind, method, method)
    timed(ElectraObjective, "make_inputs", "masks")
    preset, settings = SHAPES[shape]
    settings = settings | {"batch": settings.get("batch", {}) | {"slices": int(slices)}, "evaluation": {"times": 1}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(os.environ.get("PLAN_RUN", folder)) / "run"
        electralab.pretrain(
            *(data, out), config=preset, settings=settings, steps=int(steps), workers=1, threads=1, save_every=0,
            display=Display(quiet=True),
        )  # fmt: skip
    rank = int(os.environ.get("RANK", "0"))
    count = int(steps)
    medians = {name: statistics.median(values[WARM_UP:count]) for name, values in taken.items() if values}
    # Rank 0 evaluates when it has trained; the others only compute.
    memory = peak[0] if rank == 0 else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    assert torch.get_num_threads() == 1
    print(json.dumps({"rank": rank, "memory": memory, **medians}), flush=True)


def link_here(size: str) -> None:
    """Run in two children: a message that says little, and one of so many bytes, there and back at the same time."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, partner = dist.get_rank(), dist.get_rank() ^ 1
    ours, theirs = torch.ones(int(size) // 4), torch.empty(int(size) // 4)
    calls, exchanges = [], []
    for _ in range(20):
        box: list[Any] = [("backward", 1, 1.0)]
        started = time.perf_counter()
        dist.broadcast_object_list(box, src=0)
        values: list[Any] = [None] * dist.get_world_size()
        dist.gather_object(box, values if rank == 0 else None, dst=0)
        calls.append((time.perf_counter() - started) / 2)
        started = time.perf_counter()
        sending = dist.isend(ours, partner)
        dist.recv(theirs, partner)
        if sending is not None:
            sending.wait()
        exchanges.append(time.perf_counter() - started)
    print(json.dumps({"rank": rank, "call": statistics.median(calls), "exchange": statistics.median(exchanges)}))
    dist.destroy_process_group()


def start(words: list[str], ranks: int, run_dir: Path) -> "subprocess.Popen[str]":
    launch = [sys.executable]
    if ranks > 1:
        launch += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--rdzv-backend", "c10d"]
        launch += ["--rdzv-endpoint", "localhost:0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    environment |= {"PLAN_RUN": str(run_dir)} if ranks > 1 else {}
    command = [*launch, __file__, "--child", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> list[dict[str, Any]]:
    out, errors = process.communicate(timeout=PATIENCE)
    if process.returncode:
        sys.exit(f"a cell ended with status {process.returncode}: {errors[-2000:]}")
    # Ranks print at the same moment, so that two answers may stand on one line.
    lines = [json.loads(answer) for answer in re.findall(r"\{[^{}]*\}", out)]
    return sorted(lines, key=lambda line: line["rank"])


def predict(shape: str, ranks: int, slices: int, vocab_size: int, length: int, measured: dict[str, float]) -> Any:
    """The plan of this run on devices that are as fast as the process that was measured."""
    from electralab.config import ConfigLayer
    from electralab.pretraining.cost import estimate_cost, placeholder_data
    from electralab.pretraining.plan import count_workload, plan_mode
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.records.plan import DeviceSpec
    from electralab.records.run import Budget

    preset, settings = SHAPES[shape]
    layers = [ConfigLayer("shape", settings), ConfigLayer("slices", {"batch": {"slices": slices}})]
    config = resolve_pretrain([read_settings(preset), *layers])
    data = placeholder_data(config, vocab_size, length)
    run = estimate_cost(config, data, Budget("steps", 1.0))
    work = count_workload(config, data, run.steps, run.step_flops)
    compute = measured["backward"] - measured["masks"]
    touched = 12 * work.parameters + 2 * work.moment_bytes
    spec = DeviceSpec(
        **{"name": "measured", "tflops": run.step_flops / compute / 1e12, "utilisation": 1.0, "memory_gb": 1e6},
        **{"memory_bandwidth": touched / (measured["norms"] + measured["update"]) / 1e9, "per_host": ranks},
        **{"bandwidth": 4 * work.parameters / measured["exchange"] / 1e9, "network_bandwidth": 1.0},
        **{"latency_us": measured["call"] * 1e6, "row_us": measured["masks"] / work.rows * 1e6},
        **{"price_per_hour": 0.0, "overlaps": False, "source": "measured"},
    )
    return work.parameters, [plan_mode(work, "ddp", spec, count) for count in (1, ranks)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="tiny,recipe,small16")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ranks, slices = arguments.ranks, max(2, arguments.ranks)
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        data = workers.make_text(Path(folder))
        from electralab.tokens.shards import open_data

        opened = open_data(data)
        sizes = opened.tokenizer.vocab_size, opened.sequence_length
        for shape in arguments.shapes.split(","):
            words = ["train", shape, str(data), str(slices), str(arguments.steps)]
            nothing = dict.fromkeys(("backward", "norms", "update", "masks", "exchange", "call"), 1.0)
            parameters, _ = predict(shape, ranks, slices, *sizes, nothing | {"backward": 2.0})
            cells: dict[str, list[dict[str, Any]]] = {name: [] for name in ("alone", "beside", "link", "ranks")}
            for number in range(arguments.rounds):
                run_dir = Path(folder) / f"{shape}-{number}"
                cells["alone"] += finish(start(words, 1, run_dir))
                together = [start(words, 1, run_dir) for _ in range(ranks)]
                cells["beside"] += [line for process in together for line in finish(process)]
                cells["link"] += finish(start(["link", str(4 * parameters)], 2, run_dir))
                cells["ranks"] += finish(start(words, ranks, run_dir))

            def median(cell: str, name: str, cells: dict[str, list[dict[str, Any]]] = cells) -> float:
                return float(statistics.median(line[name] for line in cells[cell] if name in line))

            parts = ("backward", "norms", "update")
            took = sum(median("ranks", part) for part in parts)
            held = max(line["memory"] for line in cells["ranks"])
            for cell in ("alone", "beside"):
                measured = {part: median(cell, part) for part in (*parts, "masks")}
                measured |= {name: median("link", name) for name in ("call", "exchange")}
                _, (one, many) = predict(shape, ranks, slices, *sizes, measured)
                single = max(line["memory"] for line in cells["alone"])
                answers.append(
                    {
                        **{"shape": shape, "ranks": ranks, "from": cell},
                        **{
                            "one_ms": 1e3 * sum(measured[part] for part in parts),
                            "planned_ms": 1e3 * many.step_seconds,
                        },
                        **{"took_ms": 1e3 * took, "error": many.step_seconds / took - 1},
                        **{"compute_ms": 1e3 * many.compute_seconds, "masks_ms": 1e3 * many.host_seconds},
                        **{"update_ms": 1e3 * many.update_seconds, "exposed_ms": 1e3 * many.exposed_seconds},
                        **{"link_gb_s": 4e-9 * parameters / measured["exchange"], "call_us": 1e6 * measured["call"]},
                        **{"planned_mb": many.memory.total / 2**20, "held_mb": held / 2**20},
                        "memory_error": many.memory.total / held - 1,
                        **{"one_planned_mb": one.memory.total / 2**20, "one_held_mb": single / 2**20},
                    }
                )
    if arguments.json:
        print(json.dumps(answers))
        return
    for answer in answers:
        print(f"{answer['shape']}, {answer['ranks']} ranks, from one process {answer['from']}")
        print(
            f"  step   one process {answer['one_ms']:.1f} ms; planned {answer['planned_ms']:.1f} (compute "
            f"{answer['compute_ms']:.1f}, masks {answer['masks_ms']:.1f}, update {answer['update_ms']:.1f}, "
            f"communication {answer['exposed_ms']:.1f}), took {answer['took_ms']:.1f}: error {answer['error']:+.1%}"
        )
        print(
            f"  memory planned {answer['planned_mb']:.0f} MB, held {answer['held_mb']:.0f}: error "
            f"{answer['memory_error']:+.1%} (one process {answer['one_planned_mb']:.0f}, {answer['one_held_mb']:.0f})"
        )
        print(f"  link   {answer['link_gb_s']:.2f} GB/s, {answer['call_us']:.0f} µs a message")


if __name__ == "__main__":
    if sys.argv[1:3] == ["--child", "train"]:
        train_here(*sys.argv[3:])
    elif sys.argv[1:3] == ["--child", "link"]:
        link_here(sys.argv[3])
    else:
        main()
