"""From a text to an answer, through the shell, as a person would."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import NETWORKS, SMALL, write_text

pytestmark = pytest.mark.flow

ELECTRA = Path(sys.executable).with_name("electra")
SENTENCE = "Anna sees the old house and Ben likes it."


@pytest.fixture(scope="module", params=["modern", "electra"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Shell:
    """A finished run in `run`, on either backbone."""
    shell = Shell(tmp_path_factory.mktemp(request.param))
    (shell.folder / "data").symlink_to(prepared / "data")
    words = ("--steps", 12, "--model.backbone", request.param, "--model.embedding-size", 16)
    shell.must("pretrain", "--data", "data", "--out", "run", *SMALL, *words)
    return shell


def test_the_installed_command_goes_from_text_to_verdicts(tmp_path: Path) -> None:
    """The real thing once: other stories fork from a warm process."""

    def electra(*words: str) -> str:
        done = subprocess.run([ELECTRA, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    write_text(tmp_path / "text.txt", documents=40)
    electra("prepare", "text.txt", "--out", "data", "--vocab-size", "150", "--sequence-length", "32")
    electra("pretrain", "--data", "data", "--out", "run", "--steps", "3", "--threads", "1", *NETWORKS)
    found = json.loads(electra("detect", "run", SENTENCE, "--json"))
    assert "".join(token["text"] for token in found["tokens"]) == SENTENCE.replace(" ", "")


def test_a_run_folder_holds_what_is_promised(trained: Shell) -> None:
    run = trained.folder / "run"
    names = {path.name for path in run.iterdir() if not path.name.startswith(".")}
    files = {"config.toml", "environment.json", "metrics.jsonl", "README.md", "examples.json", "report.html"}
    assert names >= files | {"checkpoints", "export"}
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    keys = {"step", "tokens", "flops", "loss", "generator_loss", "discriminator_loss", "learning_rate"}
    assert all(keys <= record.keys() for record in records)
    assert records[-1]["step"] == 12
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-12"]
    assert {path.name for path in (run / "export").iterdir()} == {"discriminator", "generator"}


def test_detect_gives_exact_spans_from_an_argument_a_file_or_a_pipe(trained: Shell) -> None:
    (trained.folder / "sentence.txt").write_text(SENTENCE)
    from_argument = trained.must("detect", "run", SENTENCE, "--json").json
    from_file = trained.must("detect", "run", "--file", "sentence.txt", "--json").json
    command = [str(ELECTRA), "detect", "run", "-", "--json"]
    piped = subprocess.run(command, cwd=trained.folder, input=SENTENCE, capture_output=True, text=True, check=True)
    assert from_argument == from_file == json.loads(piped.stdout)
    for token in from_argument["tokens"]:
        assert SENTENCE[token["start"] : token["end"]] == token["text"]
        assert 0 < token["p_replaced"] < 1


def test_detect_by_lines_gives_an_object_a_line(trained: Shell) -> None:
    (trained.folder / "lines.txt").write_text(f"{SENTENCE}\n\nBen calls it.\n")
    ended = trained.must("detect", "run", "--file", "lines.txt", "--lines", "--json")
    assert [json.loads(line)["text"] for line in ended.out.splitlines()] == [SENTENCE, "", "Ben calls it."]


def test_detect_in_a_pipe_prints_a_table_of_tokens(trained: Shell) -> None:
    lines = trained.must("detect", "run", "Anna sees it.").out.splitlines()
    assert lines[0] == "start\tend\tp_replaced\ttoken"
    assert [line.split("\t")[3] for line in lines[1:]] == ["Anna", "sees", "it", "."]


def test_show_masks_corrupts_and_judges_a_row(trained: Shell) -> None:
    row = trained.must("show", "data", "--row", 3, "--model", "run", "--json").json
    length = len(row["pieces"])
    assert [len(row[key]) for key in ("masked", "corrupted", "is_replaced", "p_replaced")] == [length] * 4
    changed = [a != b for a, b in zip(row["pieces"], row["corrupted"], strict=True)]
    assert changed == row["is_replaced"]
    assert row["masked"].count("[MASK]") == round(0.15 * (length - 2))


def test_transformers_loads_the_export_and_agrees(trained: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card's code block runs as it stands, in the run's folder; its networks give our numbers."""
    torch = pytest.importorskip("torch")
    run = trained.folder / "run"
    block = re.search(r"```python\n(.*?)```", (run / "README.md").read_text(), re.DOTALL)
    assert block is not None
    monkeypatch.chdir(run)
    names: dict[str, object] = {}
    exec(block[1], names)
    tokenizer, judge, guesser = (names[name] for name in ("tokenizer", "discriminator", "generator"))

    ours = trained.must("detect", "run", SENTENCE, "--json").json["tokens"]
    batch = tokenizer(SENTENCE, return_tensors="pt")  # type: ignore[operator]
    with torch.no_grad():
        logits = judge(**batch).logits[0]  # type: ignore[operator]
        guesses = guesser(**batch).logits  # type: ignore[operator]
    theirs = torch.softmax(logits, -1)[:, 1] if logits.ndim == 2 else torch.sigmoid(logits)
    assert [token["p_replaced"] for token in ours] == pytest.approx(theirs[1:-1].tolist(), abs=1e-5)
    assert guesses.shape[:2] == batch["input_ids"].shape


