"""Reference curves: what one run of a preset had on held-out rows, by tokens. Is my run healthy?

curves.json -> Curve -> the scores of a healthy run after so many tokens, and a warning for one that is far behind

Where the limits come from: docs/objectives/balance.md. `python tools/record_curve.py RUN` records a curve.
"""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from electralab.pretraining.settings import PretrainConfig, read_settings, resolve_pretrain
from electralab.records.record import FileRecord, Record

# A longer run learns at its full rate for longer, and other text is harder: neither cost this much.
_FAR = 0.1
# Below it there is nothing to fall behind.
_LEARNED = 0.62
# Parts of the settings in which a run must be as the preset has it to be held against its curve.
_COMPARED = ("objective", "procedure", "model", "generator", "masking", "sampling", "loss", "optimizer")


class ReferencePoint(Record):
    tokens: int
    generator_loss: float
    discriminator_loss: float
    auc: float
    recall: float


class Curve(Record):
    """Of one run of a preset, with a point for each evaluation; the last is its end."""

    text: str
    """What it was trained on."""
    steps: int
    points: list[ReferencePoint]

    def at(self, tokens: int) -> ReferencePoint:
        """After so many tokens: on the line between two points, on the last beyond it, on the first before it.

        >>> low, high = (ReferencePoint(tokens=t, generator_loss=6, discriminator_loss=1, auc=a, recall=0) for t, a in
        ...              ((100, 0.6), (200, 0.8)))
        >>> round(Curve(text="", steps=2, points=[low, high]).at(150).auc, 2)
        0.7
        """
        if tokens <= self.points[0].tokens:
            return self.points[0]
        for before, after in pairwise(self.points):
            if tokens <= after.tokens:
                share = (tokens - before.tokens) / (after.tokens - before.tokens)
                mixed = {
                    name: getattr(before, name) + share * (getattr(after, name) - getattr(before, name))
                    for name in ReferencePoint.model_fields
                }
                return ReferencePoint(**mixed | {"tokens": tokens})
        return self.points[-1]

    def describe(self, preset: str, tokens: int) -> str:
        """For the plan of a run."""
        point = self.at(tokens)
        return (
            f"on {self.text} a run of {preset} had an AUC of {point.auc:.2f} and a recall of {point.recall:.2f} "
            f"after {point.tokens / 1e6:.1f} million tokens"
        )

    def compare(self, preset: str, scores: Mapping[str, float], tokens: int) -> list[str]:
        """A warning where a run is far behind."""
        point = self.at(tokens)
        if "auc" not in scores or point.auc < _LEARNED or scores["auc"] > point.auc - _FAR:
            return []
        return [
            f"the AUC is {scores['auc']:.2f} after {tokens / 1e6:.1f} million tokens, where a run of {preset} had "
            f"{point.auc:.2f} on {self.text}: look whether the text is in one language, free of repetitions and "
            "markup (electra show DATA), and whether --batch or --schedule differ from the preset's"
        ]


class ReferenceCurves(FileRecord):
    FILE: ClassVar[str] = "curves.json"
    curves: dict[str, Curve]
    """By the name of their preset."""


@cache
def read_curves() -> dict[str, Curve]:
    return ReferenceCurves.read(Path(__file__).parent).curves


def find_curve(preset: str, config: PretrainConfig) -> tuple[str, Curve] | None:
    """The preset's name and curve, for a run that is what the preset says; `preset` as `RunFingerprint` stores it."""
    name = preset.removeprefix("preset ")
    curve = read_curves().get(name)
    if curve is None or not preset.startswith("preset "):
        return None
    own = resolve_pretrain([read_settings(name)])
    return (name, curve) if all(getattr(own, part) == getattr(config, part) for part in _COMPARED) else None
