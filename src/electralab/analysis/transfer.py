"""What a model loses on text of another domain.

scores of rows at home and away -> difference with an interval, beside that of two halves of home
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Floats,
    Labels,
    Places,
    draw_rows,
    lay_about,
    require,
    require_finite,
    summarise,
)
from electralab.objective.verdicts import Verdicts

_HALVES = 20
Score = Callable[["Answers", Places], float]


@dataclass(frozen=True, slots=True)
class Answers:
    """Of tokens (N,): losses of guesses in nats, or verdicts with the truth; and the row of each."""

    values: Floats
    rows: Labels
    is_replaced: np.typing.NDArray[np.bool_] | None = None

    @property
    def row_count(self) -> int:
        return len(np.unique(self.rows))


def mean_loss(answers: Answers, places: Places) -> float:
    return float(answers.values[places].mean())


def lost_auc(answers: Answers, places: Places) -> float:
    """1 - AUC, which like a loss is higher where a model does worse."""
    assert answers.is_replaced is not None, "verdicts have a truth"
    return 1 - Verdicts(answers.values[places].astype(np.float32), answers.is_replaced[places]).auc


def measure_rise(
    home: Answers, away: Answers, score: Score, rng: np.random.Generator, *, times: int = TIMES
) -> Contrast:
    """How much higher a score is away, the rows of either drawn again. Control: one half of home's rows as away."""
    for answers in (home, away):
        require("transfer", answers.row_count, 4, "rows of each domain")
        require_finite("transfer", answers.values)

    def all_of(answers: Answers) -> Places:
        return np.arange(len(answers.values))

    value = score(away, all_of(away)) - score(home, all_of(home))
    draws = (draw_rows(len(one.values), one.rows, times, rng) for one in (home, away))
    drawn = [score(away, there) - score(home, here) for here, there in zip(*draws, strict=True)]
    names = np.unique(home.rows)

    def split() -> float:
        is_away = np.isin(home.rows, rng.permutation(names)[: len(names) // 2])
        return score(home, np.flatnonzero(is_away)) - score(home, np.flatnonzero(~is_away))

    estimate: Estimate = lay_about(value, drawn, min(home.row_count, away.row_count))
    return Contrast(estimate, summarise(split() for _ in range(_HALVES)))
