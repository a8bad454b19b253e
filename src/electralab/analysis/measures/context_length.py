"""How much of the row a network uses: what it says of a token as the context that it may see is cut to so many tokens.

AnalysisModel, rows -> AUC or loss by the width of the context, the width that suffices, what far context adds
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.analysis.arrays import BoolArray, FloatArray, Indices, IntArray, auc, require_count, require_finite
from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Finding, Resampler, Skipped, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.model import AnalysisModel
from electralab.analysis.pair import masked_batches, run_pair, with_untrained_control
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.token_models import TwoTower
from electralab.objective.electra import ElectraOutput
from electralab.objective.masking import MaskedBatch
from electralab.statistics import Interval, count_units, percentile_interval
from electralab.tokens.batches import Batch

SUFFICES = 0.9
"""A width suffices where it has this share of what the whole row adds to the token alone."""
FAR = 16
"""What is further away than this many tokens is far."""
_PURPOSE = "long-range sensitivity"
_EACH = 2
"""Replaced and original tokens of every row that are scored; twice as many masked ones are named."""
_BATCH_TOKENS = 8192
_UNKNOWN = Interval(float("nan"), float("nan"), float("nan"))

Float32Array = NDArray[np.float32]
Scores = Callable[[Indices], FloatArray]
"""Indices of tokens, drawn again -> the score at every width."""


@dataclass(frozen=True, slots=True)
class CroppedRows:
    """A short row for each selected token: its surroundings alone, and where it now stands."""

    input_ids: Tensor  # (P, W)
    segment_ids: Tensor  # (P, W)
    is_pad: Tensor  # (P, W)
    positions: Tensor  # (P,) into the flattened (P * W)


def crop_context(
    input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor, positions: Tensor, width: int, *, is_causal: bool
) -> CroppedRows:
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
    return CroppedRows(input_ids[at], segment_ids[at], is_pad[at] | is_outside, flat)


def _crop_all(
    input_ids: Tensor, batch: Batch, positions: Tensor, width: int, *, is_causal: bool
) -> Iterator[CroppedRows]:
    size = max(1, _BATCH_TOKENS // min(2 * width + 2, input_ids.shape[1]))
    for part in torch.split(positions, size):
        yield crop_context(input_ids, batch.segment_ids, batch.is_pad, part, width, is_causal=is_causal)


def _exchange_far(input_ids: Tensor, batch: Batch, positions: Tensor, width: int) -> Iterator[CroppedRows]:
    """A row for each position, whole, in which the words further than `width` tokens away are those of another row.

    The rows are as long as ever: what their far ends say is all that is lost.
    """
    length = input_ids.shape[1]
    is_word, strange = batch.is_ordinary, input_ids.roll(1, dims=0)
    is_exchanged = is_word & is_word.roll(1, dims=0)  # (B, T)
    columns = torch.arange(length, device=input_ids.device)
    for part in torch.split(positions, max(1, _BATCH_TOKENS // length)):
        rows, places = part // length, part % length
        is_far = (columns - places[:, None]).abs() > width  # (P, T)
        ids = torch.where(is_far & is_exchanged[rows], strange[rows], input_ids[rows])
        flat = torch.arange(len(part), device=input_ids.device) * length + places
        yield CroppedRows(ids, batch.segment_ids[rows], batch.is_pad[rows], flat)


@torch.inference_mode()
def rtd_logits_in_context(
    discriminator: Discriminator, input_ids: Tensor, batch: Batch, positions: Tensor, width: int | None
) -> Float32Array:
    """(P,) logits of the tokens at flat positions, each from `width` tokens around it; None means the whole row."""
    positions = positions.to(input_ids.device)
    if width is None:
        logits = discriminator(input_ids, batch.segment_ids, batch.attention_pad).flatten()[positions]
        return _to_numpy(logits)
    crops = _crop_all(input_ids, batch, positions, width, is_causal=False)
    return _rtd_logits(discriminator, crops)


@torch.inference_mode()
def rtd_logits_in_foreign_context(
    discriminator: Discriminator, input_ids: Tensor, batch: Batch, positions: Tensor, width: int
) -> Float32Array:
    """(P,) logits with all that is further than `width` tokens away taken from the next row."""
    rows = _exchange_far(input_ids, batch, positions.to(input_ids.device), width)
    return _rtd_logits(discriminator, rows)


def _rtd_logits(discriminator: Discriminator, rows: Iterator[CroppedRows]) -> Float32Array:
    parts = [discriminator(row.input_ids, row.segment_ids, row.is_pad).flatten()[row.positions] for row in rows]
    return _to_numpy(torch.cat(parts))


@torch.inference_mode()
def lm_losses_in_context(
    generator: TokenModel, masked: MaskedBatch, indices: Tensor, width: int | None, *, is_foreign: bool = False
) -> Float32Array:
    """(P,) what naming each target costs, in nats, at some `indices` of the masked positions.

    A causal network reads the row as it is, up to the token before. `is_foreign`: the row is whole, with all that is
    further than `width` tokens away taken from the next row; masked tokens stay masked there.
    """
    # Towers are causal each, but see both sides together.
    is_causal = generator.config.is_causal and not isinstance(generator, TwoTower)
    indices = indices.to(masked.positions.device)
    batch, positions, targets = masked.batch, masked.positions[indices], masked.target_ids[indices]
    input_ids = masked.input_ids if generator.reads_masked else batch.original_ids
    if width is None:
        logits = generator(input_ids, batch.segment_ids, batch.attention_pad, positions)
    else:
        if is_foreign:
            rows = _exchange_far(input_ids, batch, positions, width)
        else:
            rows = _crop_all(input_ids, batch, positions, width, is_causal=is_causal)
        logits = torch.cat([generator(row.input_ids, row.segment_ids, row.is_pad, row.positions) for row in rows])
    return _to_numpy(F.cross_entropy(logits.float(), targets, reduction="none"))


def _to_numpy(values: Tensor) -> Float32Array:
    return values.float().cpu().numpy()


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


@dataclass(frozen=True, slots=True)
class ContextCurve:
    widths: tuple[int, ...]
    """The first is 0, the token alone; the last is the whole row."""
    scores: tuple[Interval, ...]
    reach: Interval
    """The narrowest width with nine tenths of what the whole row adds to the token alone; NaN if that may be none."""
    gain: Interval
    """What the whole row adds to the token alone."""


def find_reach(widths: Sequence[int], scores: FloatArray) -> float:
    """Where scores, higher being better, first have most of what the last has more than the first."""
    gain = scores[-1] - scores[0]
    if not gain > 0:
        return float("nan")
    return float(widths[int(np.argmax(scores - scores[0] >= SUFFICES * gain))])


def _auc_scores(logits: NDArray[np.floating], is_replaced: BoolArray, purpose: str) -> Scores:
    """The AUC at every width (W,) of logits (W, P) of the same tokens."""
    require_count(purpose, int(is_replaced.sum()), 2, "replaced tokens")
    require_count(purpose, int((~is_replaced).sum()), 2, "original tokens")
    return lambda indices: np.array([auc(row[indices], is_replaced[indices]) for row in logits])


def _mean_losses(losses: NDArray[np.floating], purpose: str) -> Scores:
    """The mean loss at every width (W,) of losses (W, P)."""
    require_count(purpose, losses.shape[1], 2, "guesses")
    return lambda indices: np.asarray(losses[:, indices].mean(axis=1, dtype=np.float64))


def measure_rtd_curve(
    logits: NDArray[np.floating], is_replaced: BoolArray, rows: IntArray, widths: Sequence[int], draws: Resampler
) -> ContextCurve:
    """By AUC, of logits (W, P) of the same tokens at every width; `rows` says which row each stands in."""
    scores = _auc_scores(logits, is_replaced, _PURPOSE)
    return _measure_curve(scores, logits, rows, widths, draws, sign=1)


def measure_lm_curve(
    losses: NDArray[np.floating], rows: IntArray, widths: Sequence[int], draws: Resampler
) -> ContextCurve:
    """By mean loss (W, P); lower is better, and the gain is what the loss falls by."""
    return _measure_curve(_mean_losses(losses, _PURPOSE), losses, rows, widths, draws, sign=-1)


def _measure_curve(
    score: Scores, values: NDArray[np.floating], rows: IntArray, widths: Sequence[int], draws: Resampler, sign: int
) -> ContextCurve:
    require_count(_PURPOSE, len(widths), 2, "widths, the last being the whole row")
    require_count(_PURPOSE, len(np.unique(rows)), 2, "rows")
    require_finite(_PURPOSE, values)
    assert len(values) == len(widths), "an answer at every width"
    units, count = count_units(len(rows), rows), len(rows)
    whole = score(np.arange(count))
    # The same draws for every width, so that what wider adds is not drowned in which rows were drawn.
    drawn = [score(indices) for indices in draws.indices(count, rows)]

    def interval(summary: Callable[[FloatArray], float]) -> Interval:
        return percentile_interval(float(summary(whole)), map(summary, drawn), units)

    gain = interval(lambda scores: float(sign * (scores[-1] - scores[0])))
    reach = interval(lambda scores: find_reach(widths, sign * scores))
    curve = tuple(interval(itemgetter(index)) for index in range(len(widths)))
    # Of a gain that may be none, nine tenths are nowhere.
    return ContextCurve(tuple(widths), curve, reach if gain.low > 0 else _UNKNOWN, gain)


@dataclass(frozen=True, slots=True)
class FarContext:
    gain: Interval
    """How much better the answers are with their own far context than with another row's."""
    share: Interval
    """Of what the whole row adds to the token alone: without a unit, so that AUC and loss can be held against each
    other. NaN where the row may add nothing."""


