"""A run is what it was begun as; whatever else is asked of it is refused in one sentence."""

from pathlib import Path
from typing import Any

import pytest

from electralab.errors import DamagedArtifact, IdentityMismatch
from electralab.finetuning.settings import check_resumable, read_identity
from electralab.finetuning.task_model import identify_model
from electralab.records.tuned import TunedRun

BEGUN = TunedRun(
    kind="finetune",
    task="cola",
    data="d" * 64,
    model="a" * 64,
    settings={"epochs": 3.0, "batch": {"size": 32}},
    threads=2,
)


def changed(**changes: Any) -> TunedRun:
    return BEGUN.model_copy(update=changes)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_identity(tmp_path) is None
    BEGUN.write(tmp_path)
    assert read_identity(tmp_path) == BEGUN


@pytest.mark.parametrize("text", ['{"kind": "pretrain"}', "[]", "{}"])
def test_another_runs_identity_is_no_identity(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(DamagedArtifact, match="not the identity of a fine-tuning run"):
        read_identity(tmp_path)


def test_an_identity_that_lacks_a_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"kind": "finetune", "task": "cola"}')
    with pytest.raises(DamagedArtifact, match=r"run\.json: not as electralab writes it \(data: Field required\)"):
        read_identity(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "rte"}, "runs/a: was a run of cola, now rte; choose another --out for a new run"),
        ({"data": "e" * 64}, "runs/a: began with another data (dddddddd…, now eeeeeeee…); give the same or choose"),
        ({"model": "b" * 64}, "runs/a: began with another model (aaaaaaaa…, now bbbbbbbb…); give the same or choose"),
        ({"settings": {"epochs": 3.0, "batch": {"size": 8}}}, "runs/a: batch.size was 32, now 8; give the same"),
        ({"threads": 1}, "runs/a: ran with --threads 2, now 1, which changes sums; give the same number, or"),
    ],
)
def test_the_first_difference_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(IdentityMismatch) as caught:
        check_resumable(Path("runs/a"), BEGUN, changed(**changes), allow_inexact=False)
    assert str(caught.value).startswith(said)


def test_other_threads_are_allowed_on_request_and_nothing_else() -> None:
    check_resumable(Path("runs/a"), BEGUN, changed(threads=1), allow_inexact=True)
    with pytest.raises(IdentityMismatch):
        check_resumable(Path("runs/a"), BEGUN, changed(task="rte"), allow_inexact=True)


def test_a_model_is_its_weights_and_its_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "vocab.txt").write_text("[PAD]")
    before = identify_model(tmp_path)
    (tmp_path / "README.md").write_text("a card")
    assert identify_model(tmp_path) == before
    (tmp_path / "vocab.txt").write_text("[UNK]")
    assert identify_model(tmp_path) != before


def test_shards_count_as_weights(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"model-0000{number}-of-00002.safetensors").write_bytes(b"weights %d" % number)
    before = identify_model(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(b"others")
    assert identify_model(tmp_path) != before
