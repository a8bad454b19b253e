"""How far a network looks: what it says of a token as the context that it may see is cut to so many tokens.

network, batch, places, width -> verdicts or losses -> scores by width, and the width that suffices
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from electralab.analysis.finding import (
    TIMES,
    Estimate,
    Flags,
    Floats,
    Labels,
    Places,
    count_units,
    draw_rows,
    lay_about,
    require,
    require_finite,
)
from electralab.analysis.ranking import find_auc
from electralab.model.electra import Discriminator, Guesser
from electralab.model.towers import TwoTower
from electralab.objective.masking import MaskedBatch
from electralab.tokens.batches import Batch

SUFFICES = 0.9
"""A width suffices where it has this share of what the whole row adds to the token alone."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A short row for each place asked about: its surroundings alone, and where it now stands."""

    input_ids: Tensor  # (P, W)
    segment_ids: Tensor  # (P, W)
    is_pad: Tensor  # (P, W)
    positions: Tensor  # (P,) into the flattened (P * W)


def cut_context(
    input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor, positions: Tensor, width: int, *, is_causal: bool
) -> Cut:
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
    return Cut(input_ids[at], segment_ids[at], is_pad[at] | is_outside, flat)


def _cut_all(
    input_ids: Tensor, batch: Batch, positions: Tensor, width: int, batch_tokens: int, *, is_causal: bool
) -> Iterator[Cut]:
    size = max(1, batch_tokens // min(2 * width + 2, input_ids.shape[1]))
    for some in torch.split(positions, size):
        yield cut_context(input_ids, batch.segment_ids, batch.is_pad, some, width, is_causal=is_causal)


@torch.inference_mode()
def judge_within(
    discriminator: Discriminator,
    input_ids: Tensor,
    batch: Batch,
    positions: Tensor,
    width: int | None,
    *,
    batch_tokens: int = 8192,
) -> NDArray[np.float32]:
    """(P,) verdicts on the tokens at flat positions, each from `width` tokens around it; None means the whole row."""
    positions = positions.to(input_ids.device)
    if width is None:
        verdicts = discriminator(input_ids, batch.segment_ids, batch.attention_pad).flatten()[positions]
        return _read(verdicts)
    cuts = _cut_all(input_ids, batch, positions, width, batch_tokens, is_causal=False)
    said = [discriminator(cut.input_ids, cut.segment_ids, cut.is_pad).flatten()[cut.positions] for cut in cuts]
    return _read(torch.cat(said))


@torch.inference_mode()
def judge_astray(
    discriminator: Discriminator,
    input_ids: Tensor,
    batch: Batch,
    positions: Tensor,
    width: int,
    *,
    batch_tokens: int = 8192,
) -> NDArray[np.float32]:
    """(P,) verdicts as before, with all that is further than `width` tokens away taken from the next row.

    The rows are as long as ever: what their far ends say is all that is lost.
    """
    rows = _exchange_far(input_ids, batch, positions, width, batch_tokens)
    said = [discriminator(row.input_ids, row.segment_ids, row.is_pad).flatten()[row.positions] for row in rows]
    return _read(torch.cat(said))


def _exchange_far(input_ids: Tensor, batch: Batch, positions: Tensor, width: int, batch_tokens: int) -> Iterator[Cut]:
    """A row for each place, whole, in which the words further than `width` tokens away are those of another row."""
    positions = positions.to(input_ids.device)
    length = input_ids.shape[1]
    is_word, strange = batch.is_ordinary, input_ids.roll(1, dims=0)
    is_exchanged = is_word & is_word.roll(1, dims=0)  # (B, T)
    columns = torch.arange(length, device=input_ids.device)
    for some in torch.split(positions, max(1, batch_tokens // length)):
        rows, places = some // length, some % length
        is_far = (columns - places[:, None]).abs() > width  # (P, T)
        ids = torch.where(is_far & is_exchanged[rows], strange[rows], input_ids[rows])
        flat = torch.arange(len(some), device=input_ids.device) * length + places
        yield Cut(ids, batch.segment_ids[rows], batch.is_pad[rows], flat)


@torch.inference_mode()
def guess_within(
    generator: Guesser,
    masked: MaskedBatch,
    places: Tensor,
    width: int | None,
    *,
    batch_tokens: int = 8192,
) -> NDArray[np.float32]:
    """(P,) what naming each target costs, in nats, at some `places` of the masked positions.

    A causal network reads the row as it is, up to the token before.
    """
    # Towers are causal each, but see both sides together.
    is_causal = generator.config.is_causal and not isinstance(generator, TwoTower)
    places = places.to(masked.positions.device)
    batch, positions, targets = masked.batch, masked.positions[places], masked.target_ids[places]
    input_ids = masked.input_ids if generator.reads_masked else batch.original_ids
    if width is None:
        guesses = generator(input_ids, batch.segment_ids, batch.attention_pad, positions)
    else:
        cuts = _cut_all(input_ids, batch, positions, width, batch_tokens, is_causal=is_causal)
        guesses = torch.cat([generator(cut.input_ids, cut.segment_ids, cut.is_pad, cut.positions) for cut in cuts])
    return _read(F.cross_entropy(guesses.float(), targets, reduction="none"))


@torch.inference_mode()
def guess_astray(
    generator: Guesser, masked: MaskedBatch, places: Tensor, width: int, *, batch_tokens: int = 8192
) -> NDArray[np.float32]:
    """(P,) what naming each target costs, in nats, where all that is further than `width` tokens away is another row's.

    Hidden tokens stay hidden there, those of the other row.
    """
    places = places.to(masked.positions.device)
    positions, targets = masked.positions[places], masked.target_ids[places]
    input_ids = masked.input_ids if generator.reads_masked else masked.batch.original_ids
    rows = _exchange_far(input_ids, masked.batch, positions, width, batch_tokens)
    guesses = torch.cat([generator(row.input_ids, row.segment_ids, row.is_pad, row.positions) for row in rows])
    return _read(F.cross_entropy(guesses.float(), targets, reduction="none"))


def _read(values: Tensor) -> NDArray[np.float32]:
    return values.float().cpu().numpy()


def choose_places(is_replaced: Flags, is_ordinary: Flags, each: int, rng: np.random.Generator) -> Places:
    """(B, T) flags -> flat places, at most `each` replaced and `each` original tokens of every row, in their order.

    The AUC is that of all tokens: it does not depend on how many there are of either kind.
    """
    luck = rng.random(is_replaced.shape)
    chosen = np.zeros_like(is_replaced)
    for kind in (is_replaced & is_ordinary, ~is_replaced & is_ordinary):
        ranks = np.where(kind, luck, 2.0).argsort(axis=1).argsort(axis=1)
        chosen |= kind & (ranks < each)
    return np.flatnonzero(chosen)


def widen(length: int) -> list[int]:
    """0, 1, 2, 4, ... below the length of a row."""
    return [0, *(2**power for power in range(length.bit_length()) if 2**power < length - 1)]


@dataclass(frozen=True, slots=True)
class ReachCurve:
    widths: tuple[int, ...]
    """The first is 0, the token alone; the last is the whole row."""
    scores: tuple[Estimate, ...]
    reach: Estimate
    """The narrowest width with nine tenths of what the whole row adds to the token alone; NaN if that may be none."""
    gain: Estimate
    """What the whole row adds to the token alone."""


Score = Callable[[Places], Floats]
"""Rows, drawn again -> the score at every width, higher being better."""


def measure_verdict_reach(
    logits: NDArray[np.floating],
    is_replaced: Flags,
    rows: Labels,
    widths: Sequence[int],
    rng: np.random.Generator,
    *,
    times: int = TIMES,
) -> ReachCurve:
    """By AUC, of verdicts (W, P) on the same tokens at every width; `rows` says which row each stands in."""
    require("long-range sensitivity", int(is_replaced.sum()), 2, "replaced tokens")
    require("long-range sensitivity", int((~is_replaced).sum()), 2, "original tokens")

    def score(places: Places) -> Floats:
        return np.array([find_auc(said[places], is_replaced[places]) for said in logits])

    return _trace_curve(score, logits, rows, widths, rng, times, sign=1)


@dataclass(frozen=True, slots=True)
class FarContext:
    gain: Estimate
    """How much better the answers are with their own far context than with another row's."""
    share: Estimate
    """Of what the whole row adds to the token alone: without a unit, so that verdicts and guesses can be held against
    each other. NaN where the row may add nothing."""


def measure_far_verdicts(
    logits: NDArray[np.floating],
    is_replaced: Flags,
    rows: Labels,
    rng: np.random.Generator,
    *,
    times: int = TIMES,
) -> FarContext:
    """By AUC, of verdicts (3, P) on the same tokens: from the token alone, its row, and another row's far context."""
    require("far context", int(is_replaced.sum()), 2, "replaced tokens")
    require("far context", int((~is_replaced).sum()), 2, "original tokens")

    def score(places: Places) -> Floats:
        return np.array([find_auc(said[places], is_replaced[places]) for said in logits])

    return _measure_far(score, rows, rng, times)


def measure_far_guesses(
    losses: NDArray[np.floating], rows: Labels, rng: np.random.Generator, *, times: int = TIMES
) -> FarContext:
    """By mean loss, of guesses (3, P), as of verdicts."""
    require("far context", losses.shape[1], 2, "guesses")

    def score(places: Places) -> Floats:
        return np.asarray(-losses[:, places].mean(axis=1, dtype=np.float64))

    return _measure_far(score, rows, rng, times)


def _measure_far(score: "Score", rows: Labels, rng: np.random.Generator, times: int) -> FarContext:
    """`score` says how good answers are by the token alone, by its row, and by the row with another's far context."""
    units, count = count_units(len(rows), rows), len(rows)
    found = score(np.arange(count))
    drawn = [score(places) for places in draw_rows(count, rows, times, rng)]

    def share(scores: Floats) -> float:
        added = scores[1] - scores[0]
        return float((scores[1] - scores[2]) / added) if added > 0 else float("nan")

    gain = lay_about(float(found[1] - found[2]), (float(scores[1] - scores[2]) for scores in drawn), units)
    added = lay_about(float(found[1] - found[0]), (float(scores[1] - scores[0]) for scores in drawn), units)
    if not added.low > 0:
        return FarContext(gain, Estimate(*[float("nan")] * 3))
    return FarContext(gain, lay_about(share(found), map(share, drawn), units))


def measure_guess_reach(
    losses: NDArray[np.floating], rows: Labels, widths: Sequence[int], rng: np.random.Generator, *, times: int = TIMES
) -> ReachCurve:
    """By mean loss, of guesses (W, P); lower is better, and the gain is what the loss falls by."""
    require("long-range sensitivity", losses.shape[1], 2, "guesses")

    def score(places: Places) -> Floats:
        return np.asarray(losses[:, places].mean(axis=1, dtype=np.float64))

    return _trace_curve(score, losses, rows, widths, rng, times, sign=-1)


def _trace_curve(
    score: Score,
    values: NDArray[np.floating],
    rows: Labels,
    widths: Sequence[int],
    rng: np.random.Generator,
    times: int,
    sign: int,
) -> ReachCurve:
    require("long-range sensitivity", len(widths), 2, "widths, the last being the whole row")
    require("long-range sensitivity", len(np.unique(rows)), 2, "rows")
    require_finite("long-range sensitivity", values)
    assert len(values) == len(widths), "an answer at every width"
    units, count = count_units(len(rows), rows), len(rows)
    whole = score(np.arange(count))
    # The same draws for every width, so that what wider adds is not drowned in which rows were drawn.
    drawn = [score(places) for places in draw_rows(count, rows, times, rng)]

    def tell(find: Callable[[Floats], float]) -> Estimate:
        return lay_about(float(find(whole)), map(find, drawn), units)

    gain = tell(lambda scores: float(sign * (scores[-1] - scores[0])))
    reach = tell(lambda scores: find_reach(widths, sign * scores))
    curve = tuple(tell(itemgetter(place)) for place in range(len(widths)))
    # Of a gain that may be none, nine tenths are nowhere.
    return ReachCurve(tuple(widths), curve, reach if gain.low > 0 else Estimate(*[float("nan")] * 3), gain)


def find_reach(widths: Sequence[int], scores: Floats) -> float:
    """Where scores, higher being better, first have most of what the last has more than the first."""
    gain = scores[-1] - scores[0]
    if not gain > 0:
        return float("nan")
    return float(widths[int(np.argmax(scores - scores[0] >= SUFFICES * gain))])
