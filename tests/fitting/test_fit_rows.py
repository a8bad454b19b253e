"""Which rows are learned from, and which part answers them."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from electralab.errors import InputError, UsageError
from electralab.fitting.rows import FitPart, read_fit_rows, write_part
from electralab.tasks.blending import pooled_examples, read_truth
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
    with pytest.raises(UsageError, match="--folds: 9 parts of 10 different texts are too many; give at most 5"):
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


@pytest.mark.parametrize(
    ("rows", "judged_by"),
    [
        ([(f"text {i}", "a") for i in range(15)] + [("alone", "b")], "5-fold cross-validation"),
        ([(f"text {i}", "a") for i in range(15)] + [("alone", "b")] * 10, "5-fold cross-validation"),
        ([("alone", "a"), *((f"text {i}", "bc"[i % 2]) for i in range(20))], "5-fold cross-validation"),
        ([(f"text {i}", f"{i}") for i in range(5)] + [("x", "b"), ("y", "b")], "2-fold cross-validation"),
    ],
)
@pytest.mark.parametrize("folds", [0, 1])
def test_a_class_of_one_text_is_learned_by_every_part_and_judged_by_none(
    tmp_path: Path, rows: list[tuple[str, str]], judged_by: str, folds: int
) -> None:
    data = read_fit_rows(write_table(tmp_path / "t.jsonl", rows), "", TaskDataConfig(), folds)
    assert data.judged_by == ("held-out rows" if folds else judged_by)
    texts: dict[str, set[str]] = {label: {text for text, own in rows if own == label} for _, label in rows}
    alone = {label for label in texts if len(texts[label]) == 1}
    assert not alone & set(map(read_truth, data.judged))
    for part in data.parts:
        assert {read_truth(row) for row in part.train} == set(data.labels)
        assert len(part.places)
    places = sorted(int(place) for part in data.parts for place in part.places)
    assert places == list(range(len(data.judged))), "each is judged once"
    assert "one text alone" in data.notes[0]
    assert all(repr(label) in data.notes[0] for label in alone)


@pytest.mark.parametrize(
    ("rows", "different", "folds"), [(20, 4, 2), (8, 8, 4), (2, 2, 2), (3, 3, 2), (60, 11, 5), (300, 5, 2)]
)
def test_a_number_of_parts_that_nobody_gave_is_one_that_different_texts_suffice_for(
    tmp_path: Path, rows: int, different: int, folds: int
) -> None:
    table = [(f"text {i % different}", i % different + 0.5) for i in range(rows)]
    data = read_fit_rows(write_table(tmp_path / "t.jsonl", table), "", TaskDataConfig(), 0)
    assert data.judged_by == f"{folds}-fold cross-validation"
    assert all(len(part.places) for part in data.parts)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("a b", "x"), ("c d", "y")], "no class has two different texts"),
        ([("a b", "x"), ("A  b", "x"), ("c d", "y")], "no class has two different texts"),
    ],
)
def test_a_table_that_nothing_can_be_judged_by_is_refused(
    tmp_path: Path, rows: list[tuple[str, str]], sentence: str
) -> None:
    path = write_table(tmp_path / "t.jsonl", rows)
    with pytest.raises(InputError, match=sentence):
        read_fit_rows(path, "", TaskDataConfig(), 0)


def test_a_class_that_is_called_minus_one_is_known_in_the_files_of_a_part(tmp_path: Path) -> None:
    table = write_table(tmp_path / "t.jsonl", [(f"text {i}", (-1, 1)[i % 2]) for i in range(8)])
    data = read_fit_rows(table, "", TaskDataConfig(), 2)
    only = [place for place, row in enumerate(data.judged) if read_truth(row) == "-1"]
    write_part(tmp_path / "part", data, FitPart(data.learned, np.array(only)))
    again = read_task(data.task, tmp_path / "part", TaskDataConfig())
    assert [read_truth(row) for row in pooled_examples(again.devs[0].examples)] == ["-1"] * 4


def test_copies_but_for_case_and_white_space_stay_together(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(20)]
    rows = [(copy, "ab"[i % 2]) for i, text in enumerate(texts) for copy in (text, text.upper(), f" {text}\n")]
    data = read_fit_rows(write_table(tmp_path / "t.jsonl", rows), "", TaskDataConfig(), 5)
    assert [len(part.places) for part in data.parts] == [12] * 5
    for part in data.parts:
        asked = {data.judged[place].texts[0].strip().lower() for place in part.places}
        assert not asked & {row.texts[0].strip().lower() for row in part.train}


@pytest.mark.parametrize(
    ("name_second", "are_apart"),
    [
        # Eight rows with one premise; then each hypothesis stands with four premises, so that all are connected.
        (lambda premise, i: f"{premise} hypothesis {i}", True),
        (lambda _, i: f"hypothesis {i}", False),
    ],
)
def test_pairs_that_share_a_text_stay_together_where_enough_groups_are_left(
    tmp_path: Path, name_second: Callable[[int, int], str], are_apart: bool
) -> None:
    rows = [
        {"premise": f"premise {k}", "hypothesis": name_second(k, i), "label": "ab"[(k + i) % 2]}
        for k in range(12)
        for i in range(8)
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = read_fit_rows(path, "", TaskDataConfig(), 4)
    for part in data.parts:
        asked = [data.judged[place].texts for place in part.places]
        learned = [row.texts for row in part.train]
        shared = [{pair[side] for pair in asked} & {pair[side] for pair in learned} for side in (0, 1)]
        if are_apart:
            assert shared == [set(), set()]
        else:
            assert set() in shared, "then one of the two texts is new"


def test_pairs_that_are_all_connected_are_taken_one_by_one(tmp_path: Path) -> None:
    rows = [{"text_a": f"a {i % 3}", "text_b": f"b {i % 4}", "label": "xy"[i % 2]} for i in range(12)]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = read_fit_rows(path, "", TaskDataConfig(), 4)
    assert [len(part.places) for part in data.parts] == [3] * 4


def test_training_rows_that_stand_in_dev_or_labelled_test_rows_are_left_out(tmp_path: Path) -> None:
    rows = [(f"text {i}", "ab"[i % 2]) for i in range(20)]
    folder = tmp_path / "data"
    write_table(folder / "train.jsonl", rows)
    write_table(folder / "test.jsonl", [("TEXT 3 ", "b"), ("new", "a")])
    data = read_fit_rows(folder, "", TaskDataConfig(), 2)
    assert {row.texts[0] for row in data.learned} == {text for text, _ in rows} - {"text 3"}
    assert data.notes == ("1 training row left out of what is learned from, because test has the same text",)
    write_table(folder / "dev.jsonl", rows[:4])
    data = read_fit_rows(folder, "", TaskDataConfig(), 0)
    assert (len(data.learned), len(data.judged)) == (16, 4)
    assert data.notes == ("4 training rows left out of what is learned from, because dev has the same text",)
    write_table(folder / "dev.jsonl", rows)
    with pytest.raises(InputError, match="every training row stands in dev, too"):
        read_fit_rows(folder, "", TaskDataConfig(), 0)
    write_table(folder / "dev.jsonl", rows[::2])
    with pytest.raises(InputError, match="only rows of 'b' are left to learn from"):
        read_fit_rows(folder, "", TaskDataConfig(), 0)


@pytest.mark.parametrize("missing", [None, "", " ", math.nan, "NaN"])
def test_a_number_that_is_missing_does_not_make_classes_of_the_others(tmp_path: Path, missing: object) -> None:
    rows = [(f"text {i}", [0.5, 1.25, 3.0][i % 3]) for i in range(60)]
    data = read_fit_rows(write_table(tmp_path / "t.jsonl", [*rows, ("text", missing)]), "", TaskDataConfig(), 2)
    assert data.task.name == "regress"
    assert len(data.learned) == 60
    (bad,) = data.data.train.bad_rows
    assert bad.row == 61


@pytest.mark.parametrize(("columns", "label"), [(("text", "label", "score"), "label"), (("text", "y", "words"), "y")])
def test_the_column_that_decides_the_task_is_the_one_that_is_learned(
    tmp_path: Path, columns: tuple[str, str, str], label: str
) -> None:
    values = [(f"text {i}", [0.5, 1.5, 2.5][i % 3], i % 7) for i in range(60)]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in values))
    data = read_fit_rows(path, "", TaskDataConfig(), 2)
    assert data.task.name == "regress"
    assert data.data.train.columns["label"] == label
    assert repr(label) in data.notes[0]
    assert {read_truth(row) for row in data.learned} == {0.5, 1.5, 2.5}


def test_rows_are_counted_as_the_file_has_them(tmp_path: Path) -> None:
    rows: list[tuple[str, object]] = [(f"text {i}", "ab"[i % 2]) for i in range(31)]
    data = read_fit_rows(write_table(tmp_path / "t.jsonl", [*rows, ("text", None)]), "", TaskDataConfig(), 2)
    assert (len(data.data.train.examples), data.data.train.rows, len(data.data.train.bad_rows)) == (31, 32, 1)
    assert data.data.devs == ()


def test_a_file_that_is_not_there_is_named_without_flags_that_fit_lacks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder; give a labelled table") as caught:
        read_fit_rows(tmp_path / "nowhere.csv", "", TaskDataConfig(), 0)
    assert "--data" not in str(caught.value)
