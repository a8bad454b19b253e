"""Each claim of the notes as one sentence, what it is measured by, and the rule that decides it.

Evidence, arm of ELECTRA -> ClaimVerdict; Evidence -> ClaimVerdict of every claim

Rules look figures up by the ids of findings, so that a name may be reworded without changing a verdict.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import hypot, isfinite, nan, sqrt
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from electralab.analysis.claims.evidence import CAUSAL, MLM, PAPER, UNTRAINED, XLNET, Evidence, MissingEvidence
from electralab.analysis.measures.scaling import fit_log_law, fit_slope
from electralab.analysis.measures.tradeoff import losses_of_variants
from electralab.errors import UsageError
from electralab.records.compression import Tradeoff
from electralab.records.findings import Verdict
from electralab.statistics import Interval, mean_interval, student_margin


def pool(estimates: Sequence[Interval]) -> Interval:
    """The mean over seeds. Its interval has two parts that add as squares: Student's over the seeds, and sampling's.

    The first knows another seed, the second other examples. Of a single run there is only the second.
    """
    over_seeds = mean_interval([estimate.value for estimate in estimates])
    return _around(over_seeds.value, _sampling_error(estimates), over_seeds.high - over_seeds.value)


def subtract(ours: Sequence[Interval], theirs: Sequence[Interval]) -> Interval:
    """Two figures of the same models, the first less the second: taken model by model."""
    over_seeds = mean_interval([first.value - second.value for first, second in zip(ours, theirs, strict=True)])
    return _around(over_seeds.value, _sampling_error(ours, theirs), over_seeds.high - over_seeds.value)


def subtract_each(ours: Sequence[Interval], theirs: Sequence[Interval]) -> list[Interval]:
    """The same, left as a figure of each model, its errors of sampling taken as independent."""
    pairs = list(zip(ours, theirs, strict=True))
    return [_around(a.value - b.value, _sampling_error([a]), _sampling_error([b])) for a, b in pairs]


def compare(ours: Sequence[Interval], theirs: Sequence[Interval]) -> Interval:
    """A figure of some models less that of others, by Student's t for two groups whose spread is taken as the same.

    What a seed is to one objective it is not to another. Pairing them would leave n - 1 degrees of freedom, a single
    one of two seeds, where the groups have twice as many. Of one run each nothing is known of seeds: no interval.
    """
    groups = [np.asarray([estimate.value for estimate in side]) for side in (ours, theirs)]
    freedom = sum(map(len, groups)) - 2
    value = float(groups[0].mean() - groups[1].mean())
    if freedom == 0:
        return Interval(value, nan, nan)
    variance = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / freedom
    # A common variance of both groups: two seeds each are too few for Welch's own estimate of each.
    spread = student_margin(sqrt(variance * sum(1 / len(group) for group in groups)), freedom)
    return _around(value, _sampling_error(ours, theirs), spread)


def is_above(estimate: Interval, bound: float = 0.0) -> Verdict:
    """Whether a quantity is above a bound, as far as its interval tells."""
    if isfinite(estimate.low) and estimate.low > bound:
        return "holds"
    if isfinite(estimate.high) and estimate.high < bound:
        return "does not hold"
    return "undecided"


def is_below(estimate: Interval, bound: float = 0.0) -> Verdict:
    return is_above(estimate.scale(-1.0), -bound)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """A claim of several parts falls with any of them, and stands only if all stand."""
    if "does not hold" in verdicts:
        return "does not hold"
    return "holds" if verdicts and set(verdicts) == {"holds"} else "undecided"


def _sampling_error(*sides: Sequence[Interval]) -> float:
    """Half the width that sampling gives. Of two sides taken as independent: wider than the same examples would give.

    Seeds are measured on the same examples, so that their sampling errors go together and do not average out.
    """
    widths = [[max(seed.high - seed.value, seed.value - seed.low) for seed in side] for side in sides]
    return sqrt(sum(float(np.mean(side)) ** 2 for side in widths))


def _around(value: float, *widths: float) -> Interval:
    known = [width for width in widths if isfinite(width)]
    width = hypot(*known) if known else nan
    return Interval(value, value - width, value + width)


_WEAK, _QUARTER_WIDE, _STRONG = "electra-weak", "electra-quarter", "electra-strong"
_QUARTER = 0.25
# A run ends at a whole step, so that a quarter of the compute is met about.
_ROUNDING = 1.05
_MASKED = 0.15
_ALMOST_TWICE = (1.7, 2.1)
_FASTER = 1.5
# The similarity from which on a state counts as the same.
_SAME = 0.9
_TABLE = Path(__file__).with_name("claims.toml")
# An arm -> a figure of each of its runs.
Figures = Callable[[str], list[Interval]]


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    verdict: Verdict
    values: Mapping[str, Interval] = field(default_factory=dict)
    """By column."""
    why: str = ""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """By arrangement of ELECTRA, where there are several."""
    is_open: bool = False
    """Something that is needed was not measured."""


# The second is the arm that is taken as ELECTRA.
Rule = Callable[[Evidence, str], ClaimVerdict]


def _format(estimate: Interval) -> str:
    if not isfinite(estimate.value):
        return "not determined"
    interval = f"[{estimate.low:+.3g}, {estimate.high:+.3g}]" if isfinite(estimate.low) else "(no interval)"
    return f"{estimate.value:+.3g} {interval}"


def _columns(evidence: Evidence, figures: Figures) -> dict[str, Interval]:
    """The figure of each column's arm, of those that were measured."""
    values = {}
    for column, arm in evidence.columns.items():
        try:
            values[column] = pool(figures(arm))
        except MissingEvidence:
            continue
    return values


