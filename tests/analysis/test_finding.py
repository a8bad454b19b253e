"""A figure is there with its control, or what it needs is said in its place."""

from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from electralab.analysis.arrays import auc, require_count
from electralab.analysis.finding import Controlled, Skipped, exact, skip_on_error


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=20))
def test_the_auc_is_the_share_of_pairs_in_order(tokens: list[tuple[int, bool]]) -> None:
    values, truth = np.array([value for value, _ in tokens], dtype=float), np.array([kind for _, kind in tokens])
    pairs = [(high > low) + (high == low) / 2 for high in values[truth] for low in values[~truth]]
    assert abs(auc(values, truth) - (np.mean(pairs) if pairs else 0.5)) < 1e-12


def test_what_fails_is_said_and_what_came_before_stays() -> None:
    def compute() -> Iterator[int | Skipped]:
        with skip_on_error("probe", "the probe") as skipped:
            yield 7
            require_count("probe", 3, 4, "examples")
            yield 8
        yield from skipped

    reason = "probe: needs at least 4 examples, got 3; give more"
    assert list(compute()) == [7, Skipped("probe", "the probe", reason)]


def test_measure_and_control_are_scaled_together() -> None:
    scaled = Controlled(exact(2.0), exact(1.0)).scale(-3.0)
    assert (scaled.estimate, scaled.control) == (exact(-6.0), exact(-3.0))