def measure_far_rtd(
    logits: NDArray[np.floating], is_replaced: BoolArray, rows: IntArray, draws: Resampler
) -> FarContext:
    """By AUC, of logits (3, P) of the same tokens: from the token alone, its row, and another row's far context."""
    return _measure_far(_auc_scores(logits, is_replaced, "far context"), rows, draws, sign=1)


def measure_far_lm(losses: NDArray[np.floating], rows: IntArray, draws: Resampler) -> FarContext:
    """By mean loss (3, P), as by AUC."""
    return _measure_far(_mean_losses(losses, "far context"), rows, draws, sign=-1)


def _measure_far(score: Scores, rows: IntArray, draws: Resampler, sign: int) -> FarContext:
    units, count = count_units(len(rows), rows), len(rows)
    whole = sign * score(np.arange(count))
    drawn = [sign * score(indices) for indices in draws.indices(count, rows)]

    def interval(summary: Callable[[FloatArray], float]) -> Interval:
        return percentile_interval(summary(whole), map(summary, drawn), units)

    def share(scores: FloatArray) -> float:
        added = scores[1] - scores[0]
        return float((scores[1] - scores[2]) / added) if added > 0 else float("nan")

    gain = interval(lambda scores: float(scores[1] - scores[2]))
    added = interval(lambda scores: float(scores[1] - scores[0]))
    return FarContext(gain, interval(share) if added.low > 0 else _UNKNOWN)


