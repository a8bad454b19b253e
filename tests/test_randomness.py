"""Numbers depend on their keys and on nothing else, and look random along every key."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from electralab.randomness import Rng, mix, permute

SEEDS = st.integers(-(2**70), 2**70)


def shuffled(size: int, *, seed: int = 0, epoch: int = 0) -> list[int]:
    return [int(place) for place in permute(np.arange(size), size, seed=seed, epoch=epoch)]


def correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(np.corrcoef(first.ravel(), second.ravel())[0, 1])


def test_word_and_shuffle_of_given_keys_never_change() -> None:
    # Runs in progress depend on these: another value here silently changes what a resumed run draws.
    assert int(mix(0)) == 0x11A2651C7B0BDA9F
    assert int(mix(1, 2, 3)) == 0xA66C7708A74CB34
    assert int(mix(-1)) == 0xD7E0F299F73296F0
    assert shuffled(8, seed=1, epoch=2) == [3, 5, 6, 7, 4, 0, 1, 2]
    assert mix(1, 2) != mix(2, 1)


def test_keys_broadcast_like_single_keys() -> None:
    words = mix(5, np.arange(3)[:, None], np.arange(4)[None, :])
    assert words.shape == (3, 4)
    assert words[2, 3] == mix(5, 2, 3)


def test_each_bit_of_a_key_moves_half_the_bits_of_the_word() -> None:
    flips = [int(mix(7, 1 << bit) ^ mix(7, 0)).bit_count() for bit in range(64)]
    assert 28 < np.mean(flips) < 36
    assert min(flips) > 12


@given(st.integers(1, 300), SEEDS, st.integers(0, 1000))
def test_shuffle_is_a_bijection(size: int, seed: int, epoch: int) -> None:
    assert sorted(shuffled(size, seed=seed, epoch=epoch)) == list(range(size))


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1])
def test_shuffle_is_a_bijection_around_a_power_of_four(size: int) -> None:
    assert sorted(shuffled(size)) == list(range(size))


@given(st.integers(1, 2**62), SEEDS, st.data())
def test_index_goes_to_its_place_whatever_is_asked_with_it(size: int, seed: int, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5))
    together = permute(np.array(indices), size, seed=seed, epoch=0)
    assert ((together >= 0) & (together < size)).all()
    assert together[-1] == permute(np.array(indices[-1:]), size, seed=seed, epoch=0)[0]


def test_no_index_gives_no_place_and_one_outside_is_refused_because_it_would_collide() -> None:
    assert permute(np.empty(0, dtype=np.int64), 0, seed=0, epoch=0).tolist() == []
    with pytest.raises(AssertionError):
        permute(np.array([3]), 3, seed=0, epoch=0)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {tuple(shuffled(100, seed=seed, epoch=epoch)) for seed in range(10) for epoch in range(10)}
    assert len(orders) == 100


def test_every_order_of_three_is_reached() -> None:
    assert len({tuple(shuffled(3, epoch=epoch)) for epoch in range(500)}) == factorial(3)


def test_shuffle_forgets_where_an_index_came_from() -> None:
    size = 10_000
    order = permute(np.arange(size), size, seed=3, epoch=0)
    assert abs(correlation(order.astype(np.float64), np.arange(size, dtype=np.float64))) < 0.05
    # Neighbours of a true shuffle are apart by a third of the size on average.
    assert np.abs(np.diff(order)).mean() / size == pytest.approx(1 / 3, abs=0.02)


def test_index_visits_all_places_alike_over_the_epochs() -> None:
    places = [shuffled(10, epoch=epoch)[0] for epoch in range(2000)]
    counts = np.bincount(places, minlength=10)
    # Chi-squared with nine degrees of freedom: 27.9 is exceeded by chance once in a thousand.
    assert ((counts - 200) ** 2 / 200).sum() < 27.9


def test_uniforms_of_a_row_depend_neither_on_the_other_rows_nor_on_how_many_are_drawn() -> None:
    rng = Rng(seed=1, step=5)
    together = rng.uniforms("mask", np.array([7, 3, 11]), 4)
    alone = rng.uniforms("mask", np.array([3]), 4)
    assert together.shape == (3, 4)
    assert together[1].tolist() == alone[0].tolist() == rng.uniforms("mask", np.array([3]), 9)[0, :4].tolist()


def test_uniforms_are_spread_evenly_over_the_unit_interval() -> None:
    draws = Rng(seed=0, step=0).uniforms("mask", np.arange(500), 200)
    assert np.unique(draws).size == draws.size
    assert draws.min() >= 0
    assert draws.max() < 1
    assert draws.mean() == pytest.approx(1 / 2, abs=0.005)
    assert draws.var() == pytest.approx(1 / 12, abs=0.002)
    counts, _ = np.histogram(draws, bins=20, range=(0, 1))
    # Chi-squared with nineteen degrees of freedom: 43.8 is exceeded by chance once in a thousand.
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8


@pytest.mark.parametrize(
    ("other", "stream"),
    [(Rng(0, 0), "sample"), (Rng(0, 1), "mask"), (Rng(1, 0), "mask"), (Rng(2**32, 0), "mask")],
    ids=["other stream", "next step", "next seed", "distant seed"],
)
def test_streams_steps_and_seeds_are_unrelated(other: Rng, stream: str) -> None:
    rows = np.arange(200)
    here, there = Rng(0, 0).uniforms("mask", rows, 100), other.uniforms(stream, rows, 100)
    # Four standard deviations of the correlation of 20,000 unrelated pairs.
    assert abs(correlation(here, there)) < 4 / 20_000**0.5


def test_rows_and_columns_are_unrelated() -> None:
    draws = Rng(0, 0).uniforms("mask", np.arange(201), 101)
    limit = 4 / 20_000**0.5
    assert abs(correlation(draws[1:], draws[:-1])) < limit
    assert abs(correlation(draws[:, 1:], draws[:, :-1])) < limit


def test_seeds_for_torch_differ_by_step_stream_and_part() -> None:
    streams = ("dropout", "probe")
    seeds = {Rng(0, step).torch_seed(name, part) for step in range(10) for name in streams for part in range(5)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
