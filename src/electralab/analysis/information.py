"""How many bits a token of input teaches: by telling replaced from original, and by naming what was hidden.

verdicts, losses, truth -> bits per token
"""

from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Flags,
    Floats,
    Labels,
    Places,
    Vectors,
    bootstrap_estimate,
    require,
    require_finite,
    shuffle_estimate,
    tally,
)

_LN2 = log(2)


def entropy(counts: NDArray[np.integer | np.floating], *, corrected: bool = False) -> float:
    """Of a discrete variable by its counts, in bits; `corrected` adds Miller and Madow's (K - 1) / 2N nats."""
    seen = np.asarray(counts, dtype=np.float64).ravel()
    seen = seen[seen > 0]
    shares = seen / seen.sum()
    bits = float(-(shares * np.log2(shares)).sum())
    return bits + (len(seen) - 1) / (2 * float(seen.sum()) * _LN2) if corrected else bits


def mutual_information(joint: NDArray[np.integer | np.floating], *, corrected: bool = False) -> float:
    """Of a discrete channel by its joint counts (X, Y), in bits: H(X) + H(Y) - H(X, Y)."""
    both = (entropy(joint.sum(axis=axis), corrected=corrected) for axis in (0, 1))
    return sum(both) - entropy(joint, corrected=corrected)


def count_joint(inputs: Labels, outputs: Labels) -> Floats:
    """(X, Y) counts of pairs of labels from 0 on."""
    shape = int(inputs.max()) + 1, int(outputs.max()) + 1
    return tally(inputs * shape[1] + outputs, shape[0] * shape[1]).reshape(shape)


def measure_mutual_information(
    inputs: Labels,
    outputs: Labels,
    rng: np.random.Generator,
    *,
    groups: Labels | None = None,
    corrected: bool = True,
    times: int = TIMES,
) -> Contrast:
    """Control: outputs shuffled, so that what is left is the estimator's own bias."""
    require("mutual information", len(inputs), 2, "pairs")

    def inform(taken: Places, said: Places) -> float:
        return mutual_information(count_joint(inputs[taken], outputs[said]), corrected=corrected)

    # Drawing again repeats pairs, which looks like dependence.
    estimate = bootstrap_estimate(
        lambda places: inform(places, places), len(inputs), times, rng, groups=groups, centred=True
    )
    still = np.arange(len(inputs))
    return Contrast(estimate, shuffle_estimate(lambda places: inform(still, places), len(inputs), times, rng))


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of each row, so that rows drawn again are added up instead of looked through."""

    losses: Floats  # nats
    replaced: Floats
    tokens: Floats

    def find_bits(self, places: Places) -> float:
        tokens, replaced = self.tokens[places].sum(), self.replaced[places].sum()
        return entropy(np.array([replaced, tokens - replaced])) - float(self.losses[places].sum() / tokens / _LN2)


def find_rtd_losses(logits: Vectors, is_replaced: Flags) -> Floats:
    """The binary cross-entropy of each verdict, in nats."""
    wide = logits.astype(np.float64)
    return np.logaddexp(0.0, wide) - wide * is_replaced


def measure_rtd_bits(
    logits: Vectors, is_replaced: Flags, rows: Labels, rng: np.random.Generator, *, times: int = TIMES
) -> Contrast:
    """H(Y) - loss over all tokens (N,), in bits a token; `rows` says which row each stands in.

    Below 0 where the verdicts are worse than knowing only how many tokens are replaced. Control: verdicts shuffled.
    """
    require("RTD bits", len(logits), 2, "tokens")
    require_finite("RTD bits", logits)
    names, number = np.unique(rows, return_inverse=True)
    count = len(names)

    def add_up(said: Vectors) -> _Sums:
        losses = find_rtd_losses(said, is_replaced)
        return _Sums(tally(number, count, losses), tally(number, count, is_replaced), tally(number, count))

    sums = add_up(logits)
    estimate = bootstrap_estimate(sums.find_bits, count, times, rng)
    everything = np.arange(count)
    control = shuffle_estimate(
        lambda order: add_up(logits[order]).find_bits(everything), len(logits), min(times, 20), rng
    )
    return Contrast(estimate, control)


def find_unigram_losses(train_counts: Labels, target_ids: Labels) -> Floats:
    """What naming each target costs whoever knows only how frequent tokens are, in nats; one is added to each count."""
    smoothed = np.asarray(train_counts, dtype=np.float64) + 1
    return np.asarray(np.log(smoothed.sum()) - np.log(smoothed[target_ids]), dtype=np.float64)


def measure_guess_bits(
    losses: Vectors,
    unigram_losses: Vectors,
    rows: Labels,
    row_tokens: Labels,
    rng: np.random.Generator,
    *,
    times: int = TIMES,
) -> Contrast:
    """(H_unigram - loss) x share of tokens asked about, in bits a token of input.

    Losses in nats of the M guesses, `rows` the row of each, `row_tokens` how many tokens each row has: MLM asks about
    its masked share, a causal model about all. Control: guesses that all cost what a unigram costs on average, which
    is 0 bits, with the spread that rows of rare and of common tokens give by themselves.
    """
    require("guess bits", len(losses), 2, "guesses")
    require_finite("guess bits", losses)
    count = len(row_tokens)
    gains = tally(rows, count, unigram_losses - losses) / _LN2
    priors = tally(rows, count, unigram_losses) / _LN2
    asked = tally(rows, count)
    prior = float(priors.sum() / asked.sum())

    def average(sums: Floats, places: Places) -> float:
        return float(sums[places].sum() / row_tokens[places].sum())

    estimate = bootstrap_estimate(lambda places: average(gains, places), count, times, rng)
    noise = prior * asked - priors
    return Contrast(estimate, bootstrap_estimate(lambda places: average(noise, places), count, times, rng))


def measure_loss_share(has_loss: Flags, rows: Labels, rng: np.random.Generator, *, times: int = TIMES) -> Estimate:
    """The share of positions (N,) that the loss is about: 1 for ELECTRA, the masked share for MLM."""
    require("share of positions with a loss", len(has_loss), 1, "positions")
    return bootstrap_estimate(lambda places: float(has_loss[places].mean()), len(has_loss), times, rng, groups=rows)
