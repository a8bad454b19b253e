"""What an analysis found: figures with intervals, controls and ids, what could not be measured, pictures, points.

out folder <-> Analysis (analysis.json), PointClouds (points.json), MeasureResult (parts/*.json)
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from electralab.records.record import FileRecord, JsonTree, PlanRecord, Record


class _FindingIds(Record):
    """Ids of findings by the names, or patterns of names, that they had before there were ids."""

    names: dict[str, str]
    patterns: dict[str, str]


_IDS_FILE = Path(__file__).with_name("finding_ids.toml")
_IDS = _FindingIds.model_validate(tomllib.loads(_IDS_FILE.read_text(encoding="utf-8")))


def id_of_name(name: str) -> str:
    """The id of a finding that claims or pages ask for, in files of before there were ids; "" for the others.

    >>> id_of_name("W₂ to news")
    'transfer.w2.news'
    """
    for pattern, id in _IDS.patterns.items():
        if match := re.fullmatch(pattern, name):
            return match.expand(id)
    return _IDS.names.get(name, "")


def name_of_id(id: str) -> str:
    """The name of a finding that claims ask for, for a sentence about it where nobody measured it."""
    return next((name for name, other in _IDS.names.items() if other == id), id)


class EstimateRecord(Record):
    """JSON has no NaN: an interval that cannot be had is null."""

    value: float | None
    low: float | None = None
    high: float | None = None


class ControlRecord(EstimateRecord):
    meaning: str = ""


class FindingRecord(Record):
    """One figure of one model. An interval that cannot be had is null."""

    model: str
    name: str
    claim: str
    layer: int | None = None
    """0 is what enters the first layer, 1 what leaves it; none where the whole model is meant."""
    unit: str = ""
    meaning: str = ""
    value: float | None
    low: float | None = None
    high: float | None = None
    control: ControlRecord | None = None
    """The same measure of what cannot hold the answer."""
    note: str = ""
    series: str = ""
    part: str = ""
    """Where a figure is measured for several domains, widths or shares: what all are called, and which it is."""
    id: str = ""
    """Such as "context_length.rtd_auc.far_gain": what others look it up by."""


class SkippedRecord(Record):
    """A figure that could not be had, and what would be needed."""

    model: str
    name: str
    claim: str
    reason: str
    id: str = ""


def _add_id(value: Any) -> Any:
    if isinstance(value, dict) and "id" not in value:
        return value | {"id": id_of_name(str(value.get("name", "")))}
    return value


StoredFinding = Annotated[FindingRecord, BeforeValidator(_add_id)]
StoredSkip = Annotated[SkippedRecord, BeforeValidator(_add_id)]


class PictureRecord(Record):
    claim: str
    model: str | None = None
    """None where all models are in it."""
    title: str
    file: str
    """The PNG; the SVG stands beside it."""
    meaning: str = ""


class PointCloud(Record):
    """Points in space that a page can turn."""

    model: str | None = None
    claim: str
    title: str
    meaning: str = ""
    points: tuple[tuple[float, ...], ...]
    categories: tuple[str, ...]
    words: tuple[str, ...]


class AnalyzedModel(Record):
    name: str
    folder: str = ""
    kind: str = ""
    control_of: str | None = None
    """The model whose untrained control this is."""


class MeasureInfo(Record):
    id: str
    claim: str
    title: str
    question: str
    answers: tuple[str, ...] = ()
    """Ids of findings that answer the question, the first that is there; none means the first finding."""


class MeasureResult(Record):
    """All that one measure says of one model: what is kept so that it need not be measured again."""

    identity: str
    findings: tuple[StoredFinding, ...] = ()
    missing: tuple[StoredSkip, ...] = ()
    drawings: tuple[PictureRecord, ...] = ()
    points: tuple[PointCloud, ...] = ()


class PointClouds(FileRecord):
    FILE: ClassVar[str] = "points.json"
    clouds: tuple[PointCloud, ...] = ()


class Analysis(FileRecord):
    FILE: ClassVar[str] = "analysis.json"
    seed: int = 0
    models: tuple[AnalyzedModel, ...] = ()
    findings: tuple[StoredFinding, ...] = ()
    missing: tuple[StoredSkip, ...] = ()
    drawings: tuple[PictureRecord, ...] = ()
    measures: tuple[MeasureInfo, ...] = ()
    """What was asked; files of before do not say it."""

    @property
    def controls(self) -> dict[str, str]:
        """Untrained control -> the model that it is the control of."""
        return {model.name: model.control_of for model in self.models if model.control_of}

    @property
    def model_names(self) -> list[str]:
        return [model.name for model in self.models if not model.control_of]

    def pair_with_control(self) -> dict[str, list[tuple[FindingRecord, FindingRecord | None]]]:
        """Claim -> findings of models, each with the same finding of its untrained control."""
        controls = self.controls
        untrained = {
            (controls[finding.model], finding.claim, finding.name, finding.layer): finding
            for finding in self.findings
            if finding.model in controls
        }
        pairs: dict[str, list[tuple[FindingRecord, FindingRecord | None]]] = {}
        for finding in self.findings:
            if finding.model not in controls:
                control = untrained.get((finding.model, finding.claim, finding.name, finding.layer))
                pairs.setdefault(finding.claim, []).append((finding, control))
        return pairs


class AnalysisPlan(PlanRecord):
    """What `--dry-run` says."""

    models: dict[str, str]
    networks: tuple[str, ...]
    data: str
    out: str
    measures: dict[str, str]
    settings: JsonTree


Verdict = Literal["holds", "does not hold", "undecided"]


class ClaimVerdictRecord(Record):
    """One claim with its verdict."""

    number: str
    sentence: str
    measure: str
    """What it is measured by."""
    unit: str
    verdict: Verdict
    verdicts: dict[str, Verdict] = Field(default_factory=dict)
    """By arrangement of ELECTRA, where there are several and they differ in their reasons."""
    values: dict[str, EstimateRecord] = Field(default_factory=dict)
    """By column of the table."""
    why: str = ""


class _Open(Record):
    """Only what the rules read is named here; the rest of a study's row is kept as it is."""

    model_config = ConfigDict(frozen=True, extra="allow", ser_json_inf_nan="null")