@dataclass(frozen=True, slots=True)
class _Task:
    """What is asked of a network, and how its answers are called."""

    id: str
    name: str
    unit: str
    meaning: str
    curve: Callable[[AnalysisModel], ContextCurve]
    far: Callable[[AnalysisModel], FarContext]


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if model.is_pair:
        yield from skip_on_error("rtd_auc.far_gain", "verdict AUC", _findings, model, data, _rtd_task)
    yield from skip_on_error("lm_loss.far_share", "guess loss", _findings, model, data, _lm_task)


def _rtd_task(model: AnalysisModel, data: AnalysisData) -> _Task:
    settings, draws = data.settings, data.settings.resampler("reach of verdicts")
    selected: list[tuple[ElectraOutput, Indices]] = []
    for trial in run_pair(model, data, _PURPOSE):
        is_candidate = trial.masked.batch.is_ordinary.cpu().numpy()
        if model.kind == "electra-15":  # trained on masked positions alone
            is_masked = np.zeros(is_candidate.size, dtype=np.bool_)
            is_masked[trial.masked.positions.cpu().numpy()] = True
            is_candidate = is_candidate & is_masked.reshape(is_candidate.shape)
        is_replaced = trial.corrupted.is_replaced.cpu().numpy()
        selected.append((trial, select_tokens(is_replaced, is_candidate, _EACH, draws)))
    truth = np.concatenate([trial.corrupted.is_replaced.cpu().numpy().ravel()[at] for trial, at in selected])
    rows, length = _row_numbers([(trial.masked, at) for trial, at in selected])

    def logits(network: AnalysisModel, widths: Sequence[int | None], far: int | None = None) -> Float32Array:
        discriminator, columns = network.require_discriminator(_PURPOSE), []
        for trial, at in selected:
            data.conditions.check()
            inputs = trial.corrupted.input_ids, trial.masked.batch, torch.from_numpy(at)
            column = [rtd_logits_in_context(discriminator, *inputs, width) for width in widths]
            if far is not None:
                column.append(rtd_logits_in_foreign_context(discriminator, *inputs, far))
            columns.append(np.stack(column))
        return np.concatenate(columns, axis=1)

    def curve(network: AnalysisModel) -> ContextCurve:
        widths = context_widths(length)
        values = logits(network, [*widths, None])
        return measure_rtd_curve(values, truth, rows, [*widths, length], settings.resampler("reach"))

    def far(network: AnalysisModel) -> FarContext:
        values = logits(network, [0, None], FAR)
        return measure_far_rtd(values, truth, rows, settings.resampler("far context"))

    meaning = "AUC of verdicts on tokens of which only so many neighbours to each side are shown"
    return _Task("rtd_auc", "verdict AUC", "AUC", meaning, curve, far)


