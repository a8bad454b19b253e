"""All that is known of the trained models, looked up by arm: findings of the analysis by id, scores of the study.

Analysis, StudyEvidence -> Evidence <-> EvidenceRecord
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Literal

from pydantic import JsonValue

from electralab.records import findings as records
from electralab.records.findings import EvidenceFigure, EvidenceRecord, StudyEvidence
from electralab.records.record import JsonTree
from electralab.statistics import Interval

MLM, CAUSAL, XLNET, UNTRAINED = "mlm", "causal", "xlnet", "untrained"
# ELECTRA in its two arrangements: with a generator of its own, as in the paper; one encoder with two heads.
PAPER, ONE_ENCODER = "electra (paper)", "electra (one encoder)"
# What studies call the arm of an arrangement, the likeliest first; its settings decide.
_ARM_NAMES = {PAPER: ("electra-paper", "electra", "electra-quarter"), ONE_ENCODER: ("electra", "electra-one-encoder")}
# Of a file, as it is.
Table = Mapping[str, JsonValue]
# An arm, and the id of a finding.
Key = tuple[str, str]


class MissingEvidence(Exception):
    """What a claim would have to be decided by is not there; says what would be needed."""

    def __init__(self, needed: str, arm: str = "") -> None:
        super().__init__(needed)
        self.arm = arm
        """That an analysis has no figure of, where it is one."""


def find_arrangements(arms: Mapping[str, JsonTree]) -> dict[str, str]:
    """Column -> arm, by the settings of a study's arms: which of them share one encoder between both heads."""
    is_one_encoder, arrangements = dict.fromkeys(arms, False), {}
    for arm, settings in arms.items():
        match settings:
            case {"model": {"sharing": "everything"}}:
                is_one_encoder[arm] = True
    for column, names in _ARM_NAMES.items():
        fitting = [arm for arm in names if arm in arms and is_one_encoder[arm] == (column == ONE_ENCODER)]
        if fitting:
            arrangements[column] = fitting[0]
    return arrangements


def read_interval(figure: records.EstimateRecord) -> Interval:
    """JSON has no NaN: what is not known is null there."""
    return Interval(*(nan if end is None else end for end in (figure.value, figure.low, figure.high)))


