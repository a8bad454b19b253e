"""A whole study of every kind of arm, with the real commands: pre-training, a choice of tuning, scores, blends."""

import contextlib
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

import electralab
from electralab.experiments import cells, derived
from electralab.records.study import StudyPlan, StudyResults
from electralab.shell import cli

pytestmark = pytest.mark.flow

EVERY_START = """
name = "starts"
baseline = "masked"
headline = ["words", "likeness"]
[budget]
steps = 6
[pretrain]
batch = { size = 8 }
evaluation = { rows = 8, times = 1 }
model = { num_layers = 1, hidden_size = 32, embedding_size = 32, num_heads = 2, feedforward_size = 64 }
schedule = { kind = "stable-decay", decay_share = 0.5 }
[arms.electra]
[arms.electra-short]
start = "branch"
parent = "electra"
budget_share = 0.7
[arms.masked]
objective = "mlm"
[arms.random]
start = "random"
parent = "electra"
[arms.linear]
start = "baseline"
[arms.blend]
start = "blend"
parent = "electra"
[tuning]
grid = { "optimizer.learning_rate" = [5e-3], "head.pooling" = ["first", "mean"] }
scores = ["words"]
heldout_rows = 20
[[scores]]
task = "classify"
name = "words"
data = "words"
settings = { steps = 4, train_rows = 60 }
[[scores]]
task = "regress"
name = "likeness"
data = "likeness"
seeds = 2
settings = { steps = 4 }
[[scores]]
hard_half_of = "words"
"""


class InProcess:
    """Stands for a child process: the same words, run here, because loading torch takes longer than all the work."""

    def __init__(self, command: Sequence[str], stdout: IO[bytes], stderr: IO[bytes], **_: Any) -> None:
        module, *words = command[command.index("-m") + 1 :]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            self.returncode = cli.main(words) if module == "electralab" else derived.main(words)
        for file, text in ((stdout, out), (stderr, err)):
            file.write(text.getvalue().encode())

    def poll(self) -> int:
        return self.returncode

    def terminate(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int:
        del timeout
        return self.returncode


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With prepared text, two labelled sets and the study."""
    monkeypatch.chdir(tmp_path)
    fake = SimpleNamespace(Popen=InProcess, DEVNULL=None, TimeoutExpired=TimeoutError)
    monkeypatch.setattr(cells, "subprocess", fake)
    monkeypatch.setattr(cells, "_POLL_SECONDS", 0.0)
    rng = random.Random(0)
    names, things = ("Anna", "Ben", "Clara"), ("house", "river", "garden", "book")
    lines = [f"{rng.choice(names)} sees the {rng.choice(things)} of {rng.choice(names)}." for _ in range(600)]
    Path("text.txt").write_text("\n\n".join(" ".join(lines[place : place + 10]) for place in range(0, 600, 10)))
    electralab.prepare(
        ["text.txt"], out="data", settings={"tokenizer": {"vocab_size": 150}, "packing": {"sequence_length": 32}}
    )
    for name in ("words", "likeness"):
        Path("scores", name).mkdir(parents=True)
        for split, count in (("train", 80), ("dev", 30)):
            rows: list[dict[str, Any]] = []
            for number in range(count):
                word, other = rng.choice(things[:2]), rng.choice(things[:2])
                text = f"{rng.choice(names)} sees the {word} {number}"
                pair = {"text_a": text, "text_b": f"a {other}", "score": float(word == other) + 0.01 * number}
                rows.append({"text": text, "label": word} if name == "words" else pair)
            Path("scores", name, f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("starts.toml").write_text(EVERY_START)
    return tmp_path


def run(study: str = "starts.toml", out: str = "out", **more: Any) -> StudyResults:
    results = electralab.study(study, "data", out, data="scores", jobs=1, **more)
    assert isinstance(results, StudyResults)
    return results


def test_arms_without_pretraining_blends_branches_and_a_choice_of_tuning(folder: Path) -> None:
    """Every part runs as it is: one model for each start, tuned as its own choice says, beside a linear model."""
    plan = electralab.study("starts.toml", "data", "out", data="scores", dry_run=True)
    assert isinstance(plan, StudyPlan)
    starts = {name: arm.start for name, arm in plan.arms.items()}
    assert starts == {
        **{"electra": "pretrained", "electra-short": "branch", "masked": "pretrained"},
        **{"random": "random", "linear": "baseline", "blend": "blend"},
    }
    results = run()
    assert {cell.arm: cell.error for cell in results.cells} == dict.fromkeys(starts, "")
    assert all(set(cell.scores) == {"words", "likeness", "words-hard"} for cell in results.cells)
    rows = {row.arm: row for row in results.table}
    means = {arm: {name: score.mean for name, score in row.scores.items() if score} for arm, row in rows.items()}
    assert means["linear"]["words"] == 1.0, "one word tells"
    assert {arm: row.steps for arm, row in rows.items()} == {
        **{"electra": 6, "electra-short": 4, "masked": 6, "random": None, "linear": None, "blend": None}
    }
    assert means["blend"]["headline"] == pytest.approx((means["blend"]["words"] + means["blend"]["likeness"]) / 2)
    assert means["blend"]["words"] >= means["electra"]["words"], "the linear model knows it all"
    assert sum(row.score == "headline" for row in results.comparisons) == 15, "every two of six arms"
    # The choice is written down, with all that it was made from, and belongs to what is tuned after it.
    assert set(results.tuning) == {"electra", "electra-short", "masked", "random"}
    choice, cell = results.tuning["random"], folder / "out" / "cells" / "random" / "seed-0"
    assert len(choice.trials) == 2
    assert choice.settings == max(choice.trials, key=lambda trial: trial.mean).settings
    tuned = json.loads((cell / "words.json").read_text())
    assert (tuned["identity"]["tuning"], tuned["identity"]["start"]) == (choice.settings, "random")
    assert not list(cell.glob("tune-*/")), "what was tried is not kept, only what it scored"
    config = (cell / "words" / "config.toml").read_text()
    assert "from_scratch = true" in config
    assert f'pooling = "{choice.settings["head.pooling"]}"' in config
    # A branch goes on where the long run was.
    assert (folder / "out" / "cells" / "electra" / "seed-0" / "run" / "checkpoints" / "step-2").is_dir()
    report = (folder / "out" / "report.md").read_text()
    assert "The headline is the plain mean over words" in report
    assert "| arm | optimizer.learning_rate | head.pooling | held-out score |" in report
    assert "headline" in (folder / "out" / "report.html").read_text()
    # The same again runs nothing; another study takes the choices over.
    before = {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").rglob("*.json")}
    assert run().table == results.table
    assert {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").rglob("*.json")} == before
    (folder / "again.toml").write_text(EVERY_START.replace('name = "starts"', 'name = "again"').replace("grid =", "#"))
    again = run("again.toml", "other", only=["random", "linear"], settings={"tuning": {"choices": "out"}})
    assert again.tuning["random"].settings == choice.settings
    assert again.cells[3].scores == results.cells[3].scores
