"""From a labelled table to a run: what is written, what is read back, and what a stop or another command changes."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from little_tasks import QUICK, fill, read_lines, save_origin
from watching_events import has_trained, notes, result_of

import electralab
from electralab.config import ConfigLayer, SettingsTree
from electralab.errors import DamagedArtifact, IdentityMismatch, InputError, Stopped, UsageError
from electralab.events import Event, Progress, run_to_end
from electralab.finetuning import stage as finetuning_stage
from electralab.finetuning.task_model import load_model
from electralab.fitting.answerer import Answerer, load_fitted, save_fitted
from electralab.fitting.stage import FitRequest, fit, plan_fit
from electralab.inspection import FittedView, FitView, view
from electralab.records.fitted import FitResults, FittedModel
from electralab.records.kinds import find_kind
from electralab.records.tuned import read_rows
from electralab.reporting.page import write_report
from electralab.serving.model import Model
from electralab.stopping import NO_STOP, StopSignal
from electralab.tasks import blending
from electralab.tasks.kinds.classification import ClassificationExample

SHORT: SettingsTree = {**QUICK, "epochs": 6, "evaluation": {"times": 1}}


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetuning_stage, "plot_learning_curve", lambda *_: None)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_origin(tmp_path_factory.mktemp("origin") / "model")


def write_rows(path: Path, count: int, *, seed: int = 0, is_pair: bool = False, are_numbers: bool = False) -> Path:
    """Cats are yes or about 1, dogs are no or about 0; of a pair those that are alike."""
    rng, rows = random.Random(seed), []
    for number in range(count):
        first, second = rng.choice(("cat", "dog")), ("cat", "dog")[number % 2]
        text, is_yes = fill(rng, second), second == "cat"
        row: dict[str, Any] = {"text": text}
        if is_pair:
            row, is_yes = {"text_a": fill(rng, first), "text_b": text}, first == second
        row["label"] = is_yes + rng.random() / 10 if are_numbers else ("yes" if is_yes else "no")
        rows.append(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make_request(model: Path, source: Path, run: Path, **changes: Any) -> FitRequest:
    fields: dict[str, Any] = {"task": "", "folds": 2, "workers": 1, "threads": 1}
    layers = (ConfigLayer("command line", SHORT),)
    fields |= {"source": source, "model": model, "run_dir": run, "layers": layers}
    return FitRequest(**(fields | changes))


def follow(request: FitRequest) -> list[Event[FitResults]]:
    return list(fit(request, StopSignal()))


@pytest.fixture(scope="module")
def fitted(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two parts of a table, with test rows beside it."""
    folder = tmp_path_factory.mktemp("fitted")
    write_rows(folder / "data" / "train.jsonl", 40)
    write_rows(folder / "data" / "test.jsonl", 10, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finetuning_stage, "plot_learning_curve", lambda *_: None)
        follow(make_request(origin, folder / "data", folder / "run"))
    return folder / "run"


def test_what_the_stage_wrote_reads_back_as_its_record(fitted: Path) -> None:
    results = FitResults.read(fitted)
    assert {entry.name for entry in results.entries} == {"encoder", "linear", "blend"}
    assert results.entries[0].name == results.best
    scores = [entry.scores["accuracy"] for entry in results.entries]
    assert scores == sorted(scores, reverse=True), "the best first"
    assert results.rows == results.judged_rows == 40
    for entry in results.entries:
        rows = read_lines(fitted / "predictions" / f"{entry.name}.jsonl")
        hits = np.mean([row["prediction"] == row["truth"] for row in rows])
        assert len(rows) == 40
        assert entry.scores["accuracy"] == pytest.approx(hits), "a score is that of the predictions beside it"
        assert entry.low <= entry.scores["accuracy"] <= entry.high
        assert entry.behind == pytest.approx(scores[0] - entry.scores["accuracy"])
        assert entry.test.keys() == {"accuracy", "macro_f1"}
    linear = [point for point in results.curve if point.name == "linear"]
    assert [point.rows for point in linear] == [10, 20], "an eighth of 20 rows is too few"
    assert results.to_json() == json.loads((fitted / "fit.json").read_text())
    assert results.report.confusion == tuple(map(tuple, np.array(results.report.confusion).tolist()))
    assert sum(map(sum, results.report.confusion)) == 40


def test_rows_are_counted_by_the_files_that_the_user_has(fitted: Path) -> None:
    data = FitResults.read(fitted).data
    assert {name: split.examples for name, split in data.items()} == {"train": 40, "test": 10}


def test_the_answers_of_tf_idf_have_the_shares_that_the_model_gives(fitted: Path) -> None:
    margins, answers = (list(read_rows(fitted / "predictions" / f"{name}.jsonl")) for name in ("linear-20", "linear"))
    temperature = blending.find_temperature(margins, ("no", "yes"))
    assert answers == blending.cool(margins, temperature)
    assert answers != margins
    assert [row.prediction for row in answers] == [row.prediction for row in margins]


