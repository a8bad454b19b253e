"""`electra fit` on a small table: its result in the verbs that take it, its interruption, and what it refuses."""

import json
import shutil
import signal
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import SMALL, label_sentences, write_rows

pytestmark = pytest.mark.flow

QUICK: tuple[str | int, ...] = ("--model", "run", "--folds", 2, "--learning-rate", "0.005")
ONE_CORE: tuple[str | int, ...] = ("--batch.size", 8, "--workers", 1, "--threads", 1)


@pytest.fixture(scope="module")
def origin(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    shell = Shell(tmp_path_factory.mktemp("origin"))
    shutil.copytree(prepared / "data", shell.folder / "data")
    shell.must("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 4)
    lines = [f'"{text}",{label}' for text, label in label_sentences(40)]
    write_rows(shell.folder / "table.csv", "review,stars", *lines)
    return shell.folder


@pytest.fixture
def shell(origin: Path, tmp_path: Path) -> Shell:
    shutil.copytree(origin / "run", tmp_path / "run")
    shutil.copyfile(origin / "table.csv", tmp_path / "table.csv")
    return Shell(tmp_path)


def test_a_table_becomes_a_classifier_that_the_other_verbs_take(shell: Shell) -> None:
    words = ("fit", "table.csv", "--out", "fitted", *QUICK, *ONE_CORE, "--steps", 30, "--seed", 3)
    planned = shell.must(*words, "--dry-run").out
    assert "would fit table.csv into fitted: 2 labels (no, yes)" in planned
    assert "40 labelled rows (text from 'review', label from 'stars'), judged by 2-fold cross-validation" in planned
    assert "2 tunings of 30 steps each" in planned
    assert not (shell.folder / "fitted").exists()
    ended = shell.must(*words, "--json")
    result = ended.json
    assert result["run"] == "fitted"
    assert {entry["name"] for entry in result["entries"]} == {"encoder", "linear", "blend"}
    assert "tuning 2 of 2" in ended.err
    (shell.folder / "new.txt").write_text("Anna sees the old horse.\nAnna sees the old letter.\n")
    answered = [json.loads(line) for line in shell.must("predict", "fitted", "new.txt").out.splitlines()]
    assert [row["prediction"] for row in answered] == ["yes", "no"], "horses are yes"
    assert "TF-IDF" in shell.must("show", "fitted").out
    assert "verified" in shell.must("show", "fitted/export/model").out
    shell.must("report", "fitted", "--out", "page.html")
    assert "predict" in shell.must("serve", "fitted", "--port", 0, "--dry-run").out
    again = shell.must(*words)
    assert "tuning" not in again.err
    assert "model  fitted/export/model" in again.out


def test_a_kill_in_the_second_tuning_costs_no_finished_part(shell: Shell) -> None:
    words = ("fit", "table.csv", "--out", "fitted", *QUICK, *ONE_CORE, "--steps", 200)
    running = shell.start(*words)
    running.wait_for("fitted/tuning-2/run.json")
    running.send(signal.SIGTERM)
    assert running.wait().status == 143
    finished = shell.folder / "fitted" / "tuning-1" / "seed-0" / "results.json"
    was = finished.stat().st_mtime_ns
    shell.must(*words)
    assert finished.stat().st_mtime_ns == was
    assert (shell.folder / "fitted" / "fit.json").is_file()


def test_an_encoder_is_learned_from_text_where_none_is_given(shell: Shell) -> None:
    folder = shell.folder / "texts"
    folder.mkdir()
    lines = [text for text, _ in label_sentences(400)]
    (folder / "a.txt").write_text("\n\n".join(" ".join(lines[start : start + 8]) for start in range(0, 400, 8)))
    quick = ("--minutes", "0.02", "--folds", 2, "--steps", 2, "--workers", 1, "--threads", 1)
    ended = shell.must("fit", "table.csv", "--text-folder", "texts", "--out", "learned", *quick)
    assert (shell.folder / "learned" / "pretrained" / "export" / "discriminator").is_dir()
    assert "model  learned/export/model" in ended.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--task", "label"), "finetune MODEL --task label --data table.csv --out RUN"),
        (("--task", "qa"), "finetune MODEL --task qa --data table.csv --out RUN"),
        (("--text-folder", "texts"), "--text-folder: an encoder is learned from it, and --model names one"),
        (("--minutes", 60), "--minutes: is how long an encoder is learned from text, and run is one already"),
        (("--text", "review", "--label", "review"), "column 'review' is given as text and as label"),
        (("--label", "starz"), "has no column 'starz'; did you mean 'stars'?"),
        (("--folds", 30), "--folds: 30 parts of 18 different texts are too many; give at most 9"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_a_sentence(
    shell: Shell, words: tuple[str | int, ...], sentence: str
) -> None:
    ended = shell.run("fit", "table.csv", "--out", "fitted", "--model", "run", *words)
    assert ended.status in (1, 2)
    assert sentence in ended.err
    assert "Traceback" not in ended.err
