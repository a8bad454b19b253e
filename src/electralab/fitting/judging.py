"""How entries are judged: intervals, a blend that is asked about rows that its weights were not fitted to, and what a
reader of the leaderboard should know.

PredictionRow... of each entry -> Interval, BlendWeights, sentence...
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from electralab.records.fitted import BlendWeights, FitEntry
from electralab.records.tuned import PredictionRow
from electralab.reporting.fit_page import ENTRY_NAMES
from electralab.reporting.format import format_number_of
from electralab.statistics import Interval, bootstrap_interval, share_interval
from electralab.tasks import blending

_RESAMPLES = 500
# Parts by which a blend of held-out rows is judged.
_BLEND_PARTS = 5
# Fewer rows of a class leave more to luck than methods differ.
_FEW_LABELS = 16

Indices = NDArray[np.int64]


def find_interval(metric: str, labels: Sequence[str], answers: blending.Rows, other: blending.Rows = ()) -> Interval:
    """Of the metric; with `other`, of how far it is below theirs."""
    scorers = [blending.make_scorer((metric,), labels, rows) for rows in (answers, other) if rows]
    count, is_share = len(answers), metric == "accuracy"

    def measure(indices: Indices) -> float:
        first, *rest = (scorer(indices)[metric] for scorer in scorers)
        return rest[0] - first if rest else first

    if is_share and not other:
        share = share_interval(round(count * measure(np.arange(count))), count)
        # Rounding leads a little out of what a share can be.
        return Interval(share.value, max(share.low, 0.0), min(share.high, 1.0))
    # The same rows are drawn for all, so differences are paired.
    interval = bootstrap_interval(measure, count, _RESAMPLES, 0)
    if interval.low < interval.high:
        return interval
    # Rows that are all alike are alike in every draw, which says nothing of others. Of a share the rule of three does:
    # what was met in none of n rows may be in 3/n of all.
    margin = 3 / count if is_share else math.nan
    return Interval(interval.value, max(interval.value - margin, -1), min(interval.value + margin, 1))


def judge_blend(
    labels: Sequence[str], learned: Sequence[str], parts: Sequence[Indices], answers: Sequence[blending.Rows]
) -> tuple[BlendWeights | None, list[PredictionRow], str]:
    """Weights by all rows; and what each part of these is answered with weights by the others. Where it cannot be,
    nothing and a sentence that says why.

    `learned`: the labels of the rows that the models have learned from; `parts`: places of the rows.
    """
    truth, why = [row.truth for row in answers[0]], ""
    count, missing = len(truth), [label for label in learned if label not in truth]
    if len(parts) == 1:
        # Each class is spread over all parts.
        order = sorted(range(count), key=lambda place: str(truth[place]) if labels else "")
        parts = [np.array(order[first::_BLEND_PARTS]) for first in range(min(_BLEND_PARTS, count))]
    rests = [np.setdiff1d(np.arange(count), places) for places in parts]
    if any(row.prediction is None for rows in answers for row in rows):
        why = "an entry has answers that are no numbers; tune with a lower --learning-rate"
    elif missing:
        why = f"its weights are fitted to the rows that judge, and none of these has the label {missing[0]!r}"
    elif any(len({truth[place] for place in rest}) < 2 for rest in rests):
        why = "there are too few rows to fit its weights to some of them and judge it by the others"
    if why:
        return None, [], f"no blend: {why}"
    answered: dict[int, PredictionRow] = {}
    for places, rest in zip(parts, rests, strict=True):
        weights = blending.fit_blend(labels, [[rows[place] for place in rest] for rows in answers])
        asked = [[rows[place] for place in places] for rows in answers]
        answered |= dict(zip(map(int, places), blending.answer_blend(weights, labels, asked), strict=True))
    return blending.fit_blend(labels, answers), [answered[place] for place in range(count)], ""


def explain_entries(entries: Sequence[FitEntry], judged: int, by_class: Mapping[str, int]) -> Iterator[str]:
    """What a reader of the leaderboard should know. `by_class`: the rows of each label that were learned from."""
    best, second = entries[:2]
    # Also where the interval touches 0, or there is none.
    if not second.behind_low > 0:
        interval = (
            "and so few rows give it no interval"
            if math.isnan(second.behind_low)
            else f"from {100 * second.behind_low:.1f} to {100 * second.behind_high:.1f}"
        )
        yield (
            f"{ENTRY_NAMES[best.name]} and {ENTRY_NAMES[second.name]} cannot be told apart by "
            f"{format_number_of(judged, 'row')}: the difference is {100 * second.behind:.1f} points, {interval}"
        )
    if by_class and min(by_class.values()) < _FEW_LABELS:
        name = min(by_class, key=lambda label: by_class[label])
        yield (
            f"few labels: {name!r} has {format_number_of(by_class[name], 'row')}; scores of so few rows say little, "
            "and more labels are worth more than another method"
        )