def _column_of(evidence: Evidence, arm: str) -> str:
    return next(column for column, other in evidence.columns.items() if other == arm)


def _compare_with(
    ours: Sequence[Interval], others: Sequence[str], figures: Figures, *, is_less: bool = False
) -> tuple[list[Verdict], str]:
    """Whether a figure of ELECTRA is above (or below) that of every other, by the intervals of the differences.

    An arm that was not measured leaves its part open; where none was, nothing can be said.
    """
    verdicts: list[Verdict] = []
    texts, errors = [], []
    for other in others:
        try:
            difference = compare(ours, figures(other))
        except MissingEvidence as error:
            errors.append(error)
            verdicts.append("undecided")
            texts.append(f"{other}: not measured ({error})")
            continue
        verdicts.append(is_below(difference) if is_less else is_above(difference))
        texts.append(f"ELECTRA - {other}: {_format(difference)}")
    if len(errors) == len(others):
        raise errors[0]
    return verdicts, ", ".join(texts)


def differ(id: str, *others: str, at: Literal["last", "highest"] = "last", is_less: bool = False) -> Rule:
    """A figure of ELECTRA is above (or below) that of all others, at the last layer or at that where it is highest."""

    def rule(evidence: Evidence, arm: str) -> ClaimVerdict:
        figures = partial(evidence.estimates, id=id, at=at)
        verdicts, why = _compare_with(figures(arm), others, figures, is_less=is_less)
        return ClaimVerdict(all_of(verdicts), _columns(evidence, figures), why)

    return rule


def decide_bits(evidence: Evidence, arm: str) -> ClaimVerdict:
    rtd_bits, lm_bits = (partial(evidence.estimates, id=f"information.{task}_bits") for task in ("rtd", "lm"))
    difference = compare(rtd_bits(arm), lm_bits(MLM))
    # Where a model has both, the figure of what it is trained by stands in its column.
    values = _columns(evidence, lm_bits) | _columns(evidence, rtd_bits)
    ordered = {column: values[column] for column in evidence.columns if column in values}
    return ClaimVerdict(is_above(difference), ordered, f"ELECTRA - mlm: {_format(difference)}")


def decide_gradients(evidence: Evidence, arm: str) -> ClaimVerdict:
    """By the trained networks; how it was before training is said beside it."""
    effective = partial(evidence.estimates, id="gradients.effective_tokens")
    verdicts, why = _compare_with(effective(arm), [MLM], effective)
    start = compare(effective(f"{arm}, {UNTRAINED}"), effective(f"{MLM}, {UNTRAINED}"))
    why = f"{why}; before training: {_format(start)}"
    return ClaimVerdict(all_of(verdicts), _columns(evidence, effective), why)


def decide_generators(evidence: Evidence, _: str) -> ClaimVerdict:
    """Of generators of their own, whichever arrangement is asked about: only they can be weak or strong."""
    ours, weaker, stronger = (evidence.score(arm, "average") for arm in (_QUARTER_WIDE, _WEAK, _STRONG))
    over_weak, over_strong = compare(ours, weaker), compare(ours, stronger)
    why = f"a quarter of the width - unigram: {_format(over_weak)}, - as wide as D: {_format(over_strong)}"
    return ClaimVerdict(all_of([is_above(over_weak), is_above(over_strong)]), {PAPER: pool(ours)}, why)


