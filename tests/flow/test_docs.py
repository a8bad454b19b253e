"""The commands and the Python of README and docs run as they stand, page by page; only minutes and epochs are fewer."""

import random
import re
from pathlib import Path

import pytest
from electra_process import run_page

ROOT = Path(__file__).parents[2]
# In the order of the README, which trains what the others ask.
PAGES = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in ("preparing", "pretraining", "schedules", "symbols", "logs", "series", "detecting", "finetuning")
    ),
    *(f"docs/{name}.md" for name in ("fit", "python", "studies", "flops")),
)
TRUTH = "we the people of the united states are free and the congress shall keep the peace of the states ."


def _orders(session: int) -> list[str]:
    """Sessions differ, or `prepare` would hold out all copies of the only one."""
    rng = random.Random(session)
    texts = ("order {} paid", "order {} sent", "order {} cancelled", "item {} viewed")
    return [text.format(rng.randrange(999)) for text in rng.choices(texts, k=rng.randrange(1, 9))]


def _write_texts(folder: Path) -> None:
    texts = folder / "my_texts"
    texts.mkdir()
    words = TRUTH.split()
    # Every document is another one, or `prepare` and `calibrate` would drop most of them as duplicates.
    documents = [" ".join(random.Random(i).choices(words, k=59)) for i in range(400)]
    (texts / "a.txt").write_text("\n\n".join(documents))
    events = '["open", "read", "read", "write", "close"]\n["open", "write", "close", "%d"]\n'
    (folder / "events.jsonl").write_text("".join(events % i for i in range(200)))
    for name, sessions in (("shop.log", 200), ("new.log", 5)):
        lines = (
            f"Jun 14 15:{i // 60:02}:{i % 60:02} host shopd[{i}]: {text}"
            for i in range(sessions)
            for text in (f"connection from 10.0.0.{i % 256}", *_orders(i), "connection closed")
        )
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    for name in ("cpu", "today", "normal"):
        rows = "".join(f"2024-01-{i // 24 + 1:02} {i % 24:02}:00:00,{i * i % 24}\n" for i in range(600))
        (folder / f"{name}.csv").write_text("time,load\n" + rows)
    (folder / "examples").symlink_to(ROOT / "examples")
    _write_benchmarks(folder)


def _write_benchmarks(folder: Path) -> None:
    """A GLUE and a BLiMP of a few rows, in their official layouts."""
    for task, header, row in (
        ("CoLA", "", "gj04\t{label}\t\twe the people {number}"),
        ("RTE", "index\tsentence1\tsentence2\tlabel\n", "{number}\tthe states {number}\tthe peace\t{name}"),
        ("QNLI", "index\tquestion\tsentence\tlabel\n", "{number}\twho is free {number}?\tthe people\t{name}"),
        ("STS-B", "index\tsentence1\tsentence2\tscore\n", "{number}\tthe states {number}\tthe peace\t{label}"),
        ("SST-2", "sentence\tlabel\n", "the peace {number}\t{label}"),
        ("MRPC", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", "{label}\t1\t2\tthe states {number}\tthe peace"),
    ):
        (folder / "benchmarks" / "glue" / task).mkdir(parents=True)
        for split in ("train", "dev"):
            rows = [row.format(number=i, label=i % 2, name=("not_" * (i % 2)) + "entailment") for i in range(40)]
            (folder / "benchmarks" / "glue" / task / f"{split}.tsv").write_text(header + "\n".join(rows) + "\n")
    (folder / "benchmarks" / "blimp").mkdir()
    pair = '{"sentence_good": "the states are free.", "sentence_bad": "the states is free.", "UID": "agreement", '
    pair += '"field": "morphology", "linguistics_term": "subject_verb_agreement"}\n'
    (folder / "benchmarks" / "blimp" / "agreement.jsonl").write_text(pair * 5)


@pytest.mark.flow
def test_the_commands_and_the_python_of_the_pages_run(tmp_path: Path) -> None:
    _write_texts(tmp_path)
    for page in PAGES:
        text = re.sub(r"--minutes \d+", "--minutes 0.05", (ROOT / page).read_text())
        text = text.replace("--folds 2 --out", "--folds 2 --epochs 1 --out")
        run_page(tmp_path, text.replace("--out runs/messages --seeds 2", "--out runs/messages --seeds 2 --epochs 1"))
    assert (tmp_path / "runs/mine/export/discriminator/config.json").is_file()
    assert (tmp_path / "runs/short/checkpoints/step-25").is_dir()
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 3
