"""The rules by which claims are judged: what is held against what, and which answer an interval leaves.

Evidence, arm of ELECTRA -> Judged
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite, nan

import numpy as np

from electralab.analysis.claims.evidence import MLM, PAPER, UNTRAINED, XLNET, Evidence, Lacking
from electralab.analysis.claims.verdicts import (
    Verdict,
    all_of,
    compare,
    is_above,
    is_below,
    pool,
    subtract,
    subtract_each,
)
from electralab.analysis.finding import Estimate
from electralab.analysis.measures.replacements import HARDENING
from electralab.analysis.measures.tradeoff import list_variants
from electralab.analysis.scaling import fit_log_law, fit_slope

_WEAK, _QUARTER_WIDE, _STRONG = "electra-weak", "electra-quarter", "electra-strong"
_QUARTER = 0.25
_ROUNDING = 1.05
"""A run ends at a whole step, so that a quarter of the compute is met about."""
_MASKED = 0.15
_ALMOST_TWICE = (1.7, 2.1)
_FASTER = 1.5
_SAME = 0.9
"""The similarity from which on a state counts as the same."""
_W2 = "W₂ to "

Pick = Callable[[Evidence, str, str], list[Estimate]]


@dataclass(frozen=True, slots=True)
class Judged:
    verdict: Verdict
    values: Mapping[str, Estimate] = field(default_factory=dict)
    """By column."""
    why: str = ""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """By arrangement of ELECTRA, where there are several."""
    is_open: bool = False
    """Something that is needed was not measured."""


Rule = Callable[[Evidence, str], Judged]
"""The second is the arm that is judged as ELECTRA."""


def _show(estimate: Estimate) -> str:
    if not isfinite(estimate.value):
        return "not determined"
    interval = f"[{estimate.low:+.3g}, {estimate.high:+.3g}]" if isfinite(estimate.low) else "(no interval)"
    return f"{estimate.value:+.3g} {interval}"


def _ask(evidence: Evidence, name: str, pick: Pick = Evidence.last) -> Callable[[str], list[Estimate]]:
    """What an arm's models have by this name."""
    return lambda arm: pick(evidence, arm, name)


def _columns(evidence: Evidence, find: Callable[[str], list[Estimate]]) -> dict[str, Estimate]:
    """What is found of the arm of each column, of those that were measured."""
    found = {}
    for column, arm in evidence.columns.items():
        try:
            found[column] = pool(find(arm))
        except Lacking:
            continue
    return found


def _hold_against(
    ours: Sequence[Estimate],
    others: Sequence[str],
    find: Callable[[str], list[Estimate]],
    *,
    is_less: bool = False,
) -> tuple[list[Verdict], str]:
    """Whether a figure of ELECTRA is above (or below) that of every other, by the intervals of the differences.

    An arm that was not measured leaves its part open; where none was, nothing can be said.
    """
    test = is_below if is_less else is_above
    verdicts: list[Verdict] = []
    said, lacking = [], []
    for other in others:
        try:
            difference = compare(ours, find(other))
        except Lacking as error:
            lacking.append(error)
            verdicts.append("undecided")
            said.append(f"{other}: not measured ({error})")
            continue
        verdicts.append(test(difference))
        said.append(f"ELECTRA - {other}: {_show(difference)}")
    if len(lacking) == len(others):
        raise lacking[0]
    return verdicts, ", ".join(said)


def _against(
    evidence: Evidence, arm: str, name: str, pick: Pick, others: Sequence[str], *, is_less: bool = False
) -> Judged:
    find = _ask(evidence, name, pick)
    verdicts, why = _hold_against(find(arm), others, find, is_less=is_less)
    return Judged(all_of(verdicts), _columns(evidence, find), why)


def differ(name: str, pick: Pick, *others: str, is_less: bool = False) -> Rule:
    return partial(_against, name=name, pick=pick, others=others, is_less=is_less)


def judge_bits(evidence: Evidence, arm: str) -> Judged:
    ours, theirs = evidence.last(arm, "verdict bits"), evidence.last(MLM, "guess bits")
    difference = compare(ours, theirs)
    guesses, verdicts = (_columns(evidence, _ask(evidence, name)) for name in ("guess bits", "verdict bits"))
    found = {**guesses, **verdicts}
    values = {column: found[column] for column in evidence.columns if column in found}
    return Judged(is_above(difference), values, f"ELECTRA - mlm: {_show(difference)}")


def judge_generators(evidence: Evidence, _: str) -> Judged:
    """Of generators of their own, whichever arrangement is asked about: only they can be weak or strong."""
    ours, weaker, stronger = (evidence.score(arm, "average") for arm in (_QUARTER_WIDE, _WEAK, _STRONG))
    over_weak, over_strong = compare(ours, weaker), compare(ours, stronger)
    why = f"a quarter of the width - unigram: {_show(over_weak)}, - as wide as D: {_show(over_strong)}"
    return Judged(all_of([is_above(over_weak), is_above(over_strong)]), {PAPER: pool(ours)}, why)


