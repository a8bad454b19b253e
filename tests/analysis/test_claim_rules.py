"""Every rule on evidence planted so that the answer is plain."""

from math import log
from typing import Any

import pytest
from little_analysis import write_tradeoff

from electralab.analysis.claims.evidence import ONE_ENCODER, PAPER, Evidence, MissingEvidence
from electralab.analysis.claims.rules import RULES, Claim, ClaimVerdict, decide_claim, list_claims, select_claims
from electralab.errors import UsageError
from electralab.records.findings import EstimateRecord, EvidenceFigure, MissingReason, StudyEvidence

YES, NO, OPEN = "holds", "does not hold", "undecided"
each_claim = pytest.mark.parametrize("claim", list_claims(), ids=lambda claim: claim.number)
Planted = dict[tuple[str, str], float]
Figures = list[list[EvidenceFigure]]


def figure(value: float, margin: float, control: float) -> EvidenceFigure:
    beside = EstimateRecord(value=control, low=control - margin, high=control + margin)
    return EvidenceFigure(layer=None, value=value, low=value - margin, high=value + margin, control=beside)


def evidence(values: Planted, **study: Any) -> Evidence:
    """Three seeds of each arm and finding that differ by little, each known to a hundredth."""
    seeds = {key: (value - 0.001, value, value + 0.001) for key, value in values.items()}
    figures = {key: [[figure(seed, 0.01, 0.0)] for seed in values] for key, values in seeds.items()}
    return Evidence(figures, (), StudyEvidence.model_validate(study))


def claim_of(rule: str) -> Claim:
    return next(claim for claim in list_claims() if claim.rule is RULES[rule])


def decide(rule: str, known: Evidence) -> ClaimVerdict:
    return decide_claim(claim_of(rule), known)


def same(id: str, electra: float, **others: float) -> Planted:
    """One finding of several arms; `electra_untrained` is the untrained control of ELECTRA."""
    return {(arm.replace("_", ", "), id): value for arm, value in {"electra": electra, **others}.items()}


def bits(rtd: float, lm: float) -> Planted:
    return {("electra", "information.rtd_bits"): rtd, ("mlm", "information.lm_bits"): lm}


def far(gain: float, rtd: float, lm: float) -> Planted:
    id = "context_length.{}"
    ours = {("electra", id.format("rtd_auc.far_gain")): gain, ("electra", id.format("rtd_auc.far_share")): rtd}
    return {**ours, ("mlm", id.format("lm_loss.far_share")): lm}


def analogies(ours: float, theirs: float) -> Planted:
    gains = {"electra": (0.2 + ours, 0.2), "mlm": (0.3 + theirs, 0.3)}
    ids = ("analogies.table", "analogies.table_nearest")
    return {(arm, id): value for arm, values in gains.items() for id, value in zip(ids, values, strict=True)}


def retained(typo: float, swap: float, ocr: float) -> Planted:
    """By the masked model; ELECTRA retains 0.9 of each."""
    kinds = {"typo": typo, "swap": swap, "ocr": ocr}
    return {
        key: value
        for kind, mlm in kinds.items()
        for key, value in same(f"robustness.retained.{kind}", 0.9, mlm=mlm).items()
    }


def replaced(bits: float, harder: float | None = 0.1, **more: float) -> Planted:
    ids = {
        "information.lm_bits": bits,
        "replacements.part_of_speech_kept": 0.5,
        "replacements.hardening": harder,
        **more,
    }
    return {("electra", id): value for id, value in ids.items() if value is not None}


def distances(news: float, novels: float, mlm: float = 0.8) -> Planted:
    """How far they are after training, 1.0 before it."""
    after = {"electra": {"news": news, "novels": novels}, "mlm": {"news": mlm, "novels": mlm}}
    values = {(arm, f"transfer.w2.{name}"): far for arm, by_name in after.items() for name, far in by_name.items()}
    return values | {(f"{arm}, untrained", id): 1.0 for arm, id in values}


SILHOUETTE, PROBE = "geometry.part_of_speech_silhouette", "geometry.part_of_speech_probe"
SMOOTHNESS, SAMENESS = "contextuality.smoothness", "invariance.rotation_sameness"
LOCAL, EFFECTIVE = "complexity.rademacher_local", "gradients.effective_tokens"
W2_AUC, W2_LOSS, PASSIVE = "transfer.w2_with_auc_fall", "transfer.w2_with_loss_rise", "equivariance.error.passive"
EARLY = {"electra_untrained": 0.9, "mlm_untrained": 0.2}


