"""How much of the damage that was planted in a text does proofreading find?

text -> planted -> ProofreadScores, for each kind of damage
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from electralab.corpus.damage import DAMAGE_KINDS, Damage, DamageKind, count_words, damage_text
from electralab.errors import InputError
from electralab.objective.verdicts import Verdicts
from electralab.serving.proofreader import Proofreader, Word

_LEAST = 20


@dataclass(frozen=True, slots=True)
class ProofreadScores:
    """Scores over words: what was damaged, and what was called wrong at the threshold."""

    words: int
    damaged: int
    precision: float
    recall: float
    auc: float
    precision_at_damaged: float
    """Of as many words as were damaged, the most suspicious: how many of them were."""
    corrected: float
    """Of the damaged words that were found: how often the first suggestion is the original."""
    among_suggestions: float
    """Likewise, how often any of them is."""


def score_proofreading(
    proofreader: Proofreader, texts: Sequence[str], *, share: float, seed: int
) -> dict[DamageKind, ProofreadScores]:
    """Each kind by itself, planted in about this share of the words."""
    return {kind: _score_kind(proofreader, texts, kind, share, seed) for kind in DAMAGE_KINDS}


def _score_kind(
    proofreader: Proofreader, texts: Sequence[str], kind: DamageKind, share: float, seed: int
) -> ProofreadScores:
    rng = Random(f"{seed} {kind}")
    suspicions: list[float] = []
    is_damaged: list[bool] = []
    first = among = found = 0
    documents = [damage_text(text, kind, share, rng) for text in texts]
    _require_enough(sum(len(planted.damages) for planted in documents), texts, kind, share)
    for planted in documents:
        words = proofreader.judge(planted.text)
        owners = [match_corruption(word, planted.damages) for word in words]
        suspicions += [word.suspicion for word in words]
        is_damaged += [damage is not None for damage in owners]
        hits = [
            (word, damage)
            for word, damage in zip(words, owners, strict=True)
            if damage is not None and word.suspicion > proofreader.config.threshold
        ]
        suggested = proofreader.suggest(planted.text, [word for word, _ in hits])
        for (_, damage), suggestions in zip(hits, suggested, strict=True):
            proposed = [suggestion.text.casefold() for suggestion in suggestions]
            found += 1
            first += proposed[:1] == [damage.original.casefold()]
            among += damage.original.casefold() in proposed
    _require_enough(sum(is_damaged), texts, kind, share)
    # Above 0 where a word is called wrong.
    said = Verdicts(np.array(suspicions, dtype=np.float32) - proofreader.config.threshold, np.array(is_damaged))
    worst = np.argsort(-said.logits, kind="stable")[: sum(is_damaged)]
    return ProofreadScores(
        words=len(suspicions),
        damaged=sum(is_damaged),
        precision=said.precision,
        recall=said.recall,
        auc=said.auc,
        precision_at_damaged=float(said.is_replaced[worst].mean()),
        corrected=first / max(found, 1),
        among_suggestions=among / max(found, 1),
    )


def _require_enough(damaged: int, texts: Sequence[str], kind: DamageKind, share: float) -> None:
    if damaged >= _LEAST:
        return
    words = sum(map(count_words, texts))
    # Luck decides how many are damaged: half as much again is nearly always enough.
    needed = 1.5 * _LEAST * max(words / damaged if damaged else 0, 1 / share)
    raise InputError(
        f"--measure: {words:,} words have room for {damaged} damaged ones only ({kind}, {share:.0%} of the words), and "
        f"{_LEAST} are needed; give about {math.ceil(needed / 100) * 100:,} words"
    )


def match_corruption(word: Word, damages: Sequence[Damage]) -> Damage | None:
    """The damage, of those in the order of the text, that the word has a part in."""
    place = bisect_right(damages, word.start, key=lambda damage: damage.end)
    return damages[place] if place < len(damages) and damages[place].start < word.end else None
