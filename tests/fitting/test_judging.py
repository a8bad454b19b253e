"""How sure a score is, what a blend is judged by, and what is said of the leaderboard."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from electralab.fitting.judging import explain_entries, find_interval, judge_blend
from electralab.records.fitted import FitEntry
from electralab.records.tuned import PredictionRow
from electralab.reporting.format import format_interval

LABELS = ("a", "b", "c")


def answer(truths: Sequence[str], predictions: Sequence[str] = ()) -> list[PredictionRow]:
    """By default right, and sure to 80 %."""
    rows = []
    for place, (truth, prediction) in enumerate(zip(truths, predictions or truths, strict=True)):
        shares: dict[str, float | None] = {label: 0.8 if label == prediction else 0.1 for label in LABELS}
        row = PredictionRow(id=str(place), texts=("text",), prediction=prediction, probabilities=shares)
        rows.append(row.with_truth(truth))
    return rows


def answer_numbers(values: Sequence[float | None]) -> list[PredictionRow]:
    return [
        PredictionRow(id=str(place), texts=("text",), prediction=value).with_truth(float(place))
        for place, value in enumerate(values)
    ]


def make_entry(name: Any, behind: float, low: float, high: float) -> FitEntry:
    scores = {"accuracy": 1 - behind}
    return FitEntry(name=name, what="", scores=scores, low=0, high=1, behind=behind, behind_low=low, behind_high=high)


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [(40, 40, 0.912, 1.0), (0, 40, 0.0, 0.088), (1, 1, 0.207, 1.0), (5, 10, 0.237, 0.763)],
)
def test_a_share_has_an_interval_also_where_all_rows_are_right(right: int, count: int, low: float, high: float) -> None:
    rows = answer(["a"] * count, ["a"] * right + ["b"] * (count - right))
    interval = find_interval("accuracy", LABELS, rows)
    assert interval.value == right / count
    assert 0 <= interval.low < interval.high <= 1
    assert [interval.low, interval.high] == pytest.approx([low, high], abs=1e-3)


def test_a_difference_of_rows_that_are_all_alike_is_sure_to_three_of_them() -> None:
    right, wrong = answer(["a"] * 30), answer(["a"] * 30, ["b"] * 30)
    same = find_interval("accuracy", LABELS, right, right)
    assert (same.value, same.low, same.high) == (0.0, -0.1, 0.1)
    far = find_interval("accuracy", LABELS, wrong, right)
    assert (far.value, far.low, far.high) == (1.0, 0.9, 1.0)


def test_a_metric_that_is_no_share_has_no_interval_where_every_draw_is_alike() -> None:
    rows = answer(["a", "b"] * 10)
    interval = find_interval("macro_f1", LABELS[:2], rows, rows)
    assert interval.value == 0
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)
    assert format_interval(interval.low, interval.high) == "–"


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        ((0.1, -0.05, 0.2), "the difference is 10.0 points, from -5.0 to 20.0"),
        ((0.0, 0.0, 0.1), "the difference is 0.0 points, from 0.0 to 10.0"),
        ((0.0, math.nan, math.nan), "the difference is 0.0 points, and so few rows give it no interval"),
        ((0.2, 0.1, 0.3), ""),
    ],
)
def test_what_cannot_be_told_apart_is_said(behind: tuple[float, float, float], said: str) -> None:
    entries = [make_entry("linear", 0, 0, 0), make_entry("encoder", *behind)]
    notes = list(explain_entries(entries, 1234, {"a": 600, "b": 634}))
    assert bool(notes) == bool(said)
    if said:
        assert notes == [f"TF-IDF and encoder cannot be told apart by 1,234 rows: {said}"]


def test_few_rows_of_a_class_are_counted_also_where_there_is_none() -> None:
    entries = [make_entry("linear", 0, 0, 0), make_entry("encoder", 0.2, 0.1, 0.3)]
    (note,) = explain_entries(entries, 40, {"a": 40, "b": 0})
    assert note.startswith("few labels: 'b' has 0 rows;")


@pytest.mark.parametrize(
    ("labels", "answers", "why"),
    [
        (LABELS, answer(["a", "b"] * 10), "none of these has the label 'c'"),
        (("a", "b"), answer(["a"] * 19 + ["b"]), "too few rows to fit its weights to some of them"),
        ((), answer_numbers([1.0, None, 2.0, 3.0]), "an entry has answers that are no numbers"),
    ],
)
def test_a_blend_that_cannot_be_judged_is_left_out_with_a_reason(
    labels: Sequence[str], answers: list[PredictionRow], why: str
) -> None:
    weights, rows, said = judge_blend(labels, labels, [np.arange(len(answers))], [answers, answers])
    assert (weights, rows) == (None, [])
    assert said.startswith("no blend: ")
    assert why in said


def test_a_rare_class_is_spread_over_the_parts_that_a_blend_is_judged_by() -> None:
    # Each fifth row: without an order all of them would be in one part, whose weights then know one class.
    truths = ["b" if place % 5 == 0 else "a" for place in range(20)]
    answers = answer(truths)
    weights, rows, why = judge_blend(("a", "b"), ("a", "b"), [np.arange(20)], [answers, answers])
    assert why == ""
    assert weights is not None
    assert [row.prediction for row in rows] == truths
    assert [row.id for row in rows] == [str(place) for place in range(20)]