def test_the_two_networks_of_two_parts_saw_no_row_that_they_answered(fitted: Path) -> None:
    for number in (1, 2):
        seen, asked = (
            {row["text"] for row in read_lines(fitted / "rows" / f"part-{number}" / f"{split}.jsonl")}
            for split in ("train", "dev")
        )
        assert not seen & asked


@pytest.mark.parametrize("name", ["encoder", "linear", "blend"])
def test_every_entry_answers_from_its_folder_as_it_did_before_it_was_stored(
    fitted: Path, tmp_path: Path, name: Any
) -> None:
    rows = {key: list(read_rows(fitted / "predictions" / f"{key}.jsonl")) for key in ("encoder", "linear")}
    train = [ClassificationExample(row.id, row.texts, str(row.truth)) for row in rows["linear"]]
    weights = blending.fit_blend(("no", "yes"), [rows["encoder"], rows["linear"]])
    folders = {f"encoder-{i}": fitted / f"tuning-{i}" / "seed-0" / "model" for i in (1, 2)} if name != "linear" else {}
    linear = blending.fit_linear(train)
    about = FittedModel(
        entry=name,
        kind="classify",
        task="classify",
        labels=("no", "yes"),
        num_texts=1,
        sequence_length=24,
        encoders=tuple(folders),
        temperature=2.0,
        blend=weights,
    )
    models = [load_model(folder) for folder in folders.values()]
    before = Answerer(about, models, linear)
    save_fitted(tmp_path / "model", about, folders, None if name == "encoder" else linear)
    after = load_fitted(tmp_path / "model")
    asked = [*train, ClassificationExample("new", ("the dog on a cat",), "")]
    first, second = (run_to_end(each.predict(asked, batch_tokens=64, stop=NO_STOP)) for each in (before, after))
    assert first == second
    assert len({json.dumps(row.to_json()["probabilities"]) for row in first}) > 2, "not one answer for all"
    (tmp_path / "model" / "fitted.json").write_text("{}")
    with pytest.raises(DamagedArtifact, match="its manifest says"):
        load_fitted(tmp_path / "model")


