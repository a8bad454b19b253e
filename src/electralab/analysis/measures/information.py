"""How many bits a token of input teaches, and a FLOP: by telling replaced from original, and by naming what is masked.

AnalysisModel, rows -> bits per token, bits per GFLOP, share of positions with a loss
"""

from collections.abc import Iterator
from math import log

import numpy as np
from numpy.typing import NDArray

from electralab.analysis.arrays import BoolArray, FloatArray, IntArray, Matrix, count_at, require_count
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import lm_losses, pair_outputs

_LN2 = log(2)
_GIGA = 1e9
_BINS = 50
# Their loss is about every token, although they are asked for logits at masked positions only.
_ASKS_ALL = ("electric", "all-tokens-mlm")
_SHUFFLED = "the same verdicts, dealt to other tokens"
_UNIGRAM = "guesses that all cost what a unigram costs on average"


def entropy(counts: NDArray[np.integer | np.floating], *, corrected: bool = False) -> float:
    """The entropy of a discrete variable by its counts, in bits; `corrected` adds Miller and Madow's (K - 1) / 2N nats.

    >>> entropy(np.array([4, 2, 2]))
    1.5
    """
    seen = np.asarray(counts, dtype=np.float64).ravel()
    seen = seen[seen > 0]
    probs = seen / seen.sum()
    bits = float(-(probs * np.log2(probs)).sum())
    return bits + (len(seen) - 1) / (2 * float(seen.sum()) * _LN2) if corrected else bits


def mutual_information(joint: NDArray[np.integer | np.floating], *, corrected: bool = False) -> float:
    """The information of a discrete channel by its joint counts (X, Y), in bits: H(X) + H(Y) - H(X, Y)."""
    both = (entropy(joint.sum(axis=axis), corrected=corrected) for axis in (0, 1))
    return sum(both) - entropy(joint, corrected=corrected)


def measure_mutual_information(
    inputs: IntArray, outputs: IntArray, draws: Resampler, *, groups: IntArray | None = None
) -> Controlled:
    """Between pairs of labels from 0 on. Control: outputs shuffled, which leaves the estimator's own bias."""
    require_count("mutual information", len(inputs), 2, "pairs")

    def inform(first: IntArray, second: IntArray) -> float:
        taken, given = inputs[first], outputs[second]
        shape = int(taken.max()) + 1, int(given.max()) + 1
        joint = count_at(taken * shape[1] + given, shape[0] * shape[1]).reshape(shape)
        return mutual_information(joint, corrected=True)

    # Drawing again repeats pairs, which looks like dependence: hence centred.
    estimate = draws.interval(lambda indices: inform(indices, indices), len(inputs), groups, centred=True)
    everything = np.arange(len(inputs))
    return Controlled(estimate, draws.shuffled(lambda order: inform(everything, order), len(inputs)))


def measure_rtd_bits(logits: Matrix, is_replaced: BoolArray, rows: IntArray, draws: Resampler) -> Controlled:
    """H(Y) - loss over all tokens (N,), in bits a token; `rows` says which row each stands in.

    Below 0 where the logits are worse than knowing only how many tokens are replaced. Control: logits shuffled.
    """
    require_count("RTD bits", len(logits), 2, "tokens", logits)
    names, row_numbers = np.unique(rows, return_inverse=True)
    count = len(names)
    tokens, replaced = count_at(row_numbers, count), count_at(row_numbers, count, is_replaced)

    def bits(losses: FloatArray, indices: IntArray) -> float:
        # By sums of each row, so that rows drawn again are added up instead of looked through.
        num_tokens, num_replaced = tokens[indices].sum(), replaced[indices].sum()
        prior = entropy(np.array([num_replaced, num_tokens - num_replaced]))
        return prior - float(losses[indices].sum() / num_tokens / _LN2)

    def row_losses(values: Matrix) -> FloatArray:
        wide = values.astype(np.float64)
        # The binary cross-entropy of each logit, in nats.
        return count_at(row_numbers, count, np.logaddexp(0.0, wide) - wide * is_replaced)

    losses = row_losses(logits)
    estimate = draws.interval(lambda indices: bits(losses, indices), count)
    # Shuffled over all tokens, not within rows: what is left then is the prior alone.
    control = draws.shuffled(lambda order: bits(row_losses(logits[order]), np.arange(count)), len(logits), 20)
    return Controlled(estimate, control)