def decide_doubling(evidence: Evidence, _: str) -> ClaimVerdict:
    """Counted, so without an interval."""
    strong, quarter, mlm = (evidence.flops_per_token(arm) for arm in (_STRONG, _QUARTER_WIDE, MLM))
    # Per token, since runs of a study end at whole steps and differ a little in their tokens.
    ratio = strong / mlm
    least, most = _ALMOST_TWICE
    why = (
        f"a token costs {ratio:.2f} of what it costs mlm with a generator as wide as the discriminator, "
        f"{quarter / mlm:.2f} with one of a quarter of the width; from {least:g} to {most:g} counts as almost twice"
    )
    values = {PAPER: Interval(ratio, nan, nan), MLM: Interval(1.0, nan, nan)}
    return ClaimVerdict("holds" if least <= ratio <= most else "does not hold", values, why)


def decide_analogies(evidence: Evidence, arm: str) -> ClaimVerdict:
    """Kept: found by the step from a to b, more often than without it, by more than in a masked model."""

    def gain(other: str) -> list[Interval]:
        return subtract_each(
            evidence.estimates(other, "analogies.table"), evidence.estimates(other, "analogies.table_nearest")
        )

    ours = gain(arm)
    verdicts, against = _compare_with(ours, [MLM], gain)
    why = f"with the step from a to b - the nearest to c alone: {_format(pool(ours))}; of this gain, {against}"
    return ClaimVerdict(all_of([is_above(pool(ours)), *verdicts]), _columns(evidence, gain), why)


def decide_invariance(evidence: Evidence, arm: str) -> ClaimVerdict:
    """States that stay the same, and more so than those of a masked model."""
    sameness = partial(evidence.estimates, id="invariance.rotation_sameness")
    ours, untrained = pool(sameness(arm)), pool(sameness(f"{arm}, {UNTRAINED}"))
    verdicts, against = _compare_with(sameness(arm), [MLM], sameness)
    is_built_in = is_above(untrained, _SAME) == "holds"
    built_in = "; the untrained network does so too: it is made this way" if is_built_in else ""
    why = f"{against}; the same from {_SAME:g} on, 1 being the same and 0 as unlike as other tokens{built_in}"
    return ClaimVerdict(all_of([is_above(ours, _SAME), *verdicts]), _columns(evidence, sameness), why)


def decide_equivariance(evidence: Evidence, arm: str) -> ClaimVerdict:
    """For every change a linear map that training made better, and better than a masked model's."""
    prefix, texts = "equivariance.error.", []
    ids, verdicts = evidence.ids(arm, prefix), list[Verdict]()
    if not ids:
        raise MissingEvidence("no pairs of sentences were measured")
    for id in ids:
        lowest = partial(evidence.estimates, id=id, at="lowest")
        trained = subtract(lowest(arm), lowest(f"{arm}, {UNTRAINED}"))
        against_mlm, why = _compare_with(lowest(arm), [MLM], lowest, is_less=True)
        verdicts += [is_below(trained), *against_mlm]
        texts.append(f"{id.removeprefix(prefix)}: trained - untrained {_format(trained)}, {why}")
    values = _columns(evidence, lambda other: [pool(evidence.estimates(other, id, at="lowest")) for id in ids])
    return ClaimVerdict(all_of(verdicts), values, "; ".join(texts))


def _is_electra(evidence: Evidence, arm: str) -> bool:
    """Whether the arm has a discriminator, trained or not; the other arms name tokens."""
    return arm.removesuffix(f", {UNTRAINED}") in evidence.arrangements.values()


def decide_context_length(evidence: Evidence, arm: str) -> ClaimVerdict:
    """Far context adds something to verdicts: more of what the row adds than to a masked model's guesses."""
    gain = pool(evidence.estimates(arm, "context_length.rtd_auc.far_gain"))

    def share(other: str) -> list[Interval]:
        task = "rtd_auc" if _is_electra(evidence, other) else "lm_loss"
        return evidence.estimates(other, f"context_length.{task}.far_share")

    verdicts, against = _compare_with(share(arm), [MLM], share)
    why = f"AUC in their row - in one with another's text beyond 16 tokens: {_format(gain)}; of the share, {against}"
    return ClaimVerdict(all_of([is_above(gain), *verdicts]), _columns(evidence, share), why)


