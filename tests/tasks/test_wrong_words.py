"""Wrong words are read as MultiGED writes them, and the threshold that dev rows choose is the model's."""

import json
from pathlib import Path

import numpy as np
import pytest
from little_models import build_pair, save_pair
from sklearn.metrics import fbeta_score

import electralab
from electralab.finetuning.task_model import TASK_FILE
from electralab.records.tuned import TunedResults
from electralab.tasks.catalog import find_task
from electralab.tasks.kinds.errors import KIND, find_threshold, log_odds, read_errors
from electralab.tasks.kinds.tagging import TaggingExample, TaggingPrediction
from electralab.tasks.table import Row

WORDS = ("the", "cat", "sat", "on", "the", "mat")


def write_sentences(path: Path, count: int) -> Path:
    """In every sentence one word stands where another belongs: "sat" for "mat"."""
    lines = ["token\tlabel"]
    for index in range(count):
        words = [*WORDS[: 3 + index % 3], "the", "sat" if index % 2 else "mat"]
        lines += [
            f"{word}\t{'i' if place == len(words) - 1 and index % 2 else 'c'}" for place, word in enumerate(words)
        ]
        lines.append("")
    path.write_text("\n".join(lines))
    return path


def test_first_line_may_name_the_columns(tmp_path: Path) -> None:
    for header in ("token\tlabel\n", ""):
        (tmp_path / "a.tsv").write_text(header + "He\tc\ngo\ti\n\nYes\tc\n")
        rows = read_errors(tmp_path / "a.tsv", "utf-8").rows
        first = 2 if header else 1
        assert rows == [
            Row(first, {"words": ["He", "go"], "tags": ["c", "i"]}),
            Row(first + 3, {"words": ["Yes"], "tags": ["c"]}),
        ]


def test_threshold_is_the_best_of_all() -> None:
    rng = np.random.default_rng(0)
    wrong = rng.random(300) < 0.1
    probabilities = np.round(rng.random(300) * 0.5 + wrong * 0.3, 2)
    best = find_threshold(probabilities.tolist(), wrong.tolist())
    odds = np.array([log_odds(p) for p in probabilities])
    every = [fbeta_score(wrong, odds > at, beta=0.5, zero_division=0) for at in [*np.unique(odds), -99]]
    assert best.f == pytest.approx(max(every))
    assert fbeta_score(wrong, odds > best.threshold, beta=0.5) == pytest.approx(best.f)


def test_scores_are_those_of_words_counted_by_hand() -> None:
    examples = [TaggingExample("1", ("a", "b", "c", "d"), ("c", "i", "i", "c"))]
    said = [TaggingPrediction(("i", "i", "c", "c"), (0.9, 0.8, 0.4, 0.1))]
    found = KIND.score(find_task("errors"), examples, said, ("c", "i"))
    assert (found.scores["precision"], found.scores["recall"], found.scores["f05"]) == (0.5, 0.5, 0.5)
    # Naming the three most likely ones: two hits of three, of two.
    assert found.scores["best_f05"] == pytest.approx(1.25 * 2 / (3 + 0.25 * 2))
    assert log_odds(0.1) < (found.best_threshold or 0) < log_odds(0.4)
    baseline = KIND.score(find_task("errors"), examples, [TaggingPrediction(("c",) * 4, ())], ("c", "i"))
    assert baseline.scores == {"f05": 0.0, "precision": 0.0, "recall": 0.0}
    assert baseline.best_threshold is None


def test_tuned_model_keeps_the_threshold_of_dev_and_predicts_with_it(tmp_path: Path) -> None:
    model = save_pair(tmp_path / "run", build_pair())
    for split, count in (("train", 60), ("dev", 20), ("test", 20)):
        write_sentences(tmp_path / f"en_{split}.tsv", count)
    out = tmp_path / "tuned"
    result = electralab.finetune(
        model, task="errors", data=tmp_path, out=out, settings={"epochs": 4, "batch": {"size": 8}}, threads=1
    )
    assert isinstance(result, TunedResults)
    assert set(result.dev) >= {"f05", "precision", "recall", "best_f05", "best_f05_threshold"}
    stored = json.loads((out / "export" / "model" / TASK_FILE).read_text())
    assert stored["threshold"] == result.dev["best_f05_threshold"] != 0.0
    (row,) = electralab.load(out).predict(["the cat sat on the sat"])
    assert row.words == ("the", "cat", "sat", "on", "the", "sat")
    assert isinstance(row.prediction, tuple)
    assert isinstance(row.probabilities, tuple)
    for tag, p in zip(row.prediction, row.probabilities, strict=True):
        assert p is not None
        assert (tag == "i") == (log_odds(p) > stored["threshold"])
