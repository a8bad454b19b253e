"""GLUE's table: one score a task, their average, and what can be submitted.

suite folder <-> GlueResults
"""

from typing import ClassVar

from pydantic import Field

from electralab.records.record import FileRecord, Record
from electralab.records.tuned import FinetunePlan, Score, Spread


class GlueTask(Spread):
    """The first metric of a task, over the seeds."""

    metric: str


class GlueAverage(Record):
    """Over the tasks but WNLI; None where no task counts, or no seed is common to all of them."""

    median: Score | None
    """The mean of the tasks' medians."""
    mean: Score | None
    sd: Score | None
    n: int | None
    """Seeds that all tasks have."""
    paper: float | None


class SubmissionZip(Record):
    file: str
    holds: tuple[str, ...]
    missing: tuple[str, ...]
    """Of the eleven files that the server wants all at once."""


class GlueResults(FileRecord):
    FILE: ClassVar[str] = "results.json"
    suite: str
    """Always "glue"."""
    tasks: dict[str, GlueTask]
    average: GlueAverage
    paper: dict[str, float | None]
    """Dev scores of the released ELECTRA-Small."""
    diagnostics: dict[str, GlueTask] = Field({})
    submissions: dict[str, SubmissionZip] = Field({})
    """By what predicted: best_seed, ensemble."""


class GluePlan(Record):
    tasks: dict[str, FinetunePlan]
