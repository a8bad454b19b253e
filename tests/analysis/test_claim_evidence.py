"""What is known of trained models is looked up by arm and id, kept with the verdicts, and read again."""

import pytest

from electralab.analysis.claims.evidence import ONE_ENCODER, PAPER, Evidence, MissingEvidence, find_arrangements
from electralab.experiments.settings import read_study, resolve_arms, resolve_study
from electralab.records.findings import Analysis, EvidenceRecord, StudyEvidence

PROBE, ANALOGIES = "geometry.probe", "analogies.table"


def known() -> Evidence:
    control = {"value": 0.1, "low": 0.0, "high": 0.2, "meaning": "chance"}
    # Model, value, layer.
    figures = [("a/seed-0", 5.0, 2), ("a/seed-0", 7.0, 1), ("a/seed-1", 6.0, 1), ("a/seed-1", 4.0, 2)]
    figures.append(("a/seed-0, untrained", 1.0, 1))
    about = {"name": "probe", "claim": "M33", "id": PROBE, "control": control}
    rows = [{"model": model, "value": value, "layer": layer, **about} for model, value, layer in figures]
    gap = {"model": "a/seed-0", "name": "analogies", "claim": "M34", "reason": "needs English", "id": ANALOGIES}
    models = [{"name": "a/seed-0"}, {"name": "a/seed-0, untrained", "control_of": "a/seed-0"}, {"name": "a/seed-1"}]
    study = {
        "cells": [
            {"arm": "a", "seed": 0, "scores": {"cola": 0.1, "stsb": 0.3, "stsb@0.5": 0.9}},
            {"arm": "a", "seed": 1, "scores": {"cola": 0.9}},
        ],
        "table": [{"arm": "a", "parameters": 10}],
        "scores": {"cola": "mcc", "stsb": "spearman"},
    }
    analysis = Analysis.model_validate({"models": models, "findings": rows, "missing": [gap]})
    return Evidence.collect([analysis], {"a/seed-0": "a", "a/seed-1": "a"}, StudyEvidence.model_validate(study), {})


def test_layers_are_chosen_in_each_model_by_itself() -> None:
    evidence = known()
    for at, values in {"highest": [7.0, 6.0], "lowest": [5.0, 4.0], "last": [5.0, 4.0]}.items():
        assert [estimate.value for estimate in evidence.estimates("a", PROBE, at)] == values  # type: ignore[arg-type]


def test_untrained_models_and_controls_are_looked_up_by_the_arm_of_their_model() -> None:
    assert [estimate.value for estimate in known().estimates("a, untrained", PROBE)] == [1.0]
    assert [estimate.value for estimate in known().control("a", PROBE)] == [0.1, 0.1]


def test_the_average_is_of_the_last_scores_of_runs_that_have_them_all() -> None:
    assert [score.value for score in known().score("a", "average")] == [pytest.approx(20.0)]
    assert known().by_seed("a", "cola") == {0: 0.1, 1: 0.9}
    assert set(known().by_seed("a", "average")) == {0}


def test_what_is_lacking_is_said_as_the_analysis_says_it() -> None:
    with pytest.raises(MissingEvidence, match="needs English"):
        known().estimates("a", ANALOGIES)
    with pytest.raises(MissingEvidence, match="'b' was not measured by 'probe'"):
        known().estimates("b", PROBE)
    with pytest.raises(MissingEvidence, match="no run of 'b'"):
        known().count("b", "parameters")


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


def test_what_was_looked_up_is_kept_and_can_be_decided_again() -> None:
    evidence = known()
    highest = evidence.estimates("a", PROBE, "highest")
    record = EvidenceRecord.model_validate_json(evidence.to_record().model_dump_json(exclude_unset=True))
    assert [(row.arm, row.name, row.id) for row in record.figures] == [("a", "probe", PROBE)]
    again = Evidence.restore(record)
    assert repr(again.estimates("a", PROBE, "highest")) == repr(highest)
    assert again.by_seed("a", "cola") == evidence.by_seed("a", "cola")
    with pytest.raises(MissingEvidence, match="needs English"):
        again.estimates("a", ANALOGIES)


def test_figures_of_files_from_before_there_were_ids_are_looked_up_by_their_names() -> None:
    seeds = [[{"layer": None, "value": 1.0, "low": None, "high": None, "control": None}]]
    names = {"verdict AUC, gain beyond ±16": "context_length.rtd_auc.far_gain", "W₂ to news": "transfer.w2.news"}
    figures = [{"arm": "electra", "name": name, "seeds": seeds} for name in names]
    record = EvidenceRecord.model_validate({"figures": figures, "reasons": [], "study": {}, "tradeoff": {}})
    assert [row.id for row in record.figures] == list(names.values())
    assert [row.value for row in Evidence.restore(record).estimates("electra", "transfer.w2.news")] == [1.0]
