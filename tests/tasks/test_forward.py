"""Many rows through a network: in the order they came, and as if each had come alone."""

import signal

import numpy as np
import pytest
import torch
from little_networks import make_encoder

from electralab.errors import Stopped
from electralab.model.task_model import HeadConfig, TaskModel, build_task_model
from electralab.stopping import StopSignal
from electralab.tasks.features import Feature, RowLogits, average_logits, predict_logits

LABELS = {"classify": ("no", "yes", "maybe"), "label": ("O", "B", "I")}
LENGTHS = (4, 9, 2, 9, 6, 3)
KINDS: list[str] = ["classify", "regress", "label", "qa"]


def make_network(kind: str, *, backbone: str = "electra", has_answerability: bool = False) -> TaskModel:
    head = HeadConfig(kind=kind, labels=LABELS.get(kind, ()), has_answerability=has_answerability)
    network = build_task_model(make_encoder(backbone=backbone, num_layers=2), head, seed=1)
    rng = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in network.parameters():  # far from their small first values, so that a wrong row shows
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=rng))
    return network


def make_features() -> list[Feature]:
    rng = np.random.default_rng(2)
    none = np.zeros(0, dtype=np.int64)
    return [
        Feature(row, rng.integers(5, 50, length), (np.arange(length) > length // 2).astype(np.int64), none)
        for row, length in enumerate(LENGTHS)
    ]


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_together_are_answered_as_each_alone_in_their_order(kind: str, backbone: str) -> None:
    network = make_network(kind, backbone=backbone, has_answerability=kind == "qa")
    features = make_features()
    together = predict_logits(network, features, 0, 1000, StopSignal())
    assert len(together) == len(features)
    for feature, output in zip(features, together, strict=True):
        (alone,) = predict_logits(network, [feature], 0, 1000, StopSignal())
        np.testing.assert_allclose(output.logits, alone.logits, atol=1e-5)
        np.testing.assert_allclose(output.answerable, alone.answerable, atol=1e-5)
    assert np.ptp([float(output.logits.flat[0]) for output in together]) > 0.01


def test_outputs_have_the_shapes_of_their_kind() -> None:
    shapes = {kind: [o.logits.shape for o in run(make_network(kind))] for kind in KINDS}
    assert shapes["classify"] == [(3,)] * 6
    assert shapes["regress"] == [(1,)] * 6
    assert shapes["label"] == [(length, 3) for length in LENGTHS]
    assert shapes["qa"] == [(length, 2) for length in LENGTHS]


def run(network: TaskModel, batch_tokens: int = 20) -> list[RowLogits]:
    return predict_logits(network, make_features(), 0, batch_tokens, StopSignal())


def test_only_a_head_for_it_says_whether_there_is_an_answer() -> None:
    assert all(np.isnan(output.answerable) for output in run(make_network("qa")))
    assert all(np.isfinite(output.answerable) for output in run(make_network("qa", has_answerability=True)))


def test_dropout_rests_meanwhile_and_training_goes_on_after() -> None:
    network = make_network("classify").train()
    first, second = run(network), run(network)
    assert all(np.array_equal(one.logits, other.logits) for one, other in zip(first, second, strict=True))
    assert network.training


def test_a_stop_ends_it_between_batches() -> None:
    stop = StopSignal()
    stop.number = signal.SIGTERM
    with pytest.raises(Stopped):
        predict_logits(make_network("classify"), make_features(), 0, 20, stop)


def test_no_rows_have_no_answers() -> None:
    assert predict_logits(make_network("classify"), [], 0, 20, StopSignal()) == []


def output(*logits: float, answerable: float = float("nan")) -> RowLogits:
    return RowLogits(np.array(logits, dtype=np.float32), answerable)


def logit(chance: float) -> float:
    return float(np.log(chance))


def test_classes_of_several_networks_are_the_mean_of_their_probabilities() -> None:
    sure, unsure = output(logit(0.98), logit(0.02)), output(logit(0.4) + 7, logit(0.6) + 7)
    (blended,) = average_logits([[sure], [unsure]], are_classes=True)
    np.testing.assert_allclose(np.exp(blended.logits), [0.69, 0.31], rtol=1e-5)


def test_a_class_that_all_rule_out_stays_finite() -> None:
    (blended,) = average_logits([[output(0.0, -1e4)], [output(0.0, -1e4)]], are_classes=True)
    assert np.isfinite(blended.logits).all()


def test_numbers_of_several_networks_are_their_mean() -> None:
    (first, second) = average_logits(
        [[output(1.0, answerable=2.0), output(5.0)], [output(2.0, answerable=4.0), output(7.0)]], are_classes=False
    )
    assert (first.logits.tolist(), first.answerable) == ([1.5], 3.0)
    assert second.logits.tolist() == [6.0]
    assert np.isnan(second.answerable)
