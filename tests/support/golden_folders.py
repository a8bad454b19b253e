"""One folder of every kind that the stages write, made through the shell by the smallest models that can.

Run as a program it makes them in the folder that is given, at whatever commit is checked out:

    PYTHONPATH=src python tests/support/golden_folders.py build/folders [--pack]

`--pack` writes them to tests/golden/folders.tar.xz, from which the tests read how folders were written before. The file
is kept as it is: folders of an older commit are the point of it.
"""

import argparse
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from electra_process import Shell, Words
from little_runs import little_study, write_rows, write_text

PACKED = Path(__file__).parents[1] / "golden" / "folders.tar.xz"

NETWORKS: Words = (
    *("--model.num-layers", 2, "--model.hidden-size", 8, "--model.embedding-size", 8),
    *("--model.num-heads", 2, "--model.feedforward-size", 16),
)
LITTLE: Words = (*NETWORKS, "--batch.size", 4, "--evaluation.rows", 8, "--evaluation.times", 2, "--threads", 1)

# Each folder by its name, with the words that make it; later ones read earlier ones.
COMMANDS: dict[str, Words] = {
    "data": ("prepare", "text.txt", "--out", "data", "--vocab-size", 64, "--sequence-length", 16),
    "run": (
        *("pretrain", "--data", "data", "--out", "run", *LITTLE, "--steps", 6, "--log-every", 1),
        *("--save-every", 3, "--keep", 5),
    ),
    "tuned": (
        *("finetune", "run", "--task", "classify", "--data", "table", "--out", "tuned", "--seeds", 2, "--epochs", 1),
        *("--batch-size", 8, "--sequence-length", 16, "--threads", 1, "--log-every", 1),
    ),
    "study": ("study", "little.toml", "--corpus", "data", "--data", "scores", "--out", "study", "--jobs", 1),
    "analysis": (
        *("analyze", "run", "--data", "data", "--out", "analysis", "--only", "M30,M33,M36"),
        *("--rows", 8, "--vectors", 60, "--points", 20, "--times", 5, "--threads", 1),
    ),
    "exported": ("export", "run", "--out", "exported", "--data", "text.txt", "--threads", 1, "--license", "mit"),
    "small": (
        *("compress", "run", "--data", "data", "--out", "small", "--prune", "0.5", "--drop-layers", 1),
        *("--storage", "bf16", "--recovery-steps", 4, "--recovery.batch-size", 4, "--importance.rows", 8),
        *("--measure.rounds", 2, "--measure.bootstrap", 5, "--verdicts.limit", 8, "--threads", 1, "--max-loss", 100),
    ),
}
# Large, said elsewhere, or different every time.
_LEFT_OUT = ("tb", ".lock")
_DRAWN = (".png", ".svg")


def write_inputs(folder: Path) -> None:
    """The text, the table and the scores that the commands read."""
    write_text(folder / "text.txt", documents=40)
    people, things = ("Anna", "Ben", "Clara"), (("horse", "yes"), ("letter", "no"))
    for split, count in (("train", 16), ("dev", 8)):
        rows = [f"{people[i % 3]} sees the {things[i % 2][0]}.,{things[i % 2][1]}" for i in range(count)]
        write_rows(folder / "table" / f"{split}.csv", "text,label", *rows)
        cola = [f"gj04\t{i % 2}\t\tAnna sees the house {i}" for i in range(8)]
        write_rows(folder / "scores" / "glue" / "CoLA" / f"{split}.tsv", *cola)
    for uid in ("order", "more-order"):
        pairs = [("Anna sees the house.", "Anna the sees house."), ("Ben likes it.", "Ben it likes.")]
        lines = [json.dumps({"sentence_good": good, "sentence_bad": bad, "UID": uid}) for good, bad in pairs]
        write_rows(folder / "scores" / "blimp" / f"{uid}.jsonl", *lines)
    write_rows(folder / "new.csv", "text", "Anna sees the old horse.", "Ben likes the red letter.")
    (folder / "little.toml").write_text(little_study(width=8, batch=4))


def make_folders(folder: Path) -> dict[str, Any]:
    """All of them; returned is what each command prints with `--json`."""
    write_inputs(folder)
    shell = Shell(folder)
    return {name: shell.must(*words, "--json").json for name, words in COMMANDS.items()}


def pack(folder: Path) -> bytes:
    """What is worth keeping, the same bytes for the same files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz", preset=9) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if not path.is_file() or name.parts[0].startswith(".log") or set(_LEFT_OUT) & set(name.parts):
                continue
            if path.suffix in _DRAWN or (name.parts[0] == "study" and "checkpoints" in name.parts):
                continue
            entry = tarfile.TarInfo(str(name))
            entry.size = path.stat().st_size
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return stream.getvalue()


def unpack(folder: Path) -> None:
    with tarfile.open(PACKED) as archive:
        archive.extractall(folder, filter="data")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pack", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True)
    make_folders(arguments.folder.resolve())
    if arguments.pack:
        PACKED.write_bytes(pack(arguments.folder))
