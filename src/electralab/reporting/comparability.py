"""Artifacts beside each other: what differs in their settings, whether their figures answer the same question, and who
answers it better.

Artifact... -> sentence..., settings that differ
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from electralab.reporting.artifact import Artifact
from electralab.reporting.format import format_flops, format_key, format_value, is_number

About = Literal["guesses", "verdicts", "other"]
Scores = Mapping[str, float]
# Words of scores that have a better and a worse end.
_UPWARD = ("accuracy", "auc", "recall", "precision", "f1", "mcc", "em", "spearman", "pearson", "median", "test")
_DOWNWARD = ("loss", "perplexity")
_EQUAL = 1.05
_MOST_LEADS = 4


def flatten(tree: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Settings by dotted names."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def find_differences(trees: Sequence[Mapping[str, JsonValue]]) -> dict[str, list[JsonValue]]:
    """Setting -> its value in each; a setting that one of them does not know counts as a difference.

    >>> find_differences([{"size": "tiny", "model": {"layers": 2}}, {"size": "tiny", "model": {"layers": 4}}])
    {'model.layers': [2, 4]}
    """
    flat = [dict(flatten(tree)) for tree in trees]
    keys = dict.fromkeys(key for tree in flat for key in tree)
    values = {key: [tree.get(key, "–") for tree in flat] for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def explain_unlike(artifacts: Sequence[Artifact], about: About = "guesses") -> str:
    """Why levels of their figures are not to be compared; nothing where they are."""
    first, reasons = artifacts[0].settings.get("generator"), []
    if about == "guesses" and len({artifact.objective for artifact in artifacts}) > 1:
        reasons.append("their objectives ask about different tokens")
    if about == "verdicts" and any(artifact.settings.get("generator") != first for artifact in artifacts):
        reasons.append("each is judged against a generator of its own kind")
    if len({artifact.data_hash for artifact in artifacts}) > 1:
        reasons.append("their data differ")
    return f"Compare shapes, not levels: {' and '.join(reasons)}." if reasons else ""


def find_topic(score: str) -> About:
    if "of guesses" in score:
        return "guesses"
    return "verdicts" if score.startswith(("auc", "recall", "precision", "discriminator_", "called_")) else "other"


def tell_comparison(artifacts: Sequence[Artifact], scores: Sequence[Scores]) -> Iterator[str]:
    """Whether their compute is equal, and who is ahead on which score that asks the same of each."""
    spent = {
        artifact.name: sum(flops for record in artifact.last_records if is_number(flops := record.get("flops")))
        for artifact in artifacts
    }
    if len(spent) > 1 and all(spent.values()):
        if max(spent.values()) <= _EQUAL * min(spent.values()):
            yield f"All had about equal compute, {format_flops(max(spent.values()))} FLOPs."
        else:
            told = ", ".join(f"{name} {format_flops(flops)}" for name, flops in spent.items())
            yield f"Their compute is not equal ({told} FLOPs): who is ahead may owe it to that."
    leads = []
    for key in dict.fromkeys(key for known in scores for key in known):
        if ranked := rank(artifacts, scores, key):
            (first, best), (second, next_best) = ((artifacts[place].name, scores[place][key]) for place in ranked[:2])
            values = f"{format_value(best)} against {format_value(next_best)} of {second}"
            leads.append(
                f"{format_key(key)}, {first} is ahead ({values})"
                if best != next_best
                else f"{format_key(key)}, none is ahead"
            )
    if leads:
        yield f"Of scores that ask the same of each: {'; '.join(leads[:_MOST_LEADS])}. Small differences may be luck."
    else:
        yield "They share no score that asks the same of each."


def rank(artifacts: Sequence[Artifact], scores: Sequence[Scores], key: str) -> list[int]:
    """Indices from the best to the worst of those that have the score; none where it has no better end, or asks
    different things of them."""
    who = [place for place, known in enumerate(scores) if key in known]
    is_up, is_down = (any(word in key for word in words) for words in (_UPWARD, _DOWNWARD))
    if len(who) < 2 or is_up == is_down or explain_unlike([artifacts[place] for place in who], find_topic(key)):
        return []
    return sorted(who, key=lambda place: scores[place][key], reverse=is_up)


def find_better(artifacts: Sequence[Artifact], scores: Sequence[Scores], key: str) -> int | None:
    """The index of the one that is ahead of all others."""
    ranked = rank(artifacts, scores, key)
    return ranked[0] if ranked and scores[ranked[0]][key] != scores[ranked[1]][key] else None