def judge_doubling(evidence: Evidence, _: str) -> Judged:
    """Counted, so without an interval."""
    strong, quarter, mlm = (_cost_of_token(evidence, arm) for arm in (_STRONG, _QUARTER_WIDE, MLM))
    ratio = strong / mlm
    least, most = _ALMOST_TWICE
    verdict: Verdict = "holds" if least <= ratio <= most else "does not hold"
    why = (
        f"a token costs {ratio:.2f} of what it costs mlm with a generator as wide as the discriminator, "
        f"{quarter / mlm:.2f} with one of a quarter of the width; from {least:g} to {most:g} counts as almost twice"
    )
    return Judged(verdict, {PAPER: Estimate(ratio, nan, nan), MLM: Estimate(1.0, nan, nan)}, why)


def _cost_of_token(evidence: Evidence, arm: str) -> float:
    """FLOPs of training."""
    return evidence.of_arm(arm, "flops") / evidence.of_arm(arm, "tokens")


def judge_analogies(evidence: Evidence, arm: str) -> Judged:
    """Kept: found by the step from a to b, more often than without it, by more than in a masked model."""

    def gain(of: str) -> list[Estimate]:
        return subtract_each(evidence.last(of, "analogies, table"), evidence.last(of, "nearest to c, table"))

    ours = gain(arm)
    verdicts, against = _hold_against(ours, [MLM], gain)
    why = f"with the step from a to b - the nearest to c alone: {_show(pool(ours))}; of this gain, {against}"
    return Judged(all_of([is_above(pool(ours)), *verdicts]), _columns(evidence, gain), why)


def judge_gradients(evidence: Evidence, arm: str) -> Judged:
    """Of the trained networks; how it was before training is told beside it."""
    find = _ask(evidence, "effective tokens")
    verdicts, why = _hold_against(find(arm), [MLM], find)
    start = compare(find(f"{arm}, {UNTRAINED}"), find(f"{MLM}, {UNTRAINED}"))
    return Judged(all_of(verdicts), _columns(evidence, find), f"{why}; before training: {_show(start)}")


def judge_invariance(evidence: Evidence, arm: str) -> Judged:
    """States that stay the same, and more so than those of a masked model."""
    find = _ask(evidence, "rotation sameness")
    found, drawn = pool(find(arm)), pool(find(f"{arm}, {UNTRAINED}"))
    verdicts, against = _hold_against(find(arm), [MLM], find)
    made = "; the untrained network does so too: it is made this way" if is_above(drawn, _SAME) == "holds" else ""
    why = f"{against}; the same from {_SAME:g} on, 1 being the same and 0 as unlike as other tokens{made}"
    return Judged(all_of([is_above(found, _SAME), *verdicts]), _columns(evidence, find), why)


def judge_equivariance(evidence: Evidence, arm: str) -> Judged:
    """For every change a linear map that training made better, and better than a masked model's."""
    kinds = sorted({name for of, name in evidence.figures if of == arm and name.endswith(" error")})
    if not kinds:
        raise Lacking("no pairs of sentences were measured")
    verdicts: list[Verdict] = []
    said = []
    for kind in kinds:
        find = _ask(evidence, kind, Evidence.lowest)
        trained = subtract(find(arm), find(f"{arm}, {UNTRAINED}"))
        against_mlm, why = _hold_against(find(arm), [MLM], find, is_less=True)
        verdicts += [is_below(trained), *against_mlm]
        said.append(f"{kind.removesuffix(' error')}: trained - untrained {_show(trained)}, {why}")
    values = _columns(evidence, lambda of: [pool(evidence.lowest(of, kind)) for kind in kinds])
    return Judged(all_of(verdicts), values, "; ".join(said))


def _passes_verdicts(evidence: Evidence, arm: str) -> bool:
    """ELECTRA does, trained or not; the other arms guess."""
    return arm.removesuffix(f", {UNTRAINED}") in evidence.arrangements.values()


def judge_reach(evidence: Evidence, arm: str) -> Judged:
    """Far context adds something to verdicts: more of what the row adds than to a masked model's guesses."""
    gain = pool(evidence.last(arm, "verdict AUC, gain beyond ±16"))

    def share(of: str) -> list[Estimate]:
        what = "verdict AUC" if _passes_verdicts(evidence, of) else "guess loss"
        return evidence.last(of, f"{what}, share beyond ±16")

    verdicts, against = _hold_against(share(arm), [MLM], share)
    why = f"AUC in their row - in one with another's text beyond 16 tokens: {_show(gain)}; of the share, {against}"
    return Judged(all_of([is_above(gain), *verdicts]), _columns(evidence, share), why)


