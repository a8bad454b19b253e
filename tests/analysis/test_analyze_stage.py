"""Models are measured part by part: all figures have an interval, a control and a twin, and what is done is kept."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from little_analysis import make_request, run, save_one, save_two, write_text
from little_models import build_pair, save_pair
from watching_events import result_of

from electralab.analysis.measures import list_measures
from electralab.analysis.stage import plan_analysis, select_measures
from electralab.errors import InputError, Stopped, UsageError
from electralab.events import Progress
from electralab.stopping import StopSignal

RESULTS = "analysis.json"
OURS = ("M30", "M34", "M35", "M36", "M37", "M43")


def read(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / RESULTS).read_text())
    return results


def list_reused(events: list[Any]) -> list[bool]:
    """Of each part, in order, whether it was kept from before."""
    return [event.values["is_reused"] is True for event in events if isinstance(event, Progress) and event.values]


def names_of(results: dict[str, Any], model: str) -> set[str]:
    return {one["name"] for one in results["findings"] if one["model"] == model}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models looked at once, and the geometry of one, which takes longer."""
    folder = tmp_path_factory.mktemp("analysis")
    models = save_two(folder / "pair"), save_one(folder / "mlm"), save_one(folder / "causal", is_causal=True)
    run(make_request(folder, *models, only=OURS))
    run(make_request(folder, folder / "mlm", only=("M33",), out="shape", untrained=False))
    return folder


def test_every_model_stands_beside_its_untrained_twin(folder: Path) -> None:
    results = read(folder / "out")
    assert [(one["name"], one["kind"], one["control_of"]) for one in results["models"]] == [
        ("pair", "electra", None),
        ("pair, untrained", "electra", "pair"),
        ("mlm", "mlm", None),
        ("mlm, untrained", "mlm", "mlm"),
        ("causal", "causal", None),
        ("causal, untrained", "causal", "causal"),
    ]
    for model in ("pair", "mlm", "causal"):
        assert names_of(results, model) == names_of(results, f"{model}, untrained")


def test_every_figure_has_its_interval_and_its_control(folder: Path) -> None:
    findings = [one for out in ("out", "shape") for one in read(folder / out)["findings"]]
    assert {one["claim"] for one in findings} == {*OURS, "M33"}
    for one in findings:
        assert math.isfinite(one["value"]), one
        assert one["low"] <= one["high"], one
        assert one["meaning"]
        assert one["unit"]
        if one["name"] != "positions with a loss":
            assert one["control"]["meaning"], one


def test_layers_are_counted_from_what_enters_the_first(folder: Path) -> None:
    found = [one for one in read(folder / "out")["findings"] if one["name"] == "self-similarity"]
    assert [one["layer"] for one in found if one["model"] == "mlm"] == [0, 1, 2]


def test_each_objective_is_told_by_what_it_learns_from(folder: Path) -> None:
    results = read(folder / "out")
    shares = {one["model"]: one["value"] for one in results["findings"] if one["name"] == "positions with a loss"}
    assert shares["pair"] == 1
    assert 0.1 < shares["mlm"] < 0.2
    assert shares["causal"] == 1  # of the ordinary tokens
    assert {"verdict bits", "verdict information"} <= names_of(results, "pair")
    assert "verdict bits" not in names_of(results, "mlm")
    assert {"guess bits", "guess bits per GFLOP"} <= names_of(results, "causal")


def test_what_cannot_be_measured_says_what_it_needs(folder: Path) -> None:
    missing = {(one["model"], one["name"]): one["reason"] for one in read(folder / "out")["missing"]}
    assert "is causal" in missing["causal", "offset similarity"]
    assert not any(model == "mlm" and name != "smoothness" for model, name in missing)


def test_relative_positions_do_not_feel_an_offset_and_tables_know_no_place(folder: Path) -> None:
    findings = read(folder / "out")["findings"]
    values = {(one["model"], one["name"], one["layer"]): one["value"] for one in findings}
    for layer in range(3):
        assert values["mlm", "offset similarity", layer] == pytest.approx(1, abs=1e-4)
    # Before the first layer a state is the token's own, wherever it stands.
    assert values["mlm", "rotation similarity", 0] == pytest.approx(1, abs=1e-6)
    assert values["mlm", "rotation similarity", 2] < 0.9999


