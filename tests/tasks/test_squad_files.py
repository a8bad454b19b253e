"""Questions, nested or flat; answers are slices of their context or they are none."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.errors import InputError
from electralab.tasks.kind import RowError
from electralab.tasks.squad import Answer, read_answers, read_questions
from electralab.tasks.table import BadRow, Row

CONTEXT = "Paris is large. Paris is old."


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_nested_questions_become_rows_with_their_context(tmp_path: Path) -> None:
    asked = [{"id": "a", "question": "What?", "answers": []}, {"id": "b", "question": "Who?", "answers": []}, 7]
    value = {"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]}
    table = read_questions(write_json(tmp_path / "train.json", value), "utf-8")
    assert table.columns == ("id", "question", "answers", "context")
    assert table.rows[1] == Row(2, {"id": "b", "question": "Who?", "answers": [], "context": CONTEXT})
    assert table.rows[2] == BadRow(3, "is a JSON int, not a question")


def test_flat_questions_are_rows_already(tmp_path: Path) -> None:
    table = read_questions(write_json(tmp_path / "train.json", [{"question": "Who?", "context": CONTEXT}]), "utf-8")
    assert table.rows == [Row(1, {"question": "Who?", "context": CONTEXT})]


def test_other_nesting_is_refused(tmp_path: Path) -> None:
    path = write_json(tmp_path / "train.json", {"data": [{"paragraphs": [{"text": "no context"}]}]})
    with pytest.raises(InputError, match="not laid out as SQuAD after question 0"):
        read_questions(path, "utf-8")


@pytest.mark.parametrize(
    "given",
    [
        [{"text": "Paris", "answer_start": 16}],
        {"text": ["Paris"], "answer_start": [16]},
        {"text": "Paris", "answer_start": 16},
    ],
)
def test_an_answer_is_written_down_in_many_ways(given: Any) -> None:
    assert read_answers(given, CONTEXT) == ((Answer("Paris", 16),), 0)


@pytest.mark.parametrize("given", ["Paris", ["Paris"], [{"text": "Paris"}], {"text": ["Paris"]}])
def test_an_answer_without_its_place_is_the_first_occurrence_and_counted(given: Any) -> None:
    assert read_answers(given, CONTEXT) == ((Answer("Paris", 0),), 1)


def test_a_wrong_place_gives_the_nearest_occurrence() -> None:
    assert read_answers([{"text": "Paris", "answer_start": 14}], CONTEXT) == ((Answer("Paris", 16),), 1)
    assert read_answers([{"text": "Paris", "answer_start": 3}], CONTEXT) == ((Answer("Paris", 0),), 1)
    assert read_answers([{"text": "Paris", "answer_start": -1}], CONTEXT) == ((Answer("Paris", 0),), 1)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("London", "answer 'London' does not occur in its context"),
        ([{"text": " ", "answer_start": 5}], "answer is empty"),
        ([{"answer_start": 5}], "has no text"),
        ([{"text": "Paris", "answer_start": "x"}], "begins at 'x', which is no position"),
        ({"text": ["Paris"], "answer_start": [0, 1]}, "texts and starts of different numbers"),
        (7, "answer '7' has no text"),
    ],
)
def test_what_is_no_answer_is_said(given: Any, reason: str) -> None:
    with pytest.raises(RowError, match=reason):
        read_answers(given, CONTEXT)


@given(st.text("ab ", min_size=1), st.data())
def test_an_answer_is_always_a_slice_of_its_context(context: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    text = context[start : data.draw(st.integers(start + 1, len(context)))]
    wrong = data.draw(st.none() | st.integers(-3, len(context) + 3))
    if text.strip():
        (answer,), _ = read_answers([{"text": text, "answer_start": wrong}], context)
        assert context[answer.start : answer.start + len(answer.text)] == text
