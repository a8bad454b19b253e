"""How much of the row a network uses: what it says of a token as the context that it may see is cut to so many tokens.

AnalysisModel, rows -> AUC or loss by the width of the context, the width that suffices, what far context adds
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.analysis.arrays import BoolArray, FloatArray, Indices, IntArray, auc, require_count
from electralab.analysis.finding import Finding, Resampler, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import masked_batches, run_pair, with_untrained_control
from electralab.model.electra import Discriminator, TokenModel, TwoTower
from electralab.objective.corruption import CorruptedBatch
from electralab.objective.masking import MaskedBatch
from electralab.statistics import Interval
from electralab.tokens.batches import Batch

# A width suffices where it has this share of what the whole row adds to the token alone.
SUFFICES = 0.9
# What is further away than this many tokens is far.
FAR = 16
_PURPOSE = "long-range sensitivity"
# Replaced and original tokens of every row that are scored; twice as many masked ones are named.
_EACH = 2
_BATCH_TOKENS = 8192
_UNKNOWN = Interval(float("nan"), float("nan"), float("nan"))

Float32Array = NDArray[np.float32]
# Indices of tokens, drawn again -> the score at every width.
Scores = Callable[[Indices], FloatArray]


class ContextRows(NamedTuple):
    """A row for each selected token, with what it may see, and where it stands there."""

    input_ids: Tensor  # (P, W)
    segment_ids: Tensor  # (P, W)
    is_pad: Tensor  # (P, W)
    positions: Tensor  # (P,) into the flattened (P * W)


def crop_context(
    input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor, positions: Tensor, width: int, *, is_causal: bool
) -> ContextRows:
    """`width` tokens to each side, of a causal network to the left only. Flat positions (P,) of tokens but the first.

    The row's first token, which says nothing about it, stays before the window: to the network this is a short text,
    as the beginnings of rows are.
    """
    length = input_ids.shape[1]
    rows, columns = positions // length, (positions % length)[:, None]  # (P, 1)
    starts = (columns - width).clamp(min=1)
    ends = columns if is_causal else (columns + width).clamp(max=length - 1)
    size = int((ends - starts).max()) + 1
    window = starts + torch.arange(size, device=positions.device)  # (P, W - 1)
    is_outside = F.pad(window > ends, (1, 0), value=False)
    at = rows[:, None], F.pad(window.clamp(max=length - 1), (1, 0))
    flat = torch.arange(len(positions), device=positions.device) * (size + 1) + (columns - starts + 1).squeeze(1)
    return ContextRows(input_ids[at], segment_ids[at], is_pad[at] | is_outside, flat)


def _context_rows(
    input_ids: Tensor, batch: Batch, positions: Tensor, width: int, *, is_foreign: bool, is_causal: bool = False
) -> Iterator[ContextRows]:
    """What stands within `width` tokens alone; `is_foreign`: the row is whole, and what is further away another's."""
    length = input_ids.shape[1]
    is_word, strange = batch.is_ordinary, input_ids.roll(1, dims=0)
    is_exchanged = is_word & is_word.roll(1, dims=0)  # (B, T)
    for part in torch.split(positions, max(1, _BATCH_TOKENS // (length if is_foreign else min(2 * width + 2, length)))):
        if not is_foreign:
            yield crop_context(input_ids, batch.segment_ids, batch.is_pad, part, width, is_causal=is_causal)
            continue
        # The rows are as long as ever: what their far ends say is all that is lost.
        rows, places = part // length, part % length
        is_far = (torch.arange(length, device=part.device) - places[:, None]).abs() > width  # (P, T)
        ids = torch.where(is_far & is_exchanged[rows], strange[rows], input_ids[rows])
        flat = torch.arange(len(part), device=part.device) * length + places
        yield ContextRows(ids, batch.segment_ids[rows], batch.is_pad[rows], flat)


@torch.inference_mode()
def rtd_logits_in_context(
    discriminator: Discriminator,
    corrupted: CorruptedBatch,
    positions: Tensor,
    width: int | None,
    *,
    is_foreign: bool = False,
) -> Float32Array:
    """(P,) logits of the tokens at flat positions, each from `width` tokens around it; None means the whole row.

    `is_foreign`: from the whole row, with all that is further than `width` tokens away taken from the next row.
    """
    input_ids, batch = corrupted.input_ids, corrupted.masked.batch
    if width is None:
        logits = discriminator(input_ids, batch.segment_ids, batch.attention_pad).flatten()[positions]
    else:
        rows = _context_rows(input_ids, batch, positions, width, is_foreign=is_foreign)
        logits = torch.cat([discriminator(*inputs).flatten()[flat] for *inputs, flat in rows])
    return np.asarray(logits.float().cpu().numpy())


@torch.inference_mode()
def lm_losses_in_context(
    generator: TokenModel, masked: MaskedBatch, positions: Tensor, width: int | None, *, is_foreign: bool = False
) -> Float32Array:
    """(P,) what naming each target costs, in nats, at some flat positions of those that are masked.

    A causal network reads the row as it is, up to the token before. Masked tokens stay masked in foreign rows.
    """
    # Towers are causal each, but see both sides together.
    is_causal = generator.config.is_causal and not isinstance(generator, TwoTower)
    batch = masked.batch
    input_ids = masked.input_ids if generator.reads_masked else batch.original_ids
    if width is None:
        logits = generator(input_ids, batch.segment_ids, batch.attention_pad, positions)
    else:
        rows = _context_rows(input_ids, batch, positions, width, is_foreign=is_foreign, is_causal=is_causal)
        logits = torch.cat([generator(*inputs) for inputs in rows])
    targets = batch.original_ids.flatten()[positions]
    return np.asarray(F.cross_entropy(logits.float(), targets, reduction="none").cpu().numpy())


def select_tokens(is_replaced: BoolArray, is_ordinary: BoolArray, each: int, draws: Resampler) -> Indices:
    """(B, T) flags -> flat positions, at most `each` replaced and `each` original tokens of every row, in their order.

    The AUC is that of all tokens: it does not depend on how many there are of either kind.
    """
    uniforms = draws.rng.random(is_replaced.shape)
    chosen = np.zeros_like(is_replaced)
    for kind in (is_replaced & is_ordinary, ~is_replaced & is_ordinary):
        ranks = np.where(kind, uniforms, 2.0).argsort(axis=1).argsort(axis=1)
        chosen |= kind & (ranks < each)
    return np.flatnonzero(chosen)


def context_widths(length: int) -> list[int]:
    """0, 1, 2, 4, ... below the length of a row.

    >>> context_widths(16)
    [0, 1, 2, 4, 8]
    """
    return [0, *(2**power for power in range(length.bit_length()) if 2**power < length - 1)]


def find_reach(widths: Sequence[int], scores: FloatArray) -> float:
    """Where scores, higher being better, first have most of what the last has more than the first."""
    gain = scores[-1] - scores[0]
    if not gain > 0:
        return float("nan")
    return float(widths[int(np.argmax(scores - scores[0] >= SUFFICES * gain))])


def auc_scores(logits: NDArray[np.floating], is_replaced: BoolArray) -> Scores:
    """The AUC at every width (W,) of logits (W, P) of the same tokens."""
    require_count(_PURPOSE, int(is_replaced.sum()), 2, "replaced tokens")
    require_count(_PURPOSE, int((~is_replaced).sum()), 2, "original tokens", logits)
    return lambda indices: np.array([auc(row[indices], is_replaced[indices]) for row in logits])


def mean_losses(losses: NDArray[np.floating]) -> Scores:
    """The mean loss at every width (W,) of losses (W, P)."""
    require_count(_PURPOSE, losses.shape[1], 2, "guesses", losses)
    return lambda indices: np.asarray(losses[:, indices].mean(axis=1, dtype=np.float64))


class ContextCurve(NamedTuple):
    scores: list[Interval]
    """At every width; the first is 0, the token alone, the last the whole row."""
    reach: Interval
    """The narrowest width with nine tenths of what the whole row adds to the token alone; NaN if that may be none."""
    gain: Interval
    """What the whole row adds to the token alone."""


def measure_curve(
    score: Scores, rows: IntArray, widths: Sequence[int], draws: Resampler, *, is_loss: bool = False
) -> ContextCurve:
    """The score of the same tokens at every width; `rows` says which row each stands in.

    Of a loss, which is better where it is lower, the gain is what it falls by.
    """
    require_count(_PURPOSE, len(widths), 2, "widths, the last being the whole row")
    require_count(_PURPOSE, len(np.unique(rows)), 2, "rows")
    # The same draws for every width, so that what wider adds is not drowned in which rows were drawn.
    interval, sign = draws.readings(score, len(rows), rows), -1 if is_loss else 1
    gain = interval(lambda scores: float(sign * (scores[-1] - scores[0])))
    reach = interval(lambda scores: find_reach(widths, sign * scores))
    curve = [interval(itemgetter(index)) for index in range(len(widths))]
    # Of a gain that may be none, nine tenths are nowhere.
    return ContextCurve(curve, reach if gain.low > 0 else _UNKNOWN, gain)


def measure_far(score: Scores, rows: IntArray, draws: Resampler, *, is_loss: bool = False) -> tuple[Interval, Interval]:
    """How much better answers are with their own far context than with another row's; and which share that is of what
    the whole row adds to the token alone, without a unit, so that AUC and loss can be held against each other.

    By scores (3,): from the token alone, from its row, and from the row with another row's far context.
    """
    interval, sign = draws.readings(score, len(rows), rows), -1 if is_loss else 1

    def share(scores: FloatArray) -> float:
        added = sign * (scores[1] - scores[0])
        return float(sign * (scores[1] - scores[2]) / added) if added > 0 else float("nan")

    gain = interval(lambda scores: float(sign * (scores[1] - scores[2])))
    added = interval(lambda scores: float(sign * (scores[1] - scores[0])))
    # NaN where the row may add nothing.
    return gain, interval(share) if added.low > 0 else _UNKNOWN


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """How many neighbours does a verdict or a guess take into account?"""
    if model.is_pair:
        with skip_on_error("rtd_auc.far_gain", "verdict AUC") as skipped:
            yield from _findings(model, data, is_loss=False)
        yield from skipped
    with skip_on_error("lm_loss.far_share", "guess loss") as skipped:
        yield from _findings(model, data, is_loss=True)
    yield from skipped


def _findings(model: AnalysisModel, data: AnalysisData, *, is_loss: bool) -> Iterator[Finding]:
    id, name, unit = ("lm_loss", "guess loss", "nats") if is_loss else ("rtd_auc", "verdict AUC", "AUC")
    note, is_causal = "the row's first token is always shown", model.kind == "causal"
    draws = data.settings.resampler("reach of guesses" if is_loss else "reach of verdicts")
    batches: Iterable[tuple[MaskedBatch, CorruptedBatch | None]]
    if is_loss:
        batches = ((masked, None) for masked in masked_batches(model, data))
    else:
        batches = ((output.masked, output.corrupted) for output in run_pair(model, data, _PURPOSE))
    # Batches, corrupted where the discriminator is asked, and flat positions of the tokens that are asked about.
    selected: list[tuple[MaskedBatch, CorruptedBatch | None, Tensor]] = []
    for masked, corrupted in batches:
        is_masked = np.zeros(masked.input_ids.shape, dtype=np.bool_)
        is_masked.flat[masked.positions.cpu().numpy()] = True
        if corrupted is None:
            positions = select_tokens(is_masked, is_masked, 2 * _EACH, draws)
        else:
            is_candidate = masked.batch.is_ordinary.cpu().numpy()
            if model.kind == "electra-15":  # trained on masked positions alone
                is_candidate = is_candidate & is_masked
            positions = select_tokens(corrupted.is_replaced.cpu().numpy(), is_candidate, _EACH, draws)
        selected.append((masked, corrupted, torch.from_numpy(positions).to(masked.input_ids.device)))
    length = selected[0][0].input_ids.shape[1]
    widths = [*context_widths(length), length]
    rows = np.concatenate([masked.batch.row_numbers[at.cpu().numpy() // length] for masked, _, at in selected])

    def compute(network: AnalysisModel) -> Iterator[Finding]:
        values = []
        for width, is_foreign in [*((width, False) for width in widths[:-1]), (None, False), (FAR, True)]:
            data.conditions.check()
            parts = []
            for masked, corrupted, positions in selected:
                if corrupted is None:
                    generator = network.require_generator(_PURPOSE)
                    parts.append(lm_losses_in_context(generator, masked, positions, width, is_foreign=is_foreign))
                else:
                    judge = network.require_discriminator(_PURPOSE)
                    parts.append(rtd_logits_in_context(judge, corrupted, positions, width, is_foreign=is_foreign))
            values.append(np.concatenate(parts))
        truth = [corrupted.is_replaced.flatten()[at].cpu().numpy() for _, corrupted, at in selected if corrupted]
        score = mean_losses if is_loss else partial(auc_scores, is_replaced=np.concatenate(truth))
        draws, far_draws = data.settings.resampler("reach"), data.settings.resampler("far context")
        curve = measure_curve(score(np.stack(values[:-1])), rows, widths, draws, is_loss=is_loss)
        # The token alone, its row, and the row with another's far context.
        far = score(np.stack([values[0], *values[-2:]]))
        far_gain, far_share = measure_far(far, rows, far_draws, is_loss=is_loss)
        meaning = "the narrowest width with nine tenths of what the whole row adds to the token alone"
        yield Finding(f"{id}.reach", f"{name}, reach", "tokens", meaning, curve.reach, note=note)
        meaning = "how much better answers are with the whole row than from the token alone"
        yield Finding(f"{id}.gain", f"{name}, gain by context", unit, meaning, curve.gain, note=note)
        meaning = f"what the row's own text beyond {FAR} tokens adds to the answers"
        meaning += ", over that of another row in its place"
        yield Finding(f"{id}.far_gain", f"{name}, gain beyond ±{FAR}", unit, meaning, far_gain, note=note)
        meaning = f"how much of what the row adds to the token alone comes from beyond {FAR} tokens"
        yield Finding(f"{id}.far_share", f"{name}, share beyond ±{FAR}", "share", meaning, far_share, note=note)
        sides, series = "before it" if is_causal else "to each side", f"{name} by neighbours shown"
        what = "the loss of naming a token" if is_loss else "AUC of verdicts on tokens"
        meaning = f"{what} of which only so many neighbours {sides} are shown"
        for width, estimate in zip(widths, curve.scores, strict=True):
            part, shown = str(width), f"{'−' if is_causal else '±'}{width}"
            if width == length:
                part, shown = "all", "whole row"
            title = f"{name}, {shown}"
            yield Finding(f"{id}.{part}", title, unit, meaning, estimate, note=note, series=series, part=part)

    return with_untrained_control(model, data, compute)


_ANSWERS = ("context_length.rtd_auc.gain", "context_length.lm_loss.gain")
MEASURE = Measure("M38", "long-range sensitivity", measure, answers=_ANSWERS, version=2)
