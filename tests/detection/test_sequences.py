"""Counting in sequences small enough to be checked by eye."""

import math

import numpy as np
import pytest

from electralab.detection.sequences import (
    BASELINES,
    EVENT_COUNTS,
    SequenceCounts,
    count_angle,
    count_neighbour,
    mean_rarity,
    profile,
    set_angle,
    unseen_counts,
    unseen_events,
    unseen_pairs,
    unseen_set,
    unseen_sixes,
)

NORMAL = [["open", "read", "close"]] * 3 + [["open", "read", "read", "close"]]


@pytest.fixture
def counts() -> SequenceCounts:
    return SequenceCounts.count(NORMAL)


def test_runs_are_counted_with_the_ends_of_rows(counts: SequenceCounts) -> None:
    ones, pairs = counts.runs[0], counts.runs[1]
    assert sorted(ones.counts.tolist()) == [4, 4, 4, 4, 5]  # open, close, two ends, read
    assert pairs.counts.sum() == 3 * 4 + 5
    rows = counts.encode([["read"]])
    (index,) = ones.find(rows.keys(1)[0][rows.places])
    assert (ones.counts[index], ones.followed[index], ones.followers[index]) == (5, 5, 2)
    assert (ones.preceded[index], ones.predecessors[index]) == (5, 2)


def test_runs_of_different_order_are_different(counts: SequenceCounts) -> None:
    rows = counts.encode([["open", "read"], ["read", "open"]])
    keys, is_inside = rows.keys(2)
    assert is_inside.tolist() == [False, True, True, True] * 2
    assert len(set(keys[is_inside].tolist())) == 6
    assert unseen_pairs(counts, rows).tolist() == [0.0, 1.0]


def test_simple_detectors_say_what_they_are_called(counts: SequenceCounts) -> None:
    rows = counts.encode(
        [NORMAL[0], ["open", "fail", "close"], ["open", "close"], ["open", "read", "read", "read", "close"]]
    )
    assert unseen_events(counts, rows).tolist() == [0, pytest.approx(1 / 3), 0, 0]
    assert unseen_set(counts, rows).tolist() == [0, 1, 1, 0]
    assert unseen_counts(counts, rows).tolist() == [0, 1, 1, 1]
    assert unseen_pairs(counts, rows).tolist() == [0, 1, 1, 0]
    assert unseen_sixes(counts, rows).tolist() == [0, 0, 0, 0]
    near = count_neighbour(counts, rows)
    assert near[0] == pytest.approx(0, abs=1e-6)
    assert near[2] == pytest.approx(math.log(2))
    assert count_angle(counts, rows)[0] == pytest.approx(0, abs=1e-6)
    assert mean_rarity(counts, rows)[1] > mean_rarity(counts, rows)[0]


def test_a_normal_row_is_less_surprising_from_both_sides(counts: SequenceCounts) -> None:
    rows = counts.encode([NORMAL[0], ["close", "read", "open"], ["open", "read"]])
    values = counts.measure_events(rows)
    after, before = (values[:, EVENT_COUNTS.index(name)] for name in ("surprise_after", "surprise_before"))
    assert after[:3].max() < after[3:6].max()
    assert before[:3].max() < before[3:6].max()
    assert after[7] > after[1], "that the row ends after read is a surprise"


def test_probabilities_of_all_that_may_follow_sum_to_one(counts: SequenceCounts) -> None:
    """Over every event, the end and one that was never seen."""
    names = [*counts.names, "unseen"]
    rows = counts.encode([["open", name, "x", "x"] for name in names])
    p = np.exp(-counts.measure_events(rows)[:, EVENT_COUNTS.index("surprise_after")].reshape(-1, 4)[:, 1])
    assert p.sum() < 1
    assert p.sum() > 0.85  # the rest is that of both ends


def test_sets_and_counts_are_known_of_every_row_not_only_of_those_that_distances_are_measured_to() -> None:
    rows = [["open", *["read"] * number, "close"] for number in range(2_500)]
    counts = SequenceCounts.count(rows)
    assert len(counts.profiles) < len(rows)
    assert unseen_counts(counts, counts.encode(rows)).sum() == 0
    new = counts.encode([["open", *["read"] * 2_500, "close"], ["read", "open"], ["close", "new", "open"]])
    assert unseen_counts(counts, new).tolist() == [1, 1, 1]
    assert unseen_set(counts, new).tolist() == [0, 1, 1]


def test_the_angle_of_sets_does_not_ask_how_often(counts: SequenceCounts) -> None:
    rows = counts.encode([["open", "close", *["read"] * 9], ["open"], ["new", "newer"], []])
    assert set_angle(counts, rows).tolist() == pytest.approx([0, 1 - 3**-0.5, 1, 1])


def test_rows_of_any_length_have_values(counts: SequenceCounts) -> None:
    rows = counts.encode([[], ["open"], ["new"]])
    assert profile(rows, len(counts.names)).sum(axis=1).tolist() == [0, 1, 1]
    for detector in BASELINES.values():
        assert np.isfinite(detector(counts, rows)).all()
