"""Pre-training started by torchrun: the same bits on any number of ranks; a run whose rank died can go on."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from electra_process import Shell
from little_pretraining import make_request, prepare_sentences, read_log
from little_runs import exports_of, forget_after, label_sentences, metrics_of, state_of, train, write_rows
from little_tasks import save_origin, write_animals
from rank_runs import lose_slice, make_tuning
from safetensors.torch import load_file

from electralab.events import run_to_end
from electralab.finetuning.stage import finetune
from electralab.pretraining.stage import pretrain
from electralab.pretraining.task import PretrainTask
from electralab.records.tuned import TunedResults
from electralab.stopping import StopSignal

pytestmark = pytest.mark.flow


def launch(folder: Path, count: int, *words: str | int | Path, flags: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={count}"]
    launcher += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", *flags]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command, pipe = [*launcher, *map(str, words)], subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, stdout=pipe, stderr=subprocess.STDOUT)


def start(shell: Shell, count: int, out: str, steps: int, *flags: str) -> subprocess.Popen[str]:
    words = train(out, "--steps", steps, *SLICED)
    return launch(shell.folder, count, "--module", "electralab", *words, flags=flags)


SCRIPT = Path(__file__).parents[1] / "support/rank_runs.py"
SLICED = ("--batch.slices", 4, "--save-every", 20)


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=900)
    assert process.returncode == 0, out
    return out


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 240
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.1)


def ranks_of(launcher: subprocess.Popen[str]) -> list[int]:
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return sorted(map(int, children))


def test_weights_are_the_same_on_one_process_two_ranks_and_four(shell: Shell) -> None:
    shell.must(*train("one", "--steps", 6, *SLICED, "--workers", 1))
    printed = finish(start(shell, 2, "two", 6))
    assert printed.count("starting at step 1 of 6") == 1, "the first rank speaks for all"
    finish(start(shell, 4, "four", 6))
    assert state_of(shell.folder / "one", 6) == state_of(shell.folder / "two", 6) == state_of(shell.folder / "four", 6)


# What sharding could get wrong: dropout, an optimizer of whole matrices, averages, gains that heads share, rows that do
# not fill all slices.
NETWORKS = (
    *("--model.num-layers", "2", "--model.hidden-size", "32", "--model.embedding-size", "16", "--model.num-heads", "4"),
    *("--model.feedforward-size", "32", "--model.sharing", "embeddings", "--generator.num-heads", "2"),
    *("--batch.size", "8", "--batch.slices", "4", "--evaluation.rows", "6", "--evaluation.times", "2"),
)
MODERN = (*NETWORKS, "--model.dropout", ".1", "--model.qk-norm", "true", "--batch.first-size", "3")
RELEASED = (
    *(*NETWORKS, "--model.backbone", "electra", "--model.dropout", ".1", "--model.attention-dropout", ".1"),
    *("--optimizer.kind", "muon", "--optimizer.average-decay", ".9"),
)


def weights_of(run: Path) -> dict[str, Any]:
    folder = run / "checkpoints/step-6"
    return {name: load_file(folder / f"{name}.safetensors") for name in ("model", "optimizer")}


def assert_close(run: Path, other: Path, tolerance: float) -> None:
    for name, tensors in weights_of(run).items():
        for key, expected in weights_of(other)[name].items():
            assert float((tensors[key] - expected).abs().max()) <= tolerance, (run.name, key)
    losses, expected_losses = ([row["loss"] for row in read_log(path)] for path in (run, other))
    assert losses == pytest.approx(expected_losses, abs=tolerance), run.name


def test_a_run_is_the_same_in_every_mode_and_goes_on_in_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sharded to the last bit; split inside layers, to rounding. Saved by each mode, resumed by each, and by one
    process."""
    data = prepare_sentences(tmp_path)
    modes = ("ddp", "fsdp", "tensor")
    cases: list[dict[str, Any]] = [
        {"out": f"{kind} {mode}", "from": "", "parallel": mode, "words": words}
        for kind, words in (("modern", MODERN), ("released", RELEASED))
        for mode in modes
    ]
    cases += [
        {"out": f"{mode} then {other}", "from": f"modern {mode}", "parallel": other, "words": MODERN}
        for mode in modes
        for other in modes
    ]
    # Each rank writes some of the moments; whoever goes on puts them together.
    pieces = {"from": "", "words": MODERN, "sharded": True}
    cases += [{"out": f"pieces {mode}", "parallel": mode, **pieces} for mode in ("ddp", "fsdp")]
    cases += [{"out": "pieces then ddp", "from": "pieces fsdp", "parallel": "ddp", "words": MODERN}]
    # In 16 bits, in which whoever gathers layers in them evaluates on the first rank alone, in 32.
    half = (*RELEASED, "--runtime.precision", "bf16")
    cases += [{"out": f"half {mode}", "from": "", "parallel": mode, "words": half} for mode in ("ddp", "fsdp")]
    # At the end, since these plant a loss that is not a number, in a slice of the last rank.
    cases += [{"out": f"lost {mode}", "from": "", "parallel": mode, "words": MODERN, "lost": 2} for mode in modes]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    finish(launch(tmp_path, 2, SCRIPT, tmp_path))

    for kind, words in (("modern", MODERN), ("released", RELEASED), ("half", half)):
        one = tmp_path / f"{kind} one"
        run_to_end(pretrain(make_request(data, one, words, workers=1), StopSignal()))
        for mode in ("ddp", "fsdp"):
            assert state_of(tmp_path / f"{kind} {mode}", 6) == state_of(one, 6), mode
            assert read_log(tmp_path / f"{kind} {mode}") == read_log(one)
        if kind != "half":
            assert_close(tmp_path / f"{kind} tensor", one, 1e-5)
    # Under ddp and fsdp each rank answers about its part of the held-out rows, under tensor all about all together.
    assert set((tmp_path / "evaluated by 0").read_text().splitlines()) == {"0 of 2", "0 of 1"}
    assert set((tmp_path / "evaluated by 1").read_text().splitlines()) == {"1 of 2", "0 of 1"}
    one = tmp_path / "modern one"
    assert state_of(tmp_path / "pieces then ddp", 6) == state_of(one, 6)
    for mode in ("ddp", "fsdp"):
        files = (tmp_path / f"pieces {mode}/checkpoints/step-6").glob("optimizer*")
        assert sorted(path.name for path in files) == [f"optimizer-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for mode in modes:
        resumed = tmp_path / f"{mode} then one"
        shutil.copytree(tmp_path / f"modern {mode}", resumed)
        forget_after(resumed, 3)
        run_to_end(pretrain(make_request(data, resumed, MODERN, workers=1), StopSignal()))
        for other in (*modes, "one"):
            run = tmp_path / f"{mode} then {other}"
            if "tensor" in (mode, other):
                assert_close(run, one, 1e-5)
            else:
                assert state_of(run, 6) == state_of(one, 6), run.name
    # A step that is not finite on one rank is skipped by all.
    with monkeypatch.context() as patch:
        patch.setattr(PretrainTask, "micro_losses", lose_slice(2))
        one = tmp_path / "lost one"
        run_to_end(pretrain(make_request(data, one, MODERN, workers=1), StopSignal()))
    assert [row["skipped_steps"] for row in read_log(one)] == [0, 1, 1, 1, 1, 1]
    for mode in ("ddp", "fsdp"):
        assert state_of(tmp_path / f"lost {mode}", 6) == state_of(one, 6), mode
    assert_close(tmp_path / "lost tensor", one, 1e-5)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told to stop"])
def test_a_run_goes_on_after_its_ranks_ended(shell: Shell, number: int) -> None:
    """One of two is killed, or both are told to stop; then one process goes on, to the same end."""
    shell.must(*train("whole", "--steps", 200, *SLICED, "--workers", 1))
    process = start(shell, 2, "cut", 200)
    wait_for(shell.folder / "cut/checkpoints/step-20")
    began = time.monotonic()
    os.kill(ranks_of(process)[-1] if number == signal.SIGKILL else process.pid, number)
    out, _ = process.communicate(timeout=120)
    assert process.returncode != 0, out
    assert time.monotonic() - began < 60
    assert not (shell.folder / "cut/export").exists()
    if number == signal.SIGKILL:
        assert "rank 0: another rank ended or does not answer" in out
        assert "[rank0]: Traceback" not in out
    shell.must(*train("cut", "--steps", 200, *SLICED, "--workers", 1))
    assert state_of(shell.folder / "cut", 200) == state_of(shell.folder / "whole", 200)


def test_ranks_that_are_started_again_end_with_the_same_weights(shell: Shell) -> None:
    shell.must(*train("whole", "--steps", 100, *SLICED, "--workers", 1))
    process = start(shell, 2, "cut", 100, "--max-restarts=1")
    wait_for(shell.folder / "cut/checkpoints/step-20")
    os.kill(ranks_of(process)[-1], signal.SIGKILL)
    assert "resuming at step" in finish(process)
    assert state_of(shell.folder / "cut", 100) == state_of(shell.folder / "whole", 100)


def test_a_run_goes_on_with_the_launchers_that_are_left(shell: Shell) -> None:
    """`--nnodes 1:2`: of two launchers, each with a rank, one is killed; the other goes on alone, to the same end."""
    shell.must(*train("whole", "--steps", 200, *SLICED, "--workers", 1))
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    flags = ("--nnodes=1:2", "--rdzv-id=elastic", f"--rdzv-endpoint=localhost:{port}", "--max-restarts=1")
    stays, leaves = (
        start(shell, 1, "cut", 200, *flags, f"--rdzv-conf=is_host={is_host},last_call_timeout=10") for is_host in (1, 0)
    )
    wait_for(shell.folder / "cut/checkpoints/step-20")
    (rank,) = ranks_of(leaves)
    for pid in (leaves.pid, rank):
        os.kill(pid, signal.SIGKILL)
    leaves.communicate(timeout=60)
    out = finish(stays)
    assert "resuming at step" in out
    assert state_of(shell.folder / "cut", 200) == state_of(shell.folder / "whole", 200)


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_rank_that_is_stopped_ends_the_run_with_stacks(shell: Shell, stopped: int) -> None:
    process = start(shell, 2, "run", 100_000)
    wait_for(shell.folder / "run/checkpoints/step-20")
    os.kill(ranks_of(process)[stopped], signal.SIGSTOP)
    out, _ = process.communicate(timeout=120)
    assert process.returncode != 0
    assert (
        f"rank {1 - stopped}: rank {stopped} has been silent for 15 seconds; stopped or out of reach: rank {stopped}"
        in out
    )
    assert f"rank {1 - stopped} (process" in out
    assert "in command" in out or "in gather" in out or "in exchange" in out, "the stack of who waits"


def test_a_rank_that_raises_ends_the_run(tmp_path: Path) -> None:
    prepare_sentences(tmp_path)
    case = {"out": "run", "from": "", "parallel": "fsdp", "words": MODERN, "raises": True}
    (tmp_path / "cases.json").write_text(json.dumps([case]))
    began = time.monotonic()
    out, _ = launch(tmp_path, 2, SCRIPT, tmp_path).communicate(timeout=120)
    assert "ValueError: planted" in out
    assert "rank 0: another rank ended or does not answer" in out
    assert time.monotonic() - began < 90, "most of which is the start"


def test_fine_tuning_is_the_same_in_every_mode_and_goes_on_in_any_other(tmp_path: Path) -> None:
    """Predictions, too, which ranks share."""
    save_origin(tmp_path / "origin", num_layers=2, num_heads=4)
    write_animals(tmp_path / "animals")
    modes = ("ddp", "fsdp", "tensor")
    cases = [{"out": mode, "from": "", "parallel": mode} for mode in modes]
    cases += [
        {"out": f"{mode} then {other}", "from": mode, "parallel": other}
        for mode in ("one", *modes)
        for other in modes
        if mode != other
    ]
    # Two seeds that are finished, of which only the summary is missing: what they predict together.
    together = [{"out": f"pair {mode}", "from": "pair", "parallel": mode, "seeds": 2} for mode in reversed(modes)]
    (tmp_path / "cases.json").write_text(json.dumps([*cases, *together]))
    run_to_end(finetune(make_tuning(tmp_path, tmp_path / "one", workers=1), StopSignal()))
    pair = run_to_end(finetune(make_tuning(tmp_path, tmp_path / "pair", workers=1, seeds=2), StopSignal()))
    finish(launch(tmp_path, 2, SCRIPT, tmp_path))

    for mode in modes:
        assert TunedResults.read(tmp_path / f"pair {mode}").ensemble == pair.ensemble, mode
    for rank in (0, 1):
        lines = (tmp_path / f"evaluated by {rank}").read_text().splitlines()
        assert lines[-6:] == 2 * ["dev 0 of 1"] + 4 * [f"dev {rank} of 2"], "by all ranks, each seed"
    for mode in modes:
        resumed = tmp_path / f"{mode} then one"
        shutil.copytree(tmp_path / mode, resumed)
        for folder in (resumed, resumed / "seed-0"):
            forget_after(folder, 3)
        run_to_end(finetune(make_tuning(tmp_path, resumed, workers=1), StopSignal()))
    one = tmp_path / "one/seed-0"
    outs = [str(case["out"]) for case in cases] + [f"{mode} then one" for mode in modes]
    for out in outs:
        seed = tmp_path / out / "seed-0"
        if "tensor" in out:
            assert_close(seed, one, 1e-5)
        else:
            assert state_of(seed, 6) == state_of(one, 6), out
            assert read_log(seed) == read_log(one), out
            assert (seed / "predictions/dev.jsonl").read_bytes() == (one / "predictions/dev.jsonl").read_bytes(), out
    for rank in (0, 1):
        shares = {f"{part} {share}" for part in ("dev", "dev sample") for share in (f"{rank} of 2", "0 of 1")}
        assert set((tmp_path / f"evaluated by {rank}").read_text().splitlines()) == shares


def test_fine_tuning_has_the_same_weights_on_one_process_and_two_ranks(shell: Shell) -> None:
    shell.must(*train("run", "--steps", 2))
    for name, rows in (("train", 24), ("dev", 6)):
        lines = [f"{label}\t{text}" for text, label in label_sentences(rows)]
        write_rows(shell.folder / f"table/{name}.tsv", "label\ttext", *lines)
    words = (
        *("finetune", "run", "--task", "classify", "--data", "table", "--batch-size", 8, "--threads", 1),
        *("--sequence-length", 16, "--epochs", 2, "--seeds", 2, "--batch.slices", 4),
    )
    shell.must(*words, "--out", "one", "--workers", 1)
    finish(launch(shell.folder, 2, "--module", "electralab", *words, "--out", "two"))
    assert exports_of(shell.folder / "one") == exports_of(shell.folder / "two")
    assert metrics_of(shell.folder / "one/seed-1") == metrics_of(shell.folder / "two/seed-1")
