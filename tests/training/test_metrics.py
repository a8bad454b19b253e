import os
from pathlib import Path

import pytest

from electralab.errors import StorageError
from electralab.records.run import StepRecord, read_metrics
from electralab.training.metrics import MetricsLog, cut_back, format_heldout, format_step


def test_a_torn_last_line_is_not_a_record(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"ste')
    assert [record["step"] for record in read_metrics(path)] == [1, 2]


def test_cutting_back_forgets_later_steps_and_leaves_no_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    cut_back(path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_values_that_are_not_finite_are_null(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, 0)
    log.write(StepRecord(step=1, values={"loss": float("nan")}))
    log.close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [StepRecord(step=1, values={"loss": None})]


def test_a_run_folder_whose_name_is_not_utf8_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = tmp_path / os.fsdecode(b"run-\xff")
    folder.mkdir()
    with pytest.raises(StorageError, match="is not UTF-8, which TensorBoard needs; choose another --out"):
        MetricsLog(folder, 0)


def test_a_step_is_told_by_the_losses_it_has() -> None:
    def step(**values: float | None) -> StepRecord:
        return StepRecord(step=1, values=values)

    masked = step(loss=5.0, masked_loss=5.0, masked_accuracy=0.2, tokens_per_second=1234.5, heldout_masked_loss=4.5)
    assert format_step(masked) == "masked 5  1,234 tok/s"
    pair = step(loss=9.0, generator_loss=5.0, discriminator_loss=None, auc=0.75, tokens_per_second=1.0)
    assert format_step(pair) == "G 5  D n/a  AUC 0.750  1 tok/s"
    assert format_step(step(loss=0.25, tokens_per_second=10.0)) == "loss 0.25  10 tok/s"


def test_held_out_scores_are_told_by_network() -> None:
    heldout = {"masked_loss": 4.5, "masked_accuracy": 0.25, "masked_entropy": 4.0}
    assert format_heldout(heldout) == "masked 4.5 (25.0% right)"
    pair = {"generator_loss": 4.5, "discriminator_loss": 0.2, "generator_accuracy": 0.25, "auc": 0.8}
    assert format_heldout(pair) == "G 4.5 (25.0% right)  D 0.2  AUC 0.800"
