"""The README's commands and Python are run as they stand; only minutes are shortened."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"```(bash|python)\n(.*?)```", re.DOTALL)
TRUTH = "we the people of the united states are free and the congress shall keep the peace of the states ."


def _write_texts(folder: Path) -> None:
    texts = folder / "my_texts"
    texts.mkdir()
    words = TRUTH.split()
    documents = [" ".join(words[(i * k) % len(words)] for k in range(1, 60)) for i in range(1, 400)]
    (texts / "a.txt").write_text("\n\n".join(documents))
    events = '["open", "read", "read", "write", "close"]\n["open", "write", "close", "%d"]\n'
    (folder / "events.jsonl").write_text("".join(events % i for i in range(200)))
    (folder / "examples").symlink_to(README.parent / "examples")
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
        (folder / "glue" / task).mkdir(parents=True)
        for split in ("train", "dev"):
            rows = [row.format(number=i, label=i % 2, name=("not_" * (i % 2)) + "entailment") for i in range(40)]
            (folder / "glue" / task / f"{split}.tsv").write_text(header + "\n".join(rows) + "\n")
    (folder / "blimp").mkdir()
    pair = '{"sentence_good": "the states are free.", "sentence_bad": "the states is free.", "UID": "agreement", '
    pair += '"field": "morphology", "linguistics_term": "subject_verb_agreement"}\n'
    (folder / "blimp" / "agreement.jsonl").write_text(pair * 5)


@pytest.mark.flow
def test_the_readme_does_what_it_says(tmp_path: Path) -> None:
    _write_texts(tmp_path)
    blocks = BLOCK.findall(README.read_text())
    assert {language for language, _ in blocks} == {"bash", "python"}
    bin_dir = Path(sys.executable).parent
    environment = {"PATH": f"{bin_dir}:/usr/bin:/bin", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    for language, text in blocks:
        short = re.sub(r"--minutes \d+", "--minutes 0.05", text)
        command = ["bash", "-euo", "pipefail", "-c", short] if language == "bash" else [sys.executable, "-c", short]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{short}\n{done.stderr}"
    assert (tmp_path / "runs/mine/export/discriminator/config.json").is_file()
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 3


@pytest.mark.flow
def test_the_page_of_schedules_does_what_it_says(tmp_path: Path) -> None:
    _write_texts(tmp_path)
    page = README.parent / "docs/schedules.md"
    commands = [text for language, text in BLOCK.findall(page.read_text()) if language == "bash"]
    assert commands
    prepare = "electra prepare my_texts/ --out data/mine --vocab-size 100 --sequence-length 32\n"
    script = re.sub(r"^electra ", f"{sys.executable} -m electralab ", prepare + "".join(commands), flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{script}\n{done.stderr}"
    assert (tmp_path / "runs/short/checkpoints/step-25").is_dir()
