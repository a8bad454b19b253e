"""All that is known of the trained models, looked up by arm: figures of the analysis, scores of the study.

analysis.json, results.json -> Evidence
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite, nan
from typing import Any

from electralab.analysis.finding import Estimate

Results = dict[str, Any]
MLM, CAUSAL, XLNET, UNTRAINED = "mlm", "causal", "xlnet", "untrained"
PAPER, ONE_ENCODER = "electra (paper)", "electra (one encoder)"
"""ELECTRA in its two arrangements: with a generator of its own, as in the paper; one encoder with two heads."""
_NAMES = {
    PAPER: ("electra-paper", "electra", "electra-quarter"),
    ONE_ENCODER: ("electra", "electra-one-encoder"),
}
"""What studies call the arm of an arrangement, the likeliest first; its settings decide."""


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
    asked: set[tuple[str, str]] = field(default_factory=set)
    """Arms and names of the findings that were looked up: what a verdict rests on, to be kept with it."""

    @property
    def arrangements(self) -> dict[str, str]:
        """Column -> arm, of each arrangement of ELECTRA that the study has; the first is the paper's."""
        return find_arrangements(self.study.get("arms", {})) or {PAPER: "electra"}

    @property
    def columns(self) -> dict[str, str]:
        """Of the table -> the arm."""
        arms = self.arrangements
        first = next(iter(arms.values()))
        return {**arms, MLM: MLM, CAUSAL: CAUSAL, XLNET: XLNET, UNTRAINED: f"{first}, {UNTRAINED}"}

    def column_of(self, arm: str) -> str:
        return next(column for column, of in self.columns.items() if of == arm)

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
        averaged = "averaged" if "averaged" in self.study else "scores"
        wanted = list(self.study.get(averaged, ())) if name == "average" else [name]
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

    def finished_runs(self, line: str, name: str) -> list[Results]:
        """Points of a curve that are runs at their end, from the shortest: amid its schedule a run is worth less."""
        points = self.study.get("curves", {}).get(name, {}).get(line, [])
        ended = [point for point in points if point["share"] == 1.0]
        if not ended:
            raise Lacking(f"no run of {line!r} has been scored by {name!r} at its end")
        return ended

    def _find(self, arm: str, name: str) -> Sequence[Sequence[Figure]]:
        self.asked.add((arm, name))
        found = self.figures.get((arm, name))
        if not found:
            raise Lacking(self.reasons.get((arm, name)) or f"{arm!r} was not measured by {name!r}", arm)
        return found


def find_arrangements(arms: Mapping[str, Results]) -> dict[str, str]:
    """Column -> arm, by the settings of a study's arms: which of them share one encoder between both heads."""

    def is_one_encoder(arm: str) -> bool:
        return bool(arms[arm].get("model", {}).get("sharing") == "everything")

    return {
        column: found
        for column, names in _NAMES.items()
        for found in [arm for arm in names if arm in arms and is_one_encoder(arm) == (column == ONE_ENCODER)][:1]
    }


def read_evidence(
    analysis: Results, arms: Mapping[str, str], study: Results, tradeoff: Results | None = None
) -> Evidence:
    """`arms`: the name of a model in the analysis -> the arm that it is a run of, in the order of seeds."""
    figures: dict[tuple[str, str], dict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    named = _name_twins(analysis, arms)
    for found in analysis["findings"]:
        arm = named.get(found["model"])
        if arm is not None:
            figures[arm, found["name"]][found["model"]].append(_read_figure(found))
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


_STUDY = ("name", "seeds", "budget", "scores", "averaged", "arms", "cells", "table", "curves")


def keep_evidence(evidence: Evidence) -> Results:
    """What the verdicts rest on, for a file: figures that were looked up, and of the study what rules may ask for."""
    figures = [
        {
            "arm": arm,
            "name": name,
            "seeds": [[_write_figure(figure) for figure in seed] for seed in evidence.figures[arm, name]],
        }
        for arm, name in sorted(evidence.asked)
        if (arm, name) in evidence.figures
    ]
    reasons = [{"arm": arm, "of": of, "reason": reason} for (arm, of), reason in evidence.reasons.items()]
    study = {name: evidence.study[name] for name in _STUDY if name in evidence.study}
    return {"figures": figures, "reasons": reasons, "study": study, "tradeoff": evidence.tradeoff}


def restore_evidence(kept: Results) -> Evidence:
    """From what a file keeps of it."""
    figures = {
        (found["arm"], found["name"]): [[_read_figure(figure) for figure in seed] for seed in found["seeds"]]
        for found in kept["figures"]
    }
    reasons = {(said["arm"], said["of"]): said["reason"] for said in kept["reasons"]}
    return Evidence(figures, reasons, kept["study"], kept["tradeoff"])


def _write_figure(figure: Figure) -> Results:
    control = None if figure.control is None else _write_estimate(figure.control)
    return {"layer": figure.layer, **_write_estimate(figure.estimate), "control": control}


def _write_estimate(estimate: Estimate) -> Results:
    """JSON has no NaN."""
    return {name: value if isfinite(value) else None for name, value in asdict(estimate).items()}


def _read_figure(values: Results) -> Figure:
    return Figure(values["layer"], _read_estimate(values), values["control"] and _read_estimate(values["control"]))
