"""How odd each point of a time series is after those before it, and the stretches that do not look normal.

TimeSeries -> evidence -> how rare it is among points before -> SeriesDetection

Nothing looks ahead: a point's score is the same whether or not the series goes on. Each piece of evidence becomes the
share of normal points that show as much of it; their logarithms are added, and the sum becomes a share again. So the
share of normal points that are called odd is what the threshold says, whatever the evidence is worth.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from electralab.corpus.series import TimeSeries
from electralab.model.electra import Discriminator, TokenModel
from electralab.objective.corruption import special_token_bias
from electralab.records.series import SeriesColumn, SeriesDetection, SeriesPoint, SeriesSymbols, SeriesWindow
from electralab.stopping import NO_STOP, StopSignal
from electralab.tokens.batches import batch_by_length
from electralab.tokens.series import encode_seasons, encode_series, fill_missing, find_phases
from electralab.tokens.tokenizer import Tokenizer

Floats = NDArray[np.float64]
Evidence = Literal["value", "change", "season", "surprise", "replaced"]

STATISTICS: tuple[Evidence, ...] = ("value", "change", "season")
NETWORKS: tuple[Evidence, ...] = ("surprise", "replaced")

# Points that a mean and a deviation are of, at most.
_MEMORY = 6400
# A deviation is at least this share of the mean: of a level series every other value is very odd, not infinitely so.
_LEVEL = 1e-6
_MOST_DEVIATIONS = 1e6
# Where fewer than so many of at least so many points show more, rarity is drawn on from the largest tenth as an
# exponential tail: counted, it would say no more than "the largest so far".
_FEWEST_ABOVE, _FEWEST_KNOWN, _TAIL = 10, 200, 0.1
_RAREST = 1e-9
_BATCH_TOKENS = 8192
# A piece of evidence is named as a reason where at most this share of normal points shows as much.
_TELLING = 0.01
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class Guess:
    """What the generator expected of each point."""

    surprise: Floats  # (N, C)
    likeliest: list[list[str]]  # symbols


@dataclass(frozen=True, slots=True)
class SeriesScores:
    table: TimeSeries
    evidence: Mapping[Evidence, Floats]  # (N, C) the higher the odder
    rarity: Mapping[Evidence, Floats]  # (N, C) minus the logarithm of the share of points that show as much
    oddness: Floats  # (N,)
    p_odd: Floats  # (N,)
    expected: list[list[str]]
    """The generator's likeliest symbol for each point and column; empty without one."""


