"""`electra predict`, `glue`, `evaluate` and `show` on a little model: from files, from a pipe, and on nonsense."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import SMALL, label_sentences, write_rows, write_scores

pytestmark = pytest.mark.flow

QUICK = ("--epochs", "2", "--batch-size", "8", "--sequence-length", "16", "--threads", "1")


@pytest.fixture(scope="module")
def shell(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A pre-trained `run`, a `tuned` one of it, and files of every kind."""
    shell = Shell(tmp_path_factory.mktemp("predict"))
    shutil.copytree(prepared / "data", shell.folder / "data")
    shell.must("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 2)
    write_rows(
        shell.folder / "table/train.csv", "review,stars", *(f"{text},{label}" for text, label in label_sentences(32))
    )
    write_rows(shell.folder / "new.csv", "review", *(text for text, _ in label_sentences(6)))
    write_scores(shell.folder)
    write_rows(shell.folder / "damaged/run.json", "[1, 2]")
    write_rows(shell.folder / "begun/seed-0/metrics.jsonl")
    shell.must("finetune", "run", "--task", "classify", "--data", "table", "--out", "tuned", *QUICK, "--seeds", 2)
    return shell


def test_a_dry_run_reads_and_resolves_but_writes_nothing(shell: Shell) -> None:
    plan = json.loads(shell.must("predict", "tuned", "new.csv", "--out", "o.csv", "--dry-run", "--json").out)
    assert (plan["rows"], plan["task"], plan["columns"]) == (6, "classify", {"text": "review"})
    plan = json.loads(shell.must("evaluate", "run", "--suite", "blimp", "--data", "blimp", "--dry-run", "--json").out)
    assert plan["model"] == "run/export/discriminator"
    assert not (shell.folder / "o.csv").exists()


def test_predictions_are_the_same_as_lines_as_json_and_as_a_table(shell: Shell) -> None:
    lines = shell.must("predict", "tuned", "new.csv", "--threads", 1).out.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["texts"] for row in rows] == [[text] for text, _ in label_sentences(6)]
    assert [row["row"] for row in rows] == [2, 3, 4, 5, 6, 7]
    assert all(row["prediction"] in ("yes", "no") for row in rows)
    assert shell.must("predict", "tuned", "new.csv", "--threads", 1, "--json").json == {
        "predictions": rows,
        "bad_rows": 0,
        "cut": 0,
    }
    written = shell.must("predict", "tuned", "new.csv", "--threads", 1, "--out", "answers.csv")
    assert written.out == "answers.csv: 6 predictions\n"
    with (shell.folder / "answers.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["prediction"] for row in table] == [row["prediction"] for row in rows]
    assert [float(row["p_yes"]) for row in table] == [row["probabilities"]["yes"] for row in rows]


def test_a_pipe_goes_in_and_lines_come_out(shell: Shell) -> None:
    """In a process of its own: the forked ones have no standard input to give."""
    program = "import sys; from electralab.shell.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "predict", "tuned/export/model", "-", "--threads", "1"]
    texts = [text for text, _ in label_sentences(3)]
    done = subprocess.run(
        command, cwd=shell.folder, input="\n".join(texts), capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "loading tuned/export/model\n")
    assert [json.loads(line)["texts"] for line in done.stdout.splitlines()] == [[text] for text in texts]


def test_the_seeds_of_a_run_answer_together(shell: Shell) -> None:
    chances = []
    for words in (["tuned", "--ensemble"], ["tuned/seed-0"], ["tuned/seed-1"]):
        rows = shell.must("predict", *words, "new.csv", "--threads", 1, "--json").json["predictions"]
        chances.append([row["probabilities"]["yes"] for row in rows])
    assert chances[0] == pytest.approx(
        [(first + second) / 2 for first, second in zip(*chances[1:], strict=True)], abs=2e-6
    )
    assert "holds no seeds" in shell.refuse("predict", "tuned/export/model", "new.csv", "--ensemble")


def test_glue_is_one_table_which_show_prints(shell: Shell) -> None:
    words = ("glue", "run", "--data", "glue", "--out", "suite", *QUICK, "--epochs", "0.5", "--json")
    table = shell.must(*words).json
    assert {name: task["metric"] for name, task in table["tasks"].items()} == {"cola": "mcc", "rte": "accuracy"}
    assert shell.must("show", "suite", "--json").json["results"]["tasks"] == table["tasks"]
    shown = shell.must("show", "suite").out
    assert "GLUE, dev" in shown
    assert "average" in shown


def test_a_model_as_it_is_is_scored_and_the_scores_written(shell: Shell) -> None:
    blimp = shell.must("evaluate", "run", "--suite", "blimp", "--data", "blimp", "--threads", 1, "--json").json
    assert blimp["suite"] == "blimp"
    assert blimp["counts"]["pairs"] == 4
    words = ("evaluate", "run", "--suite", "rtd", "--data", "data", "--generator", "run", "--threads", 1)
    ended = shell.must(*words, "--heldout.limit", 4, "--out", "deep/rtd.json")
    written = json.loads((shell.folder / "deep/rtd.json").read_text())
    assert written["suite"] == "rtd"
    assert "rtd  run" in ended.out
    assert 0 <= written["scores"]["auc"] <= 1


def test_a_tuned_run_and_its_model_show_what_they_are(shell: Shell) -> None:
    run = shell.must("show", "tuned").out
    assert "fine-tuning run tuned" in run
    assert "seed-1 loss" in run
    assert "classify, 2 seeds" in run
    assert "ensemble" in run
    model = shell.must("show", "tuned/export/model", "--json").json
    assert model["head"]["labels"] == ["no", "yes"]
    assert "tuned to classify: no, yes" in shell.must("show", "tuned/export/model").out
    card = (shell.folder / "tuned/README.md").read_text()
    assert "# tuned\n" in card
    assert "`no`, `yes`" in card


WRONG_WORDS = {
    "predict tuned": "predict: the following arguments are required: INPUT",
    "predict tuned new.csv --out x.xlsx": "predictions are written as .jsonl, .csv or .tsv",
    "predict tuned new.csv --text revue": "has no column 'revue'; did you mean 'review'?",
    "predict tuned new.csv --ensembel": "did you mean '--ensemble'?",
    "predict tuned new.csv --threads 0": "must be a whole number of at least 1",
    "predict tuned new.csv --data.texd x": "did you mean 'text",
    "glue run --data glue --out x --tasks cola,nope": "no task named 'nope'",
    "glue run --data glue --out x --seeds 0": "must be a whole number of at least 1",
    "glue run --data glue --out run --threads 1": "choose another --out",
    "finetune run --task cola --data glue --out x --epochs -1": "above 0, got '-1'",
    "finetune run --task cola --data glue --out x --sequence-length 4": "8",
    "evaluate run --suite blip --data blimp": "invalid choice: 'blip'",
    "evaluate run --suite blimp --data blimp --task cola": "belongs to the suite 'probe'",
}
UNUSABLE = {
    "predict tuned none.csv": "none.csv: no such file",
    "predict tuned table": "table: is a folder; give a file",
    "predict nowhere new.csv": "nowhere: no such file or folder",
    "predict run new.csv": "it can detect, fill, play, embed; 'electra finetune run'",
    "predict tuned tuned/export/model/model.safetensors": "model.safetensors: ",
    "predict tuned new.csv --out new.csv/x.csv": "is a file where a folder is needed",
    "detect tuned Anna": "tuned: holds a tuned model, which cannot detect; it can",
    "glue run --data none --out x": "none: no such folder",
    "glue run --data table --out x": "holds none of GLUE's tasks",
    "evaluate run --suite blimp --data none": "none: ",
    "evaluate tuned --suite blimp --data blimp": "is a tuned model, which neither judges nor guesses",
    "predict begun new.csv": "let 'electra finetune' finish it",
    "show blimp": "blimp: not an artifact",
    "show damaged": "damaged/run.json: not as electralab writes it",
}


@pytest.mark.parametrize("line", [*WRONG_WORDS, *UNUSABLE])
def test_what_is_wrong_is_one_sentence_with_its_status(shell: Shell, line: str) -> None:
    status = 2 if line in WRONG_WORDS else 1
    assert (WRONG_WORDS | UNUSABLE)[line] in shell.refuse(*line.split(), status=status)
