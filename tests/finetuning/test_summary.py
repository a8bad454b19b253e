"""Seeds side by side: medians, the spread, the best one, and their curves."""

import json
from pathlib import Path
from typing import Any

import pytest

from electralab.finetuning.examples import choose_split
from electralab.finetuning.summary import find_improvement, rank_seeds, read_curves, summarise
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


def test_reports_are_those_of_every_split_and_of_a_seed_from_before_that_of_dev() -> None:
    assert summarise(MRPC, RESULTS, ["dev"])["reports"] == {"dev": {"of": 1}}
    reports = {"dev": {"of": 1}, "test": {"of": 9}}
    assert summarise(MRPC, [RESULTS[1] | {"reports": reports}], ["dev"])["reports"] == reports


def test_a_labelled_test_says_more_than_dev() -> None:
    assert choose_split(["dev", "dev-mm", "test-mm"]) == "test-mm"
    assert choose_split(["dev", "dev-mm"]) == "dev"


def curves(*, losses: list[float], scores: list[float]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Of a run of 30 steps, evenly apart."""
    return tuple(  # type: ignore[return-value]
        [(30 * place // len(values), value) for place, value in enumerate(values, start=1)]
        for values in (losses, scores)
    )


RISING = curves(losses=[1.4, 1.3, 1.2, 1.1, 0.9, 0.7], scores=[0.5, 0.6, 0.675])


def test_a_run_that_still_improves_is_told_how_to_go_on() -> None:
    found = find_improvement({0: RISING[0]}, {0: RISING[1]}, 30, 3.0)
    assert found is not None
    assert (found.epochs, found.suggested_epochs, found.before, found.after) == (3.0, 9, 0.6, 0.675)
    assert found.tell("macro_f1") == (
        "still improving at the end (dev macro f1 0.6000, then 0.6750, the loss falling): try --epochs 9; this was 3"
    )


@pytest.mark.parametrize(
    ("losses", "scores"),
    [
        ([1.4, 1.3, 1.2, 1.1, 1.2, 1.3], [0.5, 0.6, 0.675]),  # the loss rises
        ([1.4, 1.3, 0.5, 0.3, 0.1, 0.01], [0.5, 0.6, 0.605]),  # learning by heart
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], [0.7, 0.6, 0.675]),  # it was better before
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], [0.5, 0.9, 1.0]),  # nothing is left to gain
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], [0.675]),  # nothing to compare with
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], []),
        ([], [0.5, 0.6, 0.675]),
    ],
)
def test_a_run_that_is_through_is_not(losses: list[float], scores: list[float]) -> None:
    points = curves(losses=losses, scores=scores)
    assert find_improvement({0: points[0]}, {0: points[1]}, 30, 3.0) is None


def test_most_of_the_seeds_must_improve() -> None:
    flat = curves(losses=[1.0] * 6, scores=[0.5] * 3)
    both = {0: RISING[0], 1: flat[0]}, {0: RISING[1], 1: flat[1]}
    assert find_improvement(*both, 30, 3.0) is None
    assert find_improvement(both[0] | {2: RISING[0]}, both[1] | {2: RISING[1]}, 30, 3.0) is not None


def test_curves_leave_out_what_was_not_finite_or_not_judged(tmp_path: Path) -> None:
    records = [{"step": 1, "loss": 0.7}, {"step": 2, "loss": None, "dev_accuracy": 0.5}, {"step": 3, "loss": 0.6}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    losses, scores = read_curves([(4, tmp_path)], "accuracy")
    assert losses == {4: [(1, 0.7), (3, 0.6)]}
    assert scores == {4: [(2, 0.5)]}