class Reference:
    """What normal points showed: of what a model was calibrated on, if it was, and of the points so far."""

    def __init__(self, values: Sequence[float] = ()) -> None:
        self._sorted = sorted(values)

    def share_above(self, value: float) -> float:
        """How many normal points show as much, as a share.

        >>> reference = Reference(range(999))
        >>> reference.share_above(500), reference.share_above(1500) < 0.001
        (0.5, True)
        """
        count = len(self._sorted)
        above = count - bisect_left(self._sorted, value)
        if above < _FEWEST_ABOVE and count >= _FEWEST_KNOWN:
            tail = round(_TAIL * count)
            largest = self._sorted[-tail:]
            # By the median, which a few points that were odd themselves do not move.
            excess = (largest[tail // 2] - largest[0]) / math.log(2)
            if excess > 0:
                return max(tail / (count + 1) * math.exp(-(value - largest[0]) / excess), _RAREST)
        return (above + 1) / (count + 1)

    def add(self, value: float) -> None:
        insort(self._sorted, value)


class SeriesScorer:
    """Scores series with a model's symbols. Without networks, or without their use, the statistics remain."""

    def __init__(
        self,
        symbols: SeriesSymbols,
        tokenizer: Tokenizer,
        discriminator: Discriminator | None = None,
        generator: TokenModel | None = None,
        references: Mapping[str, Sequence[float]] | None = None,
        used: Sequence[Evidence] = (*STATISTICS, *NETWORKS),
    ) -> None:
        """`references`: what normal points show, by evidence and number of column, and of the sum as "oddness"."""
        self.symbols, self.tokenizer = symbols, tokenizer
        self._discriminator, self._generator = discriminator, generator
        self._references, self.used = references or {}, tuple(used)

    def score(self, table: TimeSeries, stop: StopSignal = NO_STOP) -> SeriesScores:
        evidence = measure_statistics(table, self.symbols)
        expected: list[list[str]] = []
        if self._generator is not None and "surprise" in self.used:
            guess = self._guess(table, stop)
            evidence["surprise"], expected = guess.surprise, guess.likeliest
        if self._discriminator is not None and "replaced" in self.used:
            evidence["replaced"] = self._ask_discriminator(table, stop)
        is_missing = np.isnan(table.values)
        evidence = {name: np.where(is_missing, np.nan, values) for name, values in evidence.items()}
        rarity = {
            name: np.stack(
                [
                    rank(values[:, column], self._references.get(f"{name} {column}", ()))
                    for column in range(values.shape[1])
                ],
                axis=1,
            )
            for name, values in evidence.items()
            if name in self.used
        }
        total = np.sum(list(rarity.values()), axis=0)  # (N, C)
        oddness = np.where(is_missing.all(axis=1), np.nan, np.max(np.where(is_missing, -np.inf, total), axis=1))
        p_odd = -np.expm1(-rank(oddness, self._references.get("oddness", ())))
        return SeriesScores(table, evidence, rarity, oddness, p_odd, expected)

    def _rows(self, table: TimeSeries) -> list[NDArray[np.int64]]:
        """For each point a row that ends with it, as in training, [CLS] and [SEP] included."""
        special, size = self.tokenizer.special, self.symbols.points
        points, seasons = encode_series(table, self.symbols), encode_seasons(table, self.symbols)
        ids = np.stack([self.tokenizer.encode_symbols(point) for point in points])  # (N, C)
        starts = [self.tokenizer.encode_symbols([name]) for name in seasons]
        rows = []
        for last in range(len(points)):
            first = max(0, last + 1 - size)
            season = starts[first] if seasons else ids[:0, 0]
            rows.append(
                np.concatenate([[special.cls], season, ids[first : last + 1].ravel(), [special.sep]]).astype(np.int64)
            )
        return rows

    @torch.inference_mode()
    def _guess(self, table: TimeSeries, stop: StopSignal) -> Guess:
        """The generator's surprise at each point, which it does not see, after those before it."""
        generator, special = self._generator, self.tokenizer.special
        assert generator is not None
        generator.eval()
        count = len(self.symbols.columns)
        rows = self._rows(table)
        true_ids = np.stack([row[-1 - count : -1] for row in rows])  # (N, C)
        for row in rows:
            row[-1 - count : -1] = special.mask
        surprise, likeliest = np.zeros(true_ids.shape), np.zeros(true_ids.shape, dtype=np.int64)
        device = next(generator.parameters()).device
        bias = special_token_bias(self.tokenizer, device, generator.config.vocab_size)
        for batch in batch_by_length(rows, special, _BATCH_TOKENS, device):
            stop.check()
            width, lengths = batch.input_ids.shape[1], (~batch.is_pad).sum(dim=1)  # (B,)
            places = torch.arange(len(lengths)) * width + lengths - 1 - count  # of the first hidden symbol
            positions = (places[:, None] + torch.arange(count)).reshape(-1)
            inputs = batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad
            log_probs = torch.log_softmax(generator(*inputs, positions).float() + bias, dim=-1)  # (B * C, V)
            own = torch.from_numpy(true_ids[batch.rows].reshape(-1))
            surprise[batch.rows] = (
                -log_probs.gather(1, own[:, None]).clamp(min=-_MOST_SURPRISING).reshape(-1, count).double().numpy()
            )
            likeliest[batch.rows] = log_probs.argmax(dim=1).reshape(-1, count).numpy()
        return Guess(surprise, [[self.tokenizer.token(int(index)) for index in row] for row in likeliest])

    @torch.inference_mode()
    def _ask_discriminator(self, table: TimeSeries, stop: StopSignal) -> Floats:
        """Its logit for each point as the last of what it sees."""
        discriminator, special, count = self._discriminator, self.tokenizer.special, len(self.symbols.columns)
        assert discriminator is not None
        discriminator.eval()
        rows = self._rows(table)
        logits = np.zeros((len(rows), count))
        for batch in batch_by_length(rows, special, _BATCH_TOKENS, next(discriminator.parameters()).device):
            stop.check()
            inputs = batch.input_ids, torch.zeros_like(batch.input_ids), batch.attention_pad
            output, lengths = discriminator(*inputs), (~batch.is_pad).sum(dim=1)
            places = (lengths - 1 - count)[:, None] + torch.arange(count)  # (B, C)
            logits[batch.rows] = output.gather(1, places).double().cpu().numpy()
        return logits


# Nats: beyond it a guess says no more.
_MOST_SURPRISING = 20.0


def rank(values: Floats, reference: Sequence[float] = ()) -> Floats:
    """Minus the logarithm of the share of normal points that show as much as each, after those before it."""
    known = Reference(reference)
    rarity = np.full(len(values), np.nan)
    for place, value in enumerate(values.tolist()):
        if not math.isnan(value):
            rarity[place] = -math.log(known.share_above(value))
            known.add(value)
    return rarity


def measure_statistics(table: TimeSeries, symbols: SeriesSymbols) -> dict[Evidence, Floats]:
    """In deviations: how far a value lies from those before, its change from theirs, both from what the season says.

    A change is no odder than it is for the season.
    """
    columns: dict[Evidence, list[Floats]] = {"value": [], "change": []}
    for index, column in enumerate(symbols.columns):
        values = fill_missing(table.values[:, index])
        changes = np.diff(values, prepend=values[:1])
        columns["value"].append(_deviate(values, column.mean, column.deviation, column.count))
        columns["change"].append(_deviate(changes, column.change_mean, column.change_deviation, column.count))
        if column.season:
            usual = np.array(column.season)[find_phases(table.seconds, symbols.step_seconds, len(column.season))]
            distance = _deviate(values - usual, 0.0, column.season_deviation, column.count)
            # A jump that comes every day is usual then. Differences of two independent values deviate by root 2 more.
            untimely = changes - np.diff(usual, prepend=usual[:1])
            by_season = _deviate(untimely, 0.0, 2**0.5 * column.season_deviation, column.count)
            columns["change"][-1] = np.minimum(columns["change"][-1], by_season)
        else:
            distance = np.zeros(len(values))
        columns.setdefault("season", []).append(distance)
    if not any(column.season for column in symbols.columns):
        del columns["season"]
    return {name: np.stack(parts, axis=1) for name, parts in columns.items()}


def _deviate(values: Floats, mean: float, deviation: float, count: int) -> Floats:
    """The distance of each value from the mean of those before it, in their deviations. What was learned from counts
    as if it had come just before."""
    number = len(values)
    sums, squares = (np.concatenate([[0.0], np.cumsum((values - mean) ** power)]) for power in (1, 2))
    places = np.arange(number)
    start = np.maximum(0, places - _MEMORY)
    learned = np.clip(_MEMORY - places, 0, min(count, _MEMORY))
    known = np.maximum(learned + places - start, 1)
    level = (sums[places] - sums[start]) / known
    variance = (learned * deviation**2 + squares[places] - squares[start]) / known - level**2
    scale = np.maximum(np.sqrt(np.maximum(variance, 0.0)), _LEVEL * np.maximum(abs(mean + level), 1e-300))
    # Rounded, so that what floating-point sums leave over does not count as a difference.
    distance: Floats = np.minimum(abs(values - mean - level) / scale, _MOST_DEVIATIONS)
    return distance.round(6)


def begin_windows(is_odd: NDArray[np.bool_], join: int) -> list[int]:
    """The odd points with no other one among the `join` points before them.

    >>> begin_windows(np.array([True, False, True, False, False, True]), join=2)
    [0, 5]
    """
    odd = np.flatnonzero(is_odd)
    return odd[np.diff(odd, prepend=-join - 2) > join].tolist() if len(odd) else []


def find_windows(scores: SeriesScores, false_alarm_rate: float, join: int) -> list[tuple[int, int]]:
    """First and last point of each stretch: odd points with less than `join` others between them are one."""
    is_odd = scores.p_odd >= 1 - false_alarm_rate
    odd, starts = np.flatnonzero(is_odd), begin_windows(is_odd, join)
    ends = [int(odd[np.searchsorted(odd, after) - 1]) for after in [*starts[1:], len(is_odd)]] if starts else []
    return list(zip(starts, ends, strict=True))


def describe_detection(
    scores: SeriesScores, scorer: SeriesScorer, *, false_alarm_rate: float, join: int, first: int = 0
) -> SeriesDetection:
    """Points before `first` were learned from: they have scores, but no window begins there."""
    table = scores.table
    points = tuple(
        SeriesPoint(
            time=time,
            seconds=seconds,
            values=tuple(None if math.isnan(value) else value for value in values),
            p_odd=None if math.isnan(p_odd) else p_odd,
            oddness=None if math.isnan(oddness) else oddness,
        )
        for time, seconds, values, p_odd, oddness in zip(
            table.times,
            (table.seconds - table.seconds[0]).tolist(),
            table.values.tolist(),
            scores.p_odd.tolist(),
            scores.oddness.tolist(),
            strict=True,
        )
    )
    windows = []
    for start, end in find_windows(scores, false_alarm_rate, join):
        if end < first:
            continue
        worst = start + int(np.nanargmax(scores.oddness[start : end + 1]))
        total = np.nan_to_num(np.sum([values[worst] for values in scores.rarity.values()], axis=0), nan=-1.0)
        column = int(total.argmax())
        windows.append(
            SeriesWindow(
                start=table.times[start],
                end=table.times[end],
                first=start,
                last=end,
                p_odd=float(scores.p_odd[worst]),
                column=table.columns[column],
                reasons=tuple(_find_reasons(scores, scorer.symbols, worst, column)),
            )
        )
    return SeriesDetection(
        source=table.name,
        columns=table.columns,
        points=points,
        windows=tuple(windows),
        threshold=1 - false_alarm_rate,
        used=tuple(scores.rarity),
        learned_from=first,
        notes=table.notes,
    )


def _find_reasons(scores: SeriesScores, symbols: SeriesSymbols, place: int, index: int) -> Iterator[str]:
    """What is odd about a point, the oddest first."""
    column, values = symbols.columns[index], fill_missing(scores.table.values[:, index])
    value, before = float(values[place]), values[:place]
    low, high = min([column.low, *before.tolist()]), max([column.high, *before.tolist()])
    if value > high:
        yield f"value {value:.4g} above anything seen (at most {high:.4g})"
    elif value < low:
        yield f"value {value:.4g} below anything seen (at least {low:.4g})"
    rarities = {name: float(rarity[place, index]) for name, rarity in scores.rarity.items()}
    telling = [
        name for name in sorted(rarities, key=lambda name: -rarities[name]) if rarities[name] >= -math.log(_TELLING)
    ]
    for name in telling[:_MOST_REASONS]:
        measured = float(scores.evidence[name][place, index])
        if name == "value" and low <= value <= high:
            yield f"value {value:.4g} is {measured:.1f} deviations from the mean of those before"
        elif name == "change":
            change = value - float(values[max(place - 1, 0)])
            yield f"changes by {change:+.4g}, {measured:.1f} deviations from what is usual"
        elif name == "season":
            phases = find_phases(scores.table.seconds, symbols.step_seconds, len(column.season))
            yield f"{column.season[int(phases[place])]:.4g} is usual at this time"
        elif name == "surprise":
            yield f"unexpected after what came before{_describe_guess(scores.expected[place][index], column)}"
        elif name == "replaced":
            yield "does not fit what came before (discriminator)"
    if not telling:
        yield "unusual in several ways at once"


def _describe_guess(symbol: str, column: SeriesColumn) -> str:
    """The bin that was expected, as values."""
    place = symbol.partition(":")[2].partition(".")[0]
    if not place.isdecimal():
        return ""
    edges = (column.low, *column.edges, column.high)
    return f" (expected {edges[int(place)]:.4g} to {edges[int(place) + 1]:.4g})"


PLANTED = ("spike", "shift", "flat", "noise", "order")
# Points that a planted stretch takes at most, and between the beginnings of two.
_STRETCH, _APART = 12, 60
_MOST_REFERENCE = 5000


def plant_stretches(table: TimeSeries, first: int, rng: Random) -> tuple[TimeSeries, list[tuple[str, int, int]]]:
    """The same series with something wrong every so often behind its first points: (kind, first point, point after)."""
    values = table.values.copy()
    stretches = []
    begin = first + (len(values) - first) // 4  # where enough is known to judge by
    for number, start in enumerate(range(begin, len(values) - _STRETCH, _APART)):
        kind, after = PLANTED[number % len(PLANTED)], start + _STRETCH
        column = rng.randrange(values.shape[1])
        part, spread = values[start:after, column], float(np.nanstd(table.values[:, column])) or 1.0
        size = rng.choice((-1, 1)) * rng.uniform(2, 5) * spread
        if kind == "spike":
            part[0] += size
        elif kind == "shift":
            part += size
        elif kind == "flat":
            part[:] = part[0]
        elif kind == "noise":
            part += [rng.gauss(0, spread) for _ in range(_STRETCH)]
        else:
            part[:] = rng.sample(part.tolist(), _STRETCH)
        stretches.append((kind, start, after))
    return replace(table, values=values), stretches


def combine_rarity(scores: SeriesScores, used: Sequence[Evidence]) -> Floats:
    """(N,) the oddness by some of the evidence."""
    total = np.sum([scores.rarity[name] for name in used if name in scores.rarity], axis=0)
    oddness: Floats = np.max(np.where(np.isnan(total), -np.inf, total), axis=1, initial=-np.inf)
    return oddness


def measure_auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """How often one of the first is above one of the second.

    >>> measure_auc([3.0, 1.0], [2.0, 1.0])
    0.625
    """
    above = [(a > b) + (a == b) / 2 for a in higher for b in lower]
    return sum(above) / len(above)


def thin_reference(values: Sequence[float]) -> tuple[float, ...]:
    """At most so many of them, with the same quantiles."""
    ordered = np.sort(np.array(values, dtype=np.float64))
    if len(ordered) > _MOST_REFERENCE:
        ordered = ordered[np.linspace(0, len(ordered) - 1, _MOST_REFERENCE).round().astype(np.int64)]
    return tuple(ordered.tolist())
