"""Tables of time series: a column of times, and columns of values.

Source -> TimeSeries
"""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

import numpy as np
from numpy.typing import NDArray

from electralab.corpus.sources import Source, open_source, read_utf8
from electralab.errors import InputError, quote, suggest

_TIME_NAMES = ("timestamp", "time", "datetime", "date", "ts")
_MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
# Of the usual time between two points: what is further apart is a gap.
_GAP = 1.5
_NAMED = 3


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """Points in the order of time. What was mended on the way is said in `notes`, for people."""

    name: str
    times: list[str]
    """As the file has them."""
    seconds: NDArray[np.float64]  # (N,)
    columns: tuple[str, ...]
    values: NDArray[np.float64]  # (N, C) NaN where one is missing
    step_seconds: float
    notes: tuple[str, ...]

    def take(self, first: int, after: int) -> "TimeSeries":
        """The points [first, after)."""
        part = slice(first, after)
        times, seconds, values = self.times[part], self.seconds[part], self.values[part]
        return TimeSeries(self.name, times, seconds, self.columns, values, self.step_seconds, self.notes)

    def choose(self, names: Sequence[str]) -> "TimeSeries":
        """These columns, in this order."""
        values = self.values[:, [self.columns.index(name) for name in names]]
        return TimeSeries(self.name, self.times, self.seconds, tuple(names), values, self.step_seconds, self.notes)


def read_series(source: Source, time_column: str = "", value_columns: Sequence[str] = ()) -> TimeSeries:
    """Without names: the times are in a column named so, else in the first; every other column has values."""
    header, table = _read_table(source)
    time_index, value_indices = _choose_columns(source, header, time_column, value_columns)
    times: list[str] = []
    seconds: list[float] = []
    values = np.full((len(table), len(value_indices)), np.nan)
    for place, (line, row) in enumerate(table):
        time = row[time_index].strip() if time_index < len(row) else ""
        times.append(time)
        seconds.append(_read_time(source, line, header[time_index], time))
        for column, index in enumerate(value_indices):
            values[place, column] = _read_value(source, line, header[index], row[index] if index < len(row) else "")
    if len(times) < 2:
        raise InputError(f"{source.path}: has {len(times)} points; a time series needs at least 2")
    notes, step = list(_judge_times(seconds)), _usual_step(seconds)
    order = np.argsort(np.array(seconds), kind="stable")
    missing = int(np.isnan(values).sum())
    notes += [f"{missing:,} values are missing and are not scored"] if missing else []
    columns = tuple(header[index] for index in value_indices)
    for column, name in enumerate(columns):
        known = values[:, column][~np.isnan(values[:, column])]
        if not len(known):
            raise InputError(f"{source.path}: column {name!r} has no value at all; leave it out with --series.columns")
        if (known == known[0]).all():
            notes.append(f"column {name!r} never changes; any other value would be odd")
    ordered = [times[place] for place in order.tolist()]
    return TimeSeries(str(source.path), ordered, np.array(seconds)[order], columns, values[order], step, tuple(notes))


def read_header(source: Source) -> list[str]:
    """The names of its columns."""
    return _read_table(source)[0]


def _read_table(source: Source) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of its columns, and its rows that are not empty, each with its line."""
    if source.format not in ("csv", "tsv", "txt"):
        raise InputError(f"{source.path}: time series are read from CSV; convert the {source.format} file")
    with open_source(source) as stream:
        data = b"".join(read_utf8(stream, "utf-8"))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source.path}: not UTF-8 at byte {error.start}; convert it, for example with iconv"
        ) from None
    rows = csv.reader(text.splitlines(), delimiter="\t" if source.format == "tsv" else ",", strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        table = [(rows.line_num, row) for row in rows if row and any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"{source.path}: line {rows.line_num}: not valid CSV ({error}); correct it") from None
    return header, table


def _choose_columns(
    source: Source, header: Sequence[str], time_column: str, value_columns: Sequence[str]
) -> tuple[int, list[int]]:
    known = f"it has {', '.join(map(repr, header[:10]))}"
    if len(header) < 2:
        raise InputError(f"{source.path}: has no header row with a column of times and one of values; add one")
    for name in (time_column, *value_columns):
        if name and name not in header:
            raise InputError(f"{source.path}: has no column {name!r}; {suggest(name, header, known)}")
    lowered = [name.lower() for name in header]
    time_name = next((name for name in _TIME_NAMES if name in lowered), lowered[0])
    time_index = header.index(time_column) if time_column else lowered.index(time_name)
    chosen = [header.index(name) for name in value_columns]
    return time_index, chosen or [index for index in range(len(header)) if index != time_index]


def _read_time(source: Source, line: int, column: str, text: str) -> float:
    """Seconds; a number is taken as it is."""
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(number):
            return number
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{source.path}: line {line}: column {column!r} holds {quote(text)}, no time; write it as "
            "2024-01-31 23:59:00 or as a number, or name the column of times with --series.time"
        ) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _read_value(source: Source, line: int, column: str, text: str) -> float:
    text = text.strip()
    if text.lower() in _MISSING:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"{source.path}: line {line}: column {column!r} holds {quote(text)}, no number; correct it, or name the "
            "columns to read with --series.columns"
        )
    return value


def _usual_step(seconds: Sequence[float]) -> float:
    steps = [after - before for before, after in pairwise(sorted(seconds)) if after > before]
    return median(steps) if steps else 0.0


def _judge_times(seconds: Sequence[float]) -> Iterator[str]:
    """What is irregular in them, as sentences."""
    if early := sum(after < before for before, after in pairwise(seconds)):
        yield f"{early:,} times are earlier than those before them; the points were sorted"
    ordered, step = sorted(seconds), _usual_step(seconds)
    if same := sum(after == before for before, after in pairwise(ordered)):
        yield f"{same:,} points have the time of the one before; all are kept, in the order of the file"
    if gaps := sum(after - before > _GAP * step for before, after in pairwise(ordered)):
        yield f"{gaps:,} times are further apart than usual ({step:g} seconds); points are read as if they were not"
