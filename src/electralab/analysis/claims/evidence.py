"""All that is known of the trained models, looked up by arm: findings of the analysis by id, scores of the study.

Analysis, StudyEvidence -> Evidence <-> EvidenceRecord
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from operator import attrgetter
from typing import Any

from electralab.records.findings import (
    Analysis,
    ArmCounts,
    ArmFigures,
    CurveRun,
    EstimateRecord,
    EvidenceFigure,
    EvidenceRecord,
    FindingRecord,
    MissingReason,
    SkippedRecord,
    StudyEvidence,
    name_of_id,
)
from electralab.statistics import Interval

MLM, CAUSAL, XLNET, UNTRAINED = "mlm", "causal", "xlnet", "untrained"
# ELECTRA in its two arrangements: with a generator of its own, as in the paper; one encoder with two heads.
PAPER, ONE_ENCODER = "electra (paper)", "electra (one encoder)"
# What studies call the arm of an arrangement, the likeliest first; its settings decide.
_ARM_NAMES = {PAPER: ("electra-paper", "electra", "electra-quarter"), ONE_ENCODER: ("electra", "electra-one-encoder")}
# An arm, and the id of a finding.
Key = tuple[str, str]


class MissingEvidence(Exception):
    """What a claim would have to be decided by is not there; says what would be needed."""

    def __init__(self, needed: str, arm: str = "") -> None:
        super().__init__(needed)
        self.arm = arm
        """That an analysis has no figure of, where it is one."""


@dataclass(frozen=True, slots=True)
class Measurement:
    layer: int | None
    estimate: Interval
    control: Interval | None


def find_arrangements(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Column -> arm, by the settings of a study's arms: which of them share one encoder between both heads."""
    is_one_encoder = {arm: settings.get("model", {}).get("sharing") == "everything" for arm, settings in arms.items()}
    arrangements = {}
    for column, names in _ARM_NAMES.items():
        fitting = [arm for arm in names if arm in arms and is_one_encoder[arm] == (column == ONE_ENCODER)]
        if fitting:
            arrangements[column] = fitting[0]
    return arrangements


