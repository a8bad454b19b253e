"""How long the help of `electra` and of a verb takes, as a multiple of `python -c pass`; interleaved, medians compared.

The command must stay quick enough to be typed without thinking: at most LIMIT times the bare interpreter.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT = 8.0
ROUNDS = 15


def measure(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    electra = str(Path(sys.executable).with_name("electra"))
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "electra --help": [electra, "--help"],
        "electra pretrain --help": [electra, "pretrain", "--help"],
    }
    for command in commands.values():
        measure(command)  # the first start fills the caches
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(measure(command))
    bare, *helped = (statistics.median(times[name]) for name in commands)
    for name, seconds in zip(commands, (bare, *helped), strict=True):
        print(f"{name:<24} {1000 * seconds:6.1f} ms   {seconds / bare:5.2f} times (at most {LIMIT:g})")
    return int(max(helped) / bare > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
