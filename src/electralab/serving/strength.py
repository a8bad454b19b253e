"""How well a discriminator did on held-out text, as its run wrote it down, and what that means for its verdicts.

a network's folder -> Strength
"""

from dataclasses import dataclass
from pathlib import Path

from electralab.artifacts import read_json
from electralab.errors import ElectraError

# Below it a discriminator has learned little but which tokens are rare: errors planted by hand stay unnoticed.
USEFUL_AUC = 0.65
# Below it most of what was replaced stays under the threshold, so that only the order of the verdicts tells something.
USEFUL_RECALL = 0.25


@dataclass(frozen=True, slots=True)
class Strength:
    """On held-out rows in which the run's own generator had replaced tokens."""

    auc: float
    recall: float
    """Of the replaced tokens, how many have p_replaced above 0.5."""
    precision: float

    @property
    def is_weak(self) -> bool:
        return self.auc < USEFUL_AUC

    @property
    def warning(self) -> str | None:
        """What somebody must know who reads its verdicts; None where they can be taken as they are."""
        if self.is_weak:
            return (
                f"this model is too weak to use: on held-out text its AUC is {self.auc:.2f}, and guessing has 0.50; "
                "train it longer"
            )
        if self.recall < USEFUL_RECALL:
            return (
                f"this model is unsure: on held-out text only {self.recall:.0%} of the replaced tokens pass 0.5 (AUC "
                f"{self.auc:.2f}); see which words are the most suspicious rather than which pass"
            )
        return None


def read_strength(folder: Path) -> Strength | None:
    """Of a network of a run, in its `export` or in an `onnx` beside it; of any other nothing is known."""
    run = folder.resolve().parent.parent
    if not (run / "run.json").is_file() or not (run / "results.json").is_file():
        return None
    try:
        results = read_json(run / "results.json")
    except ElectraError:
        return None  # a damaged file of scores does not keep the model from answering
    heldout = results.get("heldout") if isinstance(results, dict) else None
    if not isinstance(heldout, dict):
        return None
    scores = [heldout.get(name) for name in ("auc", "recall", "precision")]
    known = [float(score) for score in scores if isinstance(score, int | float)]
    return Strength(*known) if len(known) == len(scores) else None