def judge_compression(evidence: Evidence, _: str) -> Judged:
    """Some variant is half as fast again and loses at most a point, as far as the floor of the table tells."""
    if not evidence.tradeoff:
        raise Lacking("no trade-off; run 'electra compress' and give its folder with --tradeoff")
    try:
        fast = [one for one in list_variants(evidence.tradeoff) if one.speedup >= _FASTER]
    except (KeyError, TypeError, ValueError):
        raise Lacking("the table is not a trade-off; run 'electra compress' again") from None
    verdicts = [is_below(one.loss, 1.0) for one in fast]
    verdict: Verdict = "holds" if "holds" in verdicts else "undecided" if "undecided" in verdicts else "does not hold"
    told = ", ".join(f"{one.name} {one.speedup:.2f}× {_show(one.loss)} points" for one in fast)
    return Judged(verdict, {}, f"variants at {_FASTER:g}× or more, and what they lose: {told or 'none'}")


def judge_distance(evidence: Evidence, arm: str) -> Judged:
    """Training brings every other domain nearer, and nearer than the training of a masked model does."""
    domains = sorted({name for of, name in evidence.figures if of == arm and name.startswith(_W2)})
    if not domains:
        raise Lacking("no texts of other domains were measured; give --domains FILE,FILE", arm)

    def fall(of: str, name: str) -> list[Estimate]:
        return subtract_each(evidence.last(f"{of}, {UNTRAINED}", name), evidence.last(of, name))

    verdicts: list[Verdict] = []
    said = []
    for name in domains:
        ours = fall(arm, name)
        against_mlm, why = _hold_against(ours, [MLM], partial(fall, name=name))
        verdicts += [is_above(pool(ours)), *against_mlm]
        said.append(f"{name.removeprefix(_W2)}: before - after {_show(pool(ours))}, {why}")
    values = _columns(evidence, lambda of: [pool(fall(of, name)) for name in domains])
    return Judged(all_of(verdicts), values, "; ".join(said))


def judge_transfer(evidence: Evidence, arm: str) -> Judged:
    """Of ELECTRA by its verdicts, whose network the distance is of; of the others by their guesses."""

    def rho(of: str) -> list[Estimate]:
        what = "AUC fallen" if _passes_verdicts(evidence, of) else "loss risen"
        return evidence.last(of, f"W₂ with {what}")

    found = pool(rho(arm))
    why = f"ELECTRA, rank correlation over the other domains: {_show(found)}"
    return Judged(is_above(found), _columns(evidence, rho), why)


def judge_replacements(evidence: Evidence, arm: str) -> Judged:
    """Better than frequencies, of the same structure, and harder for one and the same judge as training goes on.

    That a generator finds its own draws likely would be true of any, as it is of any that its loss falls.
    """
    bits = pool(evidence.last(arm, "guess bits"))
    kept = "part of speech kept"
    structure = subtract(evidence.last(arm, kept), evidence.control(arm, kept))
    harder = pool(evidence.last(arm, HARDENING))
    why = (
        f"bits of the generator over frequencies: {_show(bits)}, part of speech kept - dealt at random: "
        f"{_show(structure)}, AUC of the final discriminator against the first snapshot's generator - against the "
        f"last: {_show(harder)}"
    )
    verdict = all_of([is_above(bits), is_above(structure), is_above(harder)])
    return Judged(verdict, _columns(evidence, _ask(evidence, kept)), why)


def judge_robustness(evidence: Evidence, arm: str) -> Judged:
    """For every kind of damage."""
    kinds = ("typo", "swap", "ocr")
    differences = {
        kind: compare(evidence.last(arm, f"retained, {kind}"), evidence.last(MLM, f"retained, {kind}"))
        for kind in kinds
    }
    why = "ELECTRA - mlm: " + ", ".join(f"{kind} {_show(one)}" for kind, one in differences.items())
    values = _columns(evidence, _ask(evidence, "retained, typo"))
    return Judged(all_of([is_above(one) for one in differences.values()]), values, why)


def judge_flops(evidence: Evidence, arm: str) -> Judged:
    """Counted, so without an interval: a masked model computes all tokens of a row, not the masked ones."""
    ours, theirs = _cost_of_token(evidence, arm), _cost_of_token(evidence, MLM)
    ratio = theirs / ours
    values = _columns(evidence, lambda of: [Estimate(_cost_of_token(evidence, of) / 1e6, nan, nan)])
    verdict: Verdict = "holds" if ratio < 2 * _MASKED else "does not hold"
    return Judged(verdict, values, f"a token costs mlm {ratio:.2f} of what it costs ELECTRA, not {_MASKED:g}")