@dataclass(frozen=True, slots=True)
class Evidence:
    figures: Mapping[Key, Sequence[Sequence[Measurement]]]
    """For each seed, the figures of all layers."""
    reasons: Sequence[MissingReason] = ()
    """Why there is no figure, where the analysis says so."""
    study: StudyEvidence = field(default_factory=StudyEvidence)
    tradeoff: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """The name of each id, for sentences."""
    looked_up: set[Key] = field(default_factory=set)
    """What a verdict rests on, to be kept with it."""

    @classmethod
    def collect(
        cls,
        findings: Sequence[FindingRecord],
        missing: Sequence[SkippedRecord],
        arms: Mapping[str, str],
        study: StudyEvidence,
        tradeoff: Mapping[str, Any] | None = None,
    ) -> "Evidence":
        """`arms`: the name of a model in the analysis -> the arm that it is a run of, in the order of seeds."""
        figures: dict[Key, dict[str, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
        for finding in findings:
            # Files of before there were ids have none for findings that no claim asks for.
            if finding.model in arms and finding.id:
                measurement = Measurement(finding.layer, _read_interval(finding), _read_control(finding.control))
                figures[arms[finding.model], finding.id][finding.model].append(measurement)
        reasons = [
            MissingReason(arm=arms[gap.model], about=about, reason=gap.reason, id=id)
            for gap in missing
            if gap.model in arms
            for about, id in ((gap.claim, ""), (gap.name, gap.id))
        ]
        names = {finding.id: finding.name for finding in findings}
        return cls(
            # A figure of the whole model has no layer, and stands alone or before the others.
            {
                key: [sorted(seed, key=lambda row: -1 if row.layer is None else row.layer) for seed in seeds.values()]
                for key, seeds in figures.items()
            },
            reasons,
            study,
            tradeoff or {},
            names,
        )

    @classmethod
    def restore(cls, record: EvidenceRecord) -> "Evidence":
        """From what a file keeps of it."""
        figures = {
            (row.arm, row.id): [
                [Measurement(figure.layer, _read_interval(figure), _read_control(figure.control)) for figure in seed]
                for seed in row.seeds
            ]
            for row in record.figures
        }
        return cls(figures, record.reasons, record.study, record.tradeoff, {row.id: row.name for row in record.figures})

    def to_record(self) -> EvidenceRecord:
        """What the verdicts rest on: figures that were looked up, and the part of the study that rules may ask for."""
        figures = [
            ArmFigures(
                arm=arm,
                name=self.names.get(id, id),
                id=id,
                seeds=tuple(tuple(map(_write_figure, seed)) for seed in self.figures[arm, id]),
            )
            for arm, id in sorted(self.looked_up)
            if (arm, id) in self.figures
        ]
        reasons = tuple(self.reasons)
        return EvidenceRecord(figures=tuple(figures), reasons=reasons, study=self.study, tradeoff=dict(self.tradeoff))

    @property
    def arrangements(self) -> dict[str, str]:
        """Column -> arm, of each arrangement of ELECTRA that the study has; the first is the paper's."""
        return find_arrangements(self.study.arms) or {PAPER: "electra"}

    @property
    def columns(self) -> dict[str, str]:
        """Column of the table -> the arm."""
        arms = self.arrangements
        first = next(iter(arms.values()))
        return {**arms, MLM: MLM, CAUSAL: CAUSAL, XLNET: XLNET, UNTRAINED: f"{first}, {UNTRAINED}"}

    def column_of(self, arm: str) -> str:
        return next(column for column, other in self.columns.items() if other == arm)

    def ids(self, arm: str, prefix: str) -> list[str]:
        """The ids of an arm's findings that begin so: those of all domains, of all kinds of pairs."""
        return sorted({id for other, id in self.figures if other == arm and id.startswith(prefix)})

    def last(self, arm: str, id: str) -> list[Interval]:
        """At the last layer, or of the model as a whole; for each seed."""
        return [figures[-1].estimate for figures in self._find(arm, id)]

    def highest(self, arm: str, id: str) -> list[Interval]:
        """At the layer where it is highest, which may be another for each model."""
        return [max((row.estimate for row in rows), key=attrgetter("value")) for rows in self._find(arm, id)]

    def lowest(self, arm: str, id: str) -> list[Interval]:
        return [min((row.estimate for row in rows), key=attrgetter("value")) for rows in self._find(arm, id)]

    def control(self, arm: str, id: str) -> list[Interval]:
        """What the measure says, at the last layer, of what cannot hold the answer."""
        return [figures[-1].control for figures in self._find(arm, id) if figures[-1].control is not None]

    def _find(self, arm: str, id: str) -> Sequence[Sequence[Measurement]]:
        # Noted also where there is nothing: what is kept with the verdicts are the figures that were looked for.
        self.looked_up.add((arm, id))
        figures = self.figures.get((arm, id))
        if not figures:
            name = self.names.get(id) or name_of_id(id)
            given = (
                gap.reason for gap in reversed(self.reasons) if gap.arm == arm and (gap.id == id or gap.about == name)
            )
            raise MissingEvidence(next(given, f"{arm!r} was not measured by {name!r}"), arm)
        return figures

    def reason_of_claim(self, arm: str, number: str) -> str:
        """What the analysis says is missing for a claim; "" where it says nothing."""
        return next((gap.reason for gap in reversed(self.reasons) if (gap.arm, gap.about) == (arm, number)), "")

    def score(self, arm: str, name: str) -> list[Interval]:
        """In points, for each seed. One seed tells nothing of its spread."""
        return [Interval(100 * value, nan, nan) for value in self.by_seed(arm, name).values()]

    def by_seed(self, arm: str, name: str) -> dict[int, float]:
        """A score of each run that has it; the average of those that have all."""
        averaged = self.study.scores if self.study.averaged is None else self.study.averaged
        wanted = list(averaged) if name == "average" else [name]
        scores = {}
        for cell in self.study.cells:
            values = [value for score in wanted if (value := cell.scores.get(score)) is not None]
            if cell.arm == arm and wanted and len(values) == len(wanted):
                scores[cell.seed] = sum(values) / len(values)
        if not scores:
            raise MissingEvidence(f"no run of {arm!r} has the score {name!r}")
        return scores

    def parameters(self, arm: str) -> float:
        return self._count(arm, lambda row: row.parameters)

    def flops(self, arm: str) -> float:
        return self._count(arm, lambda row: row.flops)

    def flops_per_token(self, arm: str) -> float:
        return self.flops(arm) / self._count(arm, lambda row: row.tokens)

    def _count(self, arm: str, count: Callable[[ArmCounts], float | None]) -> float:
        row = next((row for row in self.study.table if row.arm == arm), None)
        value = None if row is None else count(row)
        if not value:
            raise MissingEvidence(f"no run of {arm!r} has finished its pre-training")
        return value

    def finished_runs(self, line: str, name: str) -> Sequence[CurveRun]:
        """Points of a curve that are runs at their end, from the shortest: amid its schedule a run is worth less."""
        points = self.study.curves.get(name, {}).get(line, ())
        ended = [point for point in points if point.share == 1.0]
        if not ended:
            raise MissingEvidence(f"no run of {line!r} has been scored by {name!r} at its end")
        return ended


def name_controls(analysis: Analysis, arms: Mapping[str, str]) -> dict[str, str]:
    """Models of the analysis -> arms; untrained controls are the arm of their model with ', untrained' behind it."""
    untrained = {name: f"{arms[model]}, {UNTRAINED}" for name, model in analysis.controls.items() if model in arms}
    return {**arms, **untrained}


def _read_interval(record: FindingRecord | EstimateRecord) -> Interval:
    ends = (record.value, record.low, record.high)
    return Interval(*(nan if end is None else end for end in ends))


def _read_control(record: EstimateRecord | None) -> Interval | None:
    return None if record is None else _read_interval(record)


def write_interval(interval: Interval) -> EstimateRecord:
    """JSON has no NaN."""
    value, low, high = (end if isfinite(end) else None for end in (interval.value, interval.low, interval.high))
    return EstimateRecord(value=value, low=low, high=high)


def _write_figure(measurement: Measurement) -> EvidenceFigure:
    estimate = write_interval(measurement.estimate)
    control = None if measurement.control is None else write_interval(measurement.control)
    return EvidenceFigure(
        layer=measurement.layer, value=estimate.value, low=estimate.low, high=estimate.high, control=control
    )
