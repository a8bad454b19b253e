"""The files as they are distributed, counted; ELECTRALAB_DATA names the folder with glue, squad and chunking in it."""

import os
from pathlib import Path

import pytest

from electralab.tasks.catalog import find_task
from electralab.tasks.load import TaskDataConfig, read_task, read_tests

DATA = Path(os.environ.get("ELECTRALAB_DATA", "nowhere"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (DATA / "glue").is_dir(), reason="ELECTRALAB_DATA names no folder with glue in it"),
]


@pytest.mark.parametrize(
    ("task", "folder", "train", "dev"),
    [
        ("cola", "glue", 8551, 1043),
        ("sst2", "glue", 67349, 872),
        ("mrpc", "glue", 3668, 408),
        ("stsb", "glue", 5749, 1500),
        ("rte", "glue", 2490, 277),
        ("wnli", "glue", 635, 71),
        ("mnli", "glue", None, 9815),
        ("qnli", "glue", None, 5463),
        ("squad1", "squad", None, 10570),
        ("chunking", "chunking", 8936 - 894, 894),
    ],
)
def test_official_files_hold_the_published_numbers_of_examples(
    task: str, folder: str, train: int | None, dev: int
) -> None:
    """Where a training file may be a sample, only dev is counted."""
    data = read_task(find_task(task), DATA / folder, TaskDataConfig())
    assert train is None or len(data.train.examples) == train
    assert len(data.devs[0].examples) == dev
    assert not any(split.bad_rows for split in (data.train, *data.devs, *data.tests))


def test_the_diagnostic_set_is_whole() -> None:
    ax = find_task("ax")
    (split,) = read_tests(ax, DATA / "glue", ax.labels, TaskDataConfig())
    assert len(split.examples) == 1104
