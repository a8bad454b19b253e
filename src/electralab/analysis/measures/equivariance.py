"""M37: whether a change of the sentence (voice, tense, number, polarity, mood) is a linear map of its vector.

Specimen, pairs -> error and retrieval of T', beside leaving the vector as it is
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from electralab.analysis.equivariance import measure_equivariance as measure_pairs
from electralab.analysis.finding import Contrast, Finding, Labels, Missing, attempt
from electralab.analysis.material import Material
from electralab.analysis.probe_sets import SentencePair
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.vectors import embed_texts
from electralab.errors import InputError

CLAIM = "M37"
_SHUFFLED = "T' taught with the pairs shuffled"
_MOST = 8
"""Pairs that a rare word may stand in; of many pairs, a twentieth."""


def measure_equivariance(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    try:
        kinds = material.pairs.read_by(specimen)
    except InputError as error:
        yield Missing("equivariance", CLAIM, str(error))
        return
    for kind, pairs in kinds.items():
        yield from attempt(f"{kind} error", CLAIM, partial(_tell, specimen, material, settings, kind, pairs))


def _tell(
    specimen: Specimen, material: Material, settings: AnalysisSettings, kind: str, pairs: Sequence[SentencePair]
) -> Iterator[Finding]:
    texts = [pair.source for pair in pairs] + [pair.target for pair in pairs]
    groups = group_pairs(pairs)
    for layer, states in enumerate(embed_texts(specimen, texts, material)):
        material.conditions.check()
        before, after = np.split(states, 2)
        # The same halves at every layer, so that layers can be compared.
        rng = settings.make_rng("equivariance", kind)
        found = measure_pairs(before, after, rng, groups=groups, times=settings.times)
        meaning = "|h(Tx) - T'h(x)| / |h(Tx) - mean| on pairs of other words: 0 exact, 1 no better than the mean"
        note = f"{len(pairs)} pairs in {len(np.unique(groups))} groups"
        yield found.error.tell(f"{kind} error", CLAIM, "error", meaning, _SHUFFLED, note, layer)
        kept = Contrast(found.retrieval.estimate, found.unchanged_retrieval)
        meaning = "share of T'h(x) that are nearest to their own changed sentence"
        control = "h(x) as it is: the two share their words"
        yield kept.tell(f"{kind} retrieval", CLAIM, "share", meaning, control, layer=layer)


def group_pairs(pairs: Sequence[SentencePair]) -> Labels:
    """By the longest rare word that the change brings, or else that stays: what T' learned must not be asked again.

    Words of many pairs ("was", "not") tell none apart: one group would be half of all.
    """
    words = [(_split(pair.source), _split(pair.target)) for pair in pairs]
    counts = Counter(word for before, after in words for word in before | after)
    most = max(_MOST, len(pairs) // 20)

    def choose(before: set[str], after: set[str]) -> str:
        for candidates in (after - before, after & before, before):
            if rare := sorted(word for word in candidates if counts[word] <= most):
                return max(rare, key=len)
        return " ".join(sorted(after))

    return np.unique([choose(*pair) for pair in words], return_inverse=True)[1]


def _split(text: str) -> set[str]:
    return {word.strip(".,?!").lower() for word in text.split()}
