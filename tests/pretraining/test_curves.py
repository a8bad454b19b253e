"""Reference curves: recorded by real runs, shown by a plan, and a run far behind its own is told."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from little_pretraining import SMALL, make_request

from electralab.config import list_bundled
from electralab.pretraining import curves
from electralab.pretraining.curves import Curve, ReferencePoint, find_curve, read_curves
from electralab.pretraining.settings import read_settings, resolve_pretrain
from electralab.pretraining.stage import plan_pretrain, pretrain
from electralab.records.run import METRICS, Budget, read_metrics
from electralab.stopping import StopSignal

TOOL = Path(__file__).parents[2] / "tools" / "record_curve.py"


def curve(auc: float, tokens: int = 10_000) -> Curve:
    points = [
        ReferencePoint(tokens=count, generator_loss=5, discriminator_loss=0.4, auc=score, recall=0.1)
        for count, score in ((100, 0.5), (tokens, auc))
    ]
    return Curve(text="a text", steps=10, points=points)


def test_every_curve_is_that_of_a_preset_and_rises() -> None:
    known = read_curves()
    assert {"tiny", "hour"} <= known.keys() <= set(list_bundled("presets"))
    for recorded in known.values():
        tokens = [point.tokens for point in recorded.points]
        assert tokens == sorted(set(tokens))
        assert recorded.points[-1].auc > recorded.points[0].auc
        assert recorded.points[-1].generator_loss < recorded.points[0].generator_loss


def test_between_two_points_lies_the_line_and_beyond_the_last_nothing_more_is_known() -> None:
    recorded = curve(0.9)
    assert recorded.at(5_050).auc == pytest.approx(0.7)
    assert recorded.at(10**9).auc == 0.9
    assert recorded.at(1).auc == 0.5


def test_only_a_run_far_behind_is_told() -> None:
    recorded = curve(0.8)
    assert recorded.compare("tiny", {"auc": 0.72}, 10_000) == []
    (told,) = recorded.compare("tiny", {"auc": 0.6}, 10_000)
    assert told.startswith("the AUC is 0.60 after 0.0 million tokens, where a run of tiny had 0.80 on a text: ")
    assert recorded.compare("tiny", {"auc": 0.4}, 200) == [], "the reference has hardly learned by then"
    assert recorded.compare("tiny", {"accuracy": 0.4}, 10_000) == [], "of one network alone nothing is known"


def test_a_run_has_the_curve_of_its_preset_unless_its_networks_or_losses_are_others() -> None:
    settings = resolve_pretrain([read_settings("hour")])
    assert find_curve("preset hour", settings) == ("hour", read_curves()["hour"])
    longer = settings.batch.model_copy(update={"size": 32})
    assert find_curve("preset hour", settings.model_copy(update={"batch": longer, "steps": 3})) is not None
    other = settings.loss.model_copy(update={"discriminator_weight": 1.0})
    assert find_curve("preset hour", settings.model_copy(update={"loss": other})) is None
    assert find_curve("preset base", settings) is None
    assert find_curve("hour", settings) is None, "a file of this name"


def test_a_real_run_far_behind_is_told_in_its_log_and_its_plan_names_the_curve(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "read_curves", lambda: {"tiny": curve(0.99, 200)})
    monkeypatch.setattr(curves, "_COMPARED", ())
    request = make_request(data, tmp_path / "run", (*SMALL, "--evaluation.times", "3"), budget=Budget("steps", 12))
    request = replace(request, preset="preset tiny")
    assert plan_pretrain(request).expected.startswith("on a text a run of tiny had an AUC of 0.")
    list(pretrain(request, StopSignal()))
    told = [text for record in read_metrics(tmp_path / "run" / METRICS) for text in record.warnings]
    assert sum("where a run of tiny had" in text for text in told) == 1

    onward = replace(request, run_dir=tmp_path / "onward", init_from=tmp_path / "run")
    assert plan_pretrain(onward).expected == "", "a run that begins with what another has learned"


def test_a_finished_run_is_recorded_by_the_tool(data: Path, tmp_path: Path) -> None:
    request = make_request(data, tmp_path / "run", (*SMALL, "--evaluation.times", "3"), budget=Budget("steps", 12))
    list(pretrain(request, StopSignal()))
    out = tmp_path / "curves"
    out.mkdir()
    words = [str(tmp_path / "run"), "--text", "made-up words", "--preset", "tiny", "--out", str(out)]
    done = subprocess.run([sys.executable, str(TOOL), *words], check=True, capture_output=True, text=True)
    assert "on made-up words a run of tiny had an AUC of " in done.stdout
    (recorded,) = json.loads((out / "curves.json").read_text())["curves"].values()
    assert [point["tokens"] for point in recorded["points"]] == sorted(point["tokens"] for point in recorded["points"])
    assert len(recorded["points"]) == 3
