"""`electra prepare` with one worker, with one for each core, and as parts: seconds, interleaved, medians; same bytes.

    python benchmarks/prepare_parts.py [--data DIR] [--megabytes 30] [--rounds 5] [--workers 2] [--json]

One worker is one process whose tokenizer uses one thread, so that the ratio is that of cores. `threads` is one process
whose tokenizer uses all cores, as it was before there were workers. The tokenizer is given, because learning one takes
the same time whoever encodes. Parts run one after the other here: their sum says what sharing the work costs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from prepare_throughput import read_text

from electralab.artifacts import describe_files

_MB = 1 << 20


def measure(source: Path, out: Path, tokenizer: Path, *calls: list[str], threads: int) -> float:
    """Seconds of these calls of `electra prepare`, one after the other."""
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    start = time.perf_counter()
    for flags in calls:
        words = ["prepare", str(source), "--out", str(out), "--tokenizer", str(tokenizer), *flags]
        subprocess.run([sys.executable, "-m", "electralab", *words], env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the folder of corpora; without it the bundled text is repeated")
    parser.add_argument("--megabytes", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    one, every = (["--workers", str(count)] for count in (1, asked.workers))
    parts = [f"{number}/3" for number in (1, 2, 3)]
    in_parts = [
        *(["--pass", "count", "--part", part, *one] for part in parts),
        ["--pass", "merge", *one],
        *(["--pass", "encode", "--part", part, *one] for part in parts),
        one,
    ]
    ways = {
        "one worker": ([one], 1),
        "threads": ([one], asked.workers),
        f"{asked.workers} workers": ([every], asked.workers),
        "three parts": (in_parts, 1),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "text.txt"
        text = read_text(asked.data, asked.megabytes * _MB)
        copies = -(-asked.megabytes * _MB // len(text))  # of the bundled text, each document made different
        source.write_text("\n\n".join(text.replace("\n\n", f" {copy}\n\n") for copy in range(copies)))
        learned = folder / "learned"
        first = ["prepare", str(source), "--out", str(learned), "--tokenizer.sample-mb", "4"]
        subprocess.run([sys.executable, "-m", "electralab", *first], check=True, capture_output=True)
        written = set()
        for number in range(asked.rounds):
            for way, (calls, threads) in ways.items():
                out = folder / f"{way}-{number}"
                seconds[way].append(measure(source, out, learned, *calls, threads=threads))
                written.add(json.dumps(describe_files(out), sort_keys=True))
        size = source.stat().st_size
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    result = {
        "megabytes": size / 1e6,
        "seconds": medians,
        "of one worker": {way: medians["one worker"] / value for way, value in medians.items()},
        "same bytes": len(written) == 1,
    }
    if asked.json:
        print(json.dumps(result))
        return
    print(f"{size / 1e6:.0f} MB, medians of {asked.rounds} rounds, interleaved; same bytes: {result['same bytes']}")
    for way, value in medians.items():
        ratio = medians["one worker"] / value
        print(f"{way:>12}: {value:6.1f} s, {size / 1e6 / value:5.1f} MB/s, {ratio:.2f} times one worker")


if __name__ == "__main__":
    main()
