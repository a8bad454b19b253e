"""The answer of `evaluate`: one suite on one model, every score with what it was measured on.

suite, model, data -> EvaluationResult
"""

from typing import Literal

from pydantic import Field

from electralab.records.record import JsonTree, PlanRecord, Record

Suite = Literal["blimp", "rtd", "mlm", "sts", "probe"]

Scores = dict[str, float | str | list[float | None] | None]
"""By metric: a number, an interval [low, high] under `METRIC_interval`, or a choice (`layer`); None: not finite."""
GroupScores = dict[str, dict[str, Scores]]
"""Kind of group -> group -> its scores: {"field": {"syntax": {"discriminator": 0.62, ...}}}."""


class EvaluationResult(Record):
    """Every score with what it was measured on.

    >>> result = EvaluationResult(suite="rtd", model="run", data="data", scores={"auc": 0.9, "auc_interval": [0.8, 1]})
    >>> result.score("auc"), result.interval("auc"), result.score("loss")
    (0.9, (0.8, 1.0), None)
    """

    suite: Suite
    model: str
    data: str
    scores: Scores
    groups: GroupScores = Field(default_factory=dict)
    counts: dict[str, int] = Field(default_factory=dict)
    identity: str = ""
    """A hash of what was asked: scores of two models are comparable where it is the same."""
    notes: tuple[str, ...] = ()
    """What a reader must know to take the scores for what they are."""
    bad_rows: tuple[str, ...] = ()
    """The first of those left out, with place and reason; `counts` has their number."""
    settings: JsonTree = Field(default_factory=dict)

    def score(self, metric: str) -> float | None:
        """None where the suite has no such number, or it is not finite."""
        value = self.scores.get(metric)
        return float(value) if isinstance(value, int | float) else None

    def interval(self, metric: str) -> tuple[float, float] | None:
        """The 95 % interval of a score, where it has one."""
        match self.scores.get(f"{metric}_interval"):
            case [int() | float() as low, int() | float() as high]:
                return float(low), float(high)
        return None


class EvaluationPlan(PlanRecord):
    """`evaluate --dry-run`: what would be scored, and how."""

    model: str
    suite: str
    data: str
    generator: str | None
    task: str | None
    settings: JsonTree
