"""A row is an example, or there is a reason why not."""

import math
from pathlib import Path
from typing import Any

import pytest

from electralab.tasks.catalog import find_task
from electralab.tasks.kind import Example, Split, rows_to_examples
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.qa import Answer, QAExample
from electralab.tasks.kinds.regression import RegressionExample
from electralab.tasks.kinds.tagging import TaggingExample
from electralab.tasks.table import BadRow, Columns, LabelledTable, Row

COLUMNS = {
    "classify": Columns(("text",), "label", "id"),
    "regress": Columns(("text",), "label"),
    "label": Columns(("words",), "tags"),
    "qa": Columns(("question", "context"), "answers"),
    "squad1": Columns(("question", "context"), "answers"),
}
GOOD: dict[str, dict[str, Any]] = {
    "classify": {"text": "fine", "label": "x", "id": "7"},
    "regress": {"text": "fine", "label": 1},
    "label": {"words": ["a"], "tags": ["O"]},
    "qa": {"question": "Who?", "context": "He.", "answers": "He"},
    "squad1": {"question": "Who?", "context": "He.", "answers": "He"},
}


def converted(task: str, *rows: dict[str, Any], labels: tuple[str, ...] = ()) -> Split[Example]:
    table = LabelledTable(Path("a"), (), [Row(number, fields) for number, fields in enumerate(rows, start=1)])
    return rows_to_examples(table, find_task(task), "train", COLUMNS[task], labels)


def example(task: str, row: dict[str, Any]) -> Example:
    return converted(task, row, GOOD[task]).examples[0]


@pytest.mark.parametrize(
    ("value", "label"), [(" pos ", "pos"), (1, "1"), (1.0, "1"), (0.5, "0.5"), (True, "true"), ("한국", "한국")]
)
def test_a_class_is_spelled_as_people_would(value: object, label: str) -> None:
    assert example("classify", {"text": "t", "label": value, "id": 3}) == ClassificationExample("3", ("t",), label)


def test_without_an_id_the_number_of_the_row_is_one() -> None:
    assert example("regress", {"text": "t", "label": "2.5"}) == RegressionExample("1", ("t",), 2.5)


def test_words_come_as_a_list_or_as_text() -> None:
    tagged = TaggingExample("1", ("EU", "left"), ("B-ORG", "O"))
    assert example("label", {"words": "EU left", "tags": "I-ORG O"}) == tagged
    assert example("label", {"words": ["EU", "left"], "tags": ["I-ORG", "O"]}) == tagged


def test_respelled_tags_are_said() -> None:
    notes = converted("label", {"words": "EU left", "tags": "I-ORG O"}, {"words": "a", "tags": "O"}).notes
    assert notes == ("sentences whose tags were respelled as IOB2: 1",)


@pytest.mark.parametrize(
    ("fields", "answers", "is_impossible"),
    [
        ({"answers": [{"text": "He", "answer_start": 0}]}, (Answer("He", 0),), False),
        ({"answers": "e", "answer_start": "5"}, (Answer("e", 5),), False),
        ({"answers": "He", "is_impossible": "False"}, (Answer("He", 0),), False),
        ({"answers": [], "is_impossible": True}, (), True),
        ({"answers": [], "is_impossible": True, "plausible_answers": [{"text": "He"}]}, (), True),
        ({"answers": {"text": [], "answer_start": []}}, (), True),
        ({"answers": "", "is_impossible": "true"}, (), True),
    ],
)
def test_a_question_has_answers_or_is_known_to_have_none(
    fields: dict[str, Any], answers: tuple[Answer, ...], is_impossible: bool
) -> None:
    row = {"question": "Who?", "context": "He, he.", **fields}
    assert example("qa", row) == QAExample("1", "Who?", "He, he.", answers, is_impossible)


