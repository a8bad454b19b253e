"""What is measured: items with the truth about each, what every detector says of them, and the scores of that.

MeasuredInput -> MeasuredItems -> Measurement
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from electralab.config import Settings
from electralab.errors import InputError
from electralab.events import Update
from electralab.records.findings import EstimateRecord
from electralab.records.measurement import DetectorScores, Measurement
from electralab.serving.inputs import WindowConfig
from electralab.serving.model import Model
from electralab.statistics import bootstrap_indices, percentile_interval
from electralab.stopping import StopSignal

Floats = NDArray[np.float64]

# Fewer wrong items say nothing about a detector.
LEAST_WRONG = 20


class MeasuringConfig(Settings):
    windows: WindowConfig = WindowConfig(batch_tokens=4096)
    error_rate: float | None = Field(None, gt=0, lt=0.5)
    """The share of words that are wrong: so many are planted (0.05), and p_wrong is shifted to it."""
    threshold: float = Field(0.5, ge=0, le=1)
    """The probability above which the model's detectors say that something is wrong."""
    words: int = Field(20_000, ge=1)
    """How many words of text to plant errors in, at most, all kinds of error together."""
    seed: int = Field(0, ge=0)
    resamples: int = Field(200, ge=0)
    """How often the bootstrap draws."""


@dataclass(frozen=True, slots=True)
class DetectorValues:
    """What one detector says of all items, the higher the more suspicious."""

    name: str
    what: str
    values: Floats  # (N,)
    is_model: bool = False
    threshold: float | None = None
    """Where it says that something is wrong, stated without looking at the truth."""


@dataclass(frozen=True, slots=True)
class MeasuredItems:
    source: str
    truth: Literal["labels", "planted"]
    unit: str
    is_wrong: NDArray[np.bool_]  # (N,)
    groups: NDArray[np.int64]  # (N,) which sentence, row or series an item belongs to
    detectors: Sequence[DetectorValues]
    more: Mapping[str, float] = field(default_factory=dict)
    score_more: Callable[[DetectorValues], Mapping[str, float]] | None = None
    """Scores of a detector that only this kind of input has."""


class MeasuredInput(ABC):
    """A kind of input: text, sequences of symbols, series."""

    name: ClassVar[str]
    beta: ClassVar[float]
    """Of F: below 1 a false alarm costs more than a miss."""

    @abstractmethod
    def matches(self, model: Model, path: Path) -> bool:
        """Whether this model reads this file as such an input."""

    @abstractmethod
    def score(
        self, model: Model, files: Sequence[Path], reference: Sequence[Path], config: MeasuringConfig, stop: StopSignal
    ) -> Iterator[Update | MeasuredItems]:
        """`reference`: what counting is done in, such as training text or normal rows."""


class RankedItems:
    """Items in the order of a detector, scored with any weights: what a bootstrap asks hundreds of times."""

    class WeightedScores(NamedTuple):
        auc: float
        average_precision: float
        best_f: float
        best_threshold: float
        f: float
        precision: float
        recall: float

    def __init__(self, detector: DetectorValues, is_wrong: NDArray[np.bool_], beta: float) -> None:
        self._order = np.argsort(-detector.values, kind="stable")
        ranked = detector.values[self._order]
        # Items with one value pass a threshold together.
        self._ends = np.flatnonzero(np.append(ranked[1:] < ranked[:-1], True))
        self._thresholds = ranked[self._ends]
        self._is_wrong, self._beta = is_wrong[self._order].astype(np.float64), beta
        self._named = 0 if detector.threshold is None else int((detector.values > detector.threshold).sum())

    def score(self, weights: Floats) -> WeightedScores:
        """Of items as often as their weights say; NaN where only right or only wrong ones are left."""
        ranked = weights[self._order]
        hits = np.cumsum(ranked * self._is_wrong)
        named = np.cumsum(ranked)
        wrong, right = float(hits[-1]), float(named[-1] - hits[-1])
        if not wrong or not right:
            return self.WeightedScores(*[float("nan")] * 7)
        tp, total = hits[self._ends], named[self._ends]
        precision = tp / np.maximum(total, 1e-12)
        fp = np.append(0.0, total - tp)
        auc = float(((fp[1:] - fp[:-1]) * (tp + np.append(0.0, tp[:-1])) / 2).sum() / (wrong * right))
        average_precision = float((np.diff(tp, prepend=0.0) * precision).sum() / wrong)
        f = self._f(tp, total, wrong)
        best = int(f.argmax())
        at_hits, at_named = (float(sums[self._named - 1]) if self._named else 0.0 for sums in (hits, named))
        return self.WeightedScores(
            *(auc, average_precision, float(f[best]), float(self._thresholds[best])),
            *(float(self._f(np.array([at_hits]), np.array([at_named]), wrong)[0]),),
            *(at_hits / at_named if at_named else 0.0, at_hits / wrong),
        )

    def _f(self, tp: Floats, named: Floats, wrong: float) -> Floats:
        square = self._beta**2
        f: Floats = (1 + square) * tp / (named + square * wrong)
        return f


