"""Seeds side by side: medians, the spread, the best one, and their curves."""

import json
from pathlib import Path
from typing import Any

from electralab.finetuning.summary import rank_seeds, read_curves, summarise
from electralab.finetuning.tasks import find_task

MRPC = find_task("mrpc")


def result(seed: int, accuracy: float, f1: float) -> dict[str, Any]:
    scores = {"accuracy": accuracy, "f1": f1}
    whole = {"step": 10, "tokens": 500, "seconds": 2.0, "report": {"of": seed}}
    return {"seed": seed, "dev": scores, "test": {"accuracy": 0.1 * seed, "f1": 0.0}, **whole}


RESULTS = [result(0, 0.5, 0.9), result(1, 0.8, 0.1), result(2, 0.8, 0.2), result(3, 0.7, 0.3)]


def test_seeds_are_ranked_by_the_first_metric_and_then_by_their_order() -> None:
    assert [one["seed"] for one in rank_seeds(MRPC, RESULTS)] == [1, 2, 3, 0]


def test_each_metric_has_its_own_median() -> None:
    summary = summarise(MRPC, RESULTS[:3], ["dev", "test"])
    assert summary["task"] == "mrpc"
    assert summary["metric"] == "accuracy"
    assert summary["dev"] == {"accuracy": 0.8, "f1": 0.2}
    assert summary["test"] == {"accuracy": 0.1, "f1": 0.0}
    assert summary["spread"]["dev"]["accuracy"]["best"] == 0.8
    assert summary["spread"]["dev"]["f1"]["n"] == 3


def test_the_report_is_the_best_seeds_and_seconds_add_up() -> None:
    summary = summarise(MRPC, RESULTS, ["dev"])
    assert (summary["best_seed"], summary["report"], summary["seconds"]) == (1, {"of": 1}, 8.0)
    assert [one["seed"] for one in summary["seeds"]] == [0, 1, 2, 3]
    assert summary["seeds"][3] == {"seed": 3, "dev": {"accuracy": 0.7, "f1": 0.3}}


def test_curves_leave_out_what_was_not_finite_or_not_judged(tmp_path: Path) -> None:
    records = [{"step": 1, "loss": 0.7}, {"step": 2, "loss": None, "dev_accuracy": 0.5}, {"step": 3, "loss": 0.6}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    losses, scores = read_curves([(4, tmp_path)], "accuracy")
    assert losses == {4: [(1, 0.7), (3, 0.6)]}
    assert scores == {4: [(2, 0.5)]}