def decide_flops(evidence: Evidence, arm: str) -> ClaimVerdict:
    """Counted, so without an interval: a masked model computes all tokens of a row, not the masked ones."""
    ratio = evidence.flops_per_token(MLM) / evidence.flops_per_token(arm)
    values = _columns(evidence, lambda other: [Interval(evidence.flops_per_token(other) / 1e6, nan, nan)])
    verdict: Verdict = "holds" if ratio < 2 * _MASKED else "does not hold"
    return ClaimVerdict(verdict, values, f"a token costs mlm {ratio:.2f} of what it costs ELECTRA, not {_MASKED:g}")


def _sizes_of(arm: str) -> tuple[str, str, str]:
    return f"{arm}-half", arm, f"{arm}-double"


def _common_seeds(scores: Sequence[Mapping[int, float]]) -> list[list[float]]:
    """For each seed that all have, its values."""
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in scores)))
    if not seeds:
        raise MissingEvidence("no seed has been run at all sizes")
    return [[by_seed[seed] for by_seed in scores] for seed in seeds]


def decide_scaling(evidence: Evidence, arm: str) -> ClaimVerdict:
    """By alpha and beta of the law over runs of their own budget, in points per e-fold, for each seed that all have."""
    alphas, betas = [], []
    for arms in (_sizes_of(arm), _sizes_of(MLM)):
        runs = [(size, point) for size in arms for point in evidence.finished_runs(size, "blimp")]
        if any(sum(owner == size for owner, _ in runs) < 2 for size in arms):
            raise MissingEvidence(
                f"needs two runs of {arms[0]!r} and of the other sizes with a budget of their own each (budget_share "
                "and line in the study file): a snapshot amid its schedule is worth less than a run of its length"
            )
        columns = np.asarray([(evidence.count(size, "parameters"), point.tokens) for size, point in runs])
        scores = _common_seeds([evidence.by_seed(point.arm, "blimp") for _, point in runs])
        laws = [fit_log_law(columns, 100 * np.asarray(values)) for values in scores]
        alphas.append([Interval(law.alpha, nan, nan) for law in laws])
        betas.append([Interval(law.beta, nan, nan) for law in laws])
    by_size, by_data = compare(*alphas), compare(*betas)
    values = {_column_of(evidence, arm): pool(betas[0]), MLM: pool(betas[1])}
    why = f"ELECTRA - mlm per e-fold of parameters: {_format(by_size)}, of tokens: {_format(by_data)}"
    return ClaimVerdict(all_of([is_above(by_size), is_above(by_data)]), values, why)


def decide_quarter(evidence: Evidence, arm: str) -> ClaimVerdict:
    """A run of ELECTRA with a quarter of the budget, its schedule run to the end, against others with the whole."""
    blimp, final = partial(evidence.score, name="blimp"), {}
    for other in (MLM, XLNET):
        try:
            final[other] = blimp(other)
        except MissingEvidence:
            continue
    if not final:
        raise MissingEvidence(f"no run of {MLM!r} or {XLNET!r} has the score 'blimp'")
    # Of the cheaper of the two, so that neither had less than four times as much.
    most = _QUARTER * _ROUNDING * min(evidence.count(other, "flops") for other in final)
    runs = [point for point in evidence.finished_runs(arm, "blimp") if point.flops <= most]
    if not runs:
        raise MissingEvidence(
            f"needs a run of {arm!r} with a quarter of the budget (budget_share = 0.25 and line = {arm!r} in the study "
            "file): a snapshot amid its schedule is worth less than a run of its length"
        )
    early = blimp(runs[-1].arm)
    verdicts, why = _compare_with(early, (MLM, XLNET), blimp)
    values = {_column_of(evidence, arm): pool(early), **{other: pool(scores) for other, scores in final.items()}}
    return ClaimVerdict(all_of(verdicts), values, f"after a quarter of the compute, {why}")


