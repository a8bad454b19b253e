"""Answers beside the truth: the scores of the task, and a report by class."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from little_kinds import encode
from little_words import word_tokenizer
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as seqeval_scores
from sklearn.metrics import precision_recall_fscore_support
from torch import Tensor

from electralab.errors import UsageError
from electralab.finetuning.results import summarise_seeds
from electralab.model.task_model import HeadConfig, SpanLogits
from electralab.tasks.catalog import find_task
from electralab.tasks.features import (
    IGNORED,
    Feature,
    FeatureEncoder,
    RowLogits,
    SpanConfig,
    TaskBatch,
    collate,
    softmax,
)
from electralab.tasks.kind import Example, NetworkOutputs, SplitScores
from electralab.tasks.kinds import KINDS, classification
from electralab.tasks.kinds.qa import Answer, AnswerPrediction, QAExample, Span
from electralab.tasks.kinds.regression import RegressionExample, RegressionPrediction, score_values
from electralab.tasks.kinds.tagging import TaggingExample, TaggingPrediction, score_tags


def score(task_name: str, examples: Sequence[Any], predictions: Sequence[Any], labels: tuple[str, ...]) -> SplitScores:
    task = find_task(task_name)
    return task.kind.score(task, examples, predictions, labels)


def texts(*labels: str) -> list[classification.ClassificationExample]:
    return [classification.ClassificationExample(str(number), ("cat",), label) for number, label in enumerate(labels)]


def classes(*labels: str) -> list[classification.ClassPrediction]:
    return [classification.ClassPrediction(label, {}) for label in labels]


def test_classes_are_scored_and_tabulated() -> None:
    found = classes("1", "0", "1", "1")
    judged = score("mrpc", texts("1", "0", "0", "1"), found, ("0", "1"))
    assert judged.scores == {"accuracy": 0.75, "f1": pytest.approx(0.8)}
    assert judged.report.confusion == ((1, 1), (0, 2))
    assert judged.best_threshold is None


def test_numbers_are_correlated() -> None:
    truth = [RegressionExample(str(number), ("cat",), float(number)) for number in range(4)]
    values = [RegressionPrediction(value) for value in (0.0, 0.1, 0.2, 9.0)]
    judged = score("stsb", truth, values, ())
    assert judged.scores["spearman"] == pytest.approx(1.0)
    assert judged.scores["pearson"] < 0.9


def test_tags_are_scored_by_whole_entities() -> None:
    truth = TaggingExample("0", ("a", "b", "c", "the"), ("B-X", "I-X", "O", "B-Y"))
    found = TaggingPrediction(("B-X", "O", "O", "B-Y"), (1.0,) * 4)
    judged = score("ner", [truth], [found], ())
    assert judged.scores == {"f1": 0.5, "precision": 0.5, "recall": 0.5, "accuracy": 0.75}
    assert [(scores.name, scores.f1) for scores in judged.report.classes] == [("X", 0.0), ("Y", 1.0)]


def question(text: str = "") -> QAExample:
    answers = (Answer(text, 0),) if text else ()
    return QAExample("0", "who", f"{text} sat", answers, is_impossible=not text)


def answer(text: str, no_answer_score: float, threshold: float = 0.0) -> AnswerPrediction:
    return AnswerPrediction(text, Span(text, 0, len(text), 1.0), (), no_answer_score, threshold)


def test_where_every_question_has_an_answer_no_threshold_is_looked_for() -> None:
    found = [answer("cat", 9.0, math.inf), answer("dog", 9.0, math.inf)]
    judged = score("squad1", [question("cat"), question("mat")], found, ())
    assert judged.scores == {"exact_match": 0.5, "f1": 0.5}
    assert judged.best_threshold is None


def test_a_model_that_doubts_is_scored_with_its_doubts_where_every_question_has_an_answer() -> None:
    found = [answer("cat", 9.0), answer("mat", -9.0)]
    judged = score("squad2", [question("cat"), question("mat")], found, ())
    assert judged.scores["exact_match"] == 0.5


def test_the_threshold_decides_what_stays_unanswered() -> None:
    asked = [question("cat"), question("")]

    def at(threshold: float) -> SplitScores:
        return score("squad2", asked, [answer("cat", -1.0, threshold), answer("dog", -0.5, threshold)], ())

    assert at(0.0).scores["f1"] == 0.5
    assert at(0.0).scores["best_f1"] == 1.0
    assert at(0.0).best_threshold == -1.0
    assert at(-1.0).scores["f1"] == 1.0
    assert at(math.inf).scores["f1"] == 0.5


SPANS = SpanConfig(stride=4)
NAN = float("nan")


def rows_of(*examples: Example, length: int = 16) -> list[Any]:
    return encode(FeatureEncoder(word_tokenizer(), (), length, SPANS), examples, is_labelled=False).features


def decode(
    head: HeadConfig, examples: Sequence[Example], features: Sequence[Any], rows: Sequence[RowLogits], threshold: float
) -> list[Any]:
    outputs = NetworkOutputs(head, examples, features, rows, SPANS, threshold)
    return list(KINDS[head.kind].decode(outputs))


def say(*logits: float) -> RowLogits:
    return RowLogits(np.array(logits, dtype=np.float32), NAN)


def test_probabilities_add_up_and_large_logits_do_no_harm() -> None:
    np.testing.assert_allclose(softmax(np.array([1e4, 1e4], dtype=np.float32)), [0.5, 0.5])
    np.testing.assert_allclose(softmax(np.log(np.array([[0.2, 0.8]], dtype=np.float32))), [[0.2, 0.8]], rtol=1e-6)


def test_the_likeliest_class_is_named_with_the_probabilities_of_all() -> None:
    examples = [
        classification.ClassificationExample("0", ("cat",), ""),
        classification.ClassificationExample("1", ("dog",), ""),
    ]
    head = HeadConfig(kind="classify", labels=("no", "yes"))
    outputs = [say(0.0, float(np.log(3))), say(float(np.log(9)), 0.0)]
    first, second = decode(head, examples, rows_of(*examples), outputs, 0.0)
    assert isinstance(first, classification.ClassPrediction)
    assert isinstance(second, classification.ClassPrediction)
    assert (first.label, second.label) == ("yes", "no")
    assert first.probabilities == pytest.approx({"no": 0.25, "yes": 0.75})


def test_a_number_is_what_the_network_says() -> None:
    example = classification.ClassificationExample("0", ("cat",), "")
    assert decode(HeadConfig(kind="regress"), [example], rows_of(example), [say(2.5)], 0.0) == [
        RegressionPrediction(2.5)
    ]


def test_words_over_several_rows_get_their_tags_in_order() -> None:
    words = ("the", "cats", "on", "dogs", "mat")
    examples = [TaggingExample("0", words, ()), TaggingExample("1", ("sat",), ())]
    features = rows_of(*examples, length=6)
    assert len(features) == 3
    wanted = ["B", "O", "O", "O", "B", "B"]
    outputs = []
    for feature in features:
        logits = np.zeros((len(feature.ids), 2), dtype=np.float32)
        logits[:, 1] = 9.0  # what lies between the beginnings of words must not matter
        for position in feature.word_starts:
            logits[position] = (0.0, np.log(3)) if wanted.pop(0) == "B" else (np.log(3), 0.0)
        outputs.append(RowLogits(logits, NAN))
    first, second = decode(HeadConfig(kind="label", labels=("O", "B")), examples, features, outputs, 0.0)
    assert isinstance(first, TaggingPrediction)
    assert first.tags == ("B", "O", "O", "O", "B")
    assert first.probabilities == pytest.approx((0.75,) * 5)
    assert isinstance(second, TaggingPrediction)
    assert second.tags == ("B",)


def answer_with(answerable: float, threshold: float, *, has_answerability: bool) -> AnswerPrediction:
    """Of a network that finds the cat, and says so much on whether there is an answer_with."""
    question = QAExample("0", "who sat", "the cat on the mat", (), is_impossible=False)
    (window,) = rows_of(question)
    logits = np.zeros((len(window.ids), 2), dtype=np.float32)
    logits[window.context_start + 1] = 5.0
    head = HeadConfig(kind="qa", has_answerability=has_answerability)
    (said,) = decode(head, [question], [window], [RowLogits(logits, answerable)], threshold)
    assert isinstance(said, AnswerPrediction)
    assert said.best.text == "cat"
    return said


@pytest.mark.parametrize(
    ("answerable", "threshold", "text"), [(3.0, 0.0, "cat"), (-3.0, 0.0, ""), (-3.0, 3.0, "cat"), (3.0, -4.0, "")]
)
def test_beyond_the_threshold_nothing_is_said(answerable: float, threshold: float, text: str) -> None:
    said = answer_with(answerable, threshold, has_answerability=True)
    assert said.text == text
    assert said.no_answer_score == -answerable


def test_without_a_head_for_doubt_there_is_always_an_answer() -> None:
    assert answer_with(NAN, -1e9, has_answerability=False).text == "cat"


CPU = torch.device("cpu")
LENGTHS = (5, 3, 4, 2)
# Of questions: the first row asks with one token, the others with none.
SEGMENTS = ([0, 0, 1, 1, 1], [0, 1, 1], [0, 1, 1, 1], [0, 1])
TARGETS: dict[str, list[list[Any]]] = {
    "classify": [[2], [0], [1], [2]],
    "regress": [[0.5], [-1.0], [3.0], [2.0]],
    "label": [
        [IGNORED, 1, IGNORED, 2, IGNORED],
        [IGNORED, 0, IGNORED],
        [IGNORED, 2, 1, IGNORED],
        [IGNORED, IGNORED],
    ],
    "qa": [[2, 3, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0]],
}
# Words are tagged the same way; the tags are not looked at here.
TARGETS["errors"] = TARGETS["label"]


def make_features(kind: str) -> list[Feature]:
    dtype: Any = np.float32 if kind == "regress" else np.int64
    return [
        Feature(row, np.arange(length), np.array(segments), np.array(targets, dtype=dtype))
        for row, (length, segments, targets) in enumerate(zip(LENGTHS, SEGMENTS, TARGETS[kind], strict=True))
    ]


def make_logits(kind: str, *, has_judge: bool = True) -> Tensor | SpanLogits:
    rng = torch.Generator().manual_seed(5)
    if kind == "qa":
        start, end = torch.randn(2, 4, 5, generator=rng)
        return SpanLogits(start, end, torch.randn(4, generator=rng) if has_judge else None)
    shape = {"classify": (4, 3), "regress": (4, 1)}.get(kind, (4, 5, 3))
    return torch.randn(shape, generator=rng)


def log_chance(logits: list[float], right: int) -> float:
    return logits[right] - math.log(sum(math.exp(logit) for logit in logits))


def slow_loss(kind: str, logits: Tensor | SpanLogits) -> float:
    if isinstance(logits, SpanLogits):
        total = 0.0
        for row, (segments, (first, last, is_answerable)) in enumerate(zip(SEGMENTS, TARGETS["qa"], strict=True)):
            choices = [place for place, segment in enumerate(segments) if place == 0 or segment == 1]
            for said, right in ((logits.start[row], first), (logits.end[row], last)):
                total -= log_chance([said.tolist()[place] for place in choices], choices.index(right)) / 2
            if logits.answerable is not None:
                chance = 1 / (1 + math.exp(-float(logits.answerable[row])))
                total -= 0.5 * math.log(chance if is_answerable else 1 - chance)
        return total
    rows = list(zip(logits.tolist(), TARGETS[kind], strict=True))
    if kind == "regress":
        return math.fsum((values[0] - target[0]) ** 2 for values, target in rows)
    if kind == "classify":
        return -sum(log_chance(values, target[0]) for values, target in rows)
    places = [pair for values, targets in rows for pair in zip(values, targets, strict=False)]
    return -sum(log_chance(values, target) for values, target in places if target != IGNORED)


def make_batch(kind: str, rows: slice = slice(None)) -> TaskBatch:
    return collate(make_features(kind)[rows], 0, CPU)


LABELS = {"classify": ("a", "b", "c"), "label": ("a", "b", "c")}


def task_loss(kind: str, logits: Tensor | SpanLogits, batch: TaskBatch, unit: float = 1.0) -> Tensor:
    return KINDS[kind].loss(logits, batch, HeadConfig(kind=kind, labels=LABELS.get(kind, ()), unit=unit))


def count_targets(kind: str, batch: TaskBatch) -> int:
    return KINDS[kind].count_targets(batch)


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_is_the_sum_over_its_targets(kind: str) -> None:
    logits = make_logits(kind)
    assert float(task_loss(kind, logits, make_batch(kind))) == pytest.approx(slow_loss(kind, logits), rel=1e-5)


def test_without_a_judge_spans_alone_are_learned() -> None:
    logits = make_logits("qa", has_judge=False)
    assert float(task_loss("qa", logits, make_batch("qa"))) == pytest.approx(slow_loss("qa", logits), rel=1e-5)


def take(logits: Tensor | SpanLogits, rows: slice, width: int) -> Tensor | SpanLogits:
    if isinstance(logits, SpanLogits):
        assert logits.answerable is not None
        return SpanLogits(logits.start[rows, :width], logits.end[rows, :width], logits.answerable[rows])
    return logits[rows, :width] if logits.ndim == 3 else logits[rows]


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_add_up_to_the_whole(kind: str) -> None:
    logits, whole = make_logits(kind), make_batch(kind)
    parts = [(rows, make_batch(kind, rows)) for rows in (slice(0, 1), slice(1, 4))]
    assert sum(count_targets(kind, part) for _, part in parts) == count_targets(kind, whole)
    added = sum(
        float(task_loss(kind, take(logits, rows, part.input_ids.shape[1]), part)) / count_targets(kind, whole)
        for rows, part in parts
    )
    assert added == pytest.approx(float(task_loss(kind, logits, whole)) / count_targets(kind, whole), rel=1e-5)


def test_errors_of_numbers_count_in_their_unit() -> None:
    logits, batch = make_logits("regress"), make_batch("regress")
    assert float(task_loss("regress", logits, batch, unit=2.0)) == pytest.approx(slow_loss("regress", logits) / 4)


def test_targets_are_rows_or_tagged_words() -> None:
    assert {kind: count_targets(kind, make_batch(kind)) for kind in KINDS} == {
        "classify": 4,
        "regress": 4,
        "label": 5,
        "errors": 5,
        "qa": 4,
    }


def test_a_place_without_a_tag_has_no_gradient() -> None:
    logits = make_logits("label")
    assert isinstance(logits, Tensor)
    logits.requires_grad_()
    batch = make_batch("label")
    torch.autograd.backward(task_loss("label", logits, batch))
    assert logits.grad is not None
    assert torch.equal(logits.grad.abs().sum(-1) > 0, batch.targets != IGNORED)


def test_no_answer_is_believed_to_lie_in_the_padding() -> None:
    logits = make_logits("qa")
    assert isinstance(logits, SpanLogits)
    batch = make_batch("qa")
    logits.start[batch.is_pad] = 1e4
    logits.end[batch.is_pad] = 1e4
    logits.start.requires_grad_()
    loss = task_loss("qa", logits, batch)
    assert loss.item() == pytest.approx(slow_loss("qa", logits), rel=1e-5)
    torch.autograd.backward(loss)
    assert logits.start.grad is not None
    assert not logits.start.grad[batch.is_pad].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_is_in_float32_whatever_the_logits_are(kind: str) -> None:
    logits = make_logits(kind)
    if isinstance(logits, SpanLogits):
        assert logits.answerable is not None
        half: Tensor | SpanLogits = SpanLogits(logits.start.half(), logits.end.half(), logits.answerable.half())
    else:
        half = logits.half()
    assert task_loss(kind, half, make_batch(kind)).dtype == torch.float32


TAG = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER"])
SENTENCES = st.lists(st.lists(st.tuples(TAG, TAG), max_size=6), min_size=1, max_size=4)


def test_two_classes_are_counted_by_hand() -> None:
    truth, predicted = np.array([1, 1, 1, 0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0, 0])
    scores = classification.score_classes(("accuracy", "f1", "macro_f1", "mcc"), truth, predicted, 2)
    # Of class 1: 2 hits, 1 too many, 1 missed; of class 0: 4 hits, 1 too many, 1 missed.
    assert scores["accuracy"] == 6 / 8
    assert scores["f1"] == pytest.approx(2 / 3)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert scores["mcc"] == pytest.approx((2 * 4 - 1 * 1) / math.sqrt(3 * 3 * 5 * 5))


def test_f1_of_three_classes_is_their_mean() -> None:
    truth, predicted = np.array([0, 1, 2, 2]), np.array([0, 2, 2, 2])
    assert classification.score_classes(["f1"], truth, predicted, 3) == {"f1": pytest.approx((1 + 0 + 4 / 5) / 3)}


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("classes", [(0, 0), (1, 1), (0, 1)])
def test_a_single_class_in_sight_gives_no_warning(size: int, classes: tuple[int, int]) -> None:
    truth, predicted = (np.full(size, one) for one in classes)
    scores = classification.score_classes(("accuracy", "f1", "macro_f1", "mcc"), truth, predicted, 2)
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
        classification.score_classes(["accuracy", "bleu"], np.array([0]), np.array([0]), 2)


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
    report = classification.tabulate_classes(truth, predicted, ["a", "b", "c", "d"])
    theirs = precision_recall_fscore_support(truth, predicted, labels=range(4), zero_division=0)
    ours = np.array([(one.precision, one.recall, one.f1, one.support) for one in report.classes])
    np.testing.assert_allclose(ours.T, np.array(theirs, dtype=float))
    assert sum(map(sum, report.confusion)) == len(pairs)


def test_the_table_has_truth_in_rows() -> None:
    report = classification.tabulate_classes(np.array([0, 0, 1]), np.array([0, 1, 1]), ["neg", "pos"])
    assert report.confusion == ((1, 1), (0, 1))
    assert json.loads(json.dumps(report.to_json()))["confusion"] == [[1, 1], [0, 1]]


def test_seeds_are_summed_up() -> None:
    summary = summarise_seeds([0.5, 0.9, 0.7, 0.7])
    assert (summary.n, summary.median, summary.best) == (4, 0.7, 0.9)
    assert summary.mean == pytest.approx(0.7)
    assert summary.sd == pytest.approx(math.sqrt(0.08 / 3))
    assert summarise_seeds([0.5]).sd == 0.0
