"""Which models are looked into, and what is left where a study is not finished."""

import hashlib
import json
from pathlib import Path

import pytest

from electralab.analysis.claims.evidence import PAPER
from electralab.analysis.claims.rules import Claim, ClaimVerdict, required_measures, select_claims
from electralab.analysis.claims.stage import decide_again, decide_claims, list_models, list_tuned, read_runs
from electralab.errors import DamagedArtifact, InputError
from electralab.records.findings import ClaimsResult, ClaimVerdictRecord, EstimateRecord
from electralab.records.study import StudyResults
from electralab.records.tuned import ClassReport, ClassScores, TunedResults
from electralab.reporting.analysis_page import format_claim_values
from electralab.statistics import Interval

SCORES = {"cola": "mcc", "mrpc": "accuracy", "qnli": "accuracy"}
ABOUT = {"name": "little", "title": "A little study", "baseline": "mlm", "budget": {"steps": 40}, "seeds": [0, 1]}
EMPTY = {"cells": [], "table": [], "comparisons": [], "curves": {}, "reach": {}, "x": "flops"}
ARMS = {"arms": {"electra": {}, "mlm": {}}, "scores": SCORES, "provenance": {"data": "data"}}
STUDY = StudyResults.model_validate({**ABOUT, **EMPTY, **ARMS})
TOML = 'name = "little"\nscores = [{task = "mrpc", data = "glue"}, {task = "qnli", data = "other"}]'


def tune(runs: Path, arm: str, task: str, accuracy: float, supports: tuple[int, int]) -> None:
    folder = runs / "cells" / arm / "seed-0" / task
    (folder / "export").mkdir(parents=True)
    classes = tuple(ClassScores(name="", precision=0, recall=0, f1=0, support=support) for support in supports)
    about = {"task": task, "metric": "accuracy", "best_seed": 0, "steps": 1, "tokens_per_seed": 1, "seconds": 1.0}
    results = {"scores": {"dev": {"accuracy": accuracy}}, "report": ClassReport(classes=classes)}
    TunedResults.model_validate({**about, **results, "spread": {}, "seeds": ()}).write(folder)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    (tmp_path / "study.toml").write_text(TOML)
    return tmp_path


def test_damage_is_done_where_models_are_furthest_above_chance(runs: Path) -> None:
    """0.69 where 0.68 is the most frequent class is less than 0.59 where it is a half."""
    for arm in ("electra", "mlm"):
        tune(runs, arm, "mrpc", 0.69, (68, 32))
        tune(runs, arm, "qnli", 0.59, (50, 50))
    found = list_tuned(runs, STUDY)
    assert found is not None
    models, data = found
    assert {path.name for path in models} == {"qnli"}
    assert sorted(models.values()) == ["electra", "mlm"]
    assert data == Path("data/other")


def test_of_a_study_without_tuned_models_none_are_damaged(runs: Path) -> None:
    assert list_tuned(runs, STUDY) is None


def test_only_finished_runs_are_looked_into(runs: Path) -> None:
    for arm, seed in (("electra", 0), ("electra", 1), ("mlm", 1)):
        (runs / "cells" / arm / f"seed-{seed}" / "run" / "export").mkdir(parents=True)
    assert sorted(list_models(runs, STUDY).values()) == ["electra", "electra", "mlm"]
    (runs / "cells" / "mlm" / "seed-1" / "run" / "export").rmdir()
    with pytest.raises(InputError, match="no run of 'mlm' has finished; give --corpus and --data, and it is trained"):
        list_models(runs, STUDY)


def test_a_folder_without_a_study_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no trained models; give --corpus and --data"):
        read_runs(tmp_path)


def test_only_what_claims_need_is_measured() -> None:
    assert required_measures(select_claims(["M46", "M30", "M41"])) == ["information", "replacements"]
    assert required_measures(select_claims(["M41", "M47"])) == []
    assert required_measures(select_claims(["M41", "M47"]), of_tuned=True) == ["robustness"]


@pytest.mark.parametrize(("unit", "high"), [("smoothness", 1.0), ("rho", 1.0), ("nats", 1.4)])
def test_intervals_end_where_values_do(runs: Path, unit: str, high: float) -> None:
    judged = ClaimVerdict("holds", {PAPER: Interval(0.9, 0.4, 1.4)})
    claim = Claim("M35", "Smooth.", "a curve", unit, lambda *_: judged)
    [decided] = decide_claims([claim], runs, STUDY, {}, {}, []).claims
    assert decided.values[PAPER].to_json() == {"value": 0.9, "low": 0.4, "high": high}


def test_texts_of_other_domains_are_named_with_their_hashes(runs: Path) -> None:
    (runs / "news.txt").write_text("news")
    result = decide_claims(select_claims(["M44"]), runs, STUDY, {}, {}, [], [str(runs / "news.txt")])
    [domain] = result.domains
    assert domain.sha256 == hashlib.sha256(b"news").hexdigest()
    assert f"--domains {runs / 'news.txt'} --only M44" in result.command
    assert domain.sha256 in (runs / "claims.md").read_text()


def test_a_file_without_what_verdicts_rest_on_cannot_be_judged_again(tmp_path: Path) -> None:
    (tmp_path / "claims.json").write_text(json.dumps({"version": 1, "claims": []}))
    with pytest.raises(DamagedArtifact, match=r"claims.json: does not keep what its verdicts rest on; give the folder"):
        decide_again(tmp_path / "claims.json", select_claims([]))


def test_a_study_of_either_arrangement_can_be_judged(runs: Path) -> None:
    arms = {"electra": {"model": {"sharing": "everything"}}, "electra-quarter": {"model": {"sharing": "tokens"}}}
    study = STUDY.model_copy(update={"arms": {**arms, "mlm": {}}})
    for arm in ("electra", "electra-quarter", "mlm"):
        (runs / "cells" / arm / "seed-0" / "run" / "export").mkdir(parents=True)
    assert list(list_models(runs, study).values()) == ["electra-quarter", "electra", "mlm"]


def test_a_figure_that_is_not_determined_is_not_told() -> None:
    values = {
        PAPER: EstimateRecord(value=None, low=None, high=None),
        "mlm": EstimateRecord(value=0.5, low=None, high=None),
    }
    claim = ClaimVerdictRecord(
        number="M30", sentence="", measure="a share", unit="share", verdict="undecided", values=values
    )
    assert format_claim_values(claim) == "a share, share: mlm 0.5"


def test_what_is_written_is_decided_again_by_the_same_rules(runs: Path) -> None:
    written = decide_claims(select_claims([]), runs, STUDY, {}, {}, [])
    assert decide_again(runs / "claims.json", select_claims([])) == written
    assert ClaimsResult.read(runs).evidence is not None
