"""How long `electra --help` takes, as a multiple of `python -c pass`; both interleaved, the medians compared.

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
    electra = Path(sys.executable).with_name("electra")
    commands = {"python -c pass": [sys.executable, "-c", "pass"], "electra --help": [str(electra), "--help"]}
    for command in commands.values():
        measure(command)  # the first start fills the caches
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            times[name].append(measure(command))
    bare, helped = (statistics.median(times[name]) for name in commands)
    for name in commands:
        print(f"{name:<16} {1000 * statistics.median(times[name]):6.1f} ms")
    print(f"ratio            {helped / bare:6.2f}   (at most {LIMIT:g})")
    return int(helped / bare > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
