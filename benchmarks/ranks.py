"""Pre-training on ranks of torchrun: every mode beside one process, kills, and a machine that is cut off.

    python benchmarks/ranks.py [--counts 1,2,4] [--steps 50] [--kills 20] [--cut] [--out FILE]

The table has a row for each number of ranks and mode: the largest difference of a loss and of a weight from one
process, bytes of weights and moments on the first rank, the largest resident memory of a rank, and tokens per second.
`--kills`: as many kills of a random rank at random moments of one run on two ranks, which torchrun starts again; its
last weights must be those of a run that nobody disturbed. `--cut` (root, iproute2): two launchers in network namespaces
of their own, of which one loses its link, for ever or (`--mend`) for so many seconds, after which the run must go on to
the same weights; `--tcp-retries` is the kernel's net.ipv4.tcp_retries2 there. Runs are on made-up text; all ranks share
the cores of this machine. The status is 1 where weights are not those of a run that nobody disturbed.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MODES = ("ddp", "fsdp", "tensor")
TUNED = "modern, fine-tuned"
NETWORKS: dict[str, dict[str, Any]] = {
    "modern": {"model": {"backbone": "modern"}},
    "released, Muon": {"model": {"backbone": "electra", "dropout": 0.1}, "optimizer": {"kind": "muon"}},
    TUNED: {"model": {"backbone": "modern"}},
}
SHAPE: dict[str, Any] = {
    "model": {
        **{"hidden_size": 128, "embedding_size": 128, "num_layers": 2, "num_heads": 4, "feedforward_size": 256},
        "sharing": "embeddings",
    },
    "generator": {"num_heads": 4},
    "batch": {"size": 8, "slices": 4},
    "evaluation": {"times": 0, "rows": 4},
}
RUN = [
    *("--model.num-layers", "1", "--model.hidden-size", "32", "--model.embedding-size", "32", "--model.num-heads", "2"),
    *("--model.feedforward-size", "64", "--batch.size", "8", "--batch.slices", "4", "--evaluation.rows", "8"),
    *("--threads", "1", "--log-every", "10", "--save-every", "10", "--evaluation.times", "1"),
]


def make_training(data_dir: Path, network: str, parallel: Any, steps: int) -> tuple[Any, Any, Any, Any]:
    """The state, the task, who computes its steps, and the steps: the real path, without its files."""
    import numpy as np
    import torch

    from electralab.config import ConfigLayer
    from electralab.finetuning import task as tuning
    from electralab.finetuning.settings import resolve_finetune
    from electralab.model.encoder import Encoder
    from electralab.model.settings import derive_encoders
    from electralab.model.task_model import HeadConfig, build_task_model
    from electralab.model.weights import init_weights
    from electralab.objective.registry import build_objective
    from electralab.pretraining import task as pretraining
    from electralab.pretraining.settings import read_settings, resolve_pretrain
    from electralab.stopping import NO_STOP
    from electralab.tasks.catalog import find_task
    from electralab.tasks.features import Feature
    from electralab.tasks.kinds import KINDS
    from electralab.tokens.shards import open_data
    from electralab.training.schedule import StepPlan
    from electralab.training.trainer import take_steps

    device, plan, data = torch.device("cpu"), StepPlan.whole(steps), open_data(data_dir)
    layers = [read_settings("tiny"), ConfigLayer("shape", SHAPE), ConfigLayer("network", NETWORKS[network])]
    config = resolve_pretrain(layers)
    if network != TUNED:
        objective = build_objective(config, data, config.seed, device)
        state = pretraining.build_state(objective, config)
        task = pretraining.PretrainTask(objective, data, config, plan, device)
        step = pretraining.make_train_step(state, task, 1, parallel)
        return state, task, step, take_steps(state, step, config.optimizer, task.lr_factor, plan, NO_STOP)
    vocab_size, rng = data.tokenizer.vocab_size, np.random.default_rng(0)
    _, encoder = derive_encoders(config.model, config.generator, vocab_size=vocab_size, sequence_length=64)
    settings = resolve_finetune(find_task("classify"), encoder, [ConfigLayer("benchmark", {"steps": steps})])
    head = HeadConfig(kind="classify", shape="row", labels=("no", "yes"), dropout=0.1)
    lengths = np.clip(rng.gamma(3, 8, 800).astype(int), 5, 64)
    features = [
        Feature(row, rng.integers(5, vocab_size, length), np.zeros(length, dtype=np.int64), np.array([row % 2]))
        for row, length in enumerate(lengths)
    ]
    tuned_network = build_task_model(Encoder(encoder), head, seed=0)
    init_weights(tuned_network, 0)
    tuned = tuning.build_state(tuned_network, settings)
    work = tuning.FinetuneTask(tuned_network, KINDS["classify"], features, settings, 0, 0, device, dict)
    step = work.make_train_step(tuned, 1, parallel)
    return tuned, work, step, take_steps(tuned, step, settings.optimizer, lambda _: 1.0, plan, NO_STOP)


def train_here(data_dir: Path, network: str, parallel: Any, steps: int) -> None:
    """Run in each rank, or in one process; the first prints what it saw."""
    import torch

    from electralab.runtime import find_rank, use_exact_arithmetic
    from electralab.stopping import NO_STOP
    from electralab.training.group import join_ranks
    from electralab.training.ranks import follow

    device, (rank, num_ranks) = torch.device("cpu"), find_rank()
    if rank > 0:
        follow(NO_STOP, device)
        return
    use_exact_arithmetic(1, device)
    state, task, step, reports = make_training(data_dir, network, parallel, steps)
    part: Any = getattr(step, "_part", None)
    optimizer = getattr(part, "optimizer", state.optimizer)
    tensors = [*optimizer.parameters, *optimizer.tensors().values()]
    losses, tokens, started = [], 0, time.perf_counter()
    for report in reports:
        losses.append(report.loss)
        if len(losses) > 1:  # the first step pays for warming up
            tokens += task.stats.tokens
        else:
            started = time.perf_counter()
    seconds = time.perf_counter() - started
    step.collect()
    weights = {name: parameter.detach().flatten().tolist() for name, parameter in state.model.named_parameters()}
    if num_ranks > 1:
        group = join_ranks(device)
        group.command("end", None)
        group.close()
    state_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    speed = tokens / seconds
    print(json.dumps({"losses": losses, "weights": weights, "state_bytes": state_bytes, "tokens_per_second": speed}))


def launch(words: list[str], count: int, *launcher: str, output: Any = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """torchrun, or one process where one is asked for."""
    start = [sys.executable]
    if count > 1:
        start += ["-m", "torch.distributed.run", f"--nproc-per-node={count}", "--rdzv-backend=c10d"]
        start += ["--rdzv-endpoint=localhost:0", *launcher]
        words = ["--module", *words[1:]] if words[0] == "-m" else words
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*start, *words], env=environment, stdout=output, stderr=subprocess.STDOUT, text=True)


def children(process: subprocess.Popen[str]) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return sorted(map(int, path.read_text().split())) if path.exists() else []


def resident(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS")), 0)


def measure(data: Path, network: str, count: int, parallel: str, steps: int) -> dict[str, Any]:
    words = [__file__, "--inside", str(data), network, parallel, str(steps)]
    with tempfile.TemporaryFile("w+") as output:
        process = launch(words, count, output=output)
        largest: dict[int, int] = {}
        while process.poll() is None:
            for pid in children(process) if count > 1 else [process.pid]:
                largest[pid] = max(largest.get(pid, 0), resident(pid))
            time.sleep(0.2)
        output.seek(0)
        text = output.read()
    if process.returncode:
        sys.exit(text)
    result: dict[str, Any] = json.loads(next(line for line in text.splitlines() if line.startswith('{"losses"')))
    return result | {"resident_bytes": max(largest.values())}


def make_table(data: Path, networks: list[str], counts: list[int], steps: int) -> list[dict[str, Any]]:
    rows = []
    for network in networks:
        one = measure(data, network, 1, "ddp", steps)
        for count in counts:
            for mode in MODES if count > 1 else MODES[:1]:
                seen = one if count == 1 else measure(data, network, count, mode, steps)
                pairs = zip(seen["losses"], one["losses"], strict=True)
                row = {
                    "network": network,
                    "ranks": count,
                    "parallel": mode if count > 1 else "one process",
                    "steps": steps,
                    "loss_difference": max(abs(ours - theirs) for ours, theirs in pairs),
                    "weight_difference": max(
                        abs(ours - theirs)
                        for name, values in seen["weights"].items()
                        for ours, theirs in zip(values, one["weights"][name], strict=True)
                    ),
                    "is_bit_identical": seen["losses"] == one["losses"] and seen["weights"] == one["weights"],
                    **{key: round(seen[key]) for key in ("state_bytes", "resident_bytes", "tokens_per_second")},
                }
                rows.append(row)
                print(json.dumps(row), flush=True)
    return rows


def pretrain_words(data: Path, out: Path, steps: int, *more: str) -> list[str]:
    words = ["-m", "electralab", "pretrain", "--data", str(data), "--out", str(out), "--steps", str(steps)]
    return [*words, *RUN, *more]


def hash_weights(run: Path, steps: int) -> list[str]:
    names = ("model.safetensors", "optimizer.safetensors")
    return [hashlib.sha256((run / f"checkpoints/step-{steps}" / name).read_bytes()).hexdigest() for name in names]


def last_step(run: Path) -> int:
    return max((int(path.name[5:]) for path in run.glob("checkpoints/step-*")), default=0)


def kill_ranks(data: Path, folder: Path, kills: int, steps: int, parallel: str) -> dict[str, Any]:
    rng = random.Random(0)
    whole = launch(pretrain_words(data, folder / "whole", steps, "--workers", "1"), 1)
    whole.wait()
    words = pretrain_words(data, folder / "killed", steps, "--parallel", parallel)
    process = launch(words, 2, f"--max-restarts={kills}")
    done, restarts = 0, []
    while process.poll() is None and done < kills:
        ranks, before = children(process), last_step(folder / "killed")
        # Some are killed while they start, some in the middle of their steps.
        waits_for_step = rng.random() < 0.7
        deadline = time.monotonic() + 120
        while waits_for_step and last_step(folder / "killed") == before and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 1))
        began = time.monotonic()
        try:
            os.kill(rng.choice(ranks), signal.SIGKILL)
        except (ProcessLookupError, IndexError):
            continue
        done += 1
        while process.poll() is None and len({*children(process)} - {*ranks}) < 2:
            time.sleep(0.05)
        restarts.append(round(time.monotonic() - began, 1))
        print(f"kill {done}: at step {before} or later, ranks started again after {restarts[-1]} s", flush=True)
    while process.poll() is None:
        time.sleep(0.1)
    return {
        "parallel": parallel,
        "kills": done,
        "steps": steps,
        "status": process.returncode,
        "longest_restart_seconds": max(restarts, default=0.0),
        "is_exact": hash_weights(folder / "killed", steps) == hash_weights(folder / "whole", steps),
    }


@contextmanager
def two_networks() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a cable between them."""
    names = (f"electralab-{os.getpid()}-a", f"electralab-{os.getpid()}-b")

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "elab0", "netns", names[0], "type", "veth", "peer", "name", "elab1", "netns", names[1])
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", f"elab{number}")
            ip("-n", name, "link", "set", f"elab{number}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def cut_off(data: Path, folder: Path, parallel: str, tcp_retries: int, mend: float, steps: int) -> dict[str, Any]:
    """The store is at the first launcher. Both are waited for, up to half an hour: on the other side the kernel decides
    when a connection whose packets nobody acknowledges is lost."""
    run = folder / "cut"
    with two_networks() as names:
        words = pretrain_words(data, run, steps if mend else 100_000, "--parallel", parallel)
        processes = []
        for number, name in enumerate(names):
            launcher = ["--nnodes=2", "--rdzv-endpoint=10.77.0.1:29400", "--rdzv-id=cut"]
            # In a namespace of its own a launcher does not know by its host's name that the endpoint is here.
            launcher += [f"--local-addr=10.77.0.{number + 1}", f"--rdzv-conf=is_host={int(number == 0)}"]
            launcher += ["--max-restarts=3"] if mend else []
            start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1", "--rdzv-backend=c10d"]
            # A name of its own, as another machine has: a rank of the same host would be ended from here.
            rename = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', name]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": f"elab{number}"}
            within = ["ip", "netns", "exec", name]
            subprocess.run([*within, "sysctl", "-qw", f"net.ipv4.tcp_retries2={tcp_retries}"], check=True)
            with (folder / f"{name}.log").open("w") as log:
                processes.append(
                    subprocess.Popen(
                        [*within, *rename, *start, *launcher, "--module", *words[1:]],
                        env=environment,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )
                )
        while not last_step(run):
            if any(process.poll() is not None for process in processes):
                sys.exit("\n".join((folder / f"{name}.log").read_text() for name in names))
            time.sleep(0.1)
        subprocess.run(["ip", "-n", names[1], "link", "set", "elab1", "down"], check=True)
        began, spoken, ended = time.monotonic(), dict[str, float](), dict[str, float]()
        is_mended = not mend
        while len(ended) < len(names) and (passed := time.monotonic() - began) < 1800:
            if not is_mended and passed > mend:
                subprocess.run(["ip", "-n", names[1], "link", "set", "elab1", "up"], check=True)
                is_mended = True
            for number, (name, process) in enumerate(zip(names, processes, strict=True)):
                lines = (folder / f"{name}.log").read_text().splitlines()
                said = [line for line in lines if "the same command goes on from the last checkpoint" in line]
                if said and name not in spoken:
                    spoken[name] = round(passed, 1)
                    print(f"{name} (rank {number}) after {passed:.1f} s: {said[0]}", flush=True)
                if process.poll() is not None and name not in ended:
                    ended[name] = round(passed, 1)
                    print(f"{name}: launcher ended after {passed:.1f} s: {lines[-1]}", flush=True)
            time.sleep(0.1)
        for name, process in zip(names, processes, strict=True):
            if name not in ended:
                print((folder / f"{name}.log").read_text()[-4000:], flush=True)
                process.kill()
    result: dict[str, Any] = {"parallel": parallel, "tcp_retries2": tcp_retries, "mended_after_seconds": mend or None}
    result |= {"said_seconds": [spoken.get(name) for name in names]}
    result |= {"launcher_ended_seconds": [ended.get(name) for name in names]}
    if mend:
        launch(pretrain_words(data, folder / "whole", steps, "--workers", "1"), 1).wait()
        result["is_exact"] = hash_weights(run, steps) == hash_weights(folder / "whole", steps)
    return result


def prepare(folder: Path) -> Path:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(2000)]
    texts = (" ".join(rng.choices(words, k=120)) + "." for _ in range(300))
    (folder / "text.txt").write_text("\n\n".join(texts))
    command = ["prepare", str(folder / "text.txt"), "--out", str(folder / "data")]
    command += ["--vocab-size", "1000", "--sequence-length", "64"]
    subprocess.run([sys.executable, "-m", "electralab", *command], check=True, stderr=subprocess.DEVNULL)
    return folder / "data"


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        data_dir, network, parallel, steps = sys.argv[2:]
        train_here(Path(data_dir), network, parallel, int(steps))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="1,2,4", help="numbers of ranks; none: no table")
    parser.add_argument("--networks", default="; ".join(NETWORKS))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--kill-steps", type=int, default=1000)
    parser.add_argument("--parallel", default="ddp", choices=MODES, help="of the runs that are killed or cut off")
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--tcp-retries", type=int, default=15, help="the default is that of Linux")
    parser.add_argument("--mend", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = prepare(folder)
        if given.counts != "none":
            results["table"] = make_table(
                data, given.networks.split("; "), [int(count) for count in given.counts.split(",")], given.steps
            )
        if given.kills:
            results["kills"] = kill_ranks(data, folder, given.kills, given.kill_steps, given.parallel)
        if given.cut:
            results["cut"] = cut_off(data, folder, given.parallel, given.tcp_retries, given.mend, given.kill_steps)
    print(json.dumps(results, indent=2))
    if given.out:
        given.out.write_text(json.dumps(results, indent=2) + "\n")
    if any(results.get(name, {}).get("is_exact") is False for name in ("kills", "cut")):
        sys.exit(1)


if __name__ == "__main__":
    main()
