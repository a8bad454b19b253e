"""The rules by which claims are judged: what is held against what, and which answer an interval leaves.

Evidence -> Judged
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import isfinite, nan

import numpy as np

from electralab.analysis.claims.evidence import UNTRAINED, Evidence, Lacking
from electralab.analysis.claims.verdicts import Verdict, all_of, compare, is_above, is_below, pool, subtract
from electralab.analysis.finding import Estimate
from electralab.analysis.scaling import fit_log_law, fit_slope

ELECTRA, MLM, CAUSAL = "electra", "mlm", "causal"
SIZES = (("electra-half", "mlm-half"), (ELECTRA, MLM), ("electra-double", "mlm-double"))
COLUMNS = {ELECTRA: ELECTRA, MLM: MLM, CAUSAL: CAUSAL, UNTRAINED: f"{ELECTRA}, {UNTRAINED}"}
"""Of the table -> the arm."""

_QUARTER = 0.25
_MASKED = 0.15
_FASTER = 1.5
_NORMAL = 1.96
_SAME = 0.9
"""The similarity from which on a state counts as the same."""

Pick = Callable[[Evidence, str, str], list[Estimate]]


@dataclass(frozen=True, slots=True)
class Judged:
    verdict: Verdict
    values: Mapping[str, Estimate] = field(default_factory=dict)
    """By column."""
    why: str = ""


Rule = Callable[[Evidence], Judged]


def _show(estimate: Estimate) -> str:
    said = f"{estimate.value:+.3g}"
    return f"{said} [{estimate.low:+.3g}, {estimate.high:+.3g}]" if isfinite(estimate.low) else f"{said}, of one run"


def _columns(evidence: Evidence, name: str, pick: Pick) -> dict[str, Estimate]:
    found = {}
    for column, arm in COLUMNS.items():
        try:
            found[column] = pool(pick(evidence, arm, name))
        except Lacking:
            continue
    return found


def _against(evidence: Evidence, name: str, pick: Pick, others: Sequence[str], *, is_less: bool = False) -> Judged:
    """ELECTRA's figure above (or below) that of every other, by the intervals of the differences."""
    ours = pick(evidence, ELECTRA, name)
    differences = {other: compare(ours, pick(evidence, other, name)) for other in others}
    test = is_below if is_less else is_above
    verdict = all_of([test(difference) for difference in differences.values()])
    why = ", ".join(f"ELECTRA - {other}: {_show(one)}" for other, one in differences.items())
    return Judged(verdict, _columns(evidence, name, pick), why)


def judge_bits(evidence: Evidence) -> Judged:
    ours, theirs = evidence.last(ELECTRA, "verdict bits"), evidence.last(MLM, "guess bits")
    difference = compare(ours, theirs)
    guesses, verdicts = (_columns(evidence, name, Evidence.last) for name in ("guess bits", "verdict bits"))
    found = {**guesses, **verdicts}
    values = {column: found[column] for column in COLUMNS if column in found}
    return Judged(is_above(difference), values, f"ELECTRA - mlm: {_show(difference)}")


def judge_generators(evidence: Evidence) -> Judged:
    ours = evidence.score(ELECTRA, "average")
    weaker, stronger = (evidence.score(arm, "average") for arm in ("electra-weak", "electra-strong"))
    over_weak, over_strong = compare(ours, weaker), compare(ours, stronger)
    why = f"a quarter of the width - unigram: {_show(over_weak)}, - as wide as D: {_show(over_strong)}"
    return Judged(all_of([is_above(over_weak), is_above(over_strong)]), {ELECTRA: pool(ours)}, why)


def judge_analogies(evidence: Evidence) -> Judged:
    """Kept: found by the step from a to b, more often than without it."""
    stepped, plain = evidence.last(ELECTRA, "analogies, table"), evidence.last(ELECTRA, "nearest to c, table")
    gain = subtract(stepped, plain)
    values = _columns(evidence, "analogies, table", Evidence.last)
    return Judged(is_above(gain), values, f"with the step from a to b - the nearest to c alone: {_show(gain)}")


def judge_invariance(evidence: Evidence) -> Judged:
    found = pool(evidence.last(ELECTRA, "rotation similarity"))
    why = f"holds from a cosine of {_SAME:g} on; positions that are relative give this by construction for an offset"
    return Judged(is_above(found, _SAME), _columns(evidence, "rotation similarity", Evidence.last), why)


