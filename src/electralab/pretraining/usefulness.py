"""What a finished run is good for, in words, for whoever does not read AUC and losses.

held-out scores, baselines, how long it was -> Usefulness

Where the limits come from: docs/objectives/balance.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

# Below it a discriminator is hardly better than guessing, which is .5.
_LEARNED_AUC = 0.6
# Below it a discriminator marks next to nothing at the usual limit of .5.
_MARKS = 0.1
# Nats: what a network that knows more than how frequent tokens are is better by.
_LEARNED_NATS = 0.1
# How much longer a run should be that has learned nothing yet, and what no run should be shorter than.
_LONGER = 4
_LEAST_TOKENS = 2_000_000

Scores = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Usefulness:
    is_useful: bool
    text: str


def judge_usefulness(scores: Scores, baselines: Scores, *, steps: int, tokens: int) -> Usefulness | None:
    """None of an objective whose scores say nothing of the kind."""
    factor = math.ceil(max(_LONGER, _LEAST_TOKENS / max(tokens, 1)))
    longer = f"train at least {factor:,} times as long ({factor * steps:,} steps)"
    if "auc" in scores:
        auc, recall = scores["auc"], scores.get("recall", 0.0)
        if auc < _LEARNED_AUC:
            return Usefulness(
                False,
                "too short to be useful: the discriminator tells replaced tokens from original ones hardly better "
                f"than by guessing (AUC {auc:.2f}, guessing is 0.50); {longer}",
            )
        if recall < _MARKS:
            return Usefulness(
                True,
                f"weak: the discriminator has begun to learn (AUC {auc:.2f}, guessing is 0.50), but marks only "
                f"{recall:.0%} of the replaced tokens; it can be fine-tuned, detection needs more training: {longer}",
            )
        return Usefulness(
            True, f"it has learned: AUC {auc:.2f} (guessing is 0.50), {recall:.0%} of the replaced tokens are marked"
        )
    for name, baseline in baselines.items():
        if name.endswith("_loss") and name in scores:
            gain = baseline - scores[name]
            if not gain > _LEARNED_NATS:
                return Usefulness(
                    False,
                    f"too short to be useful: the model guesses tokens no better than by how frequent they are (loss "
                    f"{scores[name]:.2f}, frequencies alone {baseline:.2f}); {longer}",
                )
            return Usefulness(
                True,
                f"it has learned: its guesses are {gain:.2f} nats better than by how frequent tokens are "
                f"(loss {scores[name]:.2f}, frequencies alone {baseline:.2f})",
            )
    return None
