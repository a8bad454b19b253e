"""Seeds side by side: medians, the spread, the best one, and their curves."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from little_kinds import kind_of

from electralab.artifacts import write_file
from electralab.errors import InputError, UsageError
from electralab.finetuning.results import (
    explain_improvement,
    find_improvement,
    read_curves,
    require_whole,
    spread_scores,
    write_submission,
)
from electralab.records.tuned import PredictionRow, choose_split, read_rows, to_json_lines
from electralab.tasks.catalog import find_task
from electralab.tasks.kind import Example, Prediction, Split
from electralab.tasks.kinds.classification import ClassificationExample, ClassPrediction
from electralab.tasks.kinds.qa import Answer, AnswerPrediction, QAExample, Span
from electralab.tasks.kinds.regression import RegressionExample, RegressionPrediction
from electralab.tasks.kinds.tagging import TaggingExample, TaggingPrediction
from electralab.tasks.table import BadRow


def test_each_metric_has_its_own_spread() -> None:
    by_seed = [{"accuracy": 0.5, "f1": 0.9}, {"accuracy": 0.8, "f1": 0.1}, {"accuracy": 0.8, "f1": 0.2}]
    spread = spread_scores(by_seed)
    assert {metric: value.median for metric, value in spread.items()} == {"accuracy": 0.8, "f1": 0.2}
    assert (spread["accuracy"].best, spread["f1"].n) == (0.8, 3)


def test_a_labelled_test_says_more_than_dev() -> None:
    assert choose_split(["dev", "dev-mm", "test-mm"]) == "test-mm"
    assert choose_split(["dev", "dev-mm"]) == "dev"


def curves(*, losses: list[float], scores: list[float]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Of a run of 30 steps, evenly apart."""
    return tuple(  # type: ignore[return-value]
        [(30 * place // len(values), value) for place, value in enumerate(values, start=1)]
        for values in (losses, scores)
    )


RISING = curves(losses=[1.4, 1.3, 1.2, 1.1, 0.9, 0.7], scores=[0.5, 0.6, 0.675])


def test_a_run_that_still_improves_is_told_how_to_go_on() -> None:
    found = find_improvement({0: RISING[0]}, {0: RISING[1]}, 30, 3.0)
    assert found is not None
    assert (found.epochs, found.suggested_epochs, found.before, found.after) == (3.0, 9, 0.6, 0.675)
    assert explain_improvement(found, "macro_f1") == (
        "still improving at the end (dev macro f1 0.6000, then 0.6750, the loss falling): try --epochs 9; this was 3"
    )


@pytest.mark.parametrize(
    ("losses", "scores"),
    [
        ([1.4, 1.3, 1.2, 1.1, 1.2, 1.3], [0.5, 0.6, 0.675]),  # the loss rises
        ([1.4, 1.3, 0.5, 0.3, 0.1, 0.01], [0.5, 0.6, 0.605]),  # learning by heart
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], [0.7, 0.6, 0.675]),  # it was better before
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], [0.5, 0.9, 1.0]),  # nothing is left to gain
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], [0.675]),  # nothing to compare with
        ([1.4, 1.3, 1.2, 1.1, 0.9, 0.7], []),
        ([], [0.5, 0.6, 0.675]),
    ],
)
def test_a_run_that_is_through_is_not(losses: list[float], scores: list[float]) -> None:
    points = curves(losses=losses, scores=scores)
    assert find_improvement({0: points[0]}, {0: points[1]}, 30, 3.0) is None


def test_most_of_the_seeds_must_improve() -> None:
    flat = curves(losses=[1.0] * 6, scores=[0.5] * 3)
    both = {0: RISING[0], 1: flat[0]}, {0: RISING[1], 1: flat[1]}
    assert find_improvement(*both, 30, 3.0) is None
    assert find_improvement(both[0] | {2: RISING[0]}, both[1] | {2: RISING[1]}, 30, 3.0) is not None