def judge_equivariance(evidence: Evidence) -> Judged:
    """A linear map that only a trained network affords: its error is below the untrained twin's, for every change."""
    kinds = sorted({name for arm, name in evidence.figures if arm == ELECTRA and name.endswith(" error")})
    if not kinds:
        raise Lacking("no pairs of sentences were measured")
    differences = {
        kind: subtract(evidence.lowest(ELECTRA, kind), evidence.lowest(COLUMNS[UNTRAINED], kind)) for kind in kinds
    }
    values = {
        column: pool([pool(evidence.lowest(arm, kind)) for kind in kinds])
        for column, arm in COLUMNS.items()
        if all((arm, kind) in evidence.figures for kind in kinds)
    }
    parts = [f"{kind.removesuffix(' error')} {_show(one)}" for kind, one in differences.items()]
    return Judged(
        all_of([is_below(one) for one in differences.values()]), values, "trained - untrained: " + ", ".join(parts)
    )


def judge_reach(evidence: Evidence) -> Judged:
    gain = pool(evidence.last(ELECTRA, "verdict AUC, gain beyond ±16"))
    values = {ELECTRA: pool(evidence.last(ELECTRA, "verdict AUC, reach"))}
    for arm in (MLM, CAUSAL):
        with suppress(Lacking):
            values[arm] = pool(evidence.last(arm, "guess loss, reach"))
    return Judged(is_above(gain), values, f"AUC with the whole row - with 16 tokens to each side: {_show(gain)}")


def judge_compression(evidence: Evidence) -> Judged:
    """Some variant is half as fast again and loses at most a point, as far as the floor of the table tells."""
    table = evidence.tradeoff
    if not table:
        raise Lacking("no trade-off; run 'electra compress' and give its folder with --tradeoff")
    # Two scores on the same examples, each with the standard deviation of the floor.
    spread = _NORMAL * 2**0.5 * float(table["floor"]["points"])
    fast = [one for one in table["variants"] if one["speedup"] >= _FASTER]
    losses = {one["name"]: Estimate(one["loss"], one["loss"] - spread, one["loss"] + spread) for one in fast}
    verdicts = [is_below(loss, 1.0) for loss in losses.values()]
    verdict: Verdict = "holds" if "holds" in verdicts else "undecided" if "undecided" in verdicts else "does not hold"
    told = ", ".join(f"{one['name']} {one['speedup']:.2f}× {_show(losses[one['name']])} points" for one in fast)
    return Judged(verdict, {}, f"variants at {_FASTER:g}× or more, and what they lose: {told or 'none'}")


def judge_transfer(evidence: Evidence) -> Judged:
    name = "W₂ with loss risen"
    found = pool(evidence.last(ELECTRA, name))
    return Judged(is_above(found), _columns(evidence, name, Evidence.last), "rank correlation over the other domains")


def judge_replacements(evidence: Evidence) -> Judged:
    """Plausible, of the same structure, and ever harder: each against chance or its own beginning."""
    differences = {
        what: subtract(evidence.last(ELECTRA, name), evidence.control(ELECTRA, name))
        for what, name in (("log p", "log p of replacements"), ("part of speech kept", "part of speech kept"))
    }
    course = pool(evidence.last(ELECTRA, "course of the generator loss"))
    verdict = all_of([*(is_above(one) for one in differences.values()), is_below(course)])
    parts = [f"{what} - dealt at random: {_show(one)}" for what, one in differences.items()]
    why = ", ".join([*parts, f"generator's loss with the step, rho: {_show(course)}"])
    return Judged(verdict, _columns(evidence, "part of speech kept", Evidence.last), why)


def judge_robustness(evidence: Evidence) -> Judged:
    """For every kind of damage."""
    kinds = ("typo", "swap", "ocr")
    differences = {
        kind: compare(evidence.last(ELECTRA, f"retained, {kind}"), evidence.last(MLM, f"retained, {kind}"))
        for kind in kinds
    }
    why = "ELECTRA - mlm: " + ", ".join(f"{kind} {_show(one)}" for kind, one in differences.items())
    values = _columns(evidence, "retained, typo", Evidence.last)
    return Judged(all_of([is_above(one) for one in differences.values()]), values, why)


