"""Folders are read without trust: what is damaged is said, and the rest is there."""

import json
from pathlib import Path

import pytest
from report_folders import make_record, make_run

from electralab.errors import InputError
from electralab.reporting.artifact import find_report_kind, name_artifacts, read_artifact
from electralab.reporting.page import compose_page


def test_what_can_be_reported_on_is_known_by_its_files(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    for name, file, text in (
        ("tuned", "run.json", '{"kind": "finetune"}'),
        ("study", "study.toml", ""),
        ("small", "tradeoff.json", "{}"),
        ("glue", "results.json", '{"suite": "glue"}'),
        ("seen", "analysis.json", "{}"),
        ("seed-0", "metrics.jsonl", ""),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(text)
    kinds = {path.name: find_report_kind(path) for path in tmp_path.iterdir()}
    assert kinds == {
        "run": "run",
        "seed-0": "run",
        "tuned": "fine-tuning run",
        "study": "study",
        "small": "trade-off",
        "glue": "GLUE run",
        "seen": "analysis",
    }


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="nothing to report on; give the folder of a run"):
        find_report_kind(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        find_report_kind(tmp_path / "nowhere")


def test_names_are_what_differs_in_the_paths() -> None:
    cells = [Path(f"/study/cells/{arm}/seed-0/run") for arm in ("mlm", "causal")]
    assert name_artifacts(cells) == ["mlm", "causal"]
    assert name_artifacts([Path("/runs/a"), Path("/runs/b/c")]) == ["a", "b/c"]
    assert name_artifacts([Path("/runs/a")]) == ["a"]
    assert name_artifacts([Path("/runs/a"), Path("/runs/a")]) == ["a (1)", "a (2)"]
    assert name_artifacts([Path("/runs/a"), Path("/runs/a/b")]) == ["a", "a/b"]


def test_a_torn_last_line_is_waited_for_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=3, total=3)
    log = run / "metrics.jsonl"
    log.write_text(log.read_text() + '{"step": 4, "lo')
    assert len(read_artifact(run).logs[""]) == 3
    assert read_artifact(run).troubles == ()

    log.write_text("garbage\n" + log.read_text())
    artifact = read_artifact(run)
    assert len(artifact.logs[""]) == 3
    assert [text.partition(": ")[2] for text in artifact.troubles] == [
        "line 1 cannot be read; the curves are drawn without"
    ]


@pytest.mark.parametrize("file", ["run.json", "environment.json", "results.json", "metrics.jsonl", "examples.json"])
@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"settings": 3, "heldout": 3, "rows": 3}', None])
def test_any_file_may_be_damaged_or_missing_and_the_page_says_so(tmp_path: Path, file: str, damage: str | None) -> None:
    run = make_run(tmp_path / "run")
    if damage is None:
        (run / file).unlink(missing_ok=True)
    else:
        (run / file).write_text(damage)
    page = compose_page([read_artifact(run)])
    assert "<h2" in page
    if file != "metrics.jsonl":
        assert 'data-chart="loss"' in page
    if damage == "{" and file != "metrics.jsonl":
        assert f"{file}: not valid JSON" in page
    if damage is None and file != "examples.json":
        assert f"{file}: not there (yet)" in page


@pytest.mark.parametrize("file", ["study.toml", "tradeoff.json"])
def test_a_table_of_another_shape_is_said_in_its_place(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text('{"variants": [{"name": "a"}]}')
    (tmp_path / "results.json").write_text('{"table": [{"scores": 3}]}')
    page = compose_page([read_artifact(tmp_path)])
    assert "not as electralab writes it" in page
    assert "is missing or damaged; &#39;electra" in page


def test_the_parameters_are_counted_from_the_heads_of_the_weights(tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    run = make_run(tmp_path / "run")
    for role in ("generator", "damaged"):
        (run / "export" / role).mkdir(parents=True)
    weights = {"a": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float32)}
    save_file(weights, run / "export" / "generator" / "model.safetensors", metadata={"format": "pt"})
    (run / "export" / "damaged" / "model.safetensors").write_bytes(b"\1\0\0\0\0\0\0\0x")
    assert read_artifact(run).parameters == {"generator": 17}


def test_records_without_numbers_draw_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "metrics.jsonl").write_text(json.dumps(make_record(1, loss=None)) + "\n")
    assert 'data-chart="loss"' not in compose_page([read_artifact(run)])


@pytest.mark.parametrize("inner", ["", "analysis"])
def test_pictures_left_from_an_earlier_analysis_are_not_shown(tmp_path: Path, inner: str) -> None:
    folder = make_run(tmp_path / "run") / inner if inner else tmp_path
    folder.mkdir(exist_ok=True)
    for name in ("now", "before"):
        (folder / f"{name}.png").write_bytes(b"picture")
    drawing = {"claim": "M33", "model": None, "title": "now", "file": "now.png", "meaning": ""}
    analysis = {"seed": 0, "models": [], "findings": [], "missing": [], "drawings": [drawing]}
    (folder / "analysis.json").write_text(json.dumps(analysis))
    assert list(read_artifact(folder.parent if inner else folder).pictures) == ["now"]


def test_results_are_missed_only_when_training_is_over(tmp_path: Path) -> None:
    going = read_artifact(make_run(tmp_path / "going", steps=20, total=80))
    assert going.troubles == ()
    assert not going.is_finished
    assert read_artifact(make_run(tmp_path / "over")).is_finished
