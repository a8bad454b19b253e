"""Questions, nested or flat; answers are slices of their context or they are none."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.errors import InputError
from electralab.tasks.kind import RowError
from electralab.tasks.kinds import qa
from electralab.tasks.table import BadRow, Row

CONTEXT = "Paris is large. Paris is old."
(QA,) = qa.KIND.own_tasks()


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_nested_questions_become_rows_with_their_context(tmp_path: Path) -> None:
    asked = [{"id": "a", "question": "What?", "answers": []}, {"id": "b", "question": "Who?", "answers": []}, 7]
    value = {"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]}
    table = qa.KIND.read_table(write_json(tmp_path / "train.json", value), "utf-8", QA)
    assert table.columns == ("id", "question", "answers", "context")
    assert table.rows[1] == Row(2, {"id": "b", "question": "Who?", "answers": [], "context": CONTEXT})
    assert table.rows[2] == BadRow(3, "is a JSON int, not a question")


def test_flat_questions_are_rows_already(tmp_path: Path) -> None:
    path = write_json(tmp_path / "train.json", [{"question": "Who?", "context": CONTEXT}])
    table = qa.KIND.read_table(path, "utf-8", QA)
    assert table.rows == [Row(1, {"question": "Who?", "context": CONTEXT})]


def test_other_nesting_is_refused(tmp_path: Path) -> None:
    path = write_json(tmp_path / "train.json", {"data": [{"paragraphs": [{"text": "no context"}]}]})
    with pytest.raises(InputError, match="not laid out as SQuAD after question 0"):
        qa.KIND.read_table(path, "utf-8", QA)


@pytest.mark.parametrize(
    "given",
    [
        [{"text": "Paris", "answer_start": 16}],
        {"text": ["Paris"], "answer_start": [16]},
        {"text": "Paris", "answer_start": 16},
    ],
)
def test_an_answer_is_written_down_in_many_ways(given: Any) -> None:
    assert qa.read_answers(given, CONTEXT) == ((qa.Answer("Paris", 16),), 0)


@pytest.mark.parametrize("given", ["Paris", ["Paris"], [{"text": "Paris"}], {"text": ["Paris"]}])
def test_an_answer_without_its_place_is_the_first_occurrence_and_counted(given: Any) -> None:
    assert qa.read_answers(given, CONTEXT) == ((qa.Answer("Paris", 0),), 1)


def test_a_wrong_place_gives_the_nearest_occurrence() -> None:
    assert qa.read_answers([{"text": "Paris", "answer_start": 14}], CONTEXT) == ((qa.Answer("Paris", 16),), 1)
    assert qa.read_answers([{"text": "Paris", "answer_start": 3}], CONTEXT) == ((qa.Answer("Paris", 0),), 1)
    assert qa.read_answers([{"text": "Paris", "answer_start": -1}], CONTEXT) == ((qa.Answer("Paris", 0),), 1)
    assert qa.read_answers([{"text": "Paris", "answer_start": 0}], CONTEXT) == ((qa.Answer("Paris", 0),), 0)


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
        qa.read_answers(given, CONTEXT)


@given(st.text("ab ", min_size=1), st.data())
def test_an_answer_is_always_a_slice_of_its_context(context: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(context) - 1))
    text = context[start : data.draw(st.integers(start + 1, len(context)))]
    wrong = data.draw(st.none() | st.integers(-3, len(context) + 3))
    if text.strip():
        (answer,), _ = qa.read_answers([{"text": text, "answer_start": wrong}], context)
        assert context[answer.start : answer.start + len(answer.text)] == text


def ask(*answers: str, is_impossible: bool = False, id: str = "q") -> qa.QAExample:
    return qa.QAExample(id, "What?", " ".join(answers), tuple(qa.Answer(text, 0) for text in answers), is_impossible)


IMPOSSIBLE = ask(is_impossible=True)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Cat", "cat"),
        ("  a\tcat \n", "cat"),
        ("an a the", ""),
        ("anthem theatre", "anthem theatre"),  # articles are whole words
        ("rock-'n'-roll", "rocknroll"),  # punctuation goes without leaving a space
        ("the-cat", "thecat"),  # so that an article may no longer be one
        ("John's", "johns"),
        ("1,000.50 $", "100050"),
        ("“the” cat—dog…", "“ ” cat—dog…"),  # only ASCII's punctuation is dropped; the article goes
        ("U.S.A.", "usa"),
        ("a\u00a0b", "b"),  # a no-break space is white space
        ("ÀÉ", "àé"),  # accents stay
        ("!!!", ""),
        ("", ""),
    ],
)
def test_answers_are_normalised_as_published(text: str, normal: str) -> None:
    assert qa.normalise_answer(text) == normal


@pytest.mark.parametrize(
    ("gold", "answer", "is_exact", "f1"),
    [
        ("Denver Broncos", "the denver broncos!", True, 1.0),
        ("Denver Broncos", "Broncos", False, 2 / 3),  # precision 1, recall 1/2
        ("a b b c", "b b b", False, 2 * (2 / 3) * (2 / 3) / (2 / 3 + 2 / 3)),  # "a" goes: b b c; shared b b
        ("cat", "dog", False, 0.0),
        ("cat", "", False, 0.0),
        ("in 1066", "1066 in", False, 1.0),  # F1 knows no order
    ],
)
@pytest.mark.parametrize("has_unanswerable", [False, True])
def test_an_answer_is_compared_with_a_gold_one(
    gold: str, answer: str, is_exact: bool, f1: float, has_unanswerable: bool
) -> None:
    assert qa.score_squad([ask(gold)], [answer])["exact_match"] == is_exact
    assert qa.token_f1(gold, answer, has_unanswerable=has_unanswerable) == pytest.approx(f1)


def test_two_empty_answers_agree_in_version_2_only() -> None:
    assert qa.token_f1("", "the", has_unanswerable=True) == 1
    assert qa.token_f1("", "the", has_unanswerable=False) == 0


def test_the_best_of_several_gold_answers_counts_for_each_score_by_itself() -> None:
    question = ask("10 km", "km", "10 kilometres or so")
    assert qa.score_squad([question], ["km"]) == {"exact_match": 1, "f1": 1}
    assert qa.score_squad([question], ["10 kilometres"]) == {"exact_match": 0, "f1": pytest.approx(2 * 2 / 6)}


def test_version_2_counts_both_kinds_of_question_apart() -> None:
    questions = [ask("red fox"), ask("blue"), IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE]
    scores = qa.score_squad(questions, ["fox", "", "", "cat", ""])
    assert scores == {
        "exact_match": 2 / 5,
        "f1": pytest.approx((2 / 3 + 2) / 5),
        "has_answer_exact_match": 0,
        "has_answer_f1": pytest.approx(1 / 3),
        "no_answer_exact_match": pytest.approx(2 / 3),
        "no_answer_f1": pytest.approx(2 / 3),
    }


def test_a_gold_answer_of_articles_only_is_dropped_in_version_2() -> None:
    assert qa.score_squad([ask("The", "Them")], ["the"]) == {"exact_match": 1, "f1": 0}  # 1.1: nothing shared
    scores = qa.score_squad([ask("The", "Them"), IMPOSSIBLE], ["the", ""])
    assert scores["has_answer_exact_match"] == 0
    assert qa.score_squad([ask("The"), IMPOSSIBLE], ["", ""])["has_answer_f1"] == 1


def test_answers_above_the_threshold_count_as_silence() -> None:
    questions = [ask("red"), ask("blue"), IMPOSSIBLE, IMPOSSIBLE]
    answers = ["red", "blue", "cat", "dog"]
    scores = qa.score_squad(questions, answers, [-2.0, 1.0, 3.0, -1.0])
    assert scores["exact_match"] == 2 / 4  # "blue" is silenced to its harm, "cat" to its good, "dog" should be
    assert scores["has_answer_exact_match"] == scores["no_answer_exact_match"] == 1 / 2
    # In order of the no-answer scores: red +1, dog -1, blue +1, cat -1; from 2 for silence: 2, 3, 2, 3, 2.
    assert (scores["best_exact_match"], scores["best_exact_threshold"]) == (3 / 4, -2.0)
    assert (scores["best_f1"], scores["best_f1_threshold"]) == (3 / 4, -2.0)
    assert qa.score_squad(questions, answers, [-2.0, 1.0, 3.0, -1.0], threshold=-2.0)["exact_match"] == 3 / 4


def test_the_best_threshold_of_f1_may_differ_from_that_of_exact_match() -> None:
    questions = [ask("red fox"), IMPOSSIBLE]
    scores = qa.score_squad(questions, ["fox", "cat"], [0.1, 0.2])
    assert (scores["best_exact_match"], scores["best_exact_threshold"]) == (1 / 2, -0.9)  # silence everywhere
    assert scores["best_f1"] == pytest.approx((1 + 2 / 3) / 2)
    assert scores["best_f1_threshold"] == 0.1


def test_silence_everywhere_has_a_threshold_that_silences_everything() -> None:
    best, at = qa.find_best_threshold(["x", "y"], [0.0, 0.0], [-5.0, 7.0], [False, False])
    assert best == 1
    assert at < -5


def test_equal_no_answer_scores_are_let_in_one_after_the_other() -> None:
    # No threshold parts the two, yet the official script sees 1/1 + 1/1 between them.
    assert qa.find_best_threshold(["red", "cat"], [1.0, 0.0], [0.5, 0.5], [True, False]) == (1.0, 0.5)
    assert qa.find_best_threshold(["cat", "red"], [0.0, 1.0], [0.5, 0.5], [False, True])[0] == 0.5


def test_an_empty_answer_to_an_impossible_question_costs_nothing() -> None:
    assert qa.find_best_threshold(["", "red"], [1.0, 1.0], [0.1, 0.2], [False, True]) == (1.0, 0.2)


@given(
    rows=st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=12),
    data=st.data(),
)
def test_the_best_threshold_is_that_of_trying_each(rows: list[tuple[bool, float, bool]], data: st.DataObject) -> None:
    """With distinct no-answer scores, and "" scored 1 where there is no answer, as it is."""
    no_answer = data.draw(st.permutations([float(number) for number in range(len(rows))]))
    has_answer = [has for has, _, _ in rows]
    answers = ["x" if speaks else "" for _, _, speaks in rows]
    scores = [score if has else float(not text) for (has, score, _), text in zip(rows, answers, strict=True)]
    best, at = qa.find_best_threshold(answers, scores, no_answer, has_answer)

    def total(threshold: float) -> float:
        kept = zip(scores, no_answer, has_answer, strict=True)
        return sum(score if silence <= threshold else float(not has) for score, silence, has in kept) / len(rows)

    assert best == pytest.approx(max(total(threshold) for threshold in (-1.0, *no_answer)))
    assert best == pytest.approx(total(at))


def test_no_questions_score_zero() -> None:
    assert qa.score_squad([], []) == {"exact_match": 0, "f1": 0}
    assert qa.score_squad([], [], [])["f1"] == 0


def test_files_are_those_the_official_script_reads(tmp_path: Path) -> None:
    questions = [ask("é", id="a"), ask("b", id="b"), ask("c", id="c"), ask("d", id="d")]
    answers = {"é": 0.0, "": 9999.0, "c": -9999.0, "\ud800": 0.0}
    predictions = [
        qa.AnswerPrediction(text, qa.Span(text, 0, 0, 0.0), (), doubt, 0.0) for text, doubt in answers.items()
    ]
    qa.KIND.write_files(tmp_path, QA, questions, predictions)
    answered, doubted = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("predictions", "na_probs"))
    assert answered == {"a": "é", "b": "", "c": "c", "d": "\ud800"}
    assert doubted == {"a": 0.5, "b": 1.0, "c": pytest.approx(0, abs=1e-99), "d": 0.5}
