"""Every rule on evidence planted so that the answer is plain."""

from math import log
from typing import Any

import pytest

from electralab.analysis.claims.evidence import Evidence, Figure
from electralab.analysis.claims.rules import judge_quarter, judge_scaling, judge_sizes
from electralab.analysis.claims.table import CLAIMS, INSIDE, choose_claims, judge_claim
from electralab.analysis.finding import Estimate
from electralab.errors import UsageError

NUMBERS = [f"M{number}" for number in range(30, 48)]


def figures(value: float, control: float = 0.0) -> list[list[Figure]]:
    """Three seeds that differ by little, each known to a hundredth."""
    seeds = [value - 0.001, value, value + 0.001]
    near = Estimate(control, control - 0.01, control + 0.01)
    return [[Figure(None, Estimate(seed, seed - 0.01, seed + 0.01), near)] for seed in seeds]


def cells(arm: str, score: float) -> list[dict[str, Any]]:
    return [{"arm": arm, "seed": seed, "scores": {"blimp": score + seed / 1000}} for seed in range(3)]


def evidence(values: dict[tuple[str, str], float], scores: dict[str, float] | None = None) -> Evidence:
    planted = {key: figures(value) for key, value in values.items()}
    study = {"cells": [cell for arm, score in (scores or {}).items() for cell in cells(arm, score)]}
    return Evidence(planted, {}, study)


def verdict(number: str, found: Evidence, place: int = 0) -> str:
    return judge_claim([claim for claim in CLAIMS if claim.number == number][place], found).verdict


def test_every_claim_is_judged() -> None:
    assert sorted({claim.number for claim in CLAIMS}) == NUMBERS


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.number)
def test_without_evidence_nothing_is_decided_and_what_is_lacking_is_said(claim: Any) -> None:
    found = judge_claim(claim, Evidence({}, {}, {}))
    assert found.verdict == "undecided"
    assert found.why.startswith("not measured: ")


def test_bits_of_verdicts_are_held_against_bits_of_guesses() -> None:
    names = ("electra", "verdict bits"), ("mlm", "guess bits")
    assert verdict("M30", evidence(dict(zip(names, (0.5, 0.3), strict=True)))) == "holds"
    assert verdict("M30", evidence(dict(zip(names, (0.1, 0.3), strict=True)))) == "does not hold"
    assert verdict("M30", evidence(dict(zip(names, (0.3, 0.3), strict=True)))) == "undecided"


@pytest.mark.parametrize(
    ("number", "name", "arms", "sign"),
    [
        ("M31", "effective tokens", ("mlm",), 1),
        ("M33", "part of speech silhouette", ("mlm", "causal"), 1),
        ("M35", "smoothness", ("mlm",), 1),
        ("M43", "Rademacher, l2 ball", ("mlm",), -1),
    ],
)
def test_electra_is_held_against_the_others(number: str, name: str, arms: tuple[str, ...], sign: int) -> None:
    others = {(arm, name): 0.5 for arm in arms}
    assert verdict(number, evidence({("electra", name): 0.5 + 0.2 * sign, **others})) == "holds"
    assert verdict(number, evidence({("electra", name): 0.5 - 0.2 * sign, **others})) == "does not hold"


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.number not in INSIDE], ids=lambda of: of.number)
def test_claims_that_need_no_analysis_look_at_none(claim: Any) -> None:
    """But for M47, which has one of its own, of tuned models."""
    planted: Any = Asked()
    judge_claim(claim, Evidence(planted, {}, {}))
    assert all("retained" in name for _, name in planted.names), planted.names


class Asked(dict[tuple[str, str], list[list[Figure]]]):
    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []

    def get(self, key: Any, *_: Any) -> Any:
        self.names.append(key)
        return [[Figure(None, Estimate(0.5, 0.4, 0.6), None)]]


def test_far_context_counts_where_what_is_beyond_adds_something() -> None:
    name = "verdict AUC, gain beyond ±16"
    assert verdict("M38", evidence({("electra", name): 0.05, ("electra", "verdict AUC, reach"): 8.0})) == "holds"
    assert verdict("M38", evidence({("electra", name): 0.0, ("electra", "verdict AUC, reach"): 8.0})) == "undecided"


def test_why_an_analysis_has_no_figure_is_said_under_its_claim() -> None:
    found = judge_claim(
        next(one for one in CLAIMS if one.number == "M44"), Evidence({}, {("electra", "M44"): "none"}, {})
    )
    assert found.why == "not measured: none"


def test_claims_are_chosen_by_number() -> None:
    assert [claim.number for claim in choose_claims(["m41", "M30"])] == ["M30", "M41"]
    assert len(choose_claims([])) == len(CLAIMS)
    with pytest.raises(UsageError, match="--only: no claim 'M29'; they are M30 to M47"):
        choose_claims(["M29"])


def test_one_that_is_better_than_mlm_and_not_than_causal_does_not_hold() -> None:
    name = "part of speech probe"
    found = evidence({("electra", name): 0.7, ("mlm", name): 0.5, ("causal", name): 0.9})
    assert verdict("M33", found, 1) == "does not hold"


