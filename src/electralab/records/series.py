"""Time series: how their values become symbols, what is said of their points, and how well that was.

prepared data/series.json and beside a model's networks -> SeriesSymbols; model folder/calibration/series.json ->
SeriesCalibration; `electra detect` -> SeriesDetection
"""

from typing import ClassVar, Literal

from pydantic import Field

from electralab.records.record import FileRecord, Record


class SeriesColumn(Record):
    """One column of values. Bins are numbered from 0, and a value that equals an edge is in the upper of both."""

    name: str
    edges: tuple[float, ...]
    """Between the bins of values."""
    change_edges: tuple[float, ...]
    """Between the bins of what a value differs from the one before."""
    low: float
    high: float
    """The least and the greatest value that was learned from."""
    season: tuple[float, ...] = ()
    """The usual value of each point of a season; empty where none was found."""
    count: int
    """How many values were learned from; missing ones are none."""
    mean: float
    deviation: float
    change_mean: float
    change_deviation: float
    season_deviation: float = 0.0
    """Of the values from what is usual at their place in the season."""


class SeriesSymbols(FileRecord):
    """How points become symbols: what `prepare --series` learns, and a model of series needs to read others."""

    FILE: ClassVar[str] = "series.json"
    scale: Literal["columns", "files"]
    """Whether bins are learned for a column of all files, or for each file anew."""
    kind: Literal["quantiles", "sax"]
    bins: int
    changes: int
    season: int
    """Points in a season; 0 where each file's own is looked for, -1 for none."""
    points: int
    """How many points a row has."""
    columns: tuple[SeriesColumn, ...]
    """In the order of the files; of files with bins of their own, the columns of the first."""
    step_seconds: float
    """The usual time between two points; 0 where points are only counted."""
    time: str = ""
    """The column of times, where one was named."""


class SeriesPoint(Record):
    """A point of a series, and how odd it is."""

    time: str
    """As the file has it."""
    seconds: float
    """From the first point."""
    values: tuple[float | None, ...]
    """By column; null where one is missing."""
    p_odd: float | None
    """The share of normal points that are less odd; null where nothing can be said."""
    oddness: float | None
    """The evidence before it became a share: the higher the odder, without an end."""


class SeriesWindow(Record):
    """A stretch of a series that does not look normal."""

    start: str
    end: str
    first: int
    """The number of its first point in the file, from 0."""
    last: int
    p_odd: float
    """Of its oddest point."""
    column: str
    """Where it is oddest."""
    reasons: tuple[str, ...]


class SeriesDetection(Record):
    """`electra detect` of a file of time series."""

    source: str
    columns: tuple[str, ...]
    points: tuple[SeriesPoint, ...]
    windows: tuple[SeriesWindow, ...]
    threshold: float
    """A point is odd where p_odd is at least this."""
    used: tuple[str, ...]
    """The evidence that was combined."""
    learned_from: int = 0
    """How many points at the beginning were learned from, so that they are not odd by themselves."""
    notes: tuple[str, ...] = ()
    warning: str | None = None


class PlantedScores(Record):
    """How well stretches of one kind that were planted in normal data are told from others, as AUC by evidence."""

    stretches: int
    auc: dict[str, float]
    """Of "statistics", "networks" and "all"."""


class SeriesCalibration(FileRecord):
    """What a normal series shows, so that the first points of a new one can be judged: `electra calibrate`."""

    FILE: ClassVar[str] = "series-calibration.json"
    points: int
    references: dict[str, tuple[float, ...]]
    """By evidence and number of column ("value 0"), and of the sums ("oddness all"): what normal points show."""
    planted: dict[str, PlantedScores]
    """By kind."""
    evidence: Literal["all", "statistics", "networks"]
    """What told planted stretches best from normal ones, and is used where nobody says otherwise."""


class NabScore(Record):
    """By the rule of the Numenta Anomaly Benchmark."""

    score: float
    """100 where the first point of every window was found and nothing else, 0 where nothing was."""
    threshold: float | None
    """null where it is best to say nothing."""
    windows: int
    found_windows: int
    alarms: int
    """Points that reach the threshold, within windows and outside."""
    false_alarms: int
    points: int = Field(description="those that count")