def _list_sizes(arm: str) -> tuple[str, str, str]:
    return f"{arm}-half", arm, f"{arm}-double"


def _fit_seeds(evidence: Evidence, arms: Sequence[str]) -> tuple[list[Estimate], list[Estimate]]:
    """alpha and beta of the law over runs of their own budget, in points per e-fold, for each seed that all have."""
    runs = [(arm, point) for arm in arms for point in evidence.finished_runs(arm, "blimp")]
    if any(sum(of == arm for of, _ in runs) < 2 for arm in arms):
        raise Lacking(
            f"needs two runs of {arms[0]!r} and of the other sizes with a budget of their own each (budget_share and "
            "line in the study file): a snapshot amid its schedule is worth less than a run of its length"
        )
    parameters = np.asarray([evidence.of_arm(arm, "parameters") for arm, _ in runs])
    tokens = np.asarray([point["tokens"] for _, point in runs])
    scores = [evidence.by_seed(point["arm"], "blimp") for _, point in runs]
    laws = [fit_log_law(parameters, tokens, 100 * np.asarray(values)) for values in _share_seeds(scores)]
    return [Estimate(law.alpha, nan, nan) for law in laws], [Estimate(law.beta, nan, nan) for law in laws]


def _share_seeds(scores: Sequence[Mapping[int, float]]) -> list[list[float]]:
    """For each seed that all have, its values."""
    seeds = sorted(set.intersection(*(set(of) for of in scores)))
    if not seeds:
        raise Lacking("no seed has been run at all sizes")
    return [[of[seed] for of in scores] for seed in seeds]


def judge_scaling(evidence: Evidence, arm: str) -> Judged:
    ours, theirs = (_fit_seeds(evidence, _list_sizes(of)) for of in (arm, MLM))
    by_size, by_data = (compare(ours[place], theirs[place]) for place in (0, 1))
    values = {evidence.column_of(arm): pool(ours[1]), MLM: pool(theirs[1])}
    why = f"ELECTRA - mlm per e-fold of parameters: {_show(by_size)}, of tokens: {_show(by_data)}"
    return Judged(all_of([is_above(by_size), is_above(by_data)]), values, why)


def judge_quarter(evidence: Evidence, arm: str) -> Judged:
    """A run of ELECTRA with a quarter of the budget, its schedule run to the end, against others with the whole."""
    final = {}
    for other in (MLM, XLNET):
        try:
            final[other] = evidence.score(other, "blimp")
        except Lacking:
            continue
    if not final:
        raise Lacking(f"no run of {MLM!r} or {XLNET!r} has the score 'blimp'")
    most = _QUARTER * _ROUNDING * min(evidence.of_arm(other, "flops") for other in final)
    runs = [point for point in evidence.finished_runs(arm, "blimp") if point["flops"] <= most]
    if not runs:
        raise Lacking(
            f"needs a run of {arm!r} with a quarter of the budget (budget_share = 0.25 and line = {arm!r} in the study "
            "file): a snapshot amid its schedule is worth less than a run of its length"
        )
    early = evidence.score(runs[-1]["arm"], "blimp")
    verdicts, why = _hold_against(early, (MLM, XLNET), lambda other: evidence.score(other, "blimp"))
    values = {evidence.column_of(arm): pool(early), **{other: pool(scores) for other, scores in final.items()}}
    return Judged(all_of(verdicts), values, f"after a quarter of the compute, {why}")


def _rise_with_size(evidence: Evidence, arms: Sequence[str]) -> list[Estimate]:
    """Points of the average score per e-fold of parameters, for each seed that all sizes have."""
    sizes = np.log([evidence.of_arm(arm, "parameters") for arm in arms])
    scores = _share_seeds([evidence.by_seed(arm, "average") for arm in arms])
    return [Estimate(fit_slope(sizes, 100 * np.asarray(values)), nan, nan) for values in scores]


def judge_sizes(evidence: Evidence, arm: str) -> Judged:
    """The slope of the gain over the logarithm of the size: larger for smaller models means below 0."""
    ours, theirs = (_rise_with_size(evidence, _list_sizes(of)) for of in (arm, MLM))
    slope = compare(ours, theirs)
    pairs = zip(_list_sizes(arm), _list_sizes(MLM), strict=True)
    gains = [compare(evidence.score(electra, "average"), evidence.score(mlm, "average")) for electra, mlm in pairs]
    told = ", ".join(f"{gain.value:+.1f}" for gain in gains)
    why = f"ELECTRA - mlm from small to large: {told} points; slope {_show(slope)} per e-fold"
    return Judged(is_below(slope), {evidence.column_of(arm): pool(ours), MLM: pool(theirs)}, why)
