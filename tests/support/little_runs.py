"""A text, a data folder and runs so small that a whole story takes a second; and what two equal runs have in common."""

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from electra_process import Shell, Words

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


def write_rows(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def label_sentences(count: int) -> list[tuple[str, str]]:
    """The horse is yes, the letter is no."""
    rng = random.Random(count)
    things = [(("horse", "yes"), ("letter", "no"))[number % 2] for number in range(count)]
    return [(f"{rng.choice(NAMES[:3])} sees the {rng.choice(KINDS[:3])} {thing}.", label) for thing, label in things]


def write_scores(folder: Path, rows: int = 16) -> None:
    """A GLUE of two tasks and a BLiMP of a few rows, in their official layouts."""
    labelled = label_sentences(rows)
    for split in ("train", "dev"):
        cola = [f"gj04\t{int(label == 'yes')}\t\t{text}" for text, label in labelled]
        write_rows(folder / "glue/CoLA" / f"{split}.tsv", *cola)
        names = ("entailment", "not_entailment")
        pairs = [f"{i}\tAnna sees it.\t{text}\t{names[i % 2]}" for i, (text, _) in enumerate(labelled)]
        write_rows(folder / "glue/RTE" / f"{split}.tsv", "index\tsentence1\tsentence2\tlabel", *pairs)
    pairs_of = {"sentence_good": "Anna sees the house.", "sentence_bad": "Anna the sees house.", "field": "syntax"}
    for uid in ("order", "more-order"):
        line = json.dumps({**pairs_of, "UID": uid, "linguistics_term": "order"})
        write_rows(folder / "blimp" / f"{uid}.jsonl", *([line] * 2))


def little_study(width: int = 32, batch: int = 8) -> str:
    """Two objectives for four steps, scored by BLiMP, also halfway, and by CoLA."""
    return f"""
name = "little"
baseline = "mlm"
seeds = [0]
[budget]
steps = 4
[pretrain]
batch = {{ size = {batch} }}
evaluation = {{ rows = 8, times = 1 }}
[pretrain.model]
num_layers = 1
hidden_size = {width}
embedding_size = {width}
num_heads = 2
feedforward_size = {2 * width}
[arms.electra]
[arms.mlm]
objective = "mlm"
[[scores]]
suite = "blimp"
data = "blimp"
settings = {{ blimp = {{ limit = 2, generator_limit = 2 }} }}
[[scores]]
task = "cola"
data = "glue"
settings = {{ steps = 2 }}
[snapshots]
at = [0.5]
scores = ["blimp"]
"""


def train(run: str, *more: str | int | Path) -> Words:
    return ("pretrain", "--data", "data", "--out", run, *SMALL, "--log-every", 1, *more)


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
    """Each file as a hash; JSON by its values, in whatever order its keys are written."""
    hashes = {}
    for path in sorted(path for path in (run / "export").rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".json":
            values = json.loads(content)
            # A manifest has the hashes of the files beside it, which are compared themselves.
            values = sorted(values["files"]) if path.name == "manifest.json" else values
            content = json.dumps(values, sort_keys=True).encode()
        hashes[str(path.relative_to(run))] = hashlib.sha256(content).hexdigest()
    return hashes


def damage(path: Path, *, is_truncated: bool = False) -> None:
    """Flip a bit in the middle, or cut the rest off."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 1
    path.write_bytes(data[:middle] if is_truncated else data)


def assert_equal_runs(folder: Path, first: str, second: str, step: int) -> None:
    """To the last bit, but for what tells the time."""
    for part in (lambda run: state_of(run, step), metrics_of, exports_of):
        assert part(folder / first) == part(folder / second)


def forget_after(run: Path, step: int) -> None:
    """What came after a step is taken away, as if it had never been."""
    for checkpoint in (run / "checkpoints").glob("step-*"):
        if int(checkpoint.name.removeprefix("step-")) > step:
            shutil.rmtree(checkpoint)
    for folder in ("export", "model"):  # of a run, of a tuned seed
        shutil.rmtree(run / folder, ignore_errors=True)
    (run / "results.json").unlink()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `text.txt` and `data`, prepared once."""
    shell = Shell(tmp_path_factory.mktemp("prepared"))
    prepare_little(shell)
    return shell.folder


@pytest.fixture
def shell(tmp_path: Path, prepared: Path) -> Shell:
    """A fresh folder with prepared data in it."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def kills() -> int:
    """How many times a run is killed; ELECTRALAB_KILLS asks for more than a quick test does."""
    return int(os.environ.get("ELECTRALAB_KILLS", "6"))
