import os
from pathlib import Path

import pytest

from electralab.errors import StorageError
from electralab.training.metrics import MetricsLog, cut_back, format_heldout, format_step, read_metrics


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
    log.write({"step": 1, "loss": float("nan")})
    log.close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": None}]


def test_a_run_folder_whose_name_is_not_utf8_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    folder = tmp_path / os.fsdecode(b"run-\xff")
    folder.mkdir()
    with pytest.raises(StorageError, match="is not UTF-8, which TensorBoard needs; choose another --out"):
        MetricsLog(folder, 0)


def test_a_step_is_told_by_the_losses_it_has() -> None:
    masked = {"loss": 5.0, "masked_loss": 5.0, "masked_accuracy": 0.2, "tokens_per_second": 1234.5}
    heldout = {"heldout_masked_loss": 4.5, "heldout_masked_accuracy": 0.25, "heldout_masked_entropy": 4.0}
    assert format_step(masked | heldout) == "masked 5  1,234 tok/s"
    assert format_heldout(masked | heldout) == "masked 4.5 (25.0% right)"
    pair = {"loss": 9.0, "generator_loss": 5.0, "discriminator_loss": None, "auc": 0.75, "tokens_per_second": 1.0}
    heldout = {"heldout_generator_loss": 4.5, "heldout_discriminator_loss": 0.2, "heldout_generator_accuracy": 0.25}
    assert format_step(pair) == "G 5  D n/a  AUC 0.750  1 tok/s"
    assert format_heldout(pair | heldout | {"heldout_auc": 0.8}) == "G 4.5 (25.0% right)  D 0.2  AUC 0.800"
    assert format_step({"loss": 0.25, "tokens_per_second": 10.0}) == "loss 0.25  10 tok/s"
