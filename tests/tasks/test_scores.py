"""Scores are those of the definitions, counted by hand, and are 0 rather than a warning where they are undefined."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as seqeval_scores
from sklearn.metrics import precision_recall_fscore_support

from electralab.errors import UsageError
from electralab.finetuning.results import summarise_seeds
from electralab.tasks.kinds.classification import score_classes, tabulate_classes
from electralab.tasks.kinds.regression import score_values
from electralab.tasks.kinds.tagging import score_tags

TAG = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER"])
SENTENCES = st.lists(st.lists(st.tuples(TAG, TAG), max_size=6), min_size=1, max_size=4)


def test_two_classes_are_counted_by_hand() -> None:
    truth, predicted = np.array([1, 1, 1, 0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0, 0])
    scores = score_classes(("accuracy", "f1", "macro_f1", "mcc"), truth, predicted, 2)
    # Of class 1: 2 hits, 1 too many, 1 missed; of class 0: 4 hits, 1 too many, 1 missed.
    assert scores["accuracy"] == 6 / 8
    assert scores["f1"] == pytest.approx(2 / 3)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert scores["mcc"] == pytest.approx((2 * 4 - 1 * 1) / math.sqrt(3 * 3 * 5 * 5))


def test_f1_of_three_classes_is_their_mean() -> None:
    truth, predicted = np.array([0, 1, 2, 2]), np.array([0, 2, 2, 2])
    assert score_classes(["f1"], truth, predicted, 3) == {"f1": pytest.approx((1 + 0 + 4 / 5) / 3)}


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("classes", [(0, 0), (1, 1), (0, 1)])
def test_a_single_class_in_sight_gives_no_warning(size: int, classes: tuple[int, int]) -> None:
    truth, predicted = (np.full(size, one) for one in classes)
    scores = score_classes(("accuracy", "f1", "macro_f1", "mcc"), truth, predicted, 2)
    assert scores["mcc"] == 0.0
    assert scores["accuracy"] == float(size > 0 and classes[0] == classes[1])


def test_values_that_rise_together_correlate() -> None:
    truth = np.array([0.0, 1.0, 2.0, 3.0])
    assert score_values(("pearson", "spearman"), truth, truth * 2 + 1) == {"pearson": pytest.approx(1), "spearman": 1}
    assert score_values(["spearman"], truth, np.exp(-truth)) == {"spearman": -1}
    assert score_values(["pearson"], truth, np.array([0.0, 0.0, 0.0, 1.0]))["pearson"] == pytest.approx(
        1.5 / math.sqrt(5 * 0.75)
    )


@pytest.mark.parametrize(
    "predicted", [[2.5, 2.5, 2.5], [1e8, 1e8, 1e8 + 1e-7], [0.0, math.nan, 1.0], [0.0, math.inf, 1.0]]
)
def test_values_that_do_not_vary_score_zero_without_a_warning(predicted: list[float]) -> None:
    truth = np.array([0.0, 1.0, 5.0])
    assert score_values(("pearson", "spearman"), truth, np.array(predicted)) == {"pearson": 0, "spearman": 0}
    assert score_values(("pearson", "spearman"), np.array(predicted), truth) == {"pearson": 0, "spearman": 0}
    assert score_values(("pearson", "spearman"), truth[:1], truth[:1]) == {"pearson": 0, "spearman": 0}


def test_an_unknown_metric_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no metric named 'bleu' .* accuracy, f1, macro_f1, mcc"):
        score_classes(["accuracy", "bleu"], np.array([0]), np.array([0]), 2)


def test_an_entity_counts_only_as_a_whole_and_of_its_type() -> None:
    truth = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
    predicted = [["B-PER", "O", "O", "B-LOC"], ["O", "B-PER"]]
    assert score_tags(truth, predicted).scores == {"f1": 1 / 3, "precision": 1 / 3, "recall": 1 / 3, "accuracy": 4 / 6}


@pytest.mark.parametrize(
    "same",
    [
        ["I-PER", "I-PER", "B-PER", "O", "I-LOC"],  # IOB1: B only between two of a kind
        ["B-PER", "I-PER", "B-PER", "O", "B-LOC"],  # IOB2
        ["B-PER", "E-PER", "S-PER", "O", "S-LOC"],  # IOBES
        ["B-PER", "L-PER", "U-PER", "O", "U-LOC"],  # BILOU
    ],
)
def test_the_schemes_name_the_same_entities(same: list[str]) -> None:
    scores = score_tags([["B-PER", "I-PER", "B-PER", "O", "B-LOC"]], [same]).scores
    assert (scores["f1"], scores["precision"], scores["recall"]) == (1, 1, 1)


def test_entities_do_not_run_on_into_the_next_sentence() -> None:
    assert score_tags([["I-PER"], ["I-PER"]], [["I-PER"], ["O"]]).scores["recall"] == 0.5


def test_tags_without_letters_are_entities_of_one_word() -> None:
    assert score_tags([["NN", "VB", "NN"]], [["NN", "NN", "NN"]]).scores["f1"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("sentences", [[], [[]], [["O", "O"]]])
def test_nothing_to_find_scores_zero_without_a_warning(sentences: list[list[str]]) -> None:
    scored = score_tags(sentences, sentences)
    assert [scored.scores[name] for name in ("f1", "precision", "recall")] == [0, 0, 0]
    assert scored.report.classes == ()


@given(sentences=SENTENCES)
def test_entities_agree_with_seqeval_in_whole_and_by_type(sentences: list[list[tuple[str, str]]]) -> None:
    truth, predicted = ([[pair[side] for pair in pairs] for pairs in sentences] for side in (0, 1))
    scored = score_tags(truth, predicted)
    whole = seqeval_scores(truth, predicted, average="micro", zero_division=0)
    assert [scored.scores[name] for name in ("precision", "recall", "f1")] == pytest.approx(whole[:3])
    ours = [(entity.precision, entity.recall, entity.f1, entity.support) for entity in scored.report.classes]
    np.testing.assert_allclose(
        np.array(ours).reshape(-1, 4).T, seqeval_scores(truth, predicted, average=None, zero_division=0)
    )


@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_the_report_agrees_with_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = np.array(pairs).T
    report = tabulate_classes(truth, predicted, ["a", "b", "c", "d"])
    theirs = precision_recall_fscore_support(truth, predicted, labels=range(4), zero_division=0)
    ours = np.array([(one.precision, one.recall, one.f1, one.support) for one in report.classes])
    np.testing.assert_allclose(ours.T, np.array(theirs, dtype=float))
    assert sum(map(sum, report.confusion)) == len(pairs)


def test_the_table_has_truth_in_rows() -> None:
    report = tabulate_classes(np.array([0, 0, 1]), np.array([0, 1, 1]), ["neg", "pos"])
    assert report.confusion == ((1, 1), (0, 1))
    assert json.loads(json.dumps(report.to_json()))["confusion"] == [[1, 1], [0, 1]]


def test_seeds_are_summed_up() -> None:
    summary = summarise_seeds([0.5, 0.9, 0.7, 0.7])
    assert (summary.n, summary.median, summary.best) == (4, 0.7, 0.9)
    assert summary.mean == pytest.approx(0.7)
    assert summary.sd == pytest.approx(math.sqrt(0.08 / 3))
    assert summarise_seeds([0.5]).sd == 0.0
