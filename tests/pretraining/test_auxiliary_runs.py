"""A run with more tasks goes on as if never stopped, and leaves the same exports as one without."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from little_pretraining import make_request, prepare_sentences
from safetensors import safe_open
from watching_events import step_records

from electralab.config import parse_overrides
from electralab.errors import UsageError
from electralab.pretraining.settings import resolve_pretrain
from electralab.pretraining.stage import pretrain
from electralab.stopping import StopSignal

SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4", "--batch.micro-size", "3"),
    *("--evaluation.rows", "4", "--evaluation.times", "2", "--model.dropout", "0.1"),
)
NAMES = ("correction", "selection", "contrast", "sequence")
TASKS = tuple(word for name in NAMES for word in (f"--loss.{name}-weight", "1"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_sentences(tmp_path_factory.mktemp("tasks"))


def run(data: Path, run_dir: Path, *words: str, steps: int = 6, origin: Path | None = None) -> list[dict[str, Any]]:
    request = make_request(data, run_dir, (*SMALL, *words), steps=steps, init_from=origin)
    return step_records(pretrain(request, StopSignal()))


def names_in(path: Path) -> list[str]:
    with safe_open(path, framework="pt") as weights:
        return sorted(weights.keys())


def test_three_steps_and_three_steps_are_six(data: Path, tmp_path: Path) -> None:
    whole = run(data, tmp_path / "six", *TASKS)
    assert [record["step"] for record in whole] == [1, 2, 3, 4, 5, 6]
    assert all(record[f"{name}_loss"] > 0 for record in whole for name in NAMES)
    assert all(f"heldout_{name}_loss" in whole[-1] for name in NAMES)
    # A twin that knows only the first three: what came after is taken away, as if it had never been.
    shutil.copytree(tmp_path / "six", tmp_path / "half")
    for later in ("checkpoints/step-6", "export"):
        shutil.rmtree(tmp_path / "half" / later)
    (tmp_path / "half/results.json").unlink()
    again = run(data, tmp_path / "half", *TASKS)
    assert [record["step"] for record in again] == [4, 5, 6]
    for name in ("model.safetensors", "optimizer.safetensors"):
        one, other = (tmp_path / which / "checkpoints/step-6" / name for which in ("six", "half"))
        assert one.read_bytes() == other.read_bytes()
    for key in ("loss", *(f"{name}_loss" for name in NAMES)):
        assert [record[key] for record in again] == [record[key] for record in whole[3:]]


def test_heads_are_kept_by_checkpoints_and_left_out_of_exports(data: Path, tmp_path: Path) -> None:
    records = run(data, tmp_path / "plain", steps=1)
    run(data, tmp_path / "more", *TASKS, steps=1)
    assert not any(f"{name}_loss" in key for record in records for key in record for name in NAMES)
    for export in ("export/discriminator", "export/generator"):
        plain, more = (tmp_path / name / export for name in ("plain", "more"))
        assert names_in(plain / "model.safetensors") == names_in(more / "model.safetensors")
        assert (plain / "config.json").read_bytes() == (more / "config.json").read_bytes()
    kept = {name: set(names_in(tmp_path / name / "checkpoints/step-1/model.safetensors")) for name in ("plain", "more")}
    assert {name.split(".")[1] for name in kept["more"] - kept["plain"]} == {"correction", "selection"}
    assert kept["plain"] <= kept["more"]


@pytest.mark.parametrize(("before", "after"), [((), TASKS), (TASKS, ())])
def test_a_task_can_begin_or_end_where_a_run_goes_on_from_another(
    data: Path, tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    run(data, tmp_path / "first", *before, steps=1)
    (record,) = run(data, tmp_path / "second", *after, steps=1, origin=tmp_path / "first")
    assert ("correction_loss" in record) == bool(after)


def test_one_row_at_a_time_leaves_no_rows_to_tell_apart() -> None:
    words = [*SMALL, "--loss.sequence-weight", "1", "--batch.micro-size", "1"]
    with pytest.raises(UsageError, match=r"loss.sequence_weight tells rows apart.*batch.micro_size"):
        resolve_pretrain([parse_overrides(words)])