def test_the_run_predicts_shows_serves_and_reports_like_any_other(fitted: Path, tmp_path: Path) -> None:
    model = Model(fitted)
    assert model.can == ("predict",)
    info = model.describe("mine")
    assert (info.task, info.labels, info.num_texts) == ("classify", ("no", "yes"), 1)
    rows = model.predict(["the cat on a mat", {"text": "a dog"}])
    assert [row.prediction for row in rows] == ["yes", "no"]
    assert all(abs(sum(row.probabilities.values()) - 1) < 1e-5 for row in rows)  # type: ignore[union-attr, arg-type]
    assert model.examples, "its own rows, to try it with"
    with pytest.raises(InputError, match="which cannot detect; it can predict"):
        model.detect("the cat")
    found = find_kind(fitted)
    assert found is not None
    assert found.name == "fit"
    shown = view(fitted)
    assert isinstance(shown, FitView)
    assert shown.results == FitResults.read(fitted)
    assert any(name.startswith("export/model/") for name in shown.verified), "by the hashes of its manifest"
    if FitResults.read(fitted).best != "encoder":
        assert isinstance(view(fitted / "export" / "model"), FittedView)
    written = write_report([fitted], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert written.warnings == ()
    for part in ("TF-IDF", "blend", "labelled rows", "What was taken for what", "95 % interval"):
        assert part in page
    card = (fitted / "README.md").read_text()
    assert "| TF-IDF |" in card
    assert electralab.serve([fitted], dry_run=True).models[0].can == ("predict",)  # type: ignore[union-attr]


def test_the_same_command_again_does_nothing_twice_and_another_is_refused(
    origin: Path, fitted: Path, tmp_path: Path
) -> None:
    before = (fitted / "fit.json").read_bytes()
    events = follow(make_request(origin, fitted.parent / "data", fitted))
    assert not has_trained(events)
    assert result_of(events).to_json() == json.loads(before)
    assert (fitted / "fit.json").read_bytes() == before
    with pytest.raises(IdentityMismatch, match="begun with another folds"):
        follow(make_request(origin, fitted.parent / "data", fitted, folds=4))
    other = write_rows(tmp_path / "other.jsonl", 30, seed=5)
    with pytest.raises(IdentityMismatch, match="begun with another data"):
        follow(make_request(origin, other, fitted))


def test_another_number_of_threads_is_refused_without_flags_that_fit_lacks(
    origin: Path, fitted: Path, tmp_path: Path
) -> None:
    shutil.copytree(fitted, tmp_path / "run")
    (tmp_path / "run" / "fit.json").unlink()
    with pytest.raises(IdentityMismatch, match=r"tuning-1: ran with --threads 1, now 2, .* choose another") as caught:
        follow(make_request(origin, fitted.parent / "data", tmp_path / "run", threads=2))
    assert "--allow-inexact" not in str(caught.value)


def test_a_folder_that_holds_something_else_is_refused_by_the_run_and_by_its_plan(origin: Path, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table.jsonl", 24)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    for out, sentence in (
        ("mine", r"holds something else than a run of fit \(it has README.md\)"),
        ("table.jsonl", "is a file"),
    ):
        request = make_request(origin, table, tmp_path / out)
        with pytest.raises(UsageError, match=sentence):
            follow(request)
        with pytest.raises(UsageError, match=sentence):
            plan_fit(request)
    assert (tmp_path / "mine" / "README.md").read_text() == "mine"


@pytest.mark.parametrize("is_dry", [True, False])
def test_what_has_no_effect_or_cannot_be_read_is_refused_before_anything_is_written(
    origin: Path, tmp_path: Path, is_dry: bool
) -> None:
    table = write_rows(tmp_path / "table.jsonl", 24)
    for model in (origin, None):
        with pytest.raises(UsageError, match="--minutes: is how long an encoder is learned from text"):
            electralab.fit(table, tmp_path / "run", model=model, minutes=5, dry_run=is_dry)
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        electralab.fit(table, tmp_path / "run", text_folder=tmp_path / "nowhere", dry_run=is_dry)
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_stopped_goes_on_with_the_part_that_was_not_finished(origin: Path, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table.jsonl", 24)
    whole = follow(make_request(origin, table, tmp_path / "whole"))
    stop, request = StopSignal(), make_request(origin, table, tmp_path / "run")

    def stop_in_the_second_tuning() -> None:
        for event in fit(request, stop):
            if isinstance(event, Progress) and event.phase == "tuning 2 of 2: training":
                stop.number = 15

    with pytest.raises(Stopped):
        stop_in_the_second_tuning()
    assert not (tmp_path / "run" / "fit.json").exists()
    model = tmp_path / "run" / "tuning-1" / "seed-0" / "model" / "model.safetensors"
    was = model.stat().st_mtime_ns
    events = follow(request)
    assert model.stat().st_mtime_ns == was, "what was finished stays"
    phases = {event.phase for event in events if isinstance(event, Progress)}
    assert "tuning 2 of 2: training" in phases
    assert "tuning 1 of 2: training" not in phases
    ours, theirs = (result_of(each).to_json() | {"seconds": 0} for each in (events, whole))
    assert ours == theirs, "as if it had never been stopped"


def test_pairs_with_dev_rows_are_fitted_once_and_the_encoder_alone_is_a_model_like_any_other(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split, count in (("train", 32), ("dev", 12)):
        write_rows(tmp_path / "data" / f"{split}.jsonl", count, seed=count, is_pair=True)
    request = make_request(origin, tmp_path / "data", tmp_path / "run", folds=0)
    # Whoever is best by luck: the encoder is to be, which is asked second.
    scores = iter((0.1, 0.9, 0.2))
    monkeypatch.setattr(blending, "score_rows", lambda metrics, *_: dict.fromkeys(metrics, next(scores)))
    results = result_of(follow(request))
    assert results.judged_by == "the dev rows"
    assert results.best == "encoder"
    assert (tmp_path / "run" / "export" / "model" / "config.json").is_file()
    assert Model(tmp_path / "run").predict([("the cat", "a cat")])[0].prediction in ("yes", "no")


def test_numbers_are_fitted_and_predicted(origin: Path, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table.jsonl", 40, are_numbers=True)
    events = follow(make_request(origin, table, tmp_path / "run"))
    results = result_of(events)
    assert (results.kind, results.metric, results.labels) == ("regress", "spearman", ())
    assert any("holds numbers" in text for text in notes(events, "warning"))
    low, high = Model(tmp_path / "run").predict(["the dog", "the cat"])
    assert float(low.prediction) < float(high.prediction)  # type: ignore[arg-type]
    assert write_report([tmp_path / "run"], tmp_path / "page.html").warnings == ()


def test_a_plan_reads_the_rows_and_writes_nothing(origin: Path, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "table.jsonl", 24)
    plan = plan_fit(make_request(origin, table, tmp_path / "run"))
    assert (plan.rows, plan.tunings, plan.labels) == (24, 2, ("no", "yes"))
    assert plan.steps > 0
    assert not (tmp_path / "run").exists()
    learned = plan_fit(make_request(tmp_path / "nowhere", table, tmp_path / "run"), learning_minutes=7)
    assert (learned.learning_minutes, learned.estimated_minutes) == (7, 7)