def compare(items: MeasuredItems, beta: float, config: MeasuringConfig) -> Measurement:
    """The scores of every detector with intervals, and whether the model is worth its while.

    >>> wrong, groups = np.array([False, True] * 20), np.arange(40)
    >>> sure = DetectorValues("p", "a model", wrong * 0.9, is_model=True, threshold=0.5)
    >>> items = MeasuredItems("a", "labels", "word", wrong, groups, [sure, DetectorValues("n", "", groups * 1.0)])
    >>> found = compare(items, 0.5, MeasuringConfig())
    >>> found.best, found.use, found.detectors[0].auc.value
    ('model', 'p', 1.0)
    """
    wrong = int(items.is_wrong.sum())
    right = len(items.is_wrong) - wrong
    if wrong < LEAST_WRONG or right < LEAST_WRONG:
        raise InputError(
            f"{items.source}: {wrong:,} wrong and {right:,} right {items.unit}s are too few to measure by; give a file "
            f"with at least {LEAST_WRONG} of both"
        )
    names, groups = np.unique(items.groups, return_inverse=True)
    draws = [
        np.bincount(draw, minlength=len(names)).astype(np.float64)[groups]
        for draw in bootstrap_indices(len(names), config.resamples, config.seed)
    ]
    scored: list[DetectorScores] = []
    # The average precision of each detector, in each draw.
    drawn_precisions: list[Floats] = []
    for detector in items.detectors:
        ranked = RankedItems(detector, items.is_wrong, beta)
        value = ranked.score(np.ones(len(groups)))
        drawn = np.array([ranked.score(weights) for weights in draws]).reshape(-1, len(value))
        drawn_precisions.append(drawn[:, 1])

        def estimate(name: str, value: RankedItems.WeightedScores = value, drawn: Floats = drawn) -> EstimateRecord:
            return _estimate(getattr(value, name), drawn[:, value._fields.index(name)], len(names))

        is_stated = detector.threshold is not None
        scored.append(
            DetectorScores(
                name=detector.name,
                what=detector.what,
                is_model=detector.is_model,
                auc=estimate("auc"),
                average_precision=estimate("average_precision"),
                best_f=estimate("best_f"),
                best_threshold=value.best_threshold,
                threshold=detector.threshold,
                f=estimate("f") if is_stated else None,
                precision=value.precision if is_stated else None,
                recall=value.recall if is_stated else None,
                more=dict(items.score_more(detector)) if items.score_more else {},
            )
        )

    def find_best(*, is_model: bool) -> int:
        indices = [index for index, scores in enumerate(scored) if scores.is_model is is_model]
        return max(indices, key=lambda index: scored[index].average_precision.value or 0.0)

    ours, count = find_best(is_model=True), find_best(is_model=False)
    difference = (scored[ours].average_precision.value or 0.0) - (scored[count].average_precision.value or 0.0)
    gain = _estimate(difference, drawn_precisions[ours] - drawn_precisions[count], len(names))
    best: Literal["model", "counting", "either"] = "either"
    if not config.resamples and difference:  # no interval was wanted: what is better here
        best = "model" if difference > 0 else "counting"
    if gain.low is not None and gain.high is not None and not gain.low <= 0 <= gain.high:
        best = "model" if gain.low > 0 else "counting"
    return Measurement(
        source=items.source,
        truth=items.truth,
        unit=items.unit,
        items=len(items.is_wrong),
        wrong=wrong,
        groups=len(names),
        beta=beta,
        detectors=tuple(scored),
        best=best,
        # Where both are as good, what needs no network.
        use=scored[ours if best == "model" else count].name,
        gain=gain,
        more=dict(items.more),
    )


def _estimate(value: float, drawn: Floats, units: int) -> EstimateRecord:
    interval = percentile_interval(value, drawn.tolist(), units)
    is_known = bool(np.isfinite([interval.low, interval.high]).all())
    return EstimateRecord(value=value, low=interval.low if is_known else None, high=interval.high if is_known else None)