def test_pictures_points_and_a_table_to_read_are_written(folder: Path) -> None:
    results, out = read(folder / "shape"), folder / "shape"
    for drawing in results["drawings"]:
        picture = out / drawing["file"]
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.with_suffix(".svg").is_file()
    names = {"M33.png", "mlm-spectrum.png", "mlm-part-of-speech.png", "mlm-entity.png", "mlm-class.png"}
    assert {one["file"] for one in results["drawings"]} == names
    assert {one["claim"] for one in read(folder / "out")["drawings"]} == set(OURS)
    clouds = json.loads((out / "points.json").read_text())["clouds"]
    first = clouds[0]
    assert len(first["points"]) == len(first["categories"]) == len(first["words"]) == 12
    assert all(len(point) == 3 for point in first["points"])
    text = (out / "README.md").read_text()
    assert "| anisotropy | mlm | 0 |" in text
    assert "![mlm: words by entity" in text
    text = (folder / "out" / "README.md").read_text()
    assert "# Analysis of pair, mlm, causal" in text
    assert "is causal" in text


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    request = make_request(tmp_path, folder / "mlm", only=("M37", "M36"))
    run(request)
    ours = [one for one in read(request.out)["findings"] if one["model"] == "mlm"]
    theirs = [one for one in read(folder / "out")["findings"] if one["model"] == "mlm"]
    assert ours == [one for one in theirs if one["claim"] in ("M37", "M36")]


def test_finished_parts_are_kept_until_something_differs(folder: Path, tmp_path: Path) -> None:
    request = make_request(tmp_path, folder / "mlm", only=("M43",))
    run(request)
    before = (request.out / RESULTS).read_bytes()
    assert list_reused(run(request)) == [True, True]
    assert (request.out / RESULTS).read_bytes() == before
    other = make_request(tmp_path, folder / "mlm", only=("M43",), seed=1)
    assert list_reused(run(other)) == [False, False]
    alone = make_request(tmp_path, folder / "mlm", only=("M43",), seed=1, untrained=False)
    assert list_reused(run(alone)) == [False], "its control may go"


def test_a_measure_that_tells_more_than_before_is_taken_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = make_request(tmp_path, folder / "mlm", only=("M43", "M36"), untrained=False)
    run(request)
    monkeypatch.setitem(list_measures(), "M43", replace(list_measures()["M43"], version=2))
    assert list_reused(run(request)) == [True, False], "M36, then M43"


def test_a_stopped_analysis_goes_on(folder: Path, tmp_path: Path) -> None:
    class StopsAfterOne(StopSignal):
        def check(self, *_: object) -> None:
            if list(tmp_path.glob("out/parts/*.json")):
                raise Stopped(15)

    request = make_request(tmp_path, folder / "mlm", only=("M34",))
    with pytest.raises(Stopped):
        run(request, StopsAfterOne())
    assert len(read(request.out)["findings"]) > 0
    assert list_reused(run(request)) == [True, False]


def test_a_judge_without_a_generator_lacks_one_figure_and_has_the_others(tmp_path: Path) -> None:
    judge = save_pair(tmp_path / "pair", build_pair()) / "export" / "discriminator"
    results = result_of(run(make_request(tmp_path, judge, only=("M30", "M34"), untrained=False)))
    reasons = {one["name"]: one["reason"] for one in results["missing"]}
    assert "holds no generator, which measuring verdicts needs" in reasons["verdict bits"]
    assert {one["claim"] for one in results["findings"]} == {"M34"}


def test_too_little_text_is_said_where_the_figure_would_be(tmp_path: Path) -> None:
    request = make_request(tmp_path, save_one(tmp_path / "mlm"), only=("M35",), untrained=False)
    write_text(tmp_path / "text").write_text("the cat sat")
    (missing,) = result_of(run(request))["missing"]
    assert "needs at least 2 words with 5 occurrences" in missing["reason"]


def test_a_vocabulary_of_another_language_is_told_to_bring_its_own_sets(tmp_path: Path) -> None:
    sets = {"tagged": "", "pairs": "", "senses": ""}
    only = ("M33", "M35", "M37")
    results = result_of(run(make_request(tmp_path, save_one(tmp_path / "mlm"), only=only, untrained=False, **sets)))
    reasons = {one["name"]: one["reason"] for one in results["missing"]}
    assert "give some of its language as --tagged FILE" in reasons["part of speech probe"]
    assert "--pairs FILE" in reasons["equivariance"]
    assert "--senses FILE" in reasons["senses told"]
    assert "anisotropy" in names_of(results, "mlm")


def test_a_plan_names_measures_and_writes_nothing(folder: Path, tmp_path: Path) -> None:
    request = make_request(tmp_path, folder / "mlm", only=("m33",))
    assert plan_analysis(request)["measures"] == {"M33": "geometry"}
    assert not request.out.exists()
    with pytest.raises(InputError, match="no such file or folder; give prepared data or text"):
        plan_analysis(replace(request, data=tmp_path / "nowhere"))


def test_what_makes_no_sense_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--only: no measure for 'M99'; known are M30"):
        select_measures(["M99"])
    assert [measure.claim for measure in select_measures([])] == list(list_measures())
    assert [measure.id for measure in select_measures(["geometry", "m30"])] == ["information", "geometry"]
    request = make_request(tmp_path, folder / "mlm", out="mlm")
    request.out.mkdir()
    (request.out / "run.json").write_text("{}")
    with pytest.raises(UsageError, match="not an analysis; choose another --out"):
        run(request)