@dataclass(frozen=True, slots=True)
class Evidence:
    figures: Mapping[Key, Sequence[Sequence[EvidenceFigure]]]
    """For each seed, the figures of all layers."""
    reasons: Sequence[records.MissingReason] = ()
    """Why there is no figure, where the analysis says so."""
    study: StudyEvidence = field(default_factory=StudyEvidence)
    tradeoff: Table = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """The name of each id, for sentences."""
    looked_up: set[Key] = field(default_factory=set)
    """What a verdict rests on, to be kept with it."""

    @classmethod
    def collect(
        cls, analyses: Sequence[records.Analysis], named: Mapping[str, str], study: StudyEvidence, tradeoff: Table
    ) -> "Evidence":
        """`named`: the name of a model in the analyses -> the arm that it is a run of, in the order of seeds."""
        controls = {name: model for analysis in analyses for name, model in analysis.controls.items()}
        # Untrained controls are the arm of their model with ', untrained' behind it.
        untrained = {name: f"{named[model]}, {UNTRAINED}" for name, model in controls.items() if model in named}
        arms, findings = {**named, **untrained}, [row for analysis in analyses for row in analysis.findings]
        figures: dict[Key, dict[str, list[EvidenceFigure]]] = defaultdict(lambda: defaultdict(list))
        for row in findings:
            # Files of before there were ids have none for findings that no claim asks for.
            if row.model in arms and row.id:
                control = row.control and records.EstimateRecord(**row.control.model_dump(exclude={"meaning"}))
                figure = EvidenceFigure(layer=row.layer, value=row.value, low=row.low, high=row.high, control=control)
                figures[arms[row.model], row.id][row.model].append(figure)
        reasons = [
            records.MissingReason(arm=arms[gap.model], about=about, reason=gap.reason, id=id)
            for analysis in analyses
            for gap in analysis.missing
            if gap.model in arms
            for about, id in ((gap.claim, ""), (gap.name, gap.id))
        ]
        # A figure of the whole model has no layer, and stands alone or before the others.
        ordered = {
            key: [sorted(seed, key=lambda figure: -1 if figure.layer is None else figure.layer) for seed in by.values()]
            for key, by in figures.items()
        }
        return cls(ordered, reasons, study, tradeoff, {row.id: row.name for row in findings})

    @classmethod
    def restore(cls, record: EvidenceRecord) -> "Evidence":
        """From what a file keeps of it."""
        figures = {(row.arm, row.id): row.seeds for row in record.figures}
        names = {row.id: row.name for row in record.figures}
        return cls(figures, record.reasons, record.study, record.tradeoff, names)

    def to_record(self) -> EvidenceRecord:
        """What the verdicts rest on: figures that were looked up, and the part of the study that rules may ask for."""
        figures = [
            records.ArmFigures(
                arm=arm, name=self.names.get(id, id), id=id, seeds=tuple(map(tuple, self.figures[arm, id]))
            )
            for arm, id in sorted(self.looked_up & self.figures.keys())
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

    def ids(self, arm: str, prefix: str) -> list[str]:
        """The ids of an arm's findings that begin so: those of all domains, of all kinds of pairs."""
        return sorted({id for other, id in self.figures if other == arm and id.startswith(prefix)})

    def estimates(self, arm: str, id: str, at: Literal["last", "highest", "lowest"] = "last") -> list[Interval]:
        """Of each seed, at the last layer or of the model as a whole; or at that layer of each where it is highest."""
        seeds = [[read_interval(figure) for figure in figures] for figures in self._find(arm, id)]
        sign = {"last": 0, "highest": -1, "lowest": 1}[at]
        return [min(layers, key=lambda estimate: sign * estimate.value) if sign else layers[-1] for layers in seeds]

    def control(self, arm: str, id: str) -> list[Interval]:
        """What the measure says, at the last layer, of what cannot hold the answer."""
        return [read_interval(figures[-1].control) for figures in self._find(arm, id) if figures[-1].control]

    def _find(self, arm: str, id: str) -> Sequence[Sequence[EvidenceFigure]]:
        # Noted also where there is nothing: what is kept with the verdicts are the figures that were looked for.
        self.looked_up.add((arm, id))
        figures = self.figures.get((arm, id))
        if not figures:
            name = self.names.get(id) or records.name_of_id(id)
            gaps = (gap for gap in reversed(self.reasons) if gap.arm == arm and (gap.id == id or gap.about == name))
            reasons = (gap.reason for gap in gaps)
            raise MissingEvidence(next(reasons, f"{arm!r} was not measured by {name!r}"), arm)
        return figures

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
        # A run that failed has no score, and one without all of them no average: both are as if not run.
        if not scores:
            raise MissingEvidence(f"no run of {arm!r} has the score {name!r}")
        return scores

    def count(self, arm: str, what: Literal["parameters", "flops", "tokens"]) -> float:
        """What an arm took, in the mean over its seeds."""
        value = next((getattr(row, what) for row in self.study.table if row.arm == arm), None)
        if not value:
            raise MissingEvidence(f"no run of {arm!r} has finished its pre-training")
        return float(value)

    def flops_per_token(self, arm: str) -> float:
        return self.count(arm, "flops") / self.count(arm, "tokens")

    def finished_runs(self, line: str, name: str) -> Sequence[records.CurveRun]:
        """Points of a curve that are runs at their end, from the shortest: amid its schedule a run is worth less."""
        points = self.study.curves.get(name, {}).get(line, ())
        ended = [point for point in points if point.share == 1.0]
        if not ended:
            raise MissingEvidence(f"no run of {line!r} has been scored by {name!r} at its end")
        return ended
