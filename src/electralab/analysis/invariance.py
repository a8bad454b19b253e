"""Whether a token's state stays when its row is moved along the positions.

states, states of the same tokens moved -> similarity beside that of unrelated tokens
"""

from dataclasses import dataclass

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Labels,
    Places,
    Statistic,
    Vectors,
    bootstrap_estimate,
    require,
    require_finite,
    tally,
)
from electralab.analysis.geometry import normalise


@dataclass(frozen=True, slots=True)
class Invariance:
    similarity: Contrast
    """The mean cosine of a token with itself moved. Control: with other tokens moved."""
    corrected: Estimate
    """(similarity - control) / (1 - control): 1 unmoved, 0 no more alike than unrelated tokens."""
    recognised: Contrast
    """The share of tokens that are nearest to themselves among all moved ones. Control: tokens dealt at random."""


def rotate_row(ids: Labels, offset: int, *, special_ids: Labels) -> Labels:
    """The tokens of a row one after another around a circle, special ones staying where they are."""
    turned = ids.copy()
    is_word = ~np.isin(ids, special_ids)
    turned[is_word] = np.roll(ids[is_word], offset)
    return turned


def measure_invariance(
    states: Vectors, moved: Vectors, rng: np.random.Generator, *, groups: Labels | None = None, times: int = TIMES
) -> Invariance:
    """Row i of both (N, D) is the same token; `groups` are the rows of text they stand in."""
    assert states.shape == moved.shape, "every token is there before and after"
    require("invariance", len(states), 3, "tokens")
    require_finite("invariance", states)
    require_finite("invariance", moved)
    here, there = normalise(states), normalise(moved)
    own = (here * there).sum(axis=1)
    is_nearest = (here @ there.T).argmax(axis=1) == np.arange(len(here))
    order = rng.permutation(len(here))
    is_luck = order == np.arange(len(here))

    def match(places: Places) -> float:
        return float(own[places].mean())

    def mismatch(places: Places) -> float:
        # A token drawn twice is not unrelated to its copy.
        counts = tally(places, len(own))
        pairs = counts.sum() ** 2 - (counts**2).sum()
        crossed = (counts @ here) @ (counts @ there) - (counts**2) @ own
        return float(crossed / pairs) if pairs else float("nan")

    def correct(places: Places) -> float:
        unrelated = mismatch(places)
        return (match(places) - unrelated) / (1 - unrelated) if unrelated < 1 else float("nan")

    def estimate(statistic: Statistic) -> Estimate:
        return bootstrap_estimate(statistic, len(own), times, rng, groups=groups)

    return Invariance(
        Contrast(estimate(match), estimate(mismatch)),
        estimate(correct),
        Contrast(estimate(lambda p: float(is_nearest[p].mean())), estimate(lambda p: float(is_luck[p].mean()))),
    )