def decide_compression(evidence: Evidence, _: str) -> ClaimVerdict:
    """Some variant is half as fast again and loses at most a point, as far as the floor of the table tells."""
    if not evidence.tradeoff:
        raise MissingEvidence("no trade-off; run 'electra compress' and give its folder with --tradeoff")
    try:
        table = Tradeoff.model_validate(evidence.tradeoff)
    except ValidationError:
        raise MissingEvidence("the table is not a trade-off; run 'electra compress' again") from None
    losses = losses_of_variants(table)
    fast = [row for row in table.variants if row.name in losses and row.speedup >= _FASTER]
    verdicts = [is_below(losses[row.name], 1.0) for row in fast]
    # One variant is enough: the claim is that it can be done, not that all ways do it.
    verdict: Verdict = "holds" if "holds" in verdicts else "undecided" if "undecided" in verdicts else "does not hold"
    texts = ", ".join(f"{row.name} {row.speedup:.2f}× {_format(losses[row.name])} points" for row in fast)
    return ClaimVerdict(verdict, {}, f"variants at {_FASTER:g}× or more, and what they lose: {texts or 'none'}")


def decide_distance(evidence: Evidence, arm: str) -> ClaimVerdict:
    """Training brings every other domain nearer, and nearer than the training of a masked model does."""
    prefix, texts = "transfer.w2.", []
    ids, verdicts = evidence.ids(arm, prefix), list[Verdict]()
    if not ids:
        raise MissingEvidence("no texts of other domains were measured; give --domains FILE,FILE", arm)

    def fall(id: str, other: str) -> list[Interval]:
        return subtract_each(evidence.estimates(f"{other}, {UNTRAINED}", id), evidence.estimates(other, id))

    for id in ids:
        ours = fall(id, arm)
        against_mlm, why = _compare_with(ours, [MLM], partial(fall, id))
        verdicts += [is_above(pool(ours)), *against_mlm]
        texts.append(f"{id.removeprefix(prefix)}: before - after {_format(pool(ours))}, {why}")
    values = _columns(evidence, lambda other: [pool(fall(id, other)) for id in ids])
    return ClaimVerdict(all_of(verdicts), values, "; ".join(texts))


def decide_transfer(evidence: Evidence, arm: str) -> ClaimVerdict:
    """ELECTRA by its AUC, since the distance is of that network; the others by their loss."""

    def rho(other: str) -> list[Interval]:
        lost = "auc_fall" if _is_electra(evidence, other) else "loss_rise"
        return evidence.estimates(other, f"transfer.w2_with_{lost}")

    ours = pool(rho(arm))
    why = f"ELECTRA, rank correlation over the other domains: {_format(ours)}"
    return ClaimVerdict(is_above(ours), _columns(evidence, rho), why)


def decide_sizes(evidence: Evidence, arm: str) -> ClaimVerdict:
    """The slope of the gain over the logarithm of the size: larger for smaller models means below 0."""
    slopes = []
    for arms in (_sizes_of(arm), _sizes_of(MLM)):
        # Points of the average score per e-fold of parameters, for each seed that all sizes have.
        sizes = np.log(np.asarray([evidence.count(size, "parameters") for size in arms]))
        scores = _common_seeds([evidence.by_seed(size, "average") for size in arms])
        slopes.append([Interval(fit_slope(sizes, 100 * np.asarray(values)), nan, nan) for values in scores])
    slope = compare(*slopes)
    pairs = zip(_sizes_of(arm), _sizes_of(MLM), strict=True)
    gains = [compare(evidence.score(electra, "average"), evidence.score(mlm, "average")) for electra, mlm in pairs]
    points = ", ".join(f"{gain.value:+.1f}" for gain in gains)
    why = f"ELECTRA - mlm from small to large: {points} points; slope {_format(slope)} per e-fold"
    return ClaimVerdict(is_below(slope), {_column_of(evidence, arm): pool(slopes[0]), MLM: pool(slopes[1])}, why)


def decide_replacements(evidence: Evidence, arm: str) -> ClaimVerdict:
    """Better than frequencies, of the same structure, and harder for one and the same judge as training goes on.

    That a generator finds its own samples likely would be true of any, as it is of any that its loss falls.
    """
    kept = "replacements.part_of_speech_kept"
    bits = pool(evidence.estimates(arm, "information.lm_bits"))
    structure = subtract(evidence.estimates(arm, kept), evidence.control(arm, kept))
    harder = pool(evidence.estimates(arm, "replacements.hardening"))
    why = (
        f"bits of the generator over frequencies: {_format(bits)}, part of speech kept - dealt at random: "
        f"{_format(structure)}, AUC of the final discriminator against the first snapshot's generator - against the "
        f"last: {_format(harder)}"
    )
    verdict = all_of([is_above(bits), is_above(structure), is_above(harder)])
    return ClaimVerdict(verdict, _columns(evidence, partial(evidence.estimates, id=kept)), why)


