"""Runs beside each other: whether their figures answer the same question, and who answers it better.

Subject... -> sentence...
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from electralab.reporting.format import format_flops, format_key, format_value, is_number
from electralab.reporting.subjects import Subject

About = Literal["guesses", "verdicts", "other"]
# Of scores that have a better and a worse end.
_UPWARD = ("accuracy", "auc", "recall", "precision", "f1", "mcc", "em", "spearman", "pearson", "median", "test")
_DOWNWARD = ("loss", "perplexity")
_EQUAL = 1.05
_MOST_LEADS = 4


def name_objective(subject: Subject) -> str:
    return str(subject.settings.get("objective") or subject.results.get("objective") or "")


def explain_unlike(subjects: Sequence[Subject], about: About = "guesses") -> str:
    """Why levels of their figures are not to be compared; nothing where they are."""
    reasons = []
    if about == "guesses" and len({name_objective(one) for one in subjects}) > 1:
        reasons.append("their objectives ask about different tokens")
    if about == "verdicts" and any(
        one.settings.get("generator") != subjects[0].settings.get("generator") for one in subjects
    ):
        reasons.append("each is judged against a generator of its own kind")
    if len({one.identity.get("data") for one in subjects}) > 1:
        reasons.append("their data differ")
    return f"Compare shapes, not levels: {' and '.join(reasons)}." if reasons else ""


def find_topic(key: str) -> About:
    """Of a score."""
    if "of guesses" in key:
        return "guesses"
    return "verdicts" if key.startswith(("auc", "recall", "precision", "discriminator_", "called_")) else "other"


def tell_comparison(subjects: Sequence[Subject], scores: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Whether their compute is equal, and who is ahead on which score that asks the same of each."""
    spent = {one.name: _find_flops(one) for one in subjects}
    known = {name: flops for name, flops in spent.items() if flops}
    if len(known) == len(subjects) > 1:
        if max(known.values()) <= _EQUAL * min(known.values()):
            yield f"All had about equal compute, {format_flops(max(known.values()))} FLOPs."
        else:
            told = ", ".join(f"{name} {format_flops(flops)}" for name, flops in known.items())
            yield f"Their compute is not equal ({told} FLOPs): who is ahead may owe it to that."
    leads = list(_find_leads(subjects, scores))
    if leads:
        yield f"Of scores that ask the same of each: {'; '.join(leads[:_MOST_LEADS])}. Small differences may be luck."
    else:
        yield "They share no score that asks the same of each."


def _find_flops(subject: Subject) -> float:
    ends = [records[-1].get("flops") for records in subject.logs.values() if records]
    return float(sum(one for one in ends if is_number(one)))


def rank(subjects: Sequence[Subject], scores: Sequence[Mapping[str, Any]], key: str) -> list[int]:
    """Places from the best to the worst of those that have the score; none where it has no better end, or asks
    different things of them."""
    who = [place for place, one in enumerate(scores) if is_number(one.get(key))]
    is_up, is_down = (any(word in key for word in words) for words in (_UPWARD, _DOWNWARD))
    if len(who) < 2 or is_up == is_down or explain_unlike([subjects[place] for place in who], find_topic(key)):
        return []
    return sorted(who, key=lambda place: float(scores[place][key]), reverse=is_up)


def find_better(subjects: Sequence[Subject], scores: Sequence[Mapping[str, Any]], key: str) -> int | None:
    """The place of the one that is ahead of all others."""
    ranked = rank(subjects, scores, key)
    return ranked[0] if ranked and scores[ranked[0]][key] != scores[ranked[1]][key] else None


def _find_leads(subjects: Sequence[Subject], scores: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for key in dict.fromkeys(key for one in scores for key in one):
        ranked = rank(subjects, scores, key)
        if not ranked:
            continue
        first, second = ranked[0], ranked[1]
        values = (
            f"{format_value(scores[first][key])} against {format_value(scores[second][key])} of {subjects[second].name}"
        )
        if scores[first][key] != scores[second][key]:
            yield f"{format_key(key)}, {subjects[first].name} is ahead ({values})"
        else:
            yield f"{format_key(key)}, none is ahead"
