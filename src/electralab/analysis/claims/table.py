"""Each claim of the notes as one sentence, what it is measured by, and the rule that judges it.

Evidence -> Judged of every claim
"""

from collections.abc import Sequence
from dataclasses import dataclass

from electralab.analysis.claims.evidence import CAUSAL, MLM, Evidence, Lacking
from electralab.analysis.claims.rules import (
    Judged,
    Rule,
    differ,
    judge_analogies,
    judge_bits,
    judge_compression,
    judge_distance,
    judge_doubling,
    judge_equivariance,
    judge_flops,
    judge_generators,
    judge_gradients,
    judge_invariance,
    judge_quarter,
    judge_reach,
    judge_replacements,
    judge_robustness,
    judge_scaling,
    judge_sizes,
    judge_transfer,
)
from electralab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Claim:
    number: str
    sentence: str
    measure: str
    unit: str
    rule: Rule


def judge_claim(claim: Claim, evidence: Evidence) -> Judged:
    """Of each arrangement of ELECTRA by itself. The verdict is that of the paper's, where it can be judged."""
    found = {column: _judge_arm(claim, evidence, arm) for column, arm in evidence.arrangements.items()}
    measured = {column: judged for column, judged in found.items() if not judged.is_open}
    first = next(iter((measured or found).values()))
    whys = {column: judged.why for column, judged in found.items()}
    is_one = len(set(whys.values())) == 1
    values = {column: value for judged in found.values() for column, value in judged.values.items()}
    return Judged(
        first.verdict,
        {column: values[column] for column in evidence.columns if column in values},
        first.why if is_one else ". ".join(f"{column}: {why}" for column, why in whys.items()),
        verdicts={} if is_one else {column: judged.verdict for column, judged in found.items()},
    )


def _judge_arm(claim: Claim, evidence: Evidence, arm: str) -> Judged:
    """What cannot be judged is undecided, and says what it lacks."""
    try:
        return claim.rule(evidence, arm)
    except Lacking as error:
        reason = evidence.reasons.get((error.arm, claim.number)) or error
        return Judged("undecided", why=f"not measured: {reason}", is_open=True)


CLAIMS = (
    Claim(
        "M30",
        "A verdict on every token teaches more than guesses of 15 % of them.",
        "what the loss tells about held-out text",
        "bits/token",
        judge_bits,
    ),
    Claim(
        "M31",
        "The gradient comes from all tokens, not from the masked ones.",
        "over how much of a row the gradient of the trained network is spread",
        "share of tokens",
        judge_gradients,
    ),
    Claim(
        "M32",
        "A weak generator is too easy, one as large as the discriminator too hard.",
        "average score with a generator of a quarter of the width, against both",
        "points",
        judge_generators,
    ),
    Claim(
        "M32",
        "With a generator as large as the discriminator training takes almost twice the compute.",
        "FLOPs of training per token, over a masked model's, counted",
        "ratio",
        judge_doubling,
    ),
    Claim(
        "M33",
        "Words of a kind lie further apart from others than in BERT or GPT.",
        "silhouette of parts of speech, at the layer where it is highest",
        "silhouette",
        differ("part of speech silhouette", Evidence.highest, MLM, CAUSAL),
    ),
    Claim(
        "M33",
        "Parts of speech can be read off more easily than in BERT or GPT.",
        "linear probe, at the layer where it is highest",
        "accuracy",
        differ("part of speech probe", Evidence.highest, MLM, CAUSAL),
    ),
    Claim(
        "M34",
        "Analogies are kept, better than by BERT.",
        "analogies in the table of embeddings that the step from a to b finds, beyond those without it",
        "share",
        judge_analogies,
    ),
    Claim(
        "M35",
        "Words take up their context more smoothly than in BERT or GPT, layer by layer.",
        "smoothness of self-similarity over layers",
        "smoothness",
        differ("smoothness", Evidence.last, MLM, CAUSAL),
    ),
    Claim(
        "M36",
        "A token's state is the same where the row is moved, more so than in BERT.",
        "cosine of a token's last state with itself after rotation of the row, beyond that of other tokens",
        "share",
        judge_invariance,
    ),
    Claim(
        "M37",
        "Changes of a sentence are linear maps of its representation, more so than in BERT.",
        "error of the best linear map on pairs it has not seen, mean over changes, at the best layer",
        "error",
        judge_equivariance,
    ),
    Claim(
        "M38",
        "Verdicts take far context into account, more than the guesses of BERT.",
        "how much of what the row adds comes from beyond 16 tokens",
        "share of gain",
        judge_reach,
    ),
    Claim("M39", "BERT costs 0.15 n d².", "FLOPs of training per token, counted", "MFLOPs", judge_flops),
    Claim(
        "M40",
        "Scaling is more favourable: the score rises faster with size and data.",
        "BLiMP over ln tokens (beta of the law), runs of their own budget at three sizes",
        "points/e-fold",
        judge_scaling,
    ),
    Claim(
        "M41",
        "A quarter of the compute is enough for the quality of RoBERTa and XLNet.",
        "BLiMP of runs with a quarter of the compute, against a masked and a permutation model with all of it",
        "points",
        judge_quarter,
    ),
    Claim(
        "M42",
        "Fewer bits and pruned parts are faster at little loss.",
        "loss of the variants that are half as fast again",
        "points",
        judge_compression,
    ),
    Claim(
        "M43",
        "The representation is of lower complexity.",
        "local Rademacher complexity of linear classes on the last states",
        "complexity",
        differ("Rademacher, local", Evidence.last, MLM, is_less=True),
    ),
    Claim(
        "M44",
        "Pre-training brings other domains nearer, more so than that of BERT.",
        "W₂ to other domains before training - after it, mean over domains",
        "spread",
        judge_distance,
    ),
    Claim(
        "M44",
        "What is lost in another domain grows with its distance.",
        "rank correlation of W₂ with what AUC (or loss) is lost, over domains",
        "rho",
        judge_transfer,
    ),
    Claim(
        "M45",
        "The smaller the model, the larger the gain over MLM.",
        "slope of the gain over ln parameters, three sizes",
        "points/e-fold",
        judge_sizes,
    ),
    Claim(
        "M46",
        "Replacements are plausible, keep the structure and get harder.",
        "bits over frequencies, part of speech kept, AUC lost by one judge since the first snapshot",
        "share kept",
        judge_replacements,
    ),
    Claim(
        "M47",
        "Tuned models are more robust to noise.",
        "share of the score above chance that is retained, damage of three kinds",
        "share retained",
        judge_robustness,
    ),
)

INSIDE = {
    **{number: (number,) for number in ("M30", "M31", "M33", "M34", "M35", "M36", "M37", "M38", "M43", "M44")},
    "M46": ("M30", "M46"),
}
"""Claims about the insides of models -> what has to be measured; the others are about scores, counts and tables."""


def choose_claims(only: Sequence[str]) -> list[Claim]:
    """In the order of the table; none means all."""
    chosen = {asked.upper() for asked in only}
    unknown = sorted(chosen - {claim.number for claim in CLAIMS})
    if unknown:
        raise UsageError(f"--only: no claim {unknown[0]!r}; they are {CLAIMS[0].number} to {CLAIMS[-1].number}")
    return [claim for claim in CLAIMS if not chosen or claim.number in chosen]
