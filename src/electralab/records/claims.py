"""What trained models say about each claim, and the evidence that the verdicts rest on.

claims.json <-> ClaimsResult
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from electralab.records.findings import AnalysisPlan, EstimateRecord, id_of_name
from electralab.records.record import FileRecord, Record

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
    arms: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The settings of pre-training, resolved."""
    cells: tuple[CellScores, ...] = ()
    table: tuple[ArmCounts, ...] = ()
    curves: dict[str, dict[str, tuple[CurveRun, ...]]] = Field(default_factory=dict)
    """Score -> line -> points."""


class EvidenceFigure(EstimateRecord):
    layer: int | None
    control: EstimateRecord | None


def _add_id(value: Any) -> Any:
    if isinstance(value, dict) and "id" not in value:
        return value | {"id": id_of_name(str(value.get("name", "")))}
    return value


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
    tradeoff: dict[str, JsonValue]


class DomainFile(Record):
    file: str
    sha256: str


class ClaimsResult(FileRecord):
    """Version 2: both arrangements of ELECTRA have columns, and the evidence is kept."""

    FILE: ClassVar[str] = "claims.json"
    version: int = 2
    runs: str = ""
    study: str = ""
    budget: dict[str, JsonValue] = Field(default_factory=dict)
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


class ClaimsPlan(Record):
    """What `--dry-run` says."""

    study: str
    claims: tuple[str, ...]
    analyses: tuple[AnalysisPlan, ...]
