"""The records of a run and of prepared data: what the stages really write reads back as it was."""

import doctest
import json
from pathlib import Path

import pytest

from electralab import randomness
from electralab.corpus import damage
from electralab.pretraining import settings
from electralab.records import run
from electralab.records.record import FileRecord
from electralab.records.run import StepRecord
from electralab.tokens import packing
from electralab.training import schedule, trainer


@pytest.mark.parametrize("module", [damage, packing, randomness, run, schedule, settings, trainer])
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
    with pytest.raises(Exception, match="not as electralab writes it"):
        kind.read(tmp_path)
