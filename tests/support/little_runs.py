"""A text, a data folder and runs so small that a whole story takes a second; and what two equal runs have in common."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from electra_process import Shell

NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Frank")
VERBS = ("sees", "likes", "calls", "helps", "finds")
KINDS = ("old", "red", "small", "quiet")
THINGS = ("house", "river", "garden", "book", "horse", "letter")

NETWORKS = (
    *("--model.num-layers", "1", "--model.hidden-size", "32", "--model.embedding-size", "32"),
    *("--model.num-heads", "2", "--model.feedforward-size", "64"),
)
SMALL = (*NETWORKS, "--batch.size", "8", "--evaluation.rows", "8", "--threads", "1")

# Fields that tell the time: two equal runs differ in these alone.
TIMING = ("seconds", "tokens_per_second")


def write_text(path: Path, documents: int = 120, seed: int = 0) -> None:
    rng = random.Random(seed)

    def sentence() -> str:
        who, other = rng.choice(NAMES), rng.choice(NAMES)
        thing = f"{rng.choice(KINDS)} {rng.choice(THINGS)}"
        return f"{who} {rng.choice(VERBS)} the {thing} and {other} {rng.choice(VERBS)} it."

    texts = (" ".join(sentence() for _ in range(10)) for _ in range(documents))
    path.write_text("\n\n".join(texts) + "\n")


def prepare_little(shell: Shell) -> None:
    write_text(shell.folder / "text.txt")
    shell.must("prepare", "text.txt", "--out", "data", "--vocab-size", "200", "--sequence-length", "32")


def state_of(run: Path, step: int) -> dict[str, Any]:
    """Everything that a run's next step depends on, hashed; without what tells the time."""
    folder = run / "checkpoints" / f"step-{step}"
    state = json.loads((folder / "state.json").read_text())
    del state["progress"]["seconds"]
    state.pop("version", None)  # which files of before do not have
    return {
        "state": state,
        **{
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in ("model.safetensors", "optimizer.safetensors")
        },
    }


def metrics_of(run: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key not in TIMING} for record in records]


def exports_of(run: Path) -> dict[str, str]:
    files = sorted(path for path in (run / "export").rglob("*") if path.is_file())
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
