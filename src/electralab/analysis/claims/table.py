"""Each claim of the notes as one sentence, what it is measured by, which measures it needs, and the rule that decides.

Evidence -> ClaimVerdict of every claim
"""

from collections.abc import Sequence
from dataclasses import dataclass

from electralab.analysis.claims.evidence import CAUSAL, MLM, Evidence, MissingEvidence
from electralab.analysis.claims.rules import (
    ClaimVerdict,
    Rule,
    decide_analogies,
    decide_bits,
    decide_compression,
    decide_context_length,
    decide_distance,
    decide_doubling,
    decide_equivariance,
    decide_flops,
    decide_generators,
    decide_gradients,
    decide_invariance,
    decide_quarter,
    decide_replacements,
    decide_robustness,
    decide_scaling,
    decide_sizes,
    decide_transfer,
    differ,
)
from electralab.errors import UsageError


@dataclass(frozen=True, slots=True)
class Claim:
    number: str
    sentence: str
    measure: str
    """What it is measured by, in words."""
    unit: str
    rule: Rule
    measures: tuple[str, ...] = ()
    """Ids of what has to be measured inside the models; none where scores, counts and tables are enough."""
    is_about_tuned: bool = False
    """Whether these are measured in fine-tuned models."""


def decide_claim(claim: Claim, evidence: Evidence) -> ClaimVerdict:
    """For each arrangement of ELECTRA by itself. The verdict is that of the paper's, where it can be decided."""
    decided: dict[str, ClaimVerdict] = {}
    for column, arm in evidence.arrangements.items():
        try:
            decided[column] = claim.rule(evidence, arm)
        except MissingEvidence as error:
            reason = evidence.reason_of_claim(error.arm, claim.number) or error
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


CLAIMS = (
    Claim(
        "M30",
        "A verdict on every token teaches more than guesses of 15 % of them.",
        "what the loss tells about held-out text",
        "bits/token",
        decide_bits,
        measures=("information",),
    ),
    Claim(
        "M31",
        "The gradient comes from all tokens, not from the masked ones.",
        "over how much of a row the gradient of the trained network is spread",
        "share of tokens",
        decide_gradients,
        measures=("gradients",),
    ),
    Claim(
        "M32",
        "A weak generator is too easy, one as large as the discriminator too hard.",
        "average score with a generator of a quarter of the width, against both",
        "points",
        decide_generators,
    ),
    Claim(
        "M32",
        "With a generator as large as the discriminator training takes almost twice the compute.",
        "FLOPs of training per token, over a masked model's, counted",
        "ratio",
        decide_doubling,
    ),
    Claim(
        "M33",
        "Words of a kind lie further apart from others than in BERT or GPT.",
        "silhouette of parts of speech, at the layer where it is highest",
        "silhouette",
        differ("geometry.part_of_speech_silhouette", Evidence.highest, MLM, CAUSAL),
        measures=("geometry",),
    ),
    Claim(
        "M33",
        "Parts of speech can be read off more easily than in BERT or GPT.",
        "linear probe, at the layer where it is highest",
        "accuracy",
        differ("geometry.part_of_speech_probe", Evidence.highest, MLM, CAUSAL),
        measures=("geometry",),
    ),
    Claim(
        "M34",
        "Analogies are kept, better than by BERT.",
        "analogies in the table of embeddings that the step from a to b finds, beyond those without it",
        "share",
        decide_analogies,
        measures=("analogies",),
    ),
    Claim(
        "M35",
        "Words take up their context more smoothly than in BERT or GPT, layer by layer.",
        "smoothness of self-similarity over layers",
        "smoothness",
        differ("contextuality.smoothness", Evidence.last, MLM, CAUSAL),
        measures=("contextuality",),
    ),
    Claim(
        "M36",
        "A token's state is the same where the row is moved, more so than in BERT.",
        "cosine of a token's last state with itself after rotation of the row, beyond that of other tokens",
        "share",
        decide_invariance,
        measures=("invariance",),
    ),
    Claim(
        "M37",
        "Changes of a sentence are linear maps of its representation, more so than in BERT.",
        "error of the best linear map on pairs it has not seen, mean over changes, at the best layer",
        "error",
        decide_equivariance,
        measures=("equivariance",),
    ),
    Claim(
        "M38",
        "Verdicts take far context into account, more than the guesses of BERT.",
        "how much of what the row adds comes from beyond 16 tokens",
        "share of gain",
        decide_context_length,
        measures=("context_length",),
    ),
    Claim("M39", "BERT costs 0.15 n d².", "FLOPs of training per token, counted", "MFLOPs", decide_flops),
    Claim(
        "M40",
        "Scaling is more favourable: the score rises faster with size and data.",
        "BLiMP over ln tokens (beta of the law), runs of their own budget at three sizes",
        "points/e-fold",
        decide_scaling,
    ),
    Claim(
        "M41",
        "A quarter of the compute is enough for the quality of RoBERTa and XLNet.",
        "BLiMP of runs with a quarter of the compute, against a masked and a permutation model with all of it",
        "points",
        decide_quarter,
    ),
    Claim(
        "M42",
        "Fewer bits and pruned parts are faster at little loss.",
        "loss of the variants that are half as fast again",
        "points",
        decide_compression,
    ),
    Claim(
        "M43",
        "The representation is of lower complexity.",
        "local Rademacher complexity of linear classes on the last states",
        "complexity",
        differ("complexity.rademacher_local", Evidence.last, MLM, is_less=True),
        measures=("complexity",),
    ),
    Claim(
        "M44",
        "Pre-training brings other domains nearer, more so than that of BERT.",
        "W₂ to other domains before training - after it, mean over domains",
        "spread",
        decide_distance,
        measures=("transfer",),
    ),
    Claim(
        "M44",
        "What is lost in another domain grows with its distance.",
        "rank correlation of W₂ with what AUC (or loss) is lost, over domains",
        "rho",
        decide_transfer,
        measures=("transfer",),
    ),
    Claim(
        "M45",
        "The smaller the model, the larger the gain over MLM.",
        "slope of the gain over ln parameters, three sizes",
        "points/e-fold",
        decide_sizes,
    ),
    Claim(
        "M46",
        "Replacements are plausible, keep the structure and get harder.",
        "bits over frequencies, part of speech kept, AUC lost by one judge since the first snapshot",
        "share kept",
        decide_replacements,
        measures=("information", "replacements"),
    ),
    Claim(
        "M47",
        "Tuned models are more robust to noise.",
        "share of the score above chance that is retained, damage of three kinds",
        "share retained",
        decide_robustness,
        measures=("robustness",),
        is_about_tuned=True,
    ),
)


def select_claims(only: Sequence[str]) -> list[Claim]:
    """In the order of the table; none means all."""
    chosen = {name.upper() for name in only}
    unknown = sorted(chosen - {claim.number for claim in CLAIMS})
    if unknown:
        raise UsageError(f"--only: no claim {unknown[0]!r}; they are {CLAIMS[0].number} to {CLAIMS[-1].number}")
    return [claim for claim in CLAIMS if not chosen or claim.number in chosen]


def required_measures(claims: Sequence[Claim], *, of_tuned: bool = False) -> list[str]:
    """The ids of what an analysis of the models, or of fine-tuned ones, has to measure for these claims."""
    return list(dict.fromkeys(id for claim in claims if claim.is_about_tuned == of_tuned for id in claim.measures))
