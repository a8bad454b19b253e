"""Rows into batches: each once an epoch, in an order that depends on seed and epoch alone, with little padding."""

import signal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from little_networks import make_encoder

from electralab.errors import Stopped
from electralab.model.task_model import HeadConfig, TaskModel, build_task_model
from electralab.stopping import StopSignal
from electralab.tasks.features import (
    IGNORED,
    Feature,
    RowLogits,
    average_logits,
    collate,
    group_by_length,
    order_epoch,
    predict_logits,
)

CPU = torch.device("cpu")
PAD = 99


def make_feature(length: int, targets: list[int] | list[float] | None = None, dtype: type = np.int64) -> Feature:
    ids = np.arange(1, length + 1)
    return Feature(0, ids, (ids > 2).astype(np.int64), np.array(targets or [], dtype=dtype))


Lengths = st.lists(st.integers(1, 50), min_size=1, max_size=700)


@given(Lengths, st.integers(1, 9), st.integers(0, 2**31 - 1), st.integers(0, 50))
def test_every_row_comes_once_in_an_epoch(lengths: list[int], batch_size: int, seed: int, epoch: int) -> None:
    batches = order_epoch(np.array(lengths), batch_size, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // batch_size)
    assert sorted((len(batch) for batch in batches), reverse=True)[:-1] == [batch_size] * (len(batches) - 1)


def order(*, seed: int = 0, epoch: int = 0, count: int = 200) -> list[list[int]]:
    lengths = np.random.default_rng(0).integers(4, 60, count)
    return [batch.tolist() for batch in order_epoch(lengths, 8, seed=seed, epoch=epoch)]


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    assert order() == order()
    assert order() != order(epoch=1)
    assert order() != order(seed=1)


def test_epochs_put_other_rows_together() -> None:
    first, second = ({frozenset(batch) for batch in order(epoch=epoch, count=2000)} for epoch in (0, 1))
    assert len(first & second) < len(first) / 4


def test_batches_do_not_come_in_order_of_length() -> None:
    lengths = np.arange(1, 257)
    firsts = [int(lengths[batch].min()) for batch in order_epoch(lengths, 8, seed=0, epoch=0)]
    assert firsts != sorted(firsts)
    assert firsts != sorted(firsts, reverse=True)


def test_little_is_padding_where_lengths_differ_much() -> None:
    lengths = np.minimum(np.random.default_rng(3).lognormal(3.0, 0.8, 5000).astype(np.int64) + 3, 128)
    batches = order_epoch(lengths, 32, seed=0, epoch=0)
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert 1 - lengths.sum() / padded < 0.05
    careless = sum(32 * int(lengths[start : start + 32].max()) for start in range(0, 5000, 32))
    assert 1 - lengths.sum() / careless > 0.5


def test_rows_are_padded_to_the_longest_of_the_batch() -> None:
    batch = collate([make_feature(2), make_feature(4)], PAD, CPU)
    assert batch.input_ids.tolist() == [[1, 2, PAD, PAD], [1, 2, 3, 4]]
    assert batch.segment_ids.tolist() == [[0, 0, 0, 0], [0, 0, 1, 1]]
    assert batch.is_pad.tolist() == [[False, False, True, True], [False] * 4]
    assert batch.attention_pad is batch.is_pad
    assert batch.token_count == 6


def test_rows_of_one_length_need_no_attention_mask() -> None:
    batch = collate([make_feature(3), make_feature(3)], PAD, CPU)
    assert not batch.is_pad.any()
    assert batch.attention_pad is None


def test_targets_of_padding_are_ignored() -> None:
    batch = collate([make_feature(2, [IGNORED, 1]), make_feature(3, [0, IGNORED, 2])], PAD, CPU)
    assert batch.targets.tolist() == [[IGNORED, 1, IGNORED], [0, IGNORED, 2]]


@pytest.mark.parametrize(("targets", "dtype"), [([2.5], np.float32), ([3], np.int64)])
def test_targets_keep_their_type(targets: list[int] | list[float], dtype: type) -> None:
    batch = collate([make_feature(2, targets, dtype)], PAD, CPU)
    assert batch.targets.tolist() == [targets]
    assert batch.targets.dtype == (torch.float32 if dtype is np.float32 else torch.int64)


def test_rows_whose_answer_is_not_known_have_no_targets() -> None:
    assert collate([make_feature(2), make_feature(3)], PAD, CPU).targets.shape == (2, 0)


@given(Lengths, st.integers(1, 300))
def test_groups_hold_every_row_once_longest_first_within_the_tokens(lengths: list[int], batch_tokens: int) -> None:
    groups = [group.tolist() for group in group_by_length([make_feature(length) for length in lengths], batch_tokens)]
    rows = [row for group in groups for row in group]
    assert sorted(rows) == list(range(len(lengths)))
    assert [lengths[row] for row in rows] == sorted(lengths, reverse=True)
    for group in groups:
        assert len(group) == 1 or len(group) * lengths[group[0]] <= batch_tokens


def test_no_rows_are_no_groups() -> None:
    assert list(group_by_length([], 100)) == []


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
