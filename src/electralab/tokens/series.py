"""Values of time series -> symbols, and rows of them.

TimeSeries -> SeriesSymbols; TimeSeries, SeriesSymbols -> rows of symbols

A point is one symbol for each column: the bin of its value, and the bin of what it differs from the value before. Where
a season is found, a row begins with its place in it.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.artifacts import write_file
from electralab.config import Settings
from electralab.corpus.series import TimeSeries, read_series
from electralab.corpus.sources import find_sources
from electralab.errors import InputError
from electralab.records.series import SeriesColumn, SeriesSymbols

Floats = NDArray[np.float64]

MISSING = "none"
SERIES_LENGTH = 32
"""Tokens of a row, where nobody says otherwise."""
_FEWEST_IN_ROW = 4
_FEWEST_POINTS = 20
# How alike a series must be to itself a season before, as a correlation, and how often a season must have been seen:
# any length three times, a day or a week, which clocks make likely, twice.
_SEASON_LIKENESS, _SEASONS, _CALENDAR_SEASONS = 0.5, 3, 2
_CALENDAR_SECONDS = (86_400, 7 * 86_400)
_SHORTEST_SEASON = 4
# Places in a season that a row can begin at.
_PHASES = 24


class SeriesConfig(Settings):
    """How tables of time series become symbols."""

    enabled: bool = False
    """The input is tables of time series."""
    time: str = ""
    """The column of times; empty for one named so, else the first."""
    columns: tuple[str, ...] = ()
    """The columns of values; empty for all others."""
    scale: Literal["columns", "files"] = "columns"
    """Learn bins for a column over all files, which are parts of one series; or for each file by itself, as of series
    that have nothing but their shapes in common."""
    kind: Literal["quantiles", "sax"] = "quantiles"
    """Bins of equally many values, or of equal probability under a normal distribution (SAX)."""
    bins: int = Field(12, ge=2, le=200)
    """Of values."""
    changes: int = Field(5, ge=1, le=50)
    """Bins of the difference to the value before."""
    season: int = Field(0, ge=-1)
    """Points in a season; 0 looks for one, -1 takes none."""


def prepare_series(
    inputs: Sequence[str], config: SeriesConfig, length: int, rows_path: Path
) -> tuple[SeriesSymbols, list[str]]:
    """Learn the symbols of these tables, and write their rows, a JSON list each; returns also what to tell people."""
    tables = [read_series(source, config.time, config.columns) for source in find_sources(inputs).files]
    for table in tables[1:]:
        if table.columns != tables[0].columns:
            raise InputError(
                f"{table.name}: has the columns {', '.join(table.columns)}, and {tables[0].name} has "
                f"{', '.join(tables[0].columns)}; give files with the same columns, or name them with --series.columns"
            )
    # [CLS], the place in the season, [SEP]
    points = (length - 3) // len(tables[0].columns)
    if points < _FEWEST_IN_ROW:
        least = _FEWEST_IN_ROW * len(tables[0].columns) + 3
        raise InputError(
            f"{tables[0].name}: its {len(tables[0].columns)} columns of values fill a row of {length} tokens; give "
            f"--sequence-length {least} or more, or fewer columns with --series.columns"
        )
    symbols = learn_symbols(tables, config, points)
    lines = []
    for table in tables:
        own = learn_symbols([table], config, points) if config.scale == "files" else symbols
        lines += [json.dumps(row) for row in cut_rows(table, own)]
    write_file(rows_path, "\n".join(lines) + "\n")
    return symbols, [f"{table.name}: {note}" for table in tables for note in table.notes]


def learn_symbols(tables: Sequence[TimeSeries], config: SeriesConfig, points: int) -> SeriesSymbols:
    """From these points and no others."""
    total = sum(len(table.times) for table in tables)
    if total < _FEWEST_POINTS:
        raise InputError(f"{tables[0].name}: {total} points are too few to learn from; give at least {_FEWEST_POINTS}")
    step = tables[0].step_seconds
    columns = []
    for index, name in enumerate(tables[0].columns):
        series = [table.values[:, index] for table in tables]
        values = np.concatenate(series)
        known = values[~np.isnan(values)]
        if not len(known):
            raise InputError(f"{tables[0].name}: column {name!r} has no value to learn from; leave it out")
        changes = np.concatenate([np.diff(fill_missing(part)) for part in series])
        period = config.season or find_season(fill_missing(values), step)
        phases = np.concatenate([find_phases(table.seconds, step, period) for table in tables])
        season = _average_season(values, phases, period)
        columns.append(
            SeriesColumn(
                name=name,
                edges=_find_edges(known, config.bins, config.kind),
                change_edges=_find_edges(changes, config.changes, config.kind),
                low=float(known.min()),
                high=float(known.max()),
                season=season,
                count=len(known),
                mean=float(known.mean()),
                deviation=float(known.std()),
                change_mean=float(changes.mean()),
                change_deviation=float(changes.std()),
                season_deviation=float(np.nanstd(values - np.array(season)[phases])) if season else 0.0,
            )
        )
    return SeriesSymbols(
        scale=config.scale,
        kind=config.kind,
        bins=config.bins,
        changes=config.changes,
        season=config.season,
        points=points,
        columns=tuple(columns),
        step_seconds=step,
        **({"time": config.time} if config.time else {}),
    )


def fill_missing(values: Floats) -> Floats:
    """Each missing value is that before it, and at the beginning the first one there is."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return np.zeros(len(values))
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, np.arange(len(values))))
    return values[np.where(last < 0, known[0], last)]


