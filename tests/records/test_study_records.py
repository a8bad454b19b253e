"""The records of studies and evaluations say what their files say."""

import doctest
from pathlib import Path

import pytest

from electralab.artifacts import write_json
from electralab.errors import DamagedArtifact
from electralab.records import evaluation
from electralab.records.study import SharedBudget, StepResult


def test_the_examples_in_the_records_are_true() -> None:
    assert doctest.testmod(evaluation).failed == 0


def test_a_budget_says_its_kind_and_amount_and_writes_only_what_it_was_given() -> None:
    budget = SharedBudget(steps=100)
    assert (budget.kind, budget.amount, budget.to_json()) == ("steps", 100.0, {"steps": 100})


def test_the_result_of_a_step_is_there_or_not_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "blimp.json"
    assert StepResult.read(path) is None
    step = StepResult(identity={"suite": "blimp"}, seconds=2.5, result={"scores": {"model": 0.5}})
    step.write(path)
    assert StepResult.read(path) == step
    write_json(path, {"seconds": 1.0})
    with pytest.raises(DamagedArtifact, match=r"blimp\.json: not the result of a step; delete it"):
        StepResult.read(path)
