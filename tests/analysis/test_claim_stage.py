"""Which models are looked into, and what is left where a study is not finished."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from electralab.analysis.claims.evidence import PAPER
from electralab.analysis.claims.rules import Judged
from electralab.analysis.claims.stage import (
    Sources,
    judge_again,
    judge_claims,
    list_measures,
    list_models,
    list_tuned,
    read_runs,
    tell_values,
)
from electralab.analysis.claims.table import Claim, choose_claims
from electralab.analysis.finding import Estimate
from electralab.errors import DamagedArtifact, InputError

STUDY: dict[str, Any] = {
    "name": "little",
    "seeds": [0, 1],
    "arms": {"electra": {}, "mlm": {}},
    "scores": {"cola": "mcc", "mrpc": "accuracy", "qnli": "accuracy"},
    "provenance": {"data": "data"},
    "table": [{"arm": "electra", "scores": {"mrpc": None, "qnli": None}}],
}
TOML = """name = "little"
[[scores]]
task = "mrpc"
data = "glue"
[[scores]]
task = "qnli"
data = "other"
"""


def tune(runs: Path, arm: str, task: str, accuracy: float, supports: tuple[int, int]) -> Path:
    folder = runs / "cells" / arm / "seed-0" / task
    (folder / "export").mkdir(parents=True)
    report = {"classes": [{"support": support} for support in supports]}
    (folder / "results.json").write_text(json.dumps({"dev": {"accuracy": accuracy}, "report": report}))
    return folder


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
    assert {path.name for path in found.models} == {"qnli"}
    assert sorted(found.models.values()) == ["electra", "mlm"]
    assert found.data == Path("data/other")


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
    assert list_measures(choose_claims(["M46", "M30", "M41"])) == ["M30", "M46"]
    assert list_measures(choose_claims(["M41", "M47"])) == []


@pytest.mark.parametrize(("unit", "high"), [("smoothness", 1.0), ("rho", 1.0), ("nats", 1.4)])
def test_intervals_end_where_values_do(runs: Path, unit: str, high: float) -> None:
    judged = Judged("holds", {PAPER: Estimate(0.9, 0.4, 1.4)})
    claim = Claim("M35", "Smooth.", "a curve", unit, lambda *_: judged)
    nothing: dict[str, Any] = {"models": [], "findings": [], "missing": []}
    [told] = judge_claims([claim], runs, {**STUDY, "budget": {}}, {}, {}, nothing)["claims"]
    assert told["values"][PAPER] == {"value": 0.9, "low": 0.4, "high": high}


def test_texts_of_other_domains_are_named_with_their_hashes(runs: Path) -> None:
    (runs / "news.txt").write_text("news")
    nothing: dict[str, Any] = {"models": [], "findings": [], "missing": []}
    sources = Sources(domains=(str(runs / "news.txt"),))
    told = judge_claims(choose_claims(["M44"]), runs, {**STUDY, "budget": {}}, {}, {}, nothing, sources)
    [domain] = told["domains"]
    assert domain["sha256"] == hashlib.sha256(b"news").hexdigest()
    assert f"--domains {runs / 'news.txt'} --only M44" in told["command"]
    assert domain["sha256"] in (runs / "claims.md").read_text()


def test_a_file_without_what_verdicts_rest_on_cannot_be_judged_again(tmp_path: Path) -> None:
    (tmp_path / "claims.json").write_text(json.dumps({"version": 1, "claims": []}))
    with pytest.raises(DamagedArtifact, match=r"claims.json: does not keep what its verdicts rest on; give the folder"):
        judge_again(tmp_path / "claims.json", choose_claims([]))


def test_a_study_of_either_arrangement_can_be_judged(runs: Path) -> None:
    arms = {"electra": {"model": {"sharing": "everything"}}, "electra-quarter": {"model": {"sharing": "tokens"}}}
    study = {**STUDY, "arms": {**arms, "mlm": {}}}
    for arm in ("electra", "electra-quarter", "mlm"):
        (runs / "cells" / arm / "seed-0" / "run" / "export").mkdir(parents=True)
    assert list(list_models(runs, study).values()) == ["electra-quarter", "electra", "mlm"]


def test_a_figure_that_is_not_determined_is_not_told() -> None:
    values = {PAPER: {"value": None, "low": None, "high": None}, "mlm": {"value": 0.5, "low": None, "high": None}}
    assert tell_values({"measure": "a share", "unit": "share", "values": values}) == "a share, share: mlm 0.5"
