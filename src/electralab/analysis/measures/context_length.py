"""How much of the row a network uses: what it says of a token as the context that it may see is cut to so many tokens.

AnalysisModel, rows -> AUC or loss by the width of the context, the width that suffices, what far context adds
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
from electralab.model.electra import Discriminator, TokenModel, TwoTower
from electralab.objective.masking import MaskedBatch
from electralab.statistics import Interval, count_units, percentile_interval
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


def auc_scores(logits: NDArray[np.floating], is_replaced: BoolArray) -> Scores:
    """The AUC at every width (W,) of logits (W, P) of the same tokens."""
    require_count(_PURPOSE, int(is_replaced.sum()), 2, "replaced tokens")
    require_count(_PURPOSE, int((~is_replaced).sum()), 2, "original tokens")
    require_finite(_PURPOSE, logits)
    return lambda indices: np.array([auc(row[indices], is_replaced[indices]) for row in logits])


def mean_losses(losses: NDArray[np.floating]) -> Scores:
    """The mean loss at every width (W,) of losses (W, P)."""
    require_count(_PURPOSE, losses.shape[1], 2, "guesses")
    require_finite(_PURPOSE, losses)
    return lambda indices: np.asarray(losses[:, indices].mean(axis=1, dtype=np.float64))


def measure_curve(
    score: Scores, rows: IntArray, widths: Sequence[int], draws: Resampler, *, is_loss: bool = False
) -> ContextCurve:
    """The score of the same tokens at every width; `rows` says which row each stands in.

    Of a loss, which is better where it is lower, the gain is what it falls by.
    """
    require_count(_PURPOSE, len(widths), 2, "widths, the last being the whole row")
    require_count(_PURPOSE, len(np.unique(rows)), 2, "rows")
    units, sign = count_units(len(rows), rows), -1 if is_loss else 1
    whole = score(np.arange(len(rows)))
    assert len(whole) == len(widths), "an answer at every width"
    # The same draws for every width, so that what wider adds is not drowned in which rows were drawn.
    drawn = [score(indices) for indices in draws.indices(len(rows), rows)]

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


def measure_far(score: Scores, rows: IntArray, draws: Resampler, *, is_loss: bool = False) -> FarContext:
    """By scores (3,): from the token alone, from its row, and from the row with another row's far context."""
    units, sign = count_units(len(rows), rows), -1 if is_loss else 1
    whole = sign * score(np.arange(len(rows)))
    drawn = [sign * score(indices) for indices in draws.indices(len(rows), rows)]

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
    selected: Sequence[tuple[MaskedBatch, Indices]]
    """Batches, and the flat positions of the tokens that are asked about."""
    answers: Callable[[AnalysisModel, int], Iterator[Float32Array]]
    """A network and the number of a batch -> the answers at every width, the whole row, and with a foreign far
    context. (P,) each"""
    score: Callable[[Float32Array], Scores]
    is_loss: bool = False


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if model.is_pair:
        yield from skip_on_error("rtd_auc.far_gain", "verdict AUC", _findings, model, data, _rtd_task)
    yield from skip_on_error("lm_loss.far_share", "guess loss", _findings, model, data, _lm_task)


def _rtd_task(model: AnalysisModel, data: AnalysisData) -> _Task:
    draws, outputs, selected, truth = data.settings.resampler("reach of verdicts"), [], [], []
    for output in run_pair(model, data, _PURPOSE):
        masked, is_replaced = output.masked, output.corrupted.is_replaced.cpu().numpy()
        is_candidate = masked.batch.is_ordinary.cpu().numpy()
        if model.kind == "electra-15":  # trained on masked positions alone
            is_masked = np.zeros(is_candidate.size, dtype=np.bool_)
            is_masked[masked.positions.cpu().numpy()] = True
            is_candidate = is_candidate & is_masked.reshape(is_candidate.shape)
        positions = select_tokens(is_replaced, is_candidate, _EACH, draws)
        outputs.append(output)
        selected.append((masked, positions))
        truth.append(is_replaced.ravel()[positions])
    widths = context_widths(selected[0][0].input_ids.shape[1])

    def answers(network: AnalysisModel, number: int) -> Iterator[Float32Array]:
        discriminator, (masked, positions) = network.require_discriminator(_PURPOSE), selected[number]
        inputs = outputs[number].corrupted.input_ids, masked.batch, torch.from_numpy(positions)
        for width in (*widths, None):
            yield rtd_logits_in_context(discriminator, *inputs, width)
        yield rtd_logits_in_foreign_context(discriminator, *inputs, FAR)

    is_replaced = np.concatenate(truth)
    meaning = "AUC of verdicts on tokens of which only so many neighbours to each side are shown"
    score = partial(auc_scores, is_replaced=is_replaced)
    return _Task("rtd_auc", "verdict AUC", "AUC", meaning, selected, answers, score)


