"""a is to b as c is to d: whether the step from a to b leads from c to d.

vectors, quadruples -> ranks of the answers -> accuracy
"""

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Labels,
    Places,
    Vectors,
    bootstrap_estimate,
    require,
    require_finite,
    summarise,
)
from electralab.analysis.geometry import normalise

_SHUFFLES = 20


def rank_answers(vectors: Vectors, quadruples: Labels, *, with_step: bool = True) -> Places:
    """(Q,) how many words of the table (V, D) are nearer than the answer, from 1, by the cosine with b - a + c.

    The three words of the question are no candidates (3CosAdd). Without the step, the words nearest to c alone are
    taken: what is found so was never an analogy. A tie counts against the answer.
    """
    units = normalise(vectors)
    a, b, c, d = quadruples.T
    asked = units[b] - units[a] + units[c] if with_step else units[c]
    nearness = normalise(asked) @ units.T  # (Q, V)
    answers = nearness[np.arange(len(d)), d].copy()
    for word in (a, b, c, d):
        nearness[np.arange(len(d)), word] = -np.inf
    return np.asarray((nearness >= answers[:, None]).sum(axis=1) + 1, dtype=np.int64)


def measure_analogies(
    vectors: Vectors,
    quadruples: Labels,
    rng: np.random.Generator,
    *,
    groups: Labels | None = None,
    with_step: bool = True,
    times: int = TIMES,
) -> Contrast:
    """The share of answers found first; `groups` are relations. Control: vectors dealt to other words, 1/(V - 3)."""
    require("analogies", len(quadruples), 1, "quadruples")
    require("analogies", len(vectors), 5, "words")
    require_finite("analogies", vectors)
    assert all(len(set(four)) == 4 for four in quadruples.tolist()), "a quadruple has four different words"
    is_found = rank_answers(vectors, quadruples, with_step=with_step) == 1

    def deal() -> float:
        return float((rank_answers(rng.permutation(vectors), quadruples, with_step=with_step) == 1).mean())

    estimate = bootstrap_estimate(lambda p: float(is_found[p].mean()), len(is_found), times, rng, groups=groups)
    return Contrast(estimate, summarise(deal() for _ in range(_SHUFFLES)))
