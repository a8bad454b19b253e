"""The losses of one small run, as a text file: a change of code that should not change them is held to the last bit."""

from dataclasses import dataclass
from pathlib import Path

import torch
from electra_process import Shell
from little_runs import SMALL, metrics_of, prepare_little

PATH = Path(__file__).parents[1] / "golden" / "tiny-losses.txt"
KEYS = ("loss", "generator_loss", "discriminator_loss")
STEPS = 12


@dataclass(frozen=True)
class Golden:
    machine: dict[str, str]
    losses: dict[int, tuple[float, ...]]


def describe_machine() -> dict[str, str]:
    """What decides the last bits."""
    return {
        "torch": torch.__version__.split("+")[0],
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": "1",
    }


def measure(folder: Path) -> Golden:
    shell = Shell(folder)
    if not (folder / "data").is_dir():
        prepare_little(shell)
    shell.must("pretrain", "--data", "data", "--out", "golden", *SMALL, "--steps", STEPS, "--log-every", 1)
    losses = {record["step"]: tuple(record[key] for key in KEYS) for record in metrics_of(folder / "golden")}
    return Golden(describe_machine(), losses)


def write_golden(golden: Golden) -> str:
    head = [f"# {name} {value}" for name, value in golden.machine.items()]
    rows = [" ".join([str(step), *map(repr, losses)]) for step, losses in golden.losses.items()]
    return "\n".join([*head, f"# step {' '.join(KEYS)}", *rows, ""])


def read_golden(text: str) -> Golden:
    machine: dict[str, str] = {}
    losses: dict[int, tuple[float, ...]] = {}
    for line in text.splitlines():
        mark, first, *rest = line.split()
        if mark == "#":
            machine[first] = " ".join(rest)
        else:
            losses[int(mark)] = (float(first), *map(float, rest))
    del machine["step"]
    return Golden(machine, losses)