def test_generators_may_be_too_weak_and_too_strong() -> None:
    best = evidence({}, {"electra": 0.8, "electra-weak": 0.6, "electra-strong": 0.7})
    assert verdict("M32", best) == "holds"
    assert verdict("M32", evidence({}, {"electra": 0.8, "electra-weak": 0.6, "electra-strong": 0.9})) == "does not hold"


def test_analogies_that_the_step_does_not_help_are_not_kept() -> None:
    found = evidence({("electra", "analogies, table"): 0.4, ("electra", "nearest to c, table"): 0.4})
    assert verdict("M34", found) == "undecided"
    found = evidence({("electra", "analogies, table"): 0.4, ("electra", "nearest to c, table"): 0.2})
    assert verdict("M34", found) == "holds"


def test_linear_maps_count_only_where_training_made_them() -> None:
    def of(trained: float, untrained: float) -> Evidence:
        pairs = {("electra", "passive error"): trained, ("electra, untrained", "passive error"): untrained}
        return evidence(pairs)

    assert verdict("M37", of(0.3, 0.6)) == "holds"
    assert verdict("M37", of(0.6, 0.3)) == "does not hold"


def test_damage_must_cost_less_in_all_its_kinds() -> None:
    of = {(arm, f"retained, {kind}"): 0.9 for arm in ("electra", "mlm") for kind in ("typo", "swap", "ocr")}
    worse = {("mlm", f"retained, {kind}"): 0.5 for kind in ("typo", "swap", "ocr")}
    assert verdict("M47", evidence({**of, **worse})) == "holds"
    assert verdict("M47", evidence({**of, **worse, ("mlm", "retained, ocr"): 0.9})) == "undecided"


def test_variants_count_from_half_as_fast_again() -> None:
    def of(speedup: float, loss: float) -> Evidence:
        table = {"floor": {"points": 0.1}, "variants": [{"name": "int8", "speedup": speedup, "loss": loss}]}
        return Evidence({}, {}, {}, table)

    assert verdict("M42", of(1.6, 0.2)) == "holds"
    assert verdict("M42", of(1.6, 3.0)) == "does not hold"
    assert verdict("M42", of(1.6, 1.0)) == "undecided"
    assert verdict("M42", of(1.4, 0.0)) == "does not hold"


def curve(scores: dict[float, float], tokens: float) -> list[dict[str, Any]]:
    return [
        {"share": share, "tokens": share * tokens, "values": [score + seed / 1000 for seed in range(3)]}
        for share, score in scores.items()
    ]


def test_a_quarter_of_the_compute_is_held_against_the_whole() -> None:
    study = {"cells": cells("mlm", 0.6), "curves": {"blimp": {"electra": curve({0.25: 0.7, 1.0: 0.8}, 1e6)}}}
    assert judge_quarter(Evidence({}, {}, study)).verdict == "holds"
    study["curves"]["blimp"]["electra"] = curve({0.25: 0.5, 1.0: 0.8}, 1e6)  # type: ignore[index]
    assert judge_quarter(Evidence({}, {}, study)).verdict == "does not hold"


ARMS = {"half": 0.5e6, "": 1e6, "double": 2e6}


def sizes(gain: dict[str, float]) -> Evidence:
    found, table = [], []
    for size, parameters in ARMS.items():
        for objective in ("electra", "mlm"):
            arm = f"{objective}-{size}" if size else objective
            found += cells(arm, 0.5 + (gain[size] if objective == "electra" else 0.0))
            table.append({"arm": arm, "parameters": parameters})
    return Evidence({}, {}, {"cells": found, "table": table})


def test_a_gain_that_falls_with_size_is_larger_for_the_smaller() -> None:
    assert judge_sizes(sizes({"half": 0.3, "": 0.2, "double": 0.1})).verdict == "holds"
    assert judge_sizes(sizes({"half": 0.1, "": 0.2, "double": 0.3})).verdict == "does not hold"


def test_the_law_is_fitted_for_each_and_its_slopes_are_compared() -> None:
    """Scores made by the law itself: ELECTRA's rise twice as fast with size and data."""
    table, curves = [], {}
    for size, parameters in ARMS.items():
        for objective, slope in (("electra", 0.02), ("mlm", 0.01)):
            arm = f"{objective}-{size}" if size else objective
            points = {share: slope * (log(parameters) + log(share * 1e6)) for share in (0.25, 0.5, 1.0)}
            curves[arm] = curve(points, 1e6)
            for place, point in enumerate(curves[arm]):
                point["values"] = [value + 1e-5 * seed * place for seed, value in enumerate(point["values"])]
            table.append({"arm": arm, "parameters": parameters})
    found = judge_scaling(Evidence({}, {}, {"table": table, "curves": {"blimp": curves}}))
    assert found.values["electra"].value == pytest.approx(2.0, abs=0.01)
    assert found.values["mlm"].value == pytest.approx(1.0, abs=0.01)
