"""Steps without a network: rows that can be counted by eye."""

import math
from pathlib import Path
from typing import Any

import pytest

from electralab.artifacts import write_file
from electralab.errors import InputError
from electralab.experiments.derived import blend, choose_tuning, heldout_share, score_hard_half
from electralab.records.study import StepResult, TuningChoice
from electralab.records.tuned import PredictionRow, to_json_lines
from electralab.tasks.catalog import find_task

SST2, STSB = find_task("sst2"), find_task("stsb")


def answer(folder: Path, split: str, rows: list[tuple[Any, Any]], seed: int = 0) -> Path:
    """(truth, share of class 1) or (truth, number) of each row."""
    lines = []
    for place, (truth, value) in enumerate(rows):
        if isinstance(truth, str):
            said: dict[str, Any] = {"prediction": str(int(value > 0.5)), "probabilities": {"0": 1 - value, "1": value}}
        else:
            said = {"prediction": value}
        lines.append(PredictionRow(id=str(place), texts=(f"text {place}",), truth=truth, **said))
    write_file(folder / f"seed-{seed}" / "predictions" / f"{split}.jsonl", to_json_lines(lines))
    return folder


def test_the_hard_half_is_what_the_linear_model_gets_wrong_then_what_it_doubts(tmp_path: Path) -> None:
    # Wrong about the first, right but in doubt about the third; sure of the others.
    linear = answer(tmp_path / "linear", "dev", [("1", 0.1), ("1", 0.9), ("0", 0.4), ("0", 0.01)])
    network = answer(tmp_path / "network", "dev", [("1", 0.8), ("1", 0.1), ("0", 0.9), ("0", 0.9)])
    assert score_hard_half(SST2, network, linear)["dev"] == {"accuracy": 0.5}
    assert score_hard_half(SST2, linear, linear)["dev"] == {"accuracy": 0.5}
    answer(network, "dev", [("1", 0.8), ("1", 0.1), ("0", 0.1), ("0", 0.9)], seed=1)
    expected = {"task": "sst2", "metric": "accuracy", "dev": {"accuracy": 0.75}, "rows": 2}
    assert score_hard_half(SST2, network, linear).to_json() == expected, "the median of two seeds"


def test_a_blend_trusts_whoever_was_right_about_held_out_rows(tmp_path: Path) -> None:
    right, wrong = [("1", 0.9), ("0", 0.1)] * 10, [("1", 0.1), ("0", 0.9), ("1", 0.9), ("0", 0.1)] * 5
    network = answer(tmp_path / "network", "dev", [("1", 0.2), ("0", 0.3)])
    heldout = answer(tmp_path / "heldout", "dev", wrong)
    linear = answer(answer(tmp_path / "linear", "dev", [("1", 0.9), ("0", 0.1)]), "heldout", right)
    assert blend(SST2, network, heldout, linear, tmp_path / "out")["dev"] == {"accuracy": 1.0}
    assert score_hard_half(SST2, tmp_path / "out", linear)["dev"] == {"accuracy": 1.0}, "its answers are kept"
    numbers = [(float(place), float(place % 7)) for place in range(20)]
    network = answer(tmp_path / "n", "dev", [(1.0, 9.0), (2.0, 1.0), (3.0, 5.0)])
    heldout = answer(tmp_path / "h", "dev", numbers)
    linear = answer(tmp_path / "l", "heldout", [(truth, truth) for truth, _ in numbers])
    answer(linear, "dev", [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)])
    assert blend(STSB, network, heldout, linear, tmp_path / "o")["dev"]["spearman"] == pytest.approx(1.0)


def test_answers_to_other_rows_are_refused(tmp_path: Path) -> None:
    linear = answer(tmp_path / "linear", "dev", [("1", 0.1)])
    network = answer(tmp_path / "network", "dev", [("0", 0.1)])
    with pytest.raises(InputError, match="network: answers other rows than the linear model"):
        score_hard_half(SST2, network, linear)
    with pytest.raises(InputError, match="nowhere: has no predictions of dev"):
        score_hard_half(SST2, tmp_path / "nowhere", linear)


def test_the_best_mean_over_the_sets_is_chosen_and_of_equals_the_first(tmp_path: Path) -> None:
    paths = []
    for name, scores in (("a", (0.5, 0.7, 0.7)), ("b", (0.9, 0.7, 0.7))):
        for place, score in enumerate(scores):
            paths.append(tmp_path / f"tune-{name}@{place}.json")
            step = StepResult(
                identity={"tuning": {"rate": place}}, seconds=1.0, result={"metric": "f1", "dev": {"f1": score}}
            )
            step.write(paths[-1])
    choose_tuning(paths, tmp_path)
    choice = TuningChoice.read(tmp_path)
    assert choice.settings == {"rate": 0}
    assert choice.trials[1].scores == {"a": 0.7, "b": 0.7}


def test_a_third_of_few_rows_and_a_part_of_many_are_held_out() -> None:
    assert [heldout_share(rows) for rows in (100, 1500, 10_000)] == [0.3, 0.2, 0.15]
    assert math.isclose(heldout_share(1000), 0.3)
