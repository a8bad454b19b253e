"""Which rows are learned from, and which part answers them."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from electralab.errors import UsageError
from electralab.fitting.rows import read_fit_rows, write_part
from electralab.tasks.blending import read_truth
from electralab.tasks.load import TaskDataConfig, read_task


def write_table(path: Path, rows: Sequence[tuple[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))
    return path


def test_every_class_is_in_every_part_and_equal_texts_are_together(tmp_path: Path) -> None:
    rows = [(f"text {i}", "abc"[i % 3]) for i in range(30)] + [("the same", "a")] * 5
    data = read_fit_rows(write_table(tmp_path / "t.jsonl", rows), "", TaskDataConfig(), 3)
    assert data.judged_by == "3-fold cross-validation"
    assert sorted(place for part in data.parts for place in part.places) == list(range(35)), "each is judged once"
    for part in data.parts:
        asked = [data.judged[place] for place in part.places]
        assert Counter(map(read_truth, asked)).keys() == {"a", "b", "c"}
        assert len(part.train) + len(asked) == 35
        assert not {row.texts for row in part.train} & {row.texts for row in asked}


def test_few_rows_are_answered_in_parts_and_of_many_some_are_held_out(tmp_path: Path) -> None:
    def read(count: int) -> tuple[int, str]:
        rows = [(f"text {i}", "ab"[i % 2]) for i in range(count)]
        data = read_fit_rows(write_table(tmp_path / "t.jsonl", rows), "", TaskDataConfig(), 0)
        return len(data.parts), data.judged_by

    assert read(100) == (5, "5-fold cross-validation")
    assert read(401) == (3, "3-fold cross-validation")
    assert read(4001) == (1, "held-out rows")


def test_dev_rows_that_are_brought_decide_and_test_rows_never(tmp_path: Path) -> None:
    for split, count in (("train", 20), ("dev", 6), ("test", 4)):
        write_table(tmp_path / "data" / f"{split}.jsonl", [(f"{split} {i}", "ab"[i % 2]) for i in range(count)])
    data = read_fit_rows(tmp_path / "data", "", TaskDataConfig(), 0)
    assert (len(data.parts), data.judged_by, len(data.learned), len(data.judged)) == (1, "the dev rows", 20, 6)
    assert data.test is not None
    assert len(data.test.examples) == 4
    with pytest.raises(UsageError, match=r"--folds: .* brings dev rows"):
        read_fit_rows(tmp_path / "data", "", TaskDataConfig(), 3)


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (["yes", "no"], "classify"),
        ([1, 2, 3, 4, 5], "classify"),
        ([0.5, 1.25, 3.0], "regress"),
        (list(range(30)), "regress"),
    ],
)
def test_what_the_label_column_holds_decides_the_task(tmp_path: Path, labels: list[object], task: str) -> None:
    path = write_table(tmp_path / "t.jsonl", [(f"text {i}", labels[i % len(labels)]) for i in range(60)])
    data = read_fit_rows(path, "", TaskDataConfig(), 2)
    assert data.task.name == task
    assert bool(data.notes) == (task == "regress"), "that numbers are learned is said"


def test_tasks_that_ask_for_more_than_one_answer_are_refused_with_the_verb_to_use(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.jsonl", [("a", "b")] * 4)
    for task in ("label", "qa", "squad1", "ner"):
        with pytest.raises(UsageError, match=rf"finetune MODEL --task {task} --data .*t\.jsonl --out RUN"):
            read_fit_rows(path, task, TaskDataConfig(), 0)
    with pytest.raises(UsageError, match="--folds: 9 parts of 10 rows are too many; give at most 5"):
        read_fit_rows(write_table(path, [(f"text {i}", "ab"[i % 2]) for i in range(10)]), "", TaskDataConfig(), 9)


def test_a_part_is_written_as_fine_tuning_reads_it(tmp_path: Path) -> None:
    rows = [{"premise": f"it is {i}", "hypothesis": "so\u2028be it", "label": "ab"[i % 2]} for i in range(12)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = read_fit_rows(path, "", TaskDataConfig(), 3)
    assert data.num_texts == 2
    write_part(tmp_path / "part", data, data.parts[0])
    again = read_task(data.task, tmp_path / "part", TaskDataConfig())
    assert list(again.train.examples) == list(data.parts[0].train)
    assert list(again.devs[0].examples) == [data.judged[place] for place in data.parts[0].places]
    assert again.labels == ("a", "b")