def _lm_task(model: AnalysisModel, data: AnalysisData) -> _Task:
    settings, draws = data.settings, data.settings.resampler("reach of guesses")
    selected: list[tuple[MaskedBatch, Indices]] = []
    for masked in masked_batches(model, data):
        is_masked = np.zeros(masked.input_ids.shape, dtype=np.bool_)
        positions = masked.positions.cpu().numpy()
        is_masked.ravel()[positions] = True
        chosen = select_tokens(is_masked, is_masked, 2 * _EACH, draws)
        selected.append((masked, np.searchsorted(positions, chosen)))
    rows, length = _row_numbers([(masked, masked.positions.cpu().numpy()[indices]) for masked, indices in selected])

    def losses(network: AnalysisModel, widths: Sequence[int | None], far: int | None = None) -> Float32Array:
        generator, columns = network.require_generator(_PURPOSE), []
        for masked, indices in selected:
            data.conditions.check()
            at = torch.from_numpy(indices)
            column = [lm_losses_in_context(generator, masked, at, width) for width in widths]
            if far is not None:
                column.append(lm_losses_in_context(generator, masked, at, far, is_foreign=True))
            columns.append(np.stack(column))
        return np.concatenate(columns, axis=1)

    def curve(network: AnalysisModel) -> ContextCurve:
        widths = context_widths(length)
        values = losses(network, [*widths, None])
        return measure_lm_curve(values, rows, [*widths, length], settings.resampler("reach"))

    def far(network: AnalysisModel) -> FarContext:
        values = losses(network, [0, None], FAR)
        return measure_far_lm(values, rows, settings.resampler("far context"))

    sides = "before it" if model.kind == "causal" else "to each side"
    meaning = f"the loss of naming a token of which only so many neighbours {sides} are shown"
    return _Task("lm_loss", "guess loss", "nats", meaning, curve, far)


def _row_numbers(selected: Sequence[tuple[MaskedBatch, Indices]]) -> tuple[IntArray, int]:
    """The rows in which flat positions stand, and how long these are."""
    length = selected[0][0].input_ids.shape[1]
    return np.concatenate([masked.batch.row_numbers[at // length] for masked, at in selected]), length


def _findings(
    model: AnalysisModel, data: AnalysisData, prepare: Callable[[AnalysisModel, AnalysisData], _Task]
) -> Iterator[Finding]:
    task = prepare(model, data)
    id, name, unit = task.id, task.name, task.unit
    sides = "−" if model.kind == "causal" else "±"
    note = "the row's first token is always shown"

    def compute(network: AnalysisModel) -> Iterator[Finding]:
        curve, far = task.curve(network), task.far(network)
        meaning = "the narrowest width with nine tenths of what the whole row adds to the token alone"
        yield Finding(f"{id}.reach", f"{name}, reach", "tokens", meaning, curve.reach, note=note)
        meaning = "how much better answers are with the whole row than from the token alone"
        yield Finding(f"{id}.gain", f"{name}, gain by context", unit, meaning, curve.gain, note=note)
        meaning = (
            f"what the row's own text beyond {FAR} tokens adds to the answers, over that of another row in its place"
        )
        yield Finding(f"{id}.far_gain", f"{name}, gain beyond ±{FAR}", unit, meaning, far.gain, note=note)
        meaning = f"how much of what the row adds to the token alone comes from beyond {FAR} tokens"
        yield Finding(f"{id}.far_share", f"{name}, share beyond ±{FAR}", "share", meaning, far.share, note=note)
        for width, score in zip(curve.widths, curve.scores, strict=True):
            is_all = width == curve.widths[-1]
            part = "all" if is_all else str(width)
            label = f"{name}, whole row" if is_all else f"{name}, {sides}{width}"
            series = f"{name} by neighbours shown"
            yield Finding(f"{id}.{part}", label, unit, task.meaning, score, note=note, series=series, part=part)

    return with_untrained_control(model, data, compute)


MEASURE = Measure(
    "context_length",
    "M38",
    "long-range sensitivity",
    "How many neighbours does a verdict or a guess take into account?",
    measure,
    answers=("context_length.rtd_auc.gain", "context_length.lm_loss.gain"),
    version=2,
)
