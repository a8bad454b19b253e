"""The area under the curve by ranks, against all pairs one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from electralab.analysis.ranking import find_auc


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=20))
def test_it_is_the_share_of_pairs_in_order(tokens: list[tuple[int, bool]]) -> None:
    values, truth = np.array([value for value, _ in tokens], dtype=float), np.array([kind for _, kind in tokens])
    pairs = [(one > other) + (one == other) / 2 for one in values[truth] for other in values[~truth]]
    assert abs(find_auc(values, truth) - (np.mean(pairs) if pairs else 0.5)) < 1e-12
