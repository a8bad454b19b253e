"""All that is known of the trained models, looked up by arm: figures of the analysis, scores of the study.

analysis.json, results.json -> Evidence
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any

from electralab.analysis.finding import Estimate

Results = dict[str, Any]
UNTRAINED = "untrained"


class Lacking(Exception):
    """What a claim would have to be judged by is not there; says what would be needed."""

    def __init__(self, needed: str, arm: str = "") -> None:
        super().__init__(needed)
        self.arm = arm
        """That an analysis has no figure of, where it is one."""


@dataclass(frozen=True, slots=True)
class Figure:
    layer: int | None
    estimate: Estimate
    control: Estimate | None


@dataclass(frozen=True, slots=True)
class Evidence:
    figures: Mapping[tuple[str, str], Sequence[Sequence[Figure]]]
    """By arm and name of the finding: for each seed, its figures of all layers."""
    reasons: Mapping[tuple[str, str], str]
    """Why there is no figure, where the analysis says so: by arm and name of the finding, or number of the claim."""
    study: Results
    tradeoff: Results = field(default_factory=dict)

    def last(self, arm: str, name: str) -> list[Estimate]:
        """Of the last layer, or of the model as a whole; for each seed."""
        return [figures[-1].estimate for figures in self._find(arm, name)]

    def highest(self, arm: str, name: str) -> list[Estimate]:
        """Of the layer where it is highest, which may be another for each model."""
        return [max((one.estimate for one in figures), key=lambda one: one.value) for figures in self._find(arm, name)]

    def lowest(self, arm: str, name: str) -> list[Estimate]:
        return [min((one.estimate for one in figures), key=lambda one: one.value) for figures in self._find(arm, name)]

    def control(self, arm: str, name: str) -> list[Estimate]:
        """What the measure says, at the last layer, of what cannot hold the answer."""
        found = [figures[-1].control for figures in self._find(arm, name)]
        return [one for one in found if one is not None]

    def score(self, arm: str, name: str) -> list[Estimate]:
        """In points, for each seed. One seed tells nothing of its spread."""
        return [Estimate(100 * value, nan, nan) for value in self.by_seed(arm, name).values()]

    def by_seed(self, arm: str, name: str) -> dict[int, float]:
        """A score of each run that has it; the average of those that have all."""
        cells = [cell for cell in self.study.get("cells", ()) if cell["arm"] == arm]
        wanted = list(self.study.get("scores", ())) if name == "average" else [name]
        found = {
            cell["seed"]: sum(cell["scores"][one] for one in wanted) / len(wanted)
            for cell in cells
            if wanted and all(cell["scores"].get(one) is not None for one in wanted)
        }
        if not found:
            raise Lacking(f"no run of {arm!r} has the score {name!r}")
        return found

    def of_arm(self, arm: str, what: str) -> float:
        """A count of the study: parameters, flops, tokens."""
        row = next((row for row in self.study.get("table", ()) if row["arm"] == arm), None)
        if row is None or not row.get(what):
            raise Lacking(f"no run of {arm!r} has finished its pre-training")
        return float(row[what])

    def curve(self, arm: str, name: str) -> list[Results]:
        points = self.study.get("curves", {}).get(name, {}).get(arm, [])
        if len(points) < 2:
            raise Lacking(f"no run of {arm!r} was scored by {name!r} along its way")
        return list(points)

    def _find(self, arm: str, name: str) -> Sequence[Sequence[Figure]]:
        found = self.figures.get((arm, name))
        if not found:
            raise Lacking(self.reasons.get((arm, name)) or f"{arm!r} was not measured by {name!r}", arm)
        return found


def read_evidence(
    analysis: Results, arms: Mapping[str, str], study: Results, tradeoff: Results | None = None
) -> Evidence:
    """`arms`: the name of a model in the analysis -> the arm that it is a run of, in the order of seeds."""
    figures: dict[tuple[str, str], dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    named = _name_twins(analysis, arms)
    for found in analysis["findings"]:
        arm = named.get(found["model"])
        if arm is not None:
            control = found["control"] and _read_estimate(found["control"])
            figure = Figure(found["layer"], _read_estimate(found), control)
            figures[arm, found["name"]][found["model"]].append(figure)
    reasons = {
        (named[one["model"]], one[key]): one["reason"]
        for one in analysis["missing"]
        for key in ("claim", "name")
        if one["model"] in named
    }
    by_layer = {key: [sorted(seed, key=_depth) for seed in seeds.values()] for key, seeds in figures.items()}
    return Evidence(by_layer, reasons, study, tradeoff or {})


def _name_twins(analysis: Results, arms: Mapping[str, str]) -> dict[str, str]:
    """Untrained twins stand for the arm of their model with ', untrained' behind it."""
    named = dict(arms)
    for model in analysis["models"]:
        if model["control_of"] in arms:
            named[model["name"]] = f"{arms[model['control_of']]}, {UNTRAINED}"
    return named


def _depth(figure: Figure) -> int:
    return -1 if figure.layer is None else figure.layer


def _read_estimate(values: Results) -> Estimate:
    value, low, high = (nan if values[name] is None else float(values[name]) for name in ("value", "low", "high"))
    return Estimate(value, low, high)
