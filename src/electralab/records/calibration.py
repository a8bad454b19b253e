"""How the probability that a word is wrong is computed from what is known of it.

model folder/calibration/calibration.json -> Calibration
"""

from typing import ClassVar

from pydantic import Field

from electralab.records.record import FileRecord, Record


class FeatureWeight(Record):
    """One feature of a word: it is clipped to [low, high], moved by its mean, divided by its scale and weighted."""

    name: str
    low: float
    high: float
    mean: float
    scale: float
    weight: float


class CalibrationScores(Record):
    """On words that were not fitted on."""

    words: int
    damaged: int
    auc: float
    average_precision: float
    precision_at_half: float
    """The precision where half of the damaged words are named."""
    without_kind_auc: float | None = None
    """Where nothing of this kind was fitted on."""


class CalibrationPoint(Record):
    predicted: float
    observed: float
    words: int


class Calibration(FileRecord):
    """A logistic combination of features, and the monotone curve that makes a probability of it."""

    FILE: ClassVar[str] = "calibration.json"

    error_rate: float
    """The share of wrong words for which the probabilities hold."""
    features: tuple[FeatureWeight, ...]
    intercept: float
    knots: tuple[tuple[float, float], ...]
    """(logit of the combination, logit of the probability), increasing; between them straight lines."""
    total_words: int
    """Of the text in which words were counted."""
    fitted_words: int
    seed: int
    scores: dict[str, CalibrationScores] = Field({})
    """By the kind of damage."""
    calibration_error: float
    """The mean distance of probability and share of wrong words, in ten bins of equal numbers of words."""
    curve: tuple[CalibrationPoint, ...] = ()


class SequenceCalibration(FileRecord):
    """Of a model of symbols: one combination for events, one for whole sequences."""

    FILE: ClassVar[str] = "sequences.json"

    error_rate: float
    """The share of wrong events, and of wrong sequences, for which the probabilities hold."""
    events: Calibration
    rows: Calibration
    false_alarms: float
    """The share of normal sequences that the threshold may name."""
    threshold: float
    """Of the combination for sequences, before its curve, on normal sequences that were not fitted on."""
    normal_rows: int
    """How many these are."""
    false_alarms_high: float | None = None
    """No more than this share of new normal sequences is above the threshold, with 95 % certainty."""
    counted_rows: int
    """Normal sequences that new ones are compared with."""
    seed: int
