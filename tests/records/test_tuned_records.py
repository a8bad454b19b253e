"""What fine-tuning wrote is read as it was written, by this version and by the ones before it."""

from pathlib import Path

import pytest
from little_tasks import make_request, save_origin, tune, write_animals

from electralab.artifacts import read_json
from electralab.finetuning import stage
from electralab.records.tuned import Baselines, SeedResults, TunedResults, TunedRun, read_rows, to_json_lines


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "plot_learning_curve", lambda out, *_: (out / "learning-curve.png").write_bytes(b"-"))
        tune(
            make_request(
                save_origin(folder / "model"), "classify", write_animals(folder / "data"), folder / "run", seeds=2
            )
        )
    return folder / "run"


def test_every_file_of_a_run_is_read_and_written_again_as_it_was(run: Path, tmp_path: Path) -> None:
    for record, folder in ((TunedResults, run), (TunedRun, run), (Baselines, run), (SeedResults, run / "seed-1")):
        record.read(folder).write(tmp_path)
        assert read_json(tmp_path / record.FILE) == read_json(folder / record.FILE)
    path = run / "seed-0" / "predictions" / "dev.jsonl"
    assert to_json_lines(read_rows(path)) == path.read_bytes()


def test_scores_lie_under_the_names_of_their_splits(run: Path) -> None:
    results, written = TunedResults.read(run), read_json(run / "results.json")
    assert results["dev"] == results.scores["dev"] == written["dev"]
    assert written["seeds"][1] == {"seed": 1, "dev": results.seeds[1].scores["dev"]}
    assert "scores" not in written


def test_a_run_from_before_there_were_reports_and_baselines_is_read(run: Path) -> None:
    old = read_json(run / "results.json")
    for key in ("reports", "baselines", "notes", "improvement", "data", "ensemble", "version"):
        del old[key]
    results = TunedResults.parse(old, run)
    assert results.class_report == results.report
    assert (results.baselines, results.ensemble) == (None, {})
    assert results.to_json() == old | {"version": 1}
