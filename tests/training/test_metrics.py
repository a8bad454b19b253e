import os
from pathlib import Path

import pytest

from electralab.errors import StorageError
from electralab.training.metrics import MetricsLog, cut_back, read_metrics


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