def measure_lm_bits(
    losses: Matrix, unigram_losses: Matrix, rows: IntArray, row_tokens: IntArray, draws: Resampler
) -> Controlled:
    """(H_unigram - loss) x share of tokens asked about, in bits a token of input.

    Losses in nats of the M targets, `rows` the row of each, `row_tokens` how many tokens each row has: MLM asks about
    its masked share, a causal model about all. Control: guesses that all cost what a unigram costs on average, which
    is 0 bits, with the spread that rows of rare and of common tokens give by themselves.
    """
    require_count("guess bits", len(losses), 2, "guesses", losses)
    count = len(row_tokens)
    gains = count_at(rows, count, unigram_losses - losses) / _LN2
    priors = count_at(rows, count, unigram_losses) / _LN2
    targets = count_at(rows, count)
    # What guesses at the unigram's average price would seem to gain in rows of rare tokens.
    noise = float(priors.sum() / targets.sum()) * targets - priors
    return Controlled(draws.ratio(gains, row_tokens), draws.ratio(noise, row_tokens))


def loss_share(has_loss: BoolArray, rows: IntArray, draws: Resampler) -> Finding:
    """The share of positions (N,) that the loss is about: 1 for ELECTRA, the masked share for MLM."""
    require_count("share of positions with a loss", len(has_loss), 1, "positions")
    meaning, note = "ordinary tokens that the loss is about / ordinary tokens", "a count: there is no control"
    share = draws.mean(has_loss, rows)
    return Finding("loss_share", "positions with a loss", "share", meaning, share, note=note)


def _bits_per_flop(id: str, name: str, bits: Controlled, model: AnalysisModel, control: str) -> Iterator[Finding]:
    flops = model.flops_per_token
    if flops is not None:
        meaning = f"bits per token / FLOPs of training per token ({flops:.3g}, forward and backward of all networks)"
        yield Finding(id, name, "bits/GFLOP", meaning, *bits.scale(_GIGA / flops), control)


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """How many bits does a token of input, and a FLOP, teach?"""
    draws, is_rtd = data.settings.resampler("information"), model.kind in ("electra", "electra-15")
    if model.kind == "electric":
        reason = f"{model.name}: says energies, not how likely a token was replaced; give a run of electra"
        yield Skipped("rtd_bits", "verdict bits", reason)
    if is_rtd:
        with skip_on_error("rtd_bits", "verdict bits") as skipped:
            outputs = pair_outputs(model, data, "measuring verdicts")
            has_loss = outputs.is_masked if model.kind == "electra-15" else np.ones_like(outputs.is_masked)
            logits, is_replaced = outputs.logits[has_loss], outputs.is_replaced[has_loss]
            row_ids, share = outputs.rows[has_loss], float(has_loss.mean())
            bits = measure_rtd_bits(logits, is_replaced, row_ids, draws).scale(share)
            meaning = "H(Y) - loss of telling replaced tokens from original ones, over the row's ordinary tokens"
            note = "against its own generator: a better one makes verdicts harder"
            yield Finding("rtd_bits", "verdict bits", "bits/token", meaning, *bits, _SHUFFLED, note)
            yield from _bits_per_flop("rtd_bits_per_flop", "verdict bits per GFLOP", bits, model, _SHUFFLED)
            # By rank: neither how sure the logits are nor where their threshold lies matters.
            bins = np.searchsorted(np.quantile(logits, np.arange(1, _BINS) / _BINS), logits)
            known = measure_mutual_information(is_replaced.astype(np.int64), bins, draws, groups=row_ids).scale(share)
            meaning = (
                "I(Y; fiftieth that the verdict is in), over the row's ordinary tokens: what the verdicts' order tells"
            )
            yield Finding("rtd_information", "verdict information", "bits/token", meaning, *known, _SHUFFLED)
            yield loss_share(has_loss, outputs.rows, draws)
        yield from skipped
    with skip_on_error("lm_bits", "guess bits") as skipped:
        rows = data.read_rows(model)
        lm = lm_losses(model, data, "guessing tokens", is_causal=model.kind == "causal")
        row_tokens = model.tokenizer.is_ordinary[rows.ids].sum(axis=1)
        bits = measure_lm_bits(lm.losses, -rows.unigram[lm.target_ids], lm.rows, row_tokens, draws)
        meaning = "(what a unigram pays - loss) of naming tokens, times the share of tokens asked about"
        note = "" if model.discriminator is None else "of its generator"
        yield Finding("lm_bits", "guess bits", "bits/token", meaning, *bits, _UNIGRAM, note)
        if not is_rtd:  # naming tokens is all that the model is trained by
            yield from _bits_per_flop("lm_bits_per_flop", "guess bits per GFLOP", bits, model, _UNIGRAM)
            counts = row_tokens if model.kind in _ASKS_ALL else np.bincount(lm.rows, minlength=len(row_tokens))
            has_loss = np.concatenate([np.arange(n) < k for n, k in zip(row_tokens, counts, strict=True)])
            yield loss_share(has_loss, np.repeat(np.arange(len(row_tokens)), row_tokens), draws)
    yield from skipped


MEASURE = Measure("M30", "information", measure)
