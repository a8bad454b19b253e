"""What an analysis measured: figures with intervals and controls, what could not be measured, pictures, points.

analysis folder <-> Analysis, PointClouds
"""

from typing import ClassVar

from pydantic import Field

from electralab.records.record import FileRecord, Record


class AnalysedModel(Record):
    name: str
    path: str = ""
    control_of: str | None = None
    """The model that it is the untrained control of."""


class ControlRecord(Record):
    """What the same measure says of something that cannot hold the answer."""

    value: float | None
    low: float | None = None
    high: float | None = None
    meaning: str = ""


class FindingRecord(Record):
    """A figure with its 95 % interval; null where one cannot be had."""

    model: str
    id: str = ""
    name: str
    claim: str
    layer: int | None = None
    """0 enters the first."""
    unit: str = ""
    meaning: str = ""
    value: float | None
    low: float | None = None
    high: float | None = None
    control: ControlRecord | None = None
    note: str = ""
    series: str | None = None
    part: str | None = None
    """Of a figure for each domain, width, …: which."""


class SkippedRecord(Record):
    model: str
    name: str
    claim: str
    reason: str


class PictureRecord(Record):
    claim: str
    model: str | None = None
    """None: of all models together."""
    title: str
    file: str
    meaning: str = ""


class MeasureInfo(Record):
    id: str
    claim: str
    title: str
    question: str
    answers: tuple[str, ...] = ()
    """Ids of the findings that answer it, the best first."""


class PointCloud(Record):
    model: str | None = None
    claim: str
    title: str
    meaning: str = ""
    points: tuple[tuple[float, float, float], ...]
    categories: tuple[str, ...]
    words: tuple[str, ...]


class PointClouds(FileRecord):
    FILE: ClassVar[str] = "points.json"
    clouds: tuple[PointCloud, ...] = ()


class Analysis(FileRecord):
    FILE: ClassVar[str] = "analysis.json"
    seed: int = 0
    models: tuple[AnalysedModel, ...] = ()
    findings: tuple[FindingRecord, ...] = ()
    missing: tuple[SkippedRecord, ...] = ()
    drawings: tuple[PictureRecord, ...] = ()
    measures: tuple[MeasureInfo, ...] = Field(default=())
