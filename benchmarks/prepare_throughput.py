"""`electra prepare` beside bare `tokenizers.encode_batch` on the same text and cores, and its memory as the text grows.

    python benchmarks/prepare_throughput.py [--data DIR] [--json]

The two take turns in one process; the ratio is of the medians. The bare side has its text in memory already, and does
nothing with the ids; preparing reads, hashes, filters, encodes, packs, writes and syncs.
"""

import argparse
import json
import lzma
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tokenizers

from electralab.corpus.samples import write_bundled_text
from electralab.records.prepared import PreparedReport
from electralab.stopping import StopSignal
from electralab.tokens.prepare import prepare
from electralab.tokens.prepare_settings import PrepareConfig
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

_MB = 1 << 20


def read_text(data: Path | None, size: int) -> str:
    """`size` characters of Simple English Wikipedia where there is some, else of the bundled messages."""
    if data is not None:
        with lzma.open(data / "corpora/simplewiki/simplewiki.txt.xz", "rt", encoding="utf-8") as file:
            return file.read(size)
    with tempfile.TemporaryDirectory() as folder:
        return "\n\n".join(path.read_text(encoding="utf-8") for path in write_bundled_text(Path(folder)))[:size]


def bare_seconds(backend: tokenizers.Tokenizer, documents: list[str]) -> float:
    start = time.perf_counter()
    for place in range(0, len(documents), 1000):
        backend.encode_batch(documents[place : place + 1000], add_special_tokens=False)
    return time.perf_counter() - start


def prepare_seconds(source: Path, out: Path, config: PrepareConfig) -> float:
    start = time.perf_counter()
    for _ in prepare([str(source)], out, config, StopSignal()):
        pass
    return time.perf_counter() - start


def compare_speed(text: str, folder: Path, rounds: int) -> dict[str, float]:
    documents = text.split("\n\n")
    train_tokenizer(documents[:2000], TokenizerConfig()).save(folder / "tokenizer")
    backend = tokenizers.Tokenizer.from_file(str(folder / "tokenizer/tokenizer.json"))
    source = folder / "text.txt"
    source.write_text(text, encoding="utf-8")
    config = PrepareConfig(tokenizer=TokenizerConfig(path=str(folder / "tokenizer")))
    bare, ours = [], []
    for number in range(rounds):
        bare.append(bare_seconds(backend, documents))
        ours.append(prepare_seconds(source, folder / f"data-{number}", config))
    tokens = PreparedReport.read(folder / "data-0").counts.tokens
    return {
        "tokens": tokens,
        "bare_tokens_per_second": tokens / statistics.median(bare),
        "prepare_tokens_per_second": tokens / statistics.median(ours),
        "ratio": statistics.median(bare) / statistics.median(ours),
    }


def tree_memory(root: int) -> int:
    """Resident bytes of a process and all its descendants."""
    pages = 0
    for process in _tree(root):
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


def _tree(root: int) -> Iterator[int]:
    yield root
    try:
        children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from _tree(int(child))


def peak_memory(source: Path, out: Path) -> int:
    """Prepare in a process of its own, vocabulary learned, and watch it."""
    process = subprocess.Popen([sys.executable, __file__, "--prepare", str(source), str(out)])
    peak = 0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(process.returncode)
    return peak


def measure_memory(text: str, folder: Path) -> dict[int, int]:
    """Copies differ by a word in front of each document, or they would be dropped as duplicates."""
    peaks = {}
    for copies in (1, 4, 16):
        source = folder / f"copies-{copies}.txt"
        with source.open("w", encoding="utf-8") as file:
            for number in range(copies):
                file.writelines(f"copy{number} {document}\n\n" for document in text.split("\n\n"))
        peaks[copies] = peak_memory(source, folder / f"copies-{copies}")
    return peaks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("ELECTRALAB_DATA"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.prepare:
        prepare_seconds(Path(arguments.prepare[0]), Path(arguments.prepare[1]), PrepareConfig())
        return
    text = read_text(Path(arguments.data) if arguments.data else None, arguments.megabytes * _MB)
    with tempfile.TemporaryDirectory() as folder:
        speed = compare_speed(text, Path(folder), arguments.rounds)
        memory = measure_memory(text[: len(text) // 4], Path(folder))
    if arguments.json:
        print(json.dumps({"speed": speed, "peak_bytes": memory}))
        return
    print(f"text                {len(text) / 1e6:8.1f} M characters, {speed['tokens'] / 1e6:.2f} M tokens")
    print(f"bare encode_batch   {speed['bare_tokens_per_second'] / 1e6:8.2f} M tokens/s")
    print(f"prepare             {speed['prepare_tokens_per_second'] / 1e6:8.2f} M tokens/s")
    print(f"ratio               {speed['ratio']:8.2f}")
    for copies, peak in memory.items():
        print(f"peak memory {copies:3d} x   {peak / _MB:8.0f} MiB")


if __name__ == "__main__":
    main()