def _lm_task(model: AnalysisModel, data: AnalysisData) -> _Task:
    draws, selected = data.settings.resampler("reach of guesses"), []
    for masked in masked_batches(model, data):
        is_masked = np.zeros(masked.input_ids.shape, dtype=np.bool_)
        is_masked.ravel()[masked.positions.cpu().numpy()] = True
        selected.append((masked, select_tokens(is_masked, is_masked, 2 * _EACH, draws)))
    widths = context_widths(selected[0][0].input_ids.shape[1])

    def answers(network: AnalysisModel, number: int) -> Iterator[Float32Array]:
        generator, (masked, positions) = network.require_generator(_PURPOSE), selected[number]
        indices = torch.from_numpy(np.searchsorted(masked.positions.cpu().numpy(), positions))
        for width in (*widths, None):
            yield lm_losses_in_context(generator, masked, indices, width)
        yield lm_losses_in_context(generator, masked, indices, FAR, is_foreign=True)

    sides = "before it" if model.kind == "causal" else "to each side"
    meaning = f"the loss of naming a token of which only so many neighbours {sides} are shown"
    return _Task("lm_loss", "guess loss", "nats", meaning, selected, answers, mean_losses, is_loss=True)


def _findings(
    model: AnalysisModel, data: AnalysisData, prepare: Callable[[AnalysisModel, AnalysisData], _Task]
) -> Iterator[Finding]:
    task = prepare(model, data)
    id, name, unit = task.id, task.name, task.unit
    sides, note = "−" if model.kind == "causal" else "±", "the row's first token is always shown"
    length = task.selected[0][0].input_ids.shape[1]
    widths = [*context_widths(length), length]
    rows = np.concatenate([masked.batch.row_numbers[positions // length] for masked, positions in task.selected])

    def compute(network: AnalysisModel) -> Iterator[Finding]:
        columns = []
        for number in range(len(task.selected)):
            data.conditions.check()
            columns.append(np.stack(list(task.answers(network, number))))
        values = np.concatenate(columns, axis=1)  # (widths, whole row, far context; P)
        curve = measure_curve(
            task.score(values[:-1]), rows, widths, data.settings.resampler("reach"), is_loss=task.is_loss
        )
        # The token alone, its row, and the row with another's far context.
        score = task.score(values[[0, -2, -1]])
        far = measure_far(score, rows, data.settings.resampler("far context"), is_loss=task.is_loss)
        meaning = "the narrowest width with nine tenths of what the whole row adds to the token alone"
        yield Finding(f"{id}.reach", f"{name}, reach", "tokens", meaning, curve.reach, note=note)
        meaning = "how much better answers are with the whole row than from the token alone"
        yield Finding(f"{id}.gain", f"{name}, gain by context", unit, meaning, curve.gain, note=note)
        own = f"what the row's own text beyond {FAR} tokens adds to the answers"
        meaning = f"{own}, over that of another row in its place"
        yield Finding(f"{id}.far_gain", f"{name}, gain beyond ±{FAR}", unit, meaning, far.gain, note=note)
        meaning = f"how much of what the row adds to the token alone comes from beyond {FAR} tokens"
        yield Finding(f"{id}.far_share", f"{name}, share beyond ±{FAR}", "share", meaning, far.share, note=note)
        for width, score_at in zip(curve.widths, curve.scores, strict=True):
            is_all = width == length
            part = "all" if is_all else str(width)
            label = f"{name}, whole row" if is_all else f"{name}, {sides}{width}"
            series = f"{name} by neighbours shown"
            yield Finding(f"{id}.{part}", label, unit, task.meaning, score_at, note=note, series=series, part=part)

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