def test_curves_leave_out_what_was_not_finite_or_not_judged(tmp_path: Path) -> None:
    records = [{"step": 1, "loss": 0.7}, {"step": 2, "loss": None, "dev_accuracy": 0.5}, {"step": 3, "loss": 0.6}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    losses, scores = read_curves({4: tmp_path}, "accuracy")
    assert losses == {4: [(1, 0.7), (3, 0.6)]}
    assert scores == {4: [(2, 0.5)]}


def describe(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[dict[str, Any]]:
    kind = kind_of(examples)
    return [kind.to_row(*pair).to_json() for pair in zip(examples, predictions, strict=True)]


def rows_of(ids: Sequence[str], predictions: Sequence[str | float]) -> list[PredictionRow]:
    return [PredictionRow(id=name, prediction=said) for name, said in zip(ids, predictions, strict=True)]


def test_a_class_comes_with_the_probability_of_each() -> None:
    examples = [ClassificationExample("a", ("good", "film"), "pos"), ClassificationExample("b", ("bad",), "")]
    predictions = [ClassPrediction("pos", {"neg": 0.25, "pos": 0.75}), ClassPrediction("neg", {"neg": 0.9, "pos": 0.1})]
    known, unknown = describe(examples, predictions)
    assert known == {
        "id": "a",
        "texts": ["good", "film"],
        "truth": "pos",
        "prediction": "pos",
        "probabilities": {"neg": 0.25, "pos": 0.75},
    }
    assert unknown["prediction"] == "neg"
    assert "truth" not in unknown


def test_a_test_file_with_a_bad_row_is_not_whole() -> None:
    require_whole(Split("test", "test.tsv", [], False, {}, 0, ()))
    with pytest.raises(InputError, match=r"test.tsv: row 2 is empty, and GLUE's server takes whole test files only"):
        require_whole(Split("test", "test.tsv", [], False, {}, 1, (BadRow(2, "is empty"),)))


def test_a_value_that_is_not_finite_is_null() -> None:
    examples = [RegressionExample("a", ("x",), 2.5), RegressionExample("b", ("y",), math.nan)]
    rows = describe(examples, [RegressionPrediction(2.25), RegressionPrediction(math.nan)])
    assert [row["prediction"] for row in rows] == [2.25, None]
    assert ["truth" in row for row in rows] == [True, False]


def test_tags_stand_beside_their_words() -> None:
    examples = [TaggingExample("a", ("Ann", "sat"), ("B-PER", "O")), TaggingExample("b", ("x",), ())]
    rows = describe(examples, [TaggingPrediction(("O", "O"), (0.6, 0.9)), TaggingPrediction(("O",), (1.0,))])
    assert rows[0] == {
        "id": "a",
        "words": ["Ann", "sat"],
        "truth": ["B-PER", "O"],
        "prediction": ["O", "O"],
        "probabilities": [0.6, 0.9],
    }
    assert "truth" not in rows[1]


def test_an_answer_keeps_its_place_even_where_silence_is_predicted() -> None:
    question = QAExample("a", "who?", "Ann sat", (Answer("Ann", 0),), False)
    answer = AnswerPrediction("", Span("Ann", 0, 3, 7.0), (Span("Ann sat", 0, 7, 5.0),), 1.5, 0.0)
    assert describe([question], [answer]) == [
        {
            "id": "a",
            "question": "who?",
            "truth": ["Ann"],
            "prediction": "",
            "answer": {"text": "Ann", "start": 0, "end": 3, "score": 7.0},
            "no_answer_score": 1.5,
            "alternatives": [{"text": "Ann sat", "start": 0, "end": 7, "score": 5.0}],
        }
    ]


def test_an_impossible_question_has_a_truth_and_an_unknown_one_has_none() -> None:
    prediction = AnswerPrediction("Ann", Span("Ann", 0, 3, 7.0), (), 1.5, 2.0)
    questions = [QAExample("a", "who?", "Ann sat", (), is_impossible) for is_impossible in (True, False)]
    impossible, unknown = describe(questions, [prediction, prediction])
    assert impossible["truth"] == []
    assert "truth" not in unknown


def test_rows_are_lines_of_json_even_with_strange_texts(tmp_path: Path) -> None:
    texts = [("é\n\u2028 \x85\u2029中", "half \ud83d of a pair"), ()]
    rows = [PredictionRow(id=name, texts=pair, prediction="x") for name, pair in zip("ab", texts, strict=True)]
    write_file(tmp_path / "out" / "dev.jsonl", to_json_lines(rows))
    lines = (tmp_path / "out" / "dev.jsonl").read_bytes().decode("utf-8").splitlines()
    assert "é" in lines[0]
    assert [json.loads(line) for line in lines] == [row.to_json() for row in rows]
    assert list(read_rows(tmp_path / "out" / "dev.jsonl")) == rows


@pytest.mark.parametrize(
    ("task", "predictions", "lines"),
    [
        ("CoLA", ["1", "0"], ["0\t1", "1\t0"]),
        ("MNLI", ["neutral", "entailment"], ["0\tneutral", "1\tentailment"]),
        ("QNLI", ["not_entailment", "entailment"], ["0\tnot_entailment", "1\tentailment"]),
        ("AX", ["contradiction", "neutral"], ["0\tcontradiction", "1\tneutral"]),
        ("STS-B", [-0.2, 5.2], ["0\t0.000", "1\t5.000"]),
        ("STS-B", [2.34567, 1.0], ["0\t2.346", "1\t1.000"]),
    ],
)
def test_a_submission_is_what_the_server_takes(
    tmp_path: Path, task: str, predictions: list[str | float], lines: list[str]
) -> None:
    write_submission(tmp_path / "x.tsv", find_task(task), rows_of(["0", "1"], predictions))
    assert (tmp_path / "x.tsv").read_text() == "\n".join(["index\tprediction", *lines, ""])


@pytest.mark.parametrize(
    ("ids", "predicted"),
    [(["1", "0", "2"], "011"), (["4", "3", "2"], "101"), (["x", "b", "c"], "101"), (["10", "9", "11"], "011")],
)
def test_rows_are_numbered_from_zero_in_the_order_of_their_ids(tmp_path: Path, ids: list[str], predicted: str) -> None:
    write_submission(
        tmp_path / "x.tsv", find_task("rte"), rows_of(ids, ["not_entailment", "entailment", "not_entailment"])
    )
    lines = (tmp_path / "x.tsv").read_text().splitlines()[1:]
    assert "".join(str(int(line.split("\t")[1] == "not_entailment")) for line in lines) == predicted
    assert [line.split("\t")[0] for line in lines] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("task", "predictions", "sentence"),
    [
        ("cola", {"0": "0", "1": "0", "3": "1"}, "the row after 1 is 3, GLUE's server takes whole test files only"),
        ("rte", {"0": "neutral"}, "RTE has no label 'neutral', GLUE's server takes entailment, not_entailment"),
        ("squad1", {"0": "x"}, r"SQuAD 1\.1 has no place on GLUE's server"),
    ],
)
def test_what_the_server_would_not_take_is_refused(
    tmp_path: Path, task: str, predictions: dict[str, str], sentence: str
) -> None:
    rows = rows_of(list(predictions), list(predictions.values()))
    with pytest.raises((InputError, UsageError), match=sentence):
        write_submission(tmp_path / "x.tsv", find_task(task), rows)
    assert not (tmp_path / "x.tsv").exists()