def test_dry_run_writes_nothing_and_says_what_would_happen(shell: Shell) -> None:
    before = sorted(str(path) for path in shell.folder.rglob("*") if ".log-" not in path.name)
    plan = shell.must("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 7, "--dry-run", "--json").json
    assert plan["steps"] == 7
    assert plan["resumes_at"] == 1
    assert plan["parameters"] > 0
    assert {"estimated_minutes", "estimated_memory_mb", "flops"} <= plan.keys()
    shell.must("prepare", "text.txt", "--out", "other", "--dry-run")
    assert sorted(str(path) for path in shell.folder.rglob("*") if ".log-" not in path.name) == before


def test_budgets_become_steps(shell: Shell) -> None:
    def plan(*budget: str | int) -> dict[str, int]:
        words = ("pretrain", "--data", "data", "--out", "run", *SMALL, *budget, "--dry-run", "--json")
        return shell.must(*words).json

    per_step = plan("--steps", 1)["flops"]
    assert plan("--tokens", 8 * 32 * 5)["steps"] == 5
    assert plan("--flops", per_step * 4)["steps"] == 4


def test_a_run_of_minutes_watches_the_clock_and_is_finished_then(shell: Shell) -> None:
    words = ("pretrain", "--data", "data", "--out", "run", *SMALL, "--minutes", "0.01", "--min-steps", 5)
    assert "the run watches the clock" in shell.must(*words, "--dry-run").out
    told = shell.must(*words).err
    assert "starting at step 1 of about " in told
    assert " steps and the export took " in told
    run = json.loads((shell.folder / "run/run.json").read_text())
    log = (shell.folder / "run/lengths.json").read_text()
    assert run["total_steps"] == json.loads(log)["lengths"][-1]["total_steps"] >= 5
    assert shell.must(*words).err == f"already finished: {run['total_steps']:,} steps\npage  run/report.html\n"
    assert (shell.folder / "run/lengths.json").read_text() == log


def first_line(folder: Path, *words: str) -> str:
    """What the installed command says on standard error before anything else."""
    command = [sys.executable, "-m", "electralab", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    return line


def test_long_work_says_what_it_does_before_pytorch_is_loaded(shell: Shell) -> None:
    assert first_line(shell.folder, "pretrain", "--data", "data", "--out", "run", "--steps", "1") == "loading PyTorch\n"
    words = ("finetune", "nowhere", "--task", "classify", "--data", "d", "--out", "tuned")
    assert first_line(shell.folder, *words) == "loading PyTorch\n"
    assert first_line(shell.folder, "prepare", "text.txt", "--out", "again") == "checking the files (0%)\n"
    # An answer in a pipe is not announced.
    assert first_line(shell.folder, "detect", "nowhere", "word").startswith("electra: nowhere: ")


def test_what_quickstart_says_to_try_next_works_as_it_is_typed(tmp_path: Path) -> None:
    """Not on the path, as after `make quickstart`."""
    write_text(tmp_path / "text.txt")
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    words = ("quickstart", "text.txt", "--out", "q", "--minutes", "0.002", "--min-steps", "2", *NETWORKS)
    command = [sys.executable, "-m", "electralab", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    hints = [line for line in done.stdout.splitlines() if " detect q " in line or " show q" in line]
    assert len(hints) == 2
    for hint in hints:
        subprocess.run(["bash", "-c", hint], cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert "no whole sentence of 10 to 24 words is held out" in done.stdout