def judge_flops(evidence: Evidence) -> Judged:
    """Counted, so without an interval: a masked model computes all tokens of a row, not the masked ones."""
    ours, theirs = (evidence.of_arm(arm, "flops") / evidence.of_arm(arm, "tokens") for arm in (ELECTRA, MLM))
    ratio = theirs / ours
    values = {arm: Estimate(value / 1e6, nan, nan) for arm, value in ((ELECTRA, ours), (MLM, theirs))}
    verdict: Verdict = "holds" if ratio < 2 * _MASKED else "does not hold"
    return Judged(verdict, values, f"a token costs mlm {ratio:.2f} of what it costs ELECTRA, not {_MASKED:g}")


def _scores_of(evidence: Evidence, arms: Sequence[str]) -> tuple[list[list[float]], list[list[float]]]:
    """For each seed: ln parameters and ln tokens of the points of all arms, interleaved, and their scores."""
    columns: list[tuple[float, float, list[float]]] = []
    for arm in arms:
        parameters = evidence.of_arm(arm, "parameters")
        columns += [(parameters, point["tokens"], point["values"]) for point in evidence.curve(arm, "blimp")]
    return [[parameters, tokens] for parameters, tokens, _ in columns], [values for *_, values in columns]


def _fit_seeds(evidence: Evidence, arms: Sequence[str]) -> tuple[list[Estimate], list[Estimate]]:
    """alpha and beta of the law, in points per e-fold, for each seed that all points have."""
    sizes, scores = _scores_of(evidence, arms)
    table = np.asarray(sizes)
    seeds = min(map(len, scores))
    laws = [
        fit_log_law(table[:, 0], table[:, 1], 100 * np.asarray([of[seed] for of in scores])) for seed in range(seeds)
    ]
    return [Estimate(law.alpha, nan, nan) for law in laws], [Estimate(law.beta, nan, nan) for law in laws]


def judge_scaling(evidence: Evidence) -> Judged:
    ours, theirs = (_fit_seeds(evidence, [pair[side] for pair in SIZES]) for side in (0, 1))
    by_size, by_data = (compare(ours[place], theirs[place]) for place in (0, 1))
    values = {ELECTRA: pool(ours[1]), MLM: pool(theirs[1])}
    why = f"ELECTRA - mlm per e-fold of parameters: {_show(by_size)}, of tokens: {_show(by_data)}"
    return Judged(all_of([is_above(by_size), is_above(by_data)]), values, why)


def judge_quarter(evidence: Evidence) -> Judged:
    """ELECTRA after a quarter of the compute against the masked model at its end."""
    points = {point["share"]: point for point in evidence.curve(ELECTRA, "blimp")}
    if _QUARTER not in points:
        raise Lacking("no score of ELECTRA after a quarter of its compute")
    early = [Estimate(100 * value, nan, nan) for value in points[_QUARTER]["values"]]
    final = evidence.score(MLM, "blimp")
    difference = compare(early, final)
    return Judged(
        is_above(difference), {ELECTRA: pool(early), MLM: pool(final)}, f"a quarter - the whole: {_show(difference)}"
    )


def _rise_with_size(evidence: Evidence, arms: Sequence[str]) -> list[Estimate]:
    """Points of the average score per e-fold of parameters, for each seed that all sizes have."""
    sizes = np.log([evidence.of_arm(arm, "parameters") for arm in arms])
    scores = zip(*(evidence.score(arm, "average") for arm in arms), strict=False)
    return [Estimate(fit_slope(sizes, np.asarray([one.value for one in of])), nan, nan) for of in scores]


def judge_sizes(evidence: Evidence) -> Judged:
    """The slope of the gain over the logarithm of the size: larger for smaller models means below 0."""
    ours, theirs = (_rise_with_size(evidence, [pair[side] for pair in SIZES]) for side in (0, 1))
    slope = compare(ours, theirs)
    gains = [compare(evidence.score(electra, "average"), evidence.score(mlm, "average")) for electra, mlm in SIZES]
    told = ", ".join(f"{gain.value:+.1f}" for gain in gains)
    why = f"ELECTRA - mlm from small to large: {told} points; slope {_show(slope)} per e-fold"
    return Judged(is_below(slope), {ELECTRA: pool(ours), MLM: pool(theirs)}, why)


def differ(name: str, pick: Pick, *others: str, is_less: bool = False) -> Rule:
    return partial(_against, name=name, pick=pick, others=others, is_less=is_less)
