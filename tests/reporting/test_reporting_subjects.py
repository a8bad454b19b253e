"""Folders are read without trust: what is damaged is said, and the rest is there."""

import json
from pathlib import Path

import pytest
from report_folders import make_record, make_run

from electralab.errors import InputError
from electralab.reporting.composing import compose_page
from electralab.reporting.subjects import find_kind, name_subjects, read_subject


def test_a_folder_is_known_by_its_files(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    make_run(tmp_path / "tuned")
    (tmp_path / "tuned" / "run.json").write_text('{"kind": "finetune"}')
    for name, file, text in (
        ("study", "study.toml", ""),
        ("small", "tradeoff.json", "{}"),
        ("glue", "results.json", '{"suite": "glue"}'),
        ("seen", "analysis.json", "{}"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text(text)
    kinds = {path.name: find_kind(path) for path in tmp_path.iterdir()}
    assert kinds == {
        "run": "run",
        "tuned": "fine-tuning run",
        "study": "study",
        "small": "trade-off",
        "glue": "GLUE run",
        "seen": "analysis",
    }


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to report on; give the folder of a run"):
        find_kind(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        find_kind(tmp_path / "nowhere")


def test_names_are_what_differs_in_the_paths() -> None:
    cells = [Path(f"/study/cells/{arm}/seed-0/run") for arm in ("mlm", "causal")]
    assert name_subjects(cells) == ["mlm", "causal"]
    assert name_subjects([Path("/runs/a"), Path("/runs/b/c")]) == ["a", "b/c"]
    assert name_subjects([Path("/runs/a")]) == ["a"]
    assert name_subjects([Path("/runs/a"), Path("/runs/a")]) == ["a (1)", "a (2)"]
    assert name_subjects([Path("/runs/a"), Path("/runs/a/b")]) == ["a", "a/b"]


def test_a_torn_last_line_is_waited_for_and_a_damaged_one_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=3, total=3)
    log = run / "metrics.jsonl"
    log.write_text(log.read_text() + '{"step": 4, "lo')
    assert len(read_subject(run).logs[""]) == 3
    assert read_subject(run).troubles == ()

    log.write_text("garbage\n" + log.read_text())
    subject = read_subject(run)
    assert len(subject.logs[""]) == 3
    assert [text.partition(": ")[2] for text in subject.troubles] == [
        "line 1 cannot be read; the curves are drawn without"
    ]


@pytest.mark.parametrize("file", ["run.json", "environment.json", "results.json", "metrics.jsonl"])
@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"settings": 3, "total_steps": null}', None])
def test_any_file_may_be_damaged_or_missing_and_the_page_says_so(tmp_path: Path, file: str, damage: str | None) -> None:
    run = make_run(tmp_path / "run")
    if damage is None:
        (run / file).unlink()
    else:
        (run / file).write_text(damage)
    page = compose_page([read_subject(run)])
    assert "<h2" in page
    if damage == "{" and file != "metrics.jsonl":
        assert f"{file}: not valid JSON" in page
    if damage is None:
        assert f"{file}: not there (yet)" in page


@pytest.mark.parametrize(
    "results", [{"heldout": 3, "baselines": []}, {"heldout": {"auc": "high"}}, {"seconds": "long"}]
)
def test_results_of_another_shape_cost_their_own_figure_only(tmp_path: Path, results: dict[str, object]) -> None:
    run = make_run(tmp_path / "run")
    (run / "results.json").write_text(json.dumps(results))
    page = compose_page([read_subject(run)])
    assert 'data-chart="loss"' in page
    assert "cannot be read; what it would say is left out" in page or "Cannot be shown" in page


@pytest.mark.parametrize("file", ["study.toml", "tradeoff.json"])
def test_a_table_of_another_shape_is_said_in_its_place(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_text('{"variants": [{"name": "a"}]}')
    (tmp_path / "results.json").write_text('{"table": [{"scores": 3}]}')
    assert "Cannot be shown" in compose_page([read_subject(tmp_path)])


def test_examples_of_uneven_length_are_left_out_and_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    row = {
        "pieces": ["a", "cat"],
        "is_masked": [False, True],
        "guesses": [[], [{"text": "cow", "p": 0.5, "continues_word": False}]],
        "corrupted": ["a", "dog"],
        "is_replaced": [False, True],
        "p_replaced": [0.1, 0.93],
    }
    (run / "examples.json").write_text(json.dumps({"rows": [row, {**row, "is_masked": [True]}]}))
    subject = read_subject(run)
    assert subject.examples == [row]
    assert "not all of its rows are examples" in subject.troubles[0]
    page = compose_page([subject])
    assert "<del>cat</del>" in page
    assert '<span class="heat-9 put" title="93.0 % replaced">dog</span>' in page
    assert "1 hidden, 0 restored, 1 replaced; 1 of them found, 0 false alarms." in page
    assert "“cow” 50.0 %" in page


def test_examples_without_a_discriminator_show_the_likeliest_guesses(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", objective="mlm")
    guesses = [[{"text": text, "p": 0.5, "continues_word": True}] for text in ("at", "og")]
    row = {
        "pieces": ["c", "##at", "d", "##ig"],
        "is_masked": [False, True] * 2,
        "guesses": [[], guesses[0], [], guesses[1]],
    }
    (run / "examples.json").write_text(json.dumps({"rows": [row]}))
    page = compose_page([read_subject(run)])
    assert "<p>c<del>at</del> d<del>ig</del></p>" in page
    assert '<p>c<span class="back">at</span> d<span class="put">og</span></p>' in page
    assert "2 hidden, 1 restored." in page


def test_a_causal_run_says_that_nothing_is_hidden(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", objective="causal")
    (run / "results.json").write_text(json.dumps({"step": 40, "heldout": {"next_loss": 5.0, "next_accuracy": 0.2}}))
    page = compose_page([read_subject(run)])
    assert "<strong>Nothing is hidden.</strong>" in page
    assert "The model foresees 20.0\N{NO-BREAK SPACE}% of the next tokens of text it has not seen." in page


def test_the_parameters_are_counted_from_the_heads_of_the_weights(tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    run = make_run(tmp_path / "run")
    (run / "export" / "generator").mkdir(parents=True)
    weights = {"a": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float32)}
    save_file(weights, run / "export" / "generator" / "model.safetensors", metadata={"format": "pt"})
    assert read_subject(run).parameters == {"generator": 17}


def test_records_without_numbers_draw_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "metrics.jsonl").write_text(json.dumps(make_record(1, loss=None, generator_loss="high")) + "\n")
    assert 'data-chart="loss"' not in compose_page([read_subject(run)])


@pytest.mark.parametrize("inner", ["", "analysis"])
def test_pictures_left_from_an_earlier_analysis_are_not_shown(tmp_path: Path, inner: str) -> None:
    folder = make_run(tmp_path / "run") / inner if inner else tmp_path
    folder.mkdir(exist_ok=True)
    for name in ("now", "before"):
        (folder / f"{name}.png").write_bytes(b"picture")
    (folder / "analysis.json").write_text(json.dumps({"findings": [], "drawings": [{"file": "now.png"}]}))
    assert list(read_subject(folder.parent if inner else folder).pictures) == ["now"]
