"""Rows into batches: each once an epoch, in an order that depends on seed and epoch alone, with little padding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from electralab.tasks.features import IGNORED, Feature, collate, group_by_length, order_epoch

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
