"""Two towers see everything but the token they are asked for."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import exaggerate, generator_of, make_pair, make_rows
from torch import Tensor

from electralab.model.electra import TwoTower, reversed_positions
from electralab.model.weights import init_weights

KINDS: list[dict[str, Any]] = [
    {"backbone": "electra", "embedding_size": 48},
    {"backbone": "modern", "embedding_size": 48},
    {"backbone": "modern", "local_attention": 8, "global_every": 2},
]


def make_towers(**changes: Any) -> TwoTower:
    towers = TwoTower(generator_of(make_pair("tiny", num_layers=2, **changes)).config)
    init_weights(towers, 1)
    exaggerate(towers)
    return towers.eval()


TOWERS = [make_towers(**changes) for changes in KINDS]
every_kind = pytest.mark.parametrize("towers", TOWERS, ids=["electra", "modern", "modern, local"])


@torch.no_grad()
def guess(towers: TwoTower, row: list[int], padding: int = 0) -> Tensor:
    """(T, V), padding left out"""
    input_ids = torch.tensor([row + padding * [0]])
    is_pad = torch.arange(input_ids.shape[1])[None] >= len(row) if padding else None
    guesses: Tensor = towers(input_ids, torch.zeros_like(input_ids), is_pad, torch.arange(len(row)))
    return guesses


@every_kind
@given(row=st.lists(st.integers(1, 99), min_size=3, max_size=12), place=st.integers(0, 11), padding=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_token_changes_the_guess_at_every_place_but_its_own(
    towers: TwoTower, row: list[int], place: int, padding: int
) -> None:
    place %= len(row)
    other = [*row[:place], 1 + row[place] % 99, *row[place + 1 :]]
    before, after = guess(towers, row, padding), guess(towers, other, padding)
    assert torch.allclose(before[place], after[place], atol=1e-4)
    for neighbour in {place - 1, place + 1} & set(range(len(row))):
        assert not torch.allclose(before[neighbour], after[neighbour], atol=1e-2)


@every_kind
def test_the_left_tower_does_not_see_the_right(towers: TwoTower) -> None:
    row, other = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[5, 6, 7, 9]])
    states = [towers.left(ids, torch.zeros_like(ids), None) for ids in (row, other)]
    assert torch.allclose(states[0][:, :3], states[1][:, :3], atol=1e-5)
    assert not torch.allclose(states[0][:, 3], states[1][:, 3], atol=1e-2)


@every_kind
@torch.no_grad()
def test_the_guess_is_the_join_of_two_readings_of_each_row_alone(towers: TwoTower) -> None:
    input_ids, segment_ids, is_pad = make_rows()
    rows, columns = (~is_pad).nonzero().unbind(dim=1)
    guesses = towers(input_ids, segment_ids, is_pad, rows * input_ids.shape[1] + columns)
    for index, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        ids, segments = input_ids[row][~is_pad[row]][None], segment_ids[row][~is_pad[row]][None]
        nothing = torch.zeros(towers.config.hidden_size)
        before = towers.left(ids, segments, None)[0, column - 1] if column else nothing
        is_last = column == ids.shape[1] - 1
        after = nothing if is_last else towers.right(ids.flip(1), segments.flip(1), None).flip(1)[0, column + 1]
        twin = towers.head(towers.join(torch.cat([before, after])), towers.left.embeddings)
        assert torch.allclose(guesses[index], twin, atol=1e-3)


def test_a_mirror_leaves_the_padding_where_it_is_and_undoes_itself() -> None:
    is_pad = torch.tensor([[False, False, False, True, True], [False] * 5])
    mirror = reversed_positions(torch.zeros(2, 5, dtype=torch.long), is_pad)
    assert mirror.tolist() == [[2, 1, 0, 4, 3], [4, 3, 2, 1, 0]]
    assert mirror.gather(1, mirror).tolist() == [[0, 1, 2, 3, 4]] * 2


@every_kind
def test_one_token_table_serves_both_towers_and_the_guess(towers: TwoTower) -> None:
    assert towers.left.embeddings.tokens is towers.right.embeddings.tokens
    assert sum("tokens" in name for name, _ in towers.named_parameters()) == 1
    assert not towers.reads_masked
