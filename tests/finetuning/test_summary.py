"""Seeds side by side: medians, the spread, the best one, and their curves."""

import json
from pathlib import Path

import pytest

from electralab.finetuning.results import explain_improvement, find_improvement, read_curves, spread_scores
from electralab.records.tuned import choose_split


def test_each_metric_has_its_own_spread() -> None:
    by_seed = [{"accuracy": 0.5, "f1": 0.9}, {"accuracy": 0.8, "f1": 0.1}, {"accuracy": 0.8, "f1": 0.2}]
    spread = spread_scores(by_seed)
    assert {metric: value.median for metric, value in spread.items()} == {"accuracy": 0.8, "f1": 0.2}
    assert (spread["accuracy"].best, spread["f1"].n) == (0.8, 3)


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
    assert explain_improvement(found, "macro_f1") == (
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
    losses, scores = read_curves({4: tmp_path}, "accuracy")
    assert losses == {4: [(1, 0.7), (3, 0.6)]}
    assert scores == {4: [(2, 0.5)]}