class CellScores(_Open):
    """One arm with one seed."""

    arm: str
    seed: int
    scores: dict[str, float | None]


class ArmCounts(_Open):
    """What an arm took, in the mean over its seeds."""

    arm: str
    parameters: float | None = None
    tokens: float | None = None
    flops: float | None = None
    pretraining_seconds: float | None = None


class CurveRun(_Open):
    """A point of a curve; a whole run where its share is 1."""

    arm: str
    share: float
    flops: float = 0.0
    tokens: float = 0.0


class StudyEvidence(_Open):
    """What rules may ask of a study."""

    name: str = ""
    scores: dict[str, str] = Field(default_factory=dict)
    averaged: tuple[str, ...] | None = None
    arms: dict[str, JsonTree] = Field(default_factory=dict)
    """The settings of pre-training, resolved."""
    cells: tuple[CellScores, ...] = ()
    table: tuple[ArmCounts, ...] = ()
    curves: dict[str, dict[str, tuple[CurveRun, ...]]] = Field(default_factory=dict)
    """Score -> line -> points."""


class EvidenceFigure(EstimateRecord):
    layer: int | None
    control: EstimateRecord | None


class ArmFigures(Record):
    """One finding of the runs of an arm: for each seed, its figures of all layers."""

    arm: str
    name: str
    id: str
    seeds: tuple[tuple[EvidenceFigure, ...], ...]


class MissingReason(Record):
    """Why an arm has no figure."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)
    arm: str
    about: str = Field(alias="of")
    """The name of the finding, or the number of the claim."""
    reason: str
    id: str = ""


class EvidenceRecord(Record):
    """What verdicts rest on: figures that were looked up, and the part of the study that rules may ask for."""

    figures: tuple[Annotated[ArmFigures, BeforeValidator(_add_id)], ...]
    reasons: tuple[MissingReason, ...]
    study: StudyEvidence
    tradeoff: JsonTree


class DomainFile(Record):
    file: str
    sha256: str


class ClaimsResult(FileRecord):
    """Version 2: both arrangements of ELECTRA have columns, and the evidence is kept."""

    FILE: ClassVar[str] = "claims.json"
    version: int = 2
    runs: str = ""
    study: str = ""
    budget: JsonTree = Field(default_factory=dict)
    command: str = ""
    study_command: str = ""
    domains: tuple[DomainFile, ...] = ()
    minutes: dict[str, float] = Field(default_factory=dict)
    """Of pre-training, by arm."""
    seeds: dict[str, int] = Field(default_factory=dict)
    """How many, by arm."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Of the table -> the arm."""
    claims: tuple[ClaimVerdictRecord, ...]
    evidence: EvidenceRecord | None = None


class ClaimsPlan(PlanRecord):
    """What `--dry-run` says."""

    study: str
    claims: tuple[str, ...]
    analyses: tuple[AnalysisPlan, ...]

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(name for analysis in self.analyses for name in analysis.models))