def decide_robustness(evidence: Evidence, arm: str) -> ClaimVerdict:
    """For every kind of damage."""
    kinds = ("typo", "swap", "ocr")
    retained = [partial(evidence.estimates, id=f"robustness.retained.{kind}") for kind in kinds]
    differences = [compare(figures(arm), figures(MLM)) for figures in retained]
    texts = [f"{kind} {_format(change)}" for kind, change in zip(kinds, differences, strict=True)]
    values = _columns(evidence, retained[0])
    return ClaimVerdict(all_of(list(map(is_above, differences))), values, f"ELECTRA - mlm: {', '.join(texts)}")


_DECIDED: tuple[Callable[[Evidence, str], ClaimVerdict], ...] = (
    *(decide_bits, decide_gradients, decide_generators, decide_doubling, decide_analogies, decide_invariance),
    *(decide_equivariance, decide_context_length, decide_flops, decide_scaling, decide_quarter, decide_compression),
    *(decide_distance, decide_transfer, decide_sizes, decide_replacements, decide_robustness),
)
RULES: dict[str, Rule] = {rule.__name__.removeprefix("decide_"): rule for rule in _DECIDED} | {
    "silhouette": differ("geometry.part_of_speech_silhouette", MLM, CAUSAL, at="highest"),
    "probe": differ("geometry.part_of_speech_probe", MLM, CAUSAL, at="highest"),
    "smoothness": differ("contextuality.smoothness", MLM, CAUSAL),
    "complexity": differ("complexity.rademacher_local", MLM, is_less=True),
}


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of claims.toml."""

    number: str
    sentence: str
    measure: str
    """What it is measured by, in words."""
    unit: str
    rule: Rule
    measures: tuple[str, ...] = ()
    is_about_tuned: bool = False
    """Whether these are measured in fine-tuned models."""


@cache
def list_claims() -> tuple[Claim, ...]:
    rows = tomllib.loads(_TABLE.read_text(encoding="utf-8"))["claims"]
    return tuple(Claim(rule=RULES[row.pop("rule")], measures=tuple(row.pop("measures")), **row) for row in rows)


def select_claims(only: Sequence[str]) -> list[Claim]:
    """In the order of the table; none means all."""
    claims, chosen = list_claims(), {name.upper() for name in only}
    unknown = sorted(chosen - {claim.number for claim in claims})
    if unknown:
        raise UsageError(f"--only: no claim {unknown[0]!r}; they are {claims[0].number} to {claims[-1].number}")
    return [claim for claim in claims if not chosen or claim.number in chosen]


def required_measures(claims: Sequence[Claim], *, of_tuned: bool = False) -> list[str]:
    """The ids of what an analysis of the models, or of fine-tuned ones, has to measure for these claims."""
    return list(dict.fromkeys(id for claim in claims if claim.is_about_tuned == of_tuned for id in claim.measures))


def decide_claim(claim: Claim, evidence: Evidence) -> ClaimVerdict:
    """For each arrangement of ELECTRA by itself. The verdict is that of the paper's, where it can be decided."""
    decided: dict[str, ClaimVerdict] = {}
    for column, arm in evidence.arrangements.items():
        try:
            decided[column] = claim.rule(evidence, arm)
        except MissingEvidence as error:
            # What the analysis itself says is missing for the claim says more.
            gaps = (gap for gap in reversed(evidence.reasons) if (gap.arm, gap.about) == (error.arm, claim.number))
            reason = next((gap.reason for gap in gaps), "") or error
            decided[column] = ClaimVerdict("undecided", why=f"not measured: {reason}", is_open=True)
    measured = {column: result for column, result in decided.items() if not result.is_open}
    first = next(iter((measured or decided).values()))
    whys = {column: result.why for column, result in decided.items()}
    is_same = len(set(whys.values())) == 1
    values = {column: value for result in decided.values() for column, value in result.values.items()}
    return ClaimVerdict(
        first.verdict,
        {column: values[column] for column in evidence.columns if column in values},
        first.why if is_same else ". ".join(f"{column}: {why}" for column, why in whys.items()),
        verdicts={} if is_same else {column: result.verdict for column, result in decided.items()},
    )
