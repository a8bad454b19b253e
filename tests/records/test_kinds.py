"""What a folder is, by what lies in it, and which folders work may begin in."""

from pathlib import Path

import pytest

from electralab.errors import UsageError
from electralab.records.kinds import BY_NAME, KindName, explain_unknown, find_kind, require_empty_or

FILES: list[tuple[KindName, dict[str, str]]] = [
    ("study", {"study.toml": ""}),
    ("trade-off", {"tradeoff.json": "{"}),
    ("fine-tuning run", {"run.json": '{"kind": "finetune"}'}),
    ("fine-tuning run", {"seed-0/metrics.jsonl": ""}),
    ("fit", {"run.json": '{"kind": "fit"}', "tuning-1/run.json": '{"kind": "finetune"}'}),
    ("run", {"run.json": "[]"}),
    ("run", {"metrics.jsonl": ""}),
    ("GLUE run", {"results.json": '{"suite": "glue"}'}),
    ("analysis", {"analysis.json": ""}),
    ("checkpoint", {"state.json": ""}),
    ("data", {"manifest.json": "", "shards/a": ""}),
    ("model", {"config.json": "{}"}),
    ("fitted model", {"fitted.json": "{}", "encoder-1/config.json": "{}"}),
    ("networks", {"generator/config.json": ""}),
    ("snapshot", {"generator/config.json": "", "progress.json": ""}),
    ("export", {"model/config.json": "", "manifest.json": '{"form": "hf"}'}),
    ("snapshots", {"step-3/progress.json": ""}),
    ("checkpoints", {"step-3/state.json": ""}),
    ("tokenizer", {"tokenizer.json": ""}),
]


def make(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(("name", "files"), FILES)
def test_a_folder_is_known_by_the_files_that_only_it_has(tmp_path: Path, name: KindName, files: dict[str, str]) -> None:
    assert find_kind(make(tmp_path / "folder", files)) is not None
    found = find_kind(tmp_path / "folder")
    assert found is not None
    assert found.name == name


def test_a_seed_is_known_by_its_name_too(tmp_path: Path) -> None:
    assert find_kind(make(tmp_path / "seed-0", {"metrics.jsonl": ""})) == BY_NAME["seed"]


def test_nothing_of_ours_has_no_kind(tmp_path: Path) -> None:
    assert find_kind(tmp_path) is None
    assert find_kind(tmp_path / "nowhere") is None


def test_work_begins_where_nothing_is_or_where_it_was_begun(tmp_path: Path) -> None:
    require_empty_or("run", tmp_path / "nowhere")
    require_empty_or("run", make(tmp_path / "beside", {"notes.txt": ""}))
    require_empty_or("run", make(tmp_path / "run", {"run.json": ""}))
    require_empty_or("data", make(tmp_path / "begun", {".build/state": "", "shards/a": ""}))
    require_empty_or("study", make(tmp_path / "locked", {".lock": ""}))


@pytest.mark.parametrize(
    ("wanted", "files", "said"),
    [
        ("run", {"config.json": "{}"}, "holds a model, not a run; choose another --out"),
        ("run", {"manifest.json": "", "shards/a": ""}, "holds prepared data, not a run; choose another --out"),
        ("fine-tuning run", {"run.json": "{}"}, "holds a run, not a fine-tuning run; choose another --out"),
        ("study", {"README.md": ""}, "holds something else than a study (it has README.md); choose another --out"),
        ("data", {"notes": ""}, "holds something else than prepared data (it has notes); choose another --out"),
    ],
)
def test_work_does_not_begin_in_a_folder_of_something_else(
    tmp_path: Path, wanted: KindName, files: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        require_empty_or(wanted, make(tmp_path / "out", files))
    assert str(refusal.value) == f"{tmp_path / 'out'}: {said}"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a file, and not a folder for a study; choose another --out"):
        require_empty_or("study", make(tmp_path, {"out": ""}) / "out")


def test_why_a_folder_cannot_be_shown_follows_from_what_lies_in_it(tmp_path: Path) -> None:
    assert explain_unknown(make(tmp_path / "a", {".build/x": ""})) == (
        "is not finished yet; run the same 'electra prepare' again"
    )
    assert explain_unknown(make(tmp_path / "b", {"bare/run.json": ""})) == (
        "is not an artifact itself; give one of the folders in it (bare)"
    )
    assert explain_unknown(make(tmp_path / "c", {})) == explain_unknown(make(tmp_path / "d", {"x": ""}))
