import json
from typing import Any

import pytest

from electralab.analysis.claims.evidence import (
    ONE_ENCODER,
    PAPER,
    Evidence,
    Lacking,
    find_arrangements,
    keep_evidence,
    read_evidence,
    restore_evidence,
)
from electralab.experiments.settings import read_study, resolve_arms, resolve_study


def finding(model: str, name: str, value: float, layer: int | None = None) -> dict[str, Any]:
    control = {"value": 0.1, "low": 0.0, "high": 0.2, "meaning": "chance"}
    interval = {"value": value, "low": value - 1, "high": value + 1}
    return {"model": model, "name": name, "claim": "M33", "layer": layer, **interval, "control": control}


def known() -> Evidence:
    analysis = {
        "models": [
            {"name": "a/seed-0", "control_of": None},
            {"name": "a/seed-0, untrained", "control_of": "a/seed-0"},
            {"name": "a/seed-1", "control_of": None},
        ],
        "findings": [
            finding("a/seed-0", "probe", 5.0, 2),
            finding("a/seed-0", "probe", 7.0, 1),
            finding("a/seed-1", "probe", 6.0, 1),
            finding("a/seed-1", "probe", 4.0, 2),
            finding("a/seed-0, untrained", "probe", 1.0, 1),
        ],
        "missing": [{"model": "a/seed-0", "name": "analogies", "claim": "M34", "reason": "needs English"}],
    }
    cells = [
        {"arm": "a", "seed": 0, "scores": {"cola": 0.1, "stsb": 0.3, "stsb@0.5": 0.9}},
        {"arm": "a", "seed": 1, "scores": {"cola": 0.9}},
    ]
    study = {"cells": cells, "table": [{"arm": "a", "parameters": 10}], "scores": {"cola": "mcc", "stsb": "spearman"}}
    return read_evidence(analysis, {"a/seed-0": "a", "a/seed-1": "a"}, study)


def values(estimates: list[Any]) -> list[float]:
    return [one.value for one in estimates]


def test_layers_are_chosen_in_each_model_by_itself() -> None:
    evidence = known()
    assert values(evidence.highest("a", "probe")) == [7.0, 6.0]
    assert values(evidence.lowest("a", "probe")) == [5.0, 4.0]
    assert values(evidence.last("a", "probe")) == [5.0, 4.0]


def test_untrained_twins_and_controls_are_found_by_the_arm_of_their_model() -> None:
    evidence = known()
    assert values(evidence.last("a, untrained", "probe")) == [1.0]
    assert values(evidence.control("a", "probe")) == [0.1, 0.1]


def test_the_average_is_of_the_last_scores_only() -> None:
    assert values(known().score("a", "average")) == [pytest.approx(20.0)]


def test_a_run_that_is_still_scored_has_no_average() -> None:
    assert known().by_seed("a", "cola") == {0: 0.1, 1: 0.9}
    assert set(known().by_seed("a", "average")) == {0}


def test_what_is_lacking_is_said_as_the_analysis_says_it() -> None:
    with pytest.raises(Lacking, match="needs English"):
        known().last("a", "analogies")
    with pytest.raises(Lacking, match="'b' was not measured by 'probe'"):
        known().last("b", "probe")
    with pytest.raises(Lacking, match="no run of 'b'"):
        known().of_arm("b", "parameters")


@pytest.mark.parametrize(
    ("study", "arms"),
    [
        ("claims", {PAPER: "electra-quarter", ONE_ENCODER: "electra"}),
        ("head-to-head", {PAPER: "electra", ONE_ENCODER: "electra-one-encoder"}),
        ("sample-efficiency", {PAPER: "electra"}),
    ],
)
def test_arrangements_are_known_by_their_settings_whatever_arms_are_called(study: str, arms: dict[str, str]) -> None:
    layer = read_study(study)
    settings = {arm.name: arm.config.model_dump() for arm in resolve_arms(resolve_study(layer, {}), layer.source)}
    assert find_arrangements(settings) == arms


def test_what_was_looked_up_is_kept_and_can_be_judged_again() -> None:
    evidence = known()
    evidence.highest("a", "probe")
    kept = json.loads(json.dumps(keep_evidence(evidence)))
    assert [(one["arm"], one["name"]) for one in kept["figures"]] == [("a", "probe")]
    again = restore_evidence(kept)
    assert again.highest("a", "probe") == evidence.highest("a", "probe")
    assert again.by_seed("a", "cola") == evidence.by_seed("a", "cola")
    with pytest.raises(Lacking, match="needs English"):
        again.last("a", "analogies")
