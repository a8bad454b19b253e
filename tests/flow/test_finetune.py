"""`electra finetune` on a small table: its result, its interruptions, and whatever is wrong with what it is given."""

import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from electra_process import Shell
from little_runs import SMALL, exports_of, label_sentences, metrics_of, write_rows

pytestmark = pytest.mark.flow


def write_table(path: Path, rows: int, *, bad: int = 0) -> None:
    """Bad rows come last and have no text."""
    lines = [f'{number},"{text}",{label}' for number, (text, label) in enumerate(label_sentences(rows))]
    write_rows(path, "id,review,stars", *lines, *(f'{rows + number},"",yes' for number in range(bad)))


@pytest.fixture(scope="module")
def origin(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A little pre-trained run beside a little table."""
    shell = Shell(tmp_path_factory.mktemp("origin"))
    shutil.copytree(prepared / "data", shell.folder / "data")
    shell.must("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 4)
    write_table(shell.folder / "table/train.csv", 48)
    write_table(shell.folder / "table/dev.csv", 12)
    write_table(shell.folder / "table/test.csv", 8)
    return shell.folder


@pytest.fixture
def tuning(origin: Path, tmp_path: Path) -> Shell:
    for name in ("run", "table"):
        shutil.copytree(origin / name, tmp_path / name)
    return Shell(tmp_path)


def words(out: str, *more: str | int) -> tuple[str | int, ...]:
    quick = ("--epochs", 4, "--batch-size", 8, "--learning-rate", "0.005", "--sequence-length", 16, "--threads", 1)
    return ("finetune", "run", "--task", "classify", "--data", "table", "--out", out, *quick, *more)


def without_times(results: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in results.items() if key not in ("seconds", "run")}


def assert_equal_runs(shell: Shell, one: str, other: str) -> None:
    runs = [shell.folder / name for name in (one, other)]
    first, second = (without_times(json.loads((run / "results.json").read_text())) for run in runs)
    assert first == second
    assert exports_of(runs[0]) == exports_of(runs[1])
    for seed in ("seed-0", "seed-1"):
        assert metrics_of(runs[0] / seed) == metrics_of(runs[1] / seed)
        for split in ("dev", "test"):
            name = f"{seed}/predictions/{split}.jsonl"
            assert (runs[0] / name).read_bytes() == (runs[1] / name).read_bytes()


def test_json_is_one_object_with_the_scores_of_every_seed(tuning: Shell) -> None:
    ended = tuning.must(*words("tuned", "--seeds", 2, "--json"))
    result = ended.json
    assert len(ended.out.splitlines()) == 1
    assert result["task"] == "classify"
    assert result["run"] == "tuned"
    assert result["dev"].keys() == result["seeds"][0]["dev"].keys() == {"accuracy", "macro_f1"}
    assert [seed["seed"] for seed in result["seeds"]] == [0, 1]
    by_seed = [seed["test"]["accuracy"] for seed in result["seeds"]]
    assert result["test"]["accuracy"] == pytest.approx(sum(by_seed) / 2)  # of two the median is the mean
    assert "text from 'review'" in ended.err
    assert "label from 'stars'" in ended.err
    assert without_times(result) == without_times(json.loads((tuning.folder / "tuned/results.json").read_text()))
    assert result["baselines"]["linear"]["scores"]["dev"]["accuracy"] == 1.0
    assert "baseline (a linear SVM over TF-IDF of words and characters): dev accuracy 1.0000" in ended.err
    again = tuning.must(*words("tuned", "--seeds", 2, "--json"))
    assert again.json == result


def test_the_table_has_baselines_beside_the_score_of_one_seed_unless_they_are_not_wanted(tuning: Shell) -> None:
    with_them = tuning.must(*words("tuned")).out
    assert with_them.startswith("classify, one seed")
    assert "commonest" in with_them
    assert "By class, test set" in with_them
    assert "a baseline " in with_them or "better than its baselines" in with_them
    assert "±" not in with_them
    ended = tuning.must(*words("bare", "--no-baseline"))
    assert "baseline" not in ended.err + ended.out
    page = (tuning.folder / "tuned/report.html").read_text()
    assert "linear model" in page
    assert "Cannot be shown" not in page
    tuning.must("report", "tuned", "bare", "--out", "both.html")


def test_a_run_killed_or_stopped_at_any_moment_ends_as_if_it_had_not_been(tuning: Shell, kills: int) -> None:
    more = ("--seeds", 2, "--save-every", 3, "--log-every", 1, "--evaluation.times", 6)
    tuning.must(*words("whole", *more))
    rng = random.Random(5)
    for number in range(kills // 2):
        running = tuning.start(*words("killed", *more))
        # Half of the kills fall into the first seed and half into the second; the moment within it is random.
        running.wait_for(f"killed/seed-{0 if number < kills // 4 else 1}/metrics.jsonl")
        time.sleep(rng.uniform(0.0, 0.3))
        running.send(signal.SIGKILL)
        running.wait()
    running = tuning.start(*words("stopped", *more))
    running.wait_for("stopped/seed-0/checkpoints")
    running.send(signal.SIGTERM)
    ended = running.wait()
    assert ended.status == 143
    assert ended.err.splitlines()[-1] == "electra: stopped; the same command continues from here"
    for run in ("killed", "stopped"):
        tuning.must(*words(run, *more))
        assert_equal_runs(tuning, "whole", run)


def test_a_plan_is_printed_and_nothing_written(tuning: Shell) -> None:
    before = sorted(path for path in tuning.folder.rglob("*") if not path.name.startswith(".log"))
    plan = tuning.must(*words("tuned", "--dry-run", "--json")).json
    assert plan["examples"] == {"train": 48, "dev": 12, "test": 8}
    assert plan["labels"] == ["no", "yes"]
    assert plan["columns"].items() >= {"text": "review", "label": "stars"}.items()
    assert plan["steps_per_seed"] == 24
    assert "1 seed of 24 steps" in tuning.must(*words("tuned", "--dry-run")).out
    assert sorted(path for path in tuning.folder.rglob("*") if not path.name.startswith(".log")) == before


REFUSED = {
    "run --task clasify --data table": (2, "did you mean 'classify'?"),
    "run --task classify --data nowhere": (1, "nowhere: no such file or folder"),
    "run --task classify --data table --label star": (2, "has no column 'star'; did you mean 'stars'?"),
    "run --task classify --data empty": (1, "has no train file"),
    "table --task cola --data table": (1, "holds no model"),
    "run --task classify --data unlabelled": (1, "unlabelled/dev.csv: "),
    "run --task classify --data table --bach.size 4": (2, "did you mean 'batch'"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_usage_is_one_sentence(tuning: Shell, words: str) -> None:
    (tuning.folder / "empty").mkdir()
    shutil.copytree(tuning.folder / "table", tuning.folder / "unlabelled")
    (tuning.folder / "unlabelled/dev.csv").write_text("id,review\n0,Anna sees the horse.\n")
    status, sentence = REFUSED[words]
    assert sentence in tuning.refuse("finetune", *words.split(), "--out", "tuned", status=status)


def test_going_on_with_other_settings_is_refused(tuning: Shell) -> None:
    tuning.must(*words("tuned", "--epochs", "0.2"))
    assert "seed was 0, now 3" in tuning.refuse(*words("tuned", "--epochs", "0.2", "--seed", 3))


def test_bad_rows_are_counted_and_shown_and_too_many_end_it(tuning: Shell) -> None:
    write_table(tuning.folder / "table/train.csv", 48, bad=2)
    told = tuning.must(*words("few", "--epochs", "0.2")).err
    assert "2 of 50 rows are bad" in told
    assert "row 50: " in told
    write_table(tuning.folder / "table/train.csv", 48, bad=6)
    sentence = tuning.refuse(*words("many", "--epochs", "0.2"))
    assert "table/train.csv: 6 of 54 rows cannot be used (row 50 " in sentence
    assert "--data.max-bad-share" in sentence
    assert not (tuning.folder / "many/run.json").exists()
    tuning.must(*words("many", "--epochs", "0.2", "--data.max-bad-share", "0.2"))
