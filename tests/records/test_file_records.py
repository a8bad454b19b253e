"""What the stages really write is read as it was written, by this version and by the ones before it."""

import doctest
import json
from pathlib import Path

import pytest
from little_tasks import make_request, save_origin, tune, write_animals

from electralab import randomness
from electralab.artifacts import read_json, write_json
from electralab.corpus import damage
from electralab.errors import DamagedArtifact
from electralab.finetuning import stage
from electralab.pretraining import settings
from electralab.records import evaluation, run
from electralab.records.record import FileRecord
from electralab.records.run import StepRecord
from electralab.records.study import SharedBudget, StepResult
from electralab.records.tuned import Baselines, SeedResults, TunedResults, TunedRun, read_rows, to_json_lines
from electralab.tokens import packing
from electralab.training import schedule, trainer


@pytest.mark.parametrize("module", [damage, evaluation, packing, randomness, run, schedule, settings, trainer])
def test_examples_in_docstrings_are_true(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert results.attempted
    assert not results.failed


def test_a_line_of_the_log_is_flat_and_keeps_its_order() -> None:
    line = '{"step": 2, "tokens": 9, "loss": null, "heldout_auc": 0.5, "warnings": ["too strong"]}'
    record = StepRecord.model_validate(json.loads(line))
    assert json.dumps(record.to_json()) == line
    assert (record.get("loss"), record.get("absent"), "tokens" in record) == (None, None, True)
    assert record.warnings == ["too strong"]


@pytest.mark.parametrize("kind", [run.RunFingerprint, run.CheckpointState, run.PretrainResults, run.RunExamples])
def test_an_empty_object_is_no_record_of_a_run(tmp_path: Path, kind: type[FileRecord]) -> None:
    (tmp_path / kind.FILE).write_text("{}")
    with pytest.raises(DamagedArtifact, match="not as electralab writes it"):
        kind.read(tmp_path)


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


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "plot_learning_curve", lambda out, *_: (out / "learning-curve.png").write_bytes(b"-"))
        model, data = save_origin(folder / "model"), write_animals(folder / "data")
        tune(make_request(model, "classify", data, folder / "run", seeds=2))
    return folder / "run"


def test_every_file_of_a_tuned_run_is_read_and_written_again_as_it_was(tuned: Path, tmp_path: Path) -> None:
    for record, folder in (
        (TunedResults, tuned),
        (TunedRun, tuned),
        (Baselines, tuned),
        (SeedResults, tuned / "seed-1"),
    ):
        record.read(folder).write(tmp_path)
        assert read_json(tmp_path / record.FILE) == read_json(folder / record.FILE)
    path = tuned / "seed-0" / "predictions" / "dev.jsonl"
    assert to_json_lines(read_rows(path)) == path.read_bytes()


def test_scores_lie_under_the_names_of_their_splits(tuned: Path) -> None:
    results, written = TunedResults.read(tuned), read_json(tuned / "results.json")
    assert results["dev"] == results.scores["dev"] == written["dev"]
    assert written["seeds"][1] == {"seed": 1, "dev": results.seeds[1].scores["dev"]}
    assert "scores" not in written


def test_a_run_from_before_there_were_reports_and_baselines_is_read(tuned: Path) -> None:
    old = read_json(tuned / "results.json")
    for key in ("reports", "baselines", "notes", "improvement", "data", "ensemble", "version"):
        del old[key]
    results = TunedResults.parse(old, tuned)
    assert results.class_report == results.report
    assert (results.baselines, results.ensemble) == (None, {})
    assert results.to_json() == old | {"version": 1}
