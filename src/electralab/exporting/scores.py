"""Held-out scores in words, each beside what knowing only frequencies achieves.

results.json -> ScoreLine...
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScoreLine:
    name: str
    value: str
    baseline: str
    meaning: str
    """What the baseline is."""


def describe_scores(results: dict[str, Any]) -> list[ScoreLine]:
    """What a run of any objective is judged by: its losses with their accuracies, then its verdicts."""
    return [*_describe_losses(results["heldout"], results["baselines"]), *_describe_verdicts(results["heldout"])]


def _describe_losses(heldout: dict[str, float], baselines: dict[str, float]) -> Iterator[ScoreLine]:
    for name in (key.removesuffix("_loss") for key in heldout if key.endswith("_loss")):
        is_verdict = name == "discriminator"
        loss, accuracy, digits = f"{name}_loss", f"{name}_accuracy", 4 if is_verdict else 3
        meaning = "knowing only how many are replaced" if is_verdict else "token frequencies"
        known = f"{baselines[loss]:.{digits}f}" if loss in baselines else ""
        yield ScoreLine(f"{name} loss", f"{heldout[loss]:.{digits}f}", known, meaning if known else "")
        if accuracy in heldout:
            known = f"{baselines[accuracy]:.1%}" if accuracy in baselines else ""
            meaning = "always the most frequent token" if known else ""
            yield ScoreLine(f"{name} accuracy", f"{heldout[accuracy]:.1%}", known, meaning)


def _describe_verdicts(heldout: dict[str, float]) -> Iterator[ScoreLine]:
    if "auc" not in heldout:
        return
    yield ScoreLine("discriminator AUC", f"{heldout['auc']:.3f}", "0.500", "guessing")
    for name in ("unsure", "middling", "sure"):
        if f"auc_{name}" in heldout:
            yield ScoreLine(f"AUC, generator {name}", f"{heldout[f'auc_{name}']:.3f}", "0.500", "guessing")
    called, share = heldout["called_replaced"], heldout["replaced_share"]
    recall, precision = f"{heldout['recall']:.3f}", f"{heldout['precision']:.3f}"
    yield ScoreLine("recall on replaced", recall, f"{called:.3f}", "calling as many replaced, at random")
    yield ScoreLine("precision", precision, f"{share:.3f}", "calling at random")
