"""The verdicts on the claims about the method, and what they rest on.

study folder <-> ClaimsResult
"""

from typing import ClassVar

from pydantic import Field, JsonValue

from electralab.records.record import FileRecord, Record


class ClaimFigure(Record):
    value: float | None
    low: float | None = None
    high: float | None = None


class ClaimVerdictRecord(Record):
    number: str
    sentence: str
    measure: str
    unit: str
    verdict: str
    """holds, does not hold or undecided."""
    verdicts: dict[str, str] = Field(default_factory=dict)
    """Of each arrangement of ELECTRA; files of before have none."""
    values: dict[str, ClaimFigure]
    """By column: a kind of model."""
    why: str


class DomainText(Record):
    file: str
    sha256: str


class ClaimsResult(FileRecord):
    FILE: ClassVar[str] = "claims.json"
    runs: str = ""
    study: str = ""
    budget: dict[str, float] = Field(default_factory=dict)
    command: str = ""
    study_command: str = ""
    domains: tuple[DomainText, ...] = ()
    minutes: dict[str, float] = Field(default_factory=dict)
    seeds: dict[str, int] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    """Kind of model -> the arm that stands for it."""
    claims: tuple[ClaimVerdictRecord, ...]
    evidence: JsonValue = None
