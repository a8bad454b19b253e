import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from electralab.tokens.batches import batch_at, halve_rows, heldout_batches, make_batch, rows_from
from electralab.tokens.tokenizer import SpecialIds

PAD, UNK, CLS, SEP, MASK = 9, 8, 7, 6, 5


class TurnedAround:
    """A vocabulary whose special ids are the last ones, so that id 0 is a word like any other."""

    special = SpecialIds(pad=PAD, unk=UNK, cls=CLS, sep=SEP, mask=MASK)
    is_ordinary = np.array([True] * 5 + [False] * 5)


def _batch(rows: list[list[int]], *, is_pairs: bool):  # type: ignore[no-untyped-def]
    return make_batch(np.array(rows), TurnedAround(), is_pairs=is_pairs)  # type: ignore[arg-type]


def test_the_second_segment_begins_after_the_first_sep_and_padding_has_none() -> None:
    batch = _batch([[CLS, 1, 2, SEP, 3, 4, SEP, PAD], [CLS, 1, 2, 3, 4, 0, 1, SEP]], is_pairs=True)
    assert batch.segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1, 0], [0] * 8]


def test_documents_joined_in_one_row_are_one_segment() -> None:
    batch = _batch([[CLS, 1, 2, SEP, 3, 4, 0, SEP]], is_pairs=False)
    assert not batch.segment_ids.any()


def test_id_zero_is_a_word_and_padding_is_told_by_its_own_id() -> None:
    batch = _batch([[CLS, 0, 0, SEP, PAD]], is_pairs=False)
    assert batch.is_ordinary.tolist() == [[False, True, True, False, False]]
    assert batch.is_pad.tolist() == [[False, False, False, False, True]]
    assert batch.token_count == 4


@given(st.integers(1, 40), st.integers(1, 16), st.integers(0, 99))
def test_every_epoch_visits_each_row_once_whatever_the_batch_size(row_count: int, batch_size: int, seed: int) -> None:
    steps = -(-3 * row_count // batch_size)
    drawn = [rows_from(step * batch_size, batch_size, row_count=row_count, seed=seed) for step in range(steps)]
    stream = np.concatenate(drawn)
    for epoch in range(3):
        visited = stream[epoch * row_count : (epoch + 1) * row_count]
        assert sorted(visited.tolist()) == list(range(row_count))


def test_epochs_have_orders_of_their_own() -> None:
    first, second = (rows_from(start, 50, row_count=50, seed=0) for start in (0, 50))
    assert first.tolist() != second.tolist()


def test_splitting_keeps_every_row_and_its_number() -> None:
    batch = _batch([[CLS, i, i, SEP] for i in range(5)], is_pairs=False)
    parts = batch.split(2)
    assert [len(part.row_numbers) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part.original_ids for part in parts]), batch.original_ids)
    assert np.concatenate([part.row_numbers for part in parts]).tolist() == [0, 1, 2, 3, 4]


class FewRows:
    """Ten rows that say their own place."""

    def __len__(self) -> int:
        return 10

    def take(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.stack([np.array([CLS, place % 5, place // 5, SEP]) for place in places])


class FewData:
    train = FewRows()
    tokenizer = TurnedAround()
    packing = "contiguous"


def test_rows_know_their_place_in_the_data_set() -> None:
    batch = batch_at(FewData(), 4, 4, seed=0)  # type: ignore[arg-type]
    assert batch.row_numbers.tolist() == [0, 1, 2, 3]
    assert batch.dataset_rows.tolist() == (batch.original_ids[:, 1] + 5 * batch.original_ids[:, 2]).tolist()
    parts = batch.split(3)
    assert np.concatenate([part.dataset_rows for part in parts]).tolist() == batch.dataset_rows.tolist()


def test_held_out_rows_know_their_place_too() -> None:
    parts = heldout_batches(FewData(), FewRows(), limit=4, batch_size=3)  # type: ignore[arg-type]
    assert [part.dataset_rows.tolist() for part in parts] == [[0, 3, 6], [9]]


def test_rows_from_nowhere_are_their_own_data_set() -> None:
    assert _batch([[CLS, i, i, SEP] for i in range(3)], is_pairs=False).dataset_rows.tolist() == [0, 1, 2]


def test_a_row_is_read_as_two_halves_that_begin_and_end_as_rows_do() -> None:
    ids = np.array(
        [[CLS, 1, 2, 3, 4, 0, 1, SEP], [CLS, 1, 2, 3, 4, SEP, PAD, PAD], [CLS, 1, 2, SEP, PAD, PAD, PAD, PAD]]
    )
    halves, rows = halve_rows(ids, np.array([7, 8, 9]), TurnedAround())  # type: ignore[arg-type]
    assert halves.tolist() == [
        [CLS, 1, 2, SEP],
        [CLS, 0, 1, SEP],
        [CLS, 1, 2, SEP],  # and nothing of [4, SEP], of which only [SEP] is left
        [CLS, 1, 2, SEP],  # and nothing of the padding
    ]
    assert rows.tolist() == [7, 7, 8, 9]
