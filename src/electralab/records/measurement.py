"""How well a model and simple counting tell wrong words (events, points) from right ones, side by side.

electra measure -> MeasuringResult
"""

from typing import Literal

from pydantic import Field

from electralab.records.findings import EstimateRecord
from electralab.records.record import PlanRecord, Record


class DetectorScores(Record):
    """One way to score items, the higher the more suspicious. Intervals are 95 % bootstrap intervals over groups."""

    name: str
    what: str
    """The score in words."""
    is_model: bool
    """Whether a network is needed for it; else it is counting, which any model has to beat."""
    auc: EstimateRecord
    average_precision: EstimateRecord
    best_f: EstimateRecord
    """F at the threshold that is best here: nobody knows that one beforehand."""
    best_threshold: float
    threshold: float | None = None
    """The threshold that was stated before the truth was seen, and what it gives."""
    f: EstimateRecord | None = None
    precision: float | None = None
    recall: float | None = None
    more: dict[str, float] = Field({})
    """Scores that only this kind of input has."""


class Measurement(Record):
    source: str
    """The file, or the kind of error that was planted."""
    truth: Literal["labels", "planted"]
    unit: str
    """What is judged: word, row, point."""
    items: int
    wrong: int
    groups: int
    """Sentences, rows or series, which the bootstrap draws."""
    beta: float
    detectors: tuple[DetectorScores, ...]
    best: Literal["model", "counting", "either"]
    """Which has the better average precision; "either" where the interval of the difference holds 0."""
    use: str
    """The name of the detector to use."""
    gain: EstimateRecord
    """Average precision of the best detector of the model, less that of the best count."""
    more: dict[str, float] = Field({})


class MeasuringResult(Record):
    model: str
    kind: str
    measurements: tuple[Measurement, ...]


class MeasurePlan(PlanRecord):
    model: str
    files: tuple[str, ...]
    reference: tuple[str, ...]
