"""Linear models that are stored and read back, and what several models say together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from electralab.errors import DamagedArtifact
from electralab.records.tuned import PredictionRow
from electralab.tasks import blending
from electralab.tasks.baselines import LINEAR_WEIGHTS, load_linear, save_linear
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.regression import RegressionExample

WORDS = ("warm", "cold", "wet", "dry", "odd", "über", "naïve", "東京")


def make_examples(count: int, *, is_pair: bool = False, are_numbers: bool = False, classes: int = 3) -> list[Any]:
    examples: list[Any] = []
    for number in range(count):
        word = WORDS[number % classes]
        texts: tuple[str, ...] = (f"It is {word} on day {number}, isn't it?",)
        if is_pair:
            texts = (*texts, f"{word} was day {number % 5}")
        if are_numbers:
            examples.append(RegressionExample(str(number), texts, float(number % classes) + 0.1 * (number % 7)))
        else:
            examples.append(ClassificationExample(str(number), texts, word))
    return examples


def answer(shares: Sequence[tuple[str, float]]) -> list[PredictionRow]:
    """The truth, and the share of "yes"."""
    rows = []
    for place, (truth, share) in enumerate(shares):
        prediction = "yes" if share > 0.5 else "no"
        probabilities: dict[str, float | None] = {"no": 1 - share, "yes": share}
        row = PredictionRow(id=str(place), texts=("text",), prediction=prediction, probabilities=probabilities)
        rows.append(row.with_truth(truth))
    return rows


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("is_pair", [False, True])
@pytest.mark.parametrize("are_numbers", [False, True])
def test_a_stored_linear_model_predicts_the_same_bits(
    tmp_path: Path, is_pair: bool, are_numbers: bool, classes: int
) -> None:
    examples = make_examples(40, is_pair=is_pair, are_numbers=are_numbers, classes=classes)
    model = blending.fit_linear(examples[:30])
    save_linear(tmp_path, model)
    loaded = load_linear(tmp_path)
    texts = [example.texts for example in examples] + [("never seen 中文",) * (1 + is_pair)]
    assert np.array_equal(model._outputs(texts), loaded._outputs(texts)), "to the last bit"
    assert list(model.labels) == list(loaded.labels)
    assert not [path.name for path in tmp_path.iterdir() if path.suffix not in (".json", ".safetensors")]
    one_by_one = np.concatenate([loaded._outputs([text]) for text in texts])
    assert np.array_equal(one_by_one, loaded._outputs(texts)), "whatever else is asked with it"


def test_a_linear_model_of_one_class_is_stored_too(tmp_path: Path) -> None:
    model = blending.fit_linear(make_examples(4, classes=1))
    save_linear(tmp_path, model)
    (row,) = blending.answer_linear(load_linear(tmp_path), make_examples(1), ("cold", "warm"))
    assert row.prediction == "warm"
    assert row.probabilities == {"cold": 0.0, "warm": 1.0}


def test_weights_that_do_not_fit_their_vocabulary_are_refused(tmp_path: Path) -> None:
    for folder, count in ((tmp_path / "a", 10), (tmp_path / "b", 20)):
        folder.mkdir()
        save_linear(folder, blending.fit_linear(make_examples(count)))
    (tmp_path / "b" / LINEAR_WEIGHTS).replace(tmp_path / "a" / LINEAR_WEIGHTS)
    with pytest.raises(DamagedArtifact, match=r"does not fit linear\.json beside it"):
        load_linear(tmp_path / "a")
    (tmp_path / "a" / LINEAR_WEIGHTS).write_bytes(b"no tensors")
    with pytest.raises(DamagedArtifact, match="cannot be read"):
        load_linear(tmp_path / "a")


def test_a_truth_that_is_not_known_is_not_told() -> None:
    (row,) = blending.answer_linear(
        blending.fit_linear(make_examples(8)), [ClassificationExample("x", ("warm it is",), "")]
    )
    assert not row.has_truth
    assert row.prediction == "warm"


def test_a_blend_follows_whoever_is_right_and_answers_alike_after_storing() -> None:
    right = answer([("yes", 0.9), ("no", 0.2)] * 10)
    wrong = answer([("yes", 0.4), ("no", 0.6)] * 5 + [("yes", 0.6), ("no", 0.4)] * 5)
    blend = blending.fit_blend(("no", "yes"), [wrong, right])
    assert abs(blend.weights[0][1]) > abs(blend.weights[0][0])
    answers = blending.answer_blend(blend, ("no", "yes"), [answer([("yes", 0.1)]), answer([("yes", 0.9)])])
    assert answers[0].prediction == "yes"
    stored = type(blend).model_validate_json(blend.model_dump_json())
    assert blending.answer_blend(stored, ("no", "yes"), [wrong, right]) == blending.answer_blend(
        blend, ("no", "yes"), [wrong, right]
    )
    assert blending.score_rows(("accuracy", "macro_f1"), ("no", "yes"), right) == {"accuracy": 1.0, "macro_f1": 1.0}


def test_a_temperature_makes_shares_as_sure_as_they_are_right() -> None:
    # Sure to 98 %, right in 60 of 80; and as if one more had been right, and one wrong.
    rows = answer(([("yes", 0.98)] * 3 + [("no", 0.98)]) * 20)
    temperature = blending.find_temperature(rows, ("no", "yes"))
    odds = np.log(0.98 / 0.02) / temperature
    target = 60 / 80 * (1 - 1 / 82) + 20 / 80 / 82
    assert 1 / (1 + np.exp(-odds)) == pytest.approx(target, abs=1e-3)


@pytest.mark.parametrize("count", [6, 60, 600])
def test_where_all_rows_are_right_shares_say_that_there_may_be_a_wrong_one(count: int) -> None:
    rows = answer([("yes", 0.8), ("no", 0.2)] * (count // 2))
    temperature = blending.find_temperature(rows, ("no", "yes"))
    odds = np.log(0.8 / 0.2) / temperature
    assert 1 / (1 + np.exp(-odds)) == pytest.approx(1 - 1 / (count + 2), abs=1e-3)


def test_a_class_that_no_model_knew_says_nothing_of_the_temperature() -> None:
    rows = answer([("yes", 0.9), ("no", 0.2), ("yes", 0.6), ("yes", 0.3)] * 5)
    unknown = rows[0].model_copy(update={"truth": "maybe"})
    labels = ("maybe", "no", "yes")
    assert blending.find_temperature([*rows, unknown], labels) == blending.find_temperature(rows, labels)
    assert blending.find_temperature([unknown], labels) == 1.0


def test_cooled_answers_are_those_of_a_model_with_this_temperature() -> None:
    examples = make_examples(40)
    model = blending.fit_linear(examples[:30])
    labels, asked = list(model.labels), examples[30:]
    cooled = blending.cool(blending.answer_linear(model, asked, labels), 0.3)
    for ours, theirs in zip(cooled, blending.answer_linear(model, asked, labels, 0.3), strict=True):
        assert ours.prediction == theirs.prediction
        assert ours.probabilities == pytest.approx(theirs.probabilities, abs=1e-4)


@pytest.mark.parametrize("labels", [("no", "yes"), tuple(f"class {number:02}" for number in range(30))])
def test_few_rows_of_many_classes_are_fitted_without_a_warning(labels: tuple[str, ...]) -> None:
    # Warnings are errors here: scikit-learn takes so many classes for numbers.
    shares: dict[str, float | None] = {label: 1 / len(labels) for label in labels}
    rows = [
        PredictionRow(id=label, texts=(label,), prediction=label, probabilities=shares).with_truth(label)
        for label in labels
    ]
    assert blending.fit_blend(labels, [rows, rows]).labels == labels
    examples = [ClassificationExample(label, (f"word {label}",), label) for label in labels]
    assert blending.fit_linear(examples).labels == list(labels)


def test_a_scorer_counts_drawn_rows_as_often_as_they_were_drawn() -> None:
    rows = answer([("yes", 0.9), ("no", 0.9)])
    score = blending.make_scorer(("accuracy",), ("no", "yes"), rows)
    assert score(np.array([0, 0, 0, 1])) == {"accuracy": 0.75}
    both = blending.make_scorer(("accuracy", "f1"), ("no", "yes"), rows)(np.array([0, 0, 0, 1]))
    assert both["accuracy"] == 0.75
    assert both["f1"] == pytest.approx(6 / 7)