@pytest.mark.parametrize(
    ("rule", "values", "verdict"),
    [
        ("bits", bits(0.5, 0.3), YES),
        ("bits", bits(0.1, 0.3), NO),
        ("bits", bits(0.3, 0.3), OPEN),
        ("silhouette", same(SILHOUETTE, 0.7, mlm=0.5, causal=0.5), YES),
        ("silhouette", same(SILHOUETTE, 0.3, mlm=0.5, causal=0.5), NO),
        ("smoothness", same(SMOOTHNESS, 0.7, mlm=0.5, causal=0.5), YES),
        # Better than one of the two is not better than both.
        ("smoothness", same(SMOOTHNESS, 0.7, mlm=0.5, causal=0.9), NO),
        ("probe", same(PROBE, 0.7, mlm=0.5, causal=0.9), NO),
        ("complexity", same(LOCAL, 0.3, mlm=0.5), YES),
        ("complexity", same(LOCAL, 0.7, mlm=0.5), NO),
        # Far context counts where it adds something, and more than to guesses.
        ("context_length", far(0.05, 0.4, 0.2), YES),
        ("context_length", far(0.05, 0.2, 0.4), NO),
        ("context_length", far(0.0, 0.4, 0.2), OPEN),
        # Analogies are kept where the step helps: the masked model may keep more, or nothing is kept.
        ("analogies", analogies(0.2, 0.1), YES),
        ("analogies", analogies(0.1, 0.2), NO),
        ("analogies", analogies(0.0, -0.2), OPEN),
        # Linear maps count where training made them, and nearer to linear than the masked model's.
        ("equivariance", same(PASSIVE, 0.3, electra_untrained=0.6, mlm=0.5), YES),
        ("equivariance", same(PASSIVE, 0.6, electra_untrained=0.3, mlm=0.7), NO),
        ("equivariance", same(PASSIVE, 0.3, electra_untrained=0.6, mlm=0.2), NO),
        # Damage must cost less in all its kinds.
        ("robustness", retained(0.5, 0.5, 0.5), YES),
        ("robustness", retained(0.5, 0.5, 0.9), OPEN),
        # States that stay must stay more than those of a masked model, and more than little is not the same.
        ("invariance", same(SAMENESS, 0.98, mlm=0.92, electra_untrained=0.1), YES),
        ("invariance", same(SAMENESS, 0.92, mlm=0.98, electra_untrained=0.1), NO),
        ("invariance", same(SAMENESS, 0.987, mlm=0.991, electra_untrained=0.1), OPEN),
        ("invariance", same(SAMENESS, 0.5, mlm=0.3, electra_untrained=0.1), NO),
        # A generator that knows no more than frequencies is not plausible; one must be harder for the same judge.
        ("replacements", replaced(0.2), YES),
        ("replacements", replaced(0.0), OPEN),
        ("replacements", replaced(-0.2), NO),
        ("replacements", replaced(0.2, -0.1), NO),
        # A loss falls in any generator that learns.
        ("replacements", replaced(0.2, None, **{"replacements.course.generator_loss": -0.9}), OPEN),
        # Distance is held against what the same network loses.
        ("transfer", same(W2_AUC, 0.8), YES),
        ("transfer", same(W2_AUC, -0.8), NO),
        ("transfer", same(W2_LOSS, 0.8), OPEN),
    ],
)
def test_findings_decide(rule: str, values: Planted, verdict: str) -> None:
    assert decide(rule, evidence(values)).verdict == verdict


def test_every_claim_is_judged() -> None:
    assert sorted({claim.number for claim in list_claims()}) == [f"M{number}" for number in range(30, 48)]
    assert [claim.number for claim in select_claims(["m41", "M30"])] == ["M30", "M41"]
    assert select_claims([]) == list(list_claims())
    with pytest.raises(UsageError, match="--only: no claim 'M29'; they are M30 to M47"):
        select_claims(["M29"])


@each_claim
def test_without_evidence_nothing_is_decided_and_what_is_lacking_is_said(claim: Claim) -> None:
    decided = decide_claim(claim, Evidence({}))
    assert decided.verdict == OPEN
    assert decided.why.startswith("not measured: ")


