"""How plausible the generator's replacements are, and what of the sentence they keep.

guesses, sampled ids, originals -> Replacements -> plausibility
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Floats,
    Labels,
    Places,
    Vectors,
    bootstrap_estimate,
    require,
    require_finite,
    shuffle_estimate,
)


@dataclass(frozen=True, slots=True)
class Replacements:
    """Of the guesses that were not the original: what the generator thought of its draw, and of any token."""

    log_probs: Floats  # (R,) nats
    ranks: Places  # (R,) from 1
    random_log_probs: Floats
    """Of a token dealt from another replacement: as frequent, but not meant for this place."""
    random_ranks: Places
    is_kept: np.typing.NDArray[np.bool_]
    """(M,) which of the guesses these are."""


def judge_replacements(
    logits: Vectors, sampled_ids: Labels, original_ids: Labels, rng: np.random.Generator
) -> Replacements:
    """From the generator's guesses (M, V), for a guess that hits the original replaces nothing."""
    require_finite("plausibility of replacements", logits)
    is_kept = sampled_ids != original_ids
    require("plausibility of replacements", int(is_kept.sum()), 2, "replaced tokens")
    wide = logits[is_kept].astype(np.float64)
    highest = wide.max(axis=1, keepdims=True)
    log_probs = wide - highest - np.log(np.exp(wide - highest).sum(axis=1, keepdims=True))
    rows, drawn = np.arange(len(wide)), sampled_ids[is_kept]
    dealt = rng.permutation(drawn)

    def rank(ids: Labels) -> Places:
        return np.asarray((wide > wide[rows, ids][:, None]).sum(axis=1) + 1, dtype=np.int64)

    return Replacements(log_probs[rows, drawn], rank(drawn), log_probs[rows, dealt], rank(dealt), is_kept)


@dataclass(frozen=True, slots=True)
class Plausibility:
    """Controls: the same of tokens dealt from other places."""

    log_prob: Contrast
    """The mean ln p_G of the replacement."""
    median_rank: Contrast


def measure_plausibility(
    replacements: Replacements, rng: np.random.Generator, *, rows: Labels | None = None, times: int = TIMES
) -> Plausibility:
    """`rows` are the rows of text of all M guesses."""
    groups = None if rows is None else rows[replacements.is_kept]
    count = len(replacements.ranks)

    def mean(values: Floats, places: Places) -> float:
        return float(values[places].mean())

    def median(values: Places, places: Places) -> float:
        return float(np.median(values[places]))

    own, other = replacements.log_probs, replacements.random_log_probs
    rank, other_rank = replacements.ranks, replacements.random_ranks
    return Plausibility(
        Contrast(
            bootstrap_estimate(lambda places: mean(own, places), count, times, rng, groups=groups),
            bootstrap_estimate(lambda places: mean(other, places), count, times, rng, groups=groups),
        ),
        Contrast(
            bootstrap_estimate(lambda places: median(rank, places), count, times, rng, groups=groups),
            bootstrap_estimate(lambda places: median(other_rank, places), count, times, rng, groups=groups),
        ),
    )


def measure_agreement(
    originals: Labels,
    replacements: Labels,
    rng: np.random.Generator,
    *,
    rows: Labels | None = None,
    times: int = TIMES,
) -> Contrast:
    """The share of replacements of the original's category (part of speech). Control: replacements shuffled."""
    require("agreement of categories", len(originals), 2, "replacements")
    is_same = originals == replacements
    estimate = bootstrap_estimate(lambda p: float(is_same[p].mean()), len(is_same), times, rng, groups=rows)
    control = shuffle_estimate(lambda p: float((originals == replacements[p]).mean()), len(is_same), times, rng)
    return Contrast(estimate, control)


def join_replacements(parts: Sequence[Replacements]) -> Replacements:
    """Of one batch after the other."""
    return Replacements(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Replacements))
    )