def _find_edges(values: Floats, bins: int, kind: Literal["quantiles", "sax"]) -> tuple[float, ...]:
    """At most bins - 1 of them: where many values are equal there are fewer, and of a constant none."""
    shares = np.arange(1, bins) / bins
    if kind == "quantiles":
        edges = np.quantile(values, shares) if len(values) else np.zeros(0)
    else:
        normal = NormalDist(float(values.mean()), max(float(values.std()), 1e-12))
        edges = np.array([normal.inv_cdf(share) for share in shares.tolist()])
    inside = edges[(edges > values.min()) & (edges <= values.max())] if len(values) else edges
    return tuple(np.unique(inside).tolist())


def find_season(values: Floats, step_seconds: float = 0.0) -> int:
    """The points of a season: where a series is most like itself some points before; 0 where it is not alike.

    `step_seconds`: between two points, where they have times.

    >>> find_season(np.sin(np.arange(200) * 2 * np.pi / 25))
    25
    >>> find_season(np.arange(200.0))
    0
    """
    count = len(values)
    longest = count // _CALENDAR_SEASONS
    if longest < _SHORTEST_SEASON or np.ptp(values) == 0:
        return 0
    slope = np.polyfit(np.arange(count), values, 1)
    level = values - np.polyval(slope, np.arange(count))
    if level.std() <= 1e-9 * max(abs(values).max(), 1e-300):
        return 0
    spectrum = np.fft.rfft(level, 2 * count)
    likeness = np.fft.irfft(np.abs(spectrum) ** 2)[: longest + 2]
    # Of fewer and fewer pairs, and 1 for the series beside itself.
    likeness /= likeness[0] * (1 - np.arange(len(likeness)) / count)
    days = [round(seconds / step_seconds) for seconds in _CALENDAR_SECONDS if step_seconds > 0]
    peaks = [
        lag
        for lag in range(_SHORTEST_SEASON, longest + 1)
        if (lag <= count // _SEASONS or lag in days)
        and likeness[lag] >= max(likeness[lag - 1], likeness[lag + 1], _SEASON_LIKENESS)
    ]
    # The shortest of those that are nearly as good as the best: twice a season is one as well.
    best = max((likeness[lag] for lag in peaks), default=0.0)
    return next((lag for lag in peaks if likeness[lag] >= 0.9 * best), 0)


def find_phases(seconds: Floats, step: float, period: int) -> NDArray[np.int64]:
    """The place of each point in its season, by its time, so that gaps and another beginning move none."""
    if period < 2 or step <= 0:
        return np.zeros(len(seconds), dtype=np.int64)
    return np.asarray(np.round(seconds / step).astype(np.int64) % period)


def _average_season(values: Floats, phases: NDArray[np.int64], period: int) -> tuple[float, ...]:
    if period < 2:
        return ()
    usual = np.full(period, np.nanmedian(values))
    for phase in range(period):
        own = values[(phases == phase) & ~np.isnan(values)]
        if len(own):
            usual[phase] = np.median(own)
    return tuple(usual.tolist())


def encode_series(table: TimeSeries, symbols: SeriesSymbols) -> list[list[str]]:
    """For each point its symbols, one for each column."""
    names = []
    for index, column in enumerate(symbols.columns):
        values = table.values[:, index]
        bins = np.searchsorted(column.edges, values, side="right")
        changes = np.searchsorted(
            column.change_edges, np.diff(fill_missing(values), prepend=fill_missing(values)[:1]), side="right"
        )
        names.append(
            [
                f"{index}:{MISSING}" if math.isnan(value) else f"{index}:{place}.{change}"
                for value, place, change in zip(values.tolist(), bins.tolist(), changes.tolist(), strict=True)
            ]
        )
    return [list(point) for point in zip(*names, strict=True)]


def encode_seasons(table: TimeSeries, symbols: SeriesSymbols) -> list[str]:
    """For each point what a row begins with that begins with it; nothing where there is no season."""
    period = max(len(column.season) for column in symbols.columns)
    if not period:
        return []
    phases = find_phases(table.seconds, symbols.step_seconds, period)
    return [f"season {phase * min(_PHASES, period) // period}" for phase in phases.tolist()]


def cut_rows(table: TimeSeries, symbols: SeriesSymbols) -> Iterator[list[str]]:
    """Each point twice, once in the first and once in the second half of a row."""
    points, seasons = encode_series(table, symbols), encode_seasons(table, symbols)
    size = min(symbols.points, len(points))
    stride = max(1, size // 2)
    for first in [*range(0, len(points) - size, stride), len(points) - size]:
        yield seasons[first : first + 1] + [symbol for point in points[first : first + size] for symbol in point]