class Asked(dict[tuple[str, str], Figures]):
    """Has every figure, and remembers which were asked for."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def get(self, key: Any, *_: Any) -> Any:
        self.ids.append(key[1])
        return [[figure(0.5, 0.1, 0.1)]]


@each_claim
def test_claims_look_only_at_findings_of_the_measures_that_they_name(claim: Claim) -> None:
    asked = Asked()
    decide_claim(claim, Evidence(asked))
    assert {id.partition(".")[0] for id in asked.ids} <= set(claim.measures)


def test_gradients_are_those_of_trained_networks() -> None:
    """As first drawn it was the other way round, which is told and decides nothing."""
    for trained, verdict in ((0.3, NO), (0.5, YES)):
        decided = decide("gradients", evidence(same(EFFECTIVE, trained, mlm=0.4, **EARLY)))
        assert decided.verdict == verdict
        assert "before training: +0.7" in decided.why


def test_every_domain_must_come_nearer_and_by_more_than_in_a_masked_model() -> None:
    for after, verdict in {(0.5, 0.6): YES, (0.5, 1.2): NO, (0.5, 0.9): NO, (0.5, 0.8): OPEN}.items():
        assert decide("distance", evidence(distances(*after))).verdict == verdict
    assert decide("distance", evidence(distances(1.2, 1.2, mlm=1.5))).verdict == NO, "further away, if less than there"
    decided = decide("distance", evidence(distances(0.5, 0.6)))
    assert decided.values[PAPER].value == pytest.approx(0.45)
    assert "novels: before - after +0.4" in decided.why
    missing = [MissingReason(arm="electra", about="M44", reason="none")]
    assert decide("distance", Evidence({}, missing)).why == "not measured: none"


def test_a_state_that_stays_untrained_is_made_this_way() -> None:
    for untrained, is_built_in in ((1.0, True), (0.1, False)):
        why = decide("invariance", evidence(same(SAMENESS, 0.98, mlm=0.92, electra_untrained=untrained))).why
        assert ("made this way" in why) == is_built_in


def test_the_untrained_control_of_electra_is_asked_for_verdicts_too() -> None:
    shares = {"rtd_auc": 0.4, "lm_loss": 0.1}
    untrained = {("electra, untrained", f"context_length.{task}.far_share"): share for task, share in shares.items()}
    decided = decide("context_length", evidence(far(0.05, 0.3, 0.2) | untrained))
    assert decided.values["untrained"].value == pytest.approx(0.4)


def cells(arm: str, score: float) -> list[dict[str, Any]]:
    return [{"arm": arm, "seed": seed, "scores": {"blimp": score + seed / 1000}} for seed in range(3)]


def of_scores(**scores: float) -> Evidence:
    rows = [cell for arm, score in scores.items() for cell in cells(arm.replace("_", "-"), score)]
    return evidence({}, cells=rows, scores={"blimp": ""})


def of_costs(**flops: float) -> Evidence:
    rows = [{"arm": arm.replace("_", "-"), "flops": cost, "tokens": 10} for arm, cost in flops.items()]
    return evidence({}, table=rows)


def of_variant(speedup: float, loss: float) -> Evidence:
    return Evidence({}, tradeoff=write_tradeoff("a", {"fp32": (4, 1.0, 0.0), "int8": (1, speedup, loss)}, 0.1))


@pytest.mark.parametrize(
    ("rule", "known", "verdict"),
    [
        # Generators may be too weak and too strong.
        ("generators", of_scores(electra_quarter=0.8, electra_weak=0.6, electra_strong=0.7), YES),
        ("generators", of_scores(electra_quarter=0.8, electra_weak=0.6, electra_strong=0.9), NO),
        # One as large as the discriminator costs almost twice a masked model.
        ("doubling", of_costs(mlm=100, electra_quarter=110, electra_strong=190), YES),
        ("doubling", of_costs(mlm=100, electra_quarter=110, electra_strong=130), NO),
        ("doubling", of_costs(mlm=100, electra_quarter=110, electra_strong=300), NO),
        # A masked model computes all tokens.
        ("flops", of_costs(electra=100, mlm=90), NO),
        ("flops", of_costs(electra=100, mlm=15), YES),
        # Variants count from half as fast again.
        ("compression", of_variant(1.6, 0.2), YES),
        ("compression", of_variant(1.6, 3.0), NO),
        ("compression", of_variant(1.6, 1.0), OPEN),
        ("compression", of_variant(1.4, 0.0), NO),
    ],
)
def test_scores_costs_and_variants_decide(rule: str, known: Evidence, verdict: str) -> None:
    assert decide(rule, known).verdict == verdict


def test_a_table_that_is_no_tradeoff_is_said() -> None:
    assert "is not a trade-off" in decide("compression", Evidence({}, tradeoff={"variants": [{}]})).why


def curves(runs: dict[str, list[tuple[str, float, float]]]) -> dict[str, Any]:
    """By line its runs: arm, share of the run, FLOPs (and as many tokens)."""
    lines = {
        line: [{"arm": arm, "share": share, "flops": spent, "tokens": spent} for arm, share, spent in points]
        for line, points in runs.items()
    }
    return {"blimp": lines}


def short_runs(early: float, *, share: float = 1.0, xlnet: float | None = 0.6) -> Evidence:
    """ELECTRA after a quarter, by a run of its own or a snapshot; a masked and a permutation model with all of it."""
    rows = [*cells("electra", 0.8), *cells("electra-short", early), *cells("mlm", 0.6)]
    rows += cells("xlnet", xlnet) if xlnet is not None else []
    points = [("electra-short" if share == 1.0 else "electra", share, 25.0), ("electra", 1.0, 100.0)]
    table = [{"arm": arm, "flops": 100.0} for arm in ("electra", "mlm", "xlnet")]
    return evidence({}, cells=rows, curves=curves({"electra": points}), table=table)


def test_a_quarter_of_the_compute_is_held_against_both_others_with_the_whole() -> None:
    assert decide("quarter", short_runs(0.7)).verdict == YES
    assert decide("quarter", short_runs(0.5)).verdict == NO
    assert decide("quarter", short_runs(0.7, xlnet=0.9)).verdict == NO
    without = decide("quarter", short_runs(0.7, xlnet=None))
    assert without.verdict == OPEN
    assert "xlnet: not measured" in without.why
    assert decide("quarter", short_runs(0.5, xlnet=None)).verdict == NO, "one part is enough"
    # 0.7 is above the masked model's end, and a snapshot amid its schedule decides nothing all the same.
    amid = decide("quarter", short_runs(0.7, share=0.25))
    assert amid.verdict == OPEN
    assert "needs a run of 'electra' with a quarter of the budget" in amid.why


ARMS = {"-half": 0.5e6, "": 1e6, "-double": 2e6}


def sizes(*gains: float) -> Evidence:
    rows, table = [], []
    for (size, parameters), gain in zip(ARMS.items(), gains, strict=True):
        rows += [*cells(f"electra{size}", 0.5 + gain), *cells(f"mlm{size}", 0.5)]
        table += [{"arm": f"{objective}{size}", "parameters": parameters} for objective in ("electra", "mlm")]
    return evidence({}, cells=rows, table=table, scores={"blimp": ""})


def test_a_gain_that_falls_with_size_is_larger_for_the_smaller() -> None:
    assert decide("sizes", sizes(0.3, 0.2, 0.1)).verdict == YES
    assert decide("sizes", sizes(0.1, 0.2, 0.3)).verdict == NO


def law_of(share: float = 1.0) -> dict[str, Any]:
    """A study whose scores are made by the law itself: ELECTRA's rise twice as fast with size and data."""
    table, lines, rows = [], {}, []
    for size, parameters in ARMS.items():
        for objective, slope in (("electra", 0.02), ("mlm", 0.01)):
            arm = f"{objective}{size}"
            lines[arm] = [(f"{arm}-short", share, 0.25e6), (arm, 1.0, 1e6)]
            for name, _, tokens in lines[arm]:
                rows += cells(name, slope * (log(parameters) + log(tokens)))
            table.append({"arm": arm, "parameters": parameters})
    return {"table": table, "curves": curves(lines), "cells": rows}