@pytest.mark.parametrize(
    ("task", "row", "reason"),
    [
        ("classify", {"label": "x"}, "has no 'text'"),
        ("classify", {"text": "  ", "label": "x"}, "'text' is empty"),
        ("classify", {"text": "t", "label": ""}, "'label' is empty"),
        ("classify", {"text": "t", "label": None}, "has no 'label'"),
        ("classify", {"text": ["t"], "label": "x"}, "'text' holds a list where text is expected"),
        ("classify", {"text": "half \ud83d", "label": "x"}, "'text' holds half a character"),
        ("regress", {"text": "t", "label": "good"}, "'label' holds 'good', which is no number"),
        ("regress", {"text": "t", "label": "nan"}, "'label' holds 'nan', which is no number"),
        ("label", {"words": ["a", "b"], "tags": ["O"]}, "has 1 tags for 2 words"),
        ("label", {"words": [], "tags": []}, "holds no words"),
        ("label", {"words": ["a", " "], "tags": ["O", "O"]}, "holds an empty word"),
        ("label", {"words": 7, "tags": ["O"]}, "'words' holds '7', which is no list"),
        ("qa", {"question": "Who?", "context": "He.", "answers": "She"}, "'She' does not occur in its context"),
        ("qa", {"question": "Who?", "context": "He.", "answers": [], "is_impossible": False}, "has no answer"),
        ("qa", {"question": "", "context": "He.", "answers": "He"}, "'question' is empty"),
        ("squad1", {"question": "Who?", "context": "He.", "answers": []}, "which SQuAD 1.1 does not know"),
    ],
)
def test_a_row_that_is_no_example_says_why(task: str, row: dict[str, Any], reason: str) -> None:
    result = converted(task, GOOD[task], row)
    assert len(result.examples) == 1
    (bad,) = result.bad_rows
    assert bad.row == 2
    assert reason in bad.reason


def test_a_label_that_may_not_occur_makes_its_row_bad() -> None:
    result = converted("classify", {"text": "t", "label": "c"}, {"text": "t", "label": "a"}, labels=("a", "b"))
    assert result.bad_rows == (BadRow(1, "has the unknown label 'c' (known are a, b)"),)


def test_one_odd_tag_does_not_change_how_the_others_are_spelled() -> None:
    rows = ({"words": "a b", "tags": "B-A E-A"}, {"words": "c", "tags": "odd"})
    result = converted("label", *rows, labels=("B-A", "I-A", "O"))
    assert result.examples == [TaggingExample("1", ("a", "b"), ("B-A", "I-A"))]
    assert [bad.row for bad in result.bad_rows] == [2]


@pytest.mark.parametrize("unknown", ["", "-1", -1, None, math.nan])
def test_a_column_of_unknown_labels_is_none(unknown: object) -> None:
    result = converted("classify", {"text": "t", "label": unknown}, labels=("0", "1"))
    assert result.examples == [ClassificationExample("1", ("t",), "")]
    assert not result.is_labelled


def test_a_class_that_is_learned_is_known_whatever_its_name() -> None:
    result = converted("classify", {"text": "t", "label": -1}, labels=("-1", "1"))
    assert result.examples == [ClassificationExample("1", ("t",), "-1")]
    assert result.is_labelled


@pytest.mark.parametrize("column", ["text", "label"])
def test_a_nan_of_a_table_is_no_text_and_no_class(column: str) -> None:
    row: dict[str, object] = {"text": "t", "label": "a"}
    result = converted("classify", row, row | {column: math.nan})
    assert len(result.examples) == 1
    assert [(bad.row, bad.reason) for bad in result.bad_rows] == [(2, f"has no {column!r}")]


def test_an_unknown_score_is_not_a_number() -> None:
    (only,) = converted("regress", {"text": "t"}).examples
    assert isinstance(only, RegressionExample)
    assert math.isnan(only.score)


def test_columns_are_shown_by_what_they_mean() -> None:
    table = LabelledTable(Path("a"), (), [Row(1, {"review": "t", "stars": "1", "a": "x", "b": "y", "id": "7"})])
    single = rows_to_examples(table, find_task("classify"), "train", Columns(("review",), "stars"), ())
    assert single.columns == {"text": "review", "label": "stars"}
    pair = rows_to_examples(table, find_task("regress"), "train", Columns(("a", "b"), "", "id"), ())
    assert pair.columns == {"text_a": "a", "text_b": "b", "id": "id"}
