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
from electralab.analysis.measures.tradeoff import list_variants
from electralab.analysis.scaling import fit_log_law, fit_slope

ELECTRA, MLM, CAUSAL = "electra", "mlm", "causal"
SIZES = (("electra-half", "mlm-half"), (ELECTRA, MLM), ("electra-double", "mlm-double"))
COLUMNS = {ELECTRA: ELECTRA, MLM: MLM, CAUSAL: CAUSAL, UNTRAINED: f"{ELECTRA}, {UNTRAINED}"}
"""Of the table -> the arm."""

_QUARTER = 0.25
_MASKED = 0.15
_FASTER = 1.5
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
    if not isfinite(estimate.value):
        return "not determined"
    interval = f"[{estimate.low:+.3g}, {estimate.high:+.3g}]" if isfinite(estimate.low) else "(no interval)"
    return f"{estimate.value:+.3g} {interval}"


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
    arms = ("electra-quarter", "electra-weak", "electra-strong")
    ours, weaker, stronger = (evidence.score(arm, "average") for arm in arms)
    over_weak, over_strong = compare(ours, weaker), compare(ours, stronger)
    why = f"a quarter of the width - unigram: {_show(over_weak)}, - as wide as D: {_show(over_strong)}"
    return Judged(all_of([is_above(over_weak), is_above(over_strong)]), {ELECTRA: pool(ours)}, why)


def judge_analogies(evidence: Evidence) -> Judged:
    """Kept: found by the step from a to b, more often than without it."""
    stepped, plain = evidence.last(ELECTRA, "analogies, table"), evidence.last(ELECTRA, "nearest to c, table")
    gain = subtract(stepped, plain)
    values = _columns(evidence, "analogies, table", Evidence.last)
    return Judged(is_above(gain), values, f"with the step from a to b - the nearest to c alone: {_show(gain)}")


def judge_gradients(evidence: Evidence) -> Judged:
    """Before training: a network that tells most tokens well has little to learn from them, which is no defect."""
    name = "effective tokens"
    early = [evidence.last(f"{arm}, {UNTRAINED}", name) for arm in (ELECTRA, MLM)]
    late = [evidence.last(arm, name) for arm in (ELECTRA, MLM)]
    start, end = compare(*early), compare(*late)
    why = f"ELECTRA - mlm before training: {_show(start)}; at its end, where easy tokens pull less: {_show(end)}"
    return Judged(is_above(start), _columns(evidence, name, Evidence.last), why)


def judge_invariance(evidence: Evidence) -> Judged:
    name = "rotation sameness"
    found, drawn = (pool(evidence.last(arm, name)) for arm in (ELECTRA, COLUMNS[UNTRAINED]))
    made = "; the untrained network does so too: it is made this way" if is_above(drawn, _SAME) == "holds" else ""
    why = f"holds from {_SAME:g} on, 1 being the same and 0 as unlike as other tokens{made}"
    return Judged(is_above(found, _SAME), _columns(evidence, name, Evidence.last), why)


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
    why = f"AUC in their row - in one with another's text beyond 16 tokens: {_show(gain)}"
    return Judged(is_above(gain), values, why)


def judge_compression(evidence: Evidence) -> Judged:
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


def judge_transfer(evidence: Evidence) -> Judged:
    """Of ELECTRA by its verdicts, whose network the distance is of; of the others by their guesses."""
    found = pool(evidence.last(ELECTRA, "W₂ with AUC fallen"))
    values = {ELECTRA: found}
    for column in (MLM, CAUSAL):
        with suppress(Lacking):
            values[column] = pool(evidence.last(column, "W₂ with loss risen"))
    return Judged(is_above(found), values, f"ELECTRA, rank correlation over the other domains: {_show(found)}")


def judge_replacements(evidence: Evidence) -> Judged:
    """Better than frequencies, of the same structure, and ever harder.

    That a generator finds its own draws likely would be true of any; it is asked about what really stood there.
    """
    bits = pool(evidence.last(ELECTRA, "guess bits"))
    kept = "part of speech kept"
    structure = subtract(evidence.last(ELECTRA, kept), evidence.control(ELECTRA, kept))
    course = pool(evidence.last(ELECTRA, "course of the generator loss"))
    why = (
        f"bits of the generator over frequencies: {_show(bits)}, part of speech kept - dealt at random: "
        f"{_show(structure)}, generator's loss with the step, rho: {_show(course)}"
    )
    verdict = all_of([is_above(bits), is_above(structure), is_below(course)])
    return Judged(verdict, _columns(evidence, kept, Evidence.last), why)


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


def _fit_seeds(evidence: Evidence, arms: Sequence[str]) -> tuple[list[Estimate], list[Estimate]]:
    """alpha and beta of the law, in points per e-fold, for each seed that all points have."""
    points = [(arm, point) for arm in arms for point in evidence.curve(arm, "blimp")]
    parameters = np.asarray([evidence.of_arm(arm, "parameters") for arm, _ in points])
    tokens = np.asarray([point["tokens"] for _, point in points])
    scores = [evidence.by_seed(arm, _name_share("blimp", point["share"])) for arm, point in points]
    laws = [fit_log_law(parameters, tokens, 100 * np.asarray(values)) for values in _share_seeds(scores)]
    return [Estimate(law.alpha, nan, nan) for law in laws], [Estimate(law.beta, nan, nan) for law in laws]


def _name_share(score: str, share: float) -> str:
    return score if share == 1 else f"{score}@{share:g}"


def _share_seeds(scores: Sequence[Mapping[int, float]]) -> list[list[float]]:
    """For each seed that all have, its values."""
    seeds = sorted(set.intersection(*(set(of) for of in scores)))
    if not seeds:
        raise Lacking("no seed has been run at all sizes")
    return [[of[seed] for of in scores] for seed in seeds]


def judge_scaling(evidence: Evidence) -> Judged:
    ours, theirs = (_fit_seeds(evidence, [pair[side] for pair in SIZES]) for side in (0, 1))
    by_size, by_data = (compare(ours[place], theirs[place]) for place in (0, 1))
    values = {ELECTRA: pool(ours[1]), MLM: pool(theirs[1])}
    why = f"ELECTRA - mlm per e-fold of parameters: {_show(by_size)}, of tokens: {_show(by_data)}"
    return Judged(all_of([is_above(by_size), is_above(by_data)]), values, why)


def judge_quarter(evidence: Evidence) -> Judged:
    """ELECTRA after a quarter of the compute against the masked model at its end."""
    early = evidence.score(ELECTRA, _name_share("blimp", _QUARTER))
    final = evidence.score(MLM, "blimp")
    difference = compare(early, final)
    return Judged(
        is_above(difference), {ELECTRA: pool(early), MLM: pool(final)}, f"a quarter - the whole: {_show(difference)}"
    )


def _rise_with_size(evidence: Evidence, arms: Sequence[str]) -> list[Estimate]:
    """Points of the average score per e-fold of parameters, for each seed that all sizes have."""
    sizes = np.log([evidence.of_arm(arm, "parameters") for arm in arms])
    scores = _share_seeds([evidence.by_seed(arm, "average") for arm in arms])
    return [Estimate(fit_slope(sizes, 100 * np.asarray(values)), nan, nan) for values in scores]


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