def test_the_law_is_fitted_for_each_and_its_slopes_are_compared() -> None:
    study = law_of()
    decided = RULES["scaling"](evidence({}, **study), "electra")
    assert decided.values[PAPER].value == pytest.approx(2.0, abs=0.01)
    assert decided.values["mlm"].value == pytest.approx(1.0, abs=0.01)
    assert decided.verdict == YES
    # A seed that one of the sizes has not run is left out, and not taken for another.
    study["cells"] = [cell for cell in study["cells"] if (cell["arm"], cell["seed"]) != ("mlm-half", 0)]
    assert RULES["scaling"](evidence({}, **study), "electra").values["mlm"].value == pytest.approx(1.0, abs=0.01)
    with pytest.raises(MissingEvidence, match="needs two runs of 'electra-half' and of the other sizes with a budget"):
        RULES["scaling"](evidence({}, **law_of(share=0.25)), "electra")


BOTH = {"electra": {"model": {"sharing": "everything"}}, "electra-quarter": {"model": {"sharing": "embeddings"}}}


def test_both_arrangements_are_judged_and_the_verdict_is_that_of_the_paper_s() -> None:
    values = same(PROBE, 0.9, mlm=0.5, causal=0.5) | {("electra-quarter", PROBE): 0.3}
    decided = decide("probe", evidence(values, arms=BOTH))
    assert decided.verdict == NO
    assert decided.verdicts == {PAPER: NO, ONE_ENCODER: YES}
    assert (decided.values[PAPER].value, decided.values[ONE_ENCODER].value) == pytest.approx((0.3, 0.9))
    assert list(decided.values) == [PAPER, ONE_ENCODER, "mlm", "causal"]
    # Where the paper's arrangement was not measured, the other is judged.
    decided = decide("complexity", evidence(same(LOCAL, 0.2, mlm=0.5), arms=BOTH))
    assert decided.verdict == YES
    assert "electra (paper): not measured" in decided.why
