"""How much a word's state depends on where it stands, layer by layer (Ethayarajh 2019).

vectors of occurrences, their words and sentences -> Contextuality
vectors of occurrences, their words and senses -> share told by context
"""

from dataclasses import dataclass

import numpy as np

from electralab.analysis.finding import (
    TIMES,
    Contrast,
    Estimate,
    Floats,
    Labels,
    Places,
    Vectors,
    bootstrap_estimate,
    require,
    require_finite,
    shuffle_estimate,
    summarise,
)
from electralab.analysis.geometry import anisotropy, mean_cosine, normalise

# A word seen less often says little of what contexts do to it.
LEAST_CONTEXTS = 5
_BASELINE_DRAWS = 20


@dataclass(frozen=True, slots=True)
class Contextuality:
    """Of one layer. Each measure stands beside what any vectors of this layer give; less that, it is corrected."""

    self_similarity: Contrast
    """The mean cosine of a word's occurrences: 1 for a word that is the same everywhere. Control: the anisotropy."""
    self_similarity_corrected: Estimate
    intra_sentence: Contrast
    """The mean cosine of words with the mean of their sentence. Control: with sentences of words dealt at random."""
    intra_sentence_corrected: Estimate
    explainable: Contrast
    """How much of a word's occurrences its first singular direction holds. Control: of occurrences of any words."""
    explainable_corrected: Estimate
    anisotropy: float


def self_similarity(vectors: Vectors) -> float:
    """Of one word's occurrences (n, D)."""
    return mean_cosine(normalise(vectors), np.ones(len(vectors)))


def intra_sentence_similarity(vectors: Vectors) -> float:
    """Of one sentence's words (n, D)."""
    middle = normalise(np.mean(vectors, axis=0, keepdims=True, dtype=np.float64))[0]
    return float((normalise(vectors) @ middle).mean())


def maximum_explainable_variance(vectors: Vectors) -> float:
    """The first squared singular value over the sum of all, of one word's occurrences (n, D), not centred."""
    squares = np.linalg.svd(np.asarray(vectors, dtype=np.float64), compute_uv=False) ** 2
    whole = float(squares.sum())
    return float(squares[0]) / whole if whole else float("nan")


def split_by(labels: Labels, least: int) -> list[Places]:
    """The places of each label that has at least so many."""
    _, counts = np.unique(labels, return_counts=True)
    parts = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    return [part for part in parts if len(part) >= least]


def measure_contextuality(
    vectors: Vectors, words: Labels, sentences: Labels, rng: np.random.Generator, *, times: int = TIMES
) -> Contextuality:
    """Of occurrences (N, D) at one layer. Words are drawn again for what is said of words, sentences for sentences."""
    require_finite("contextuality", vectors)
    by_word, by_sentence = split_by(words, LEAST_CONTEXTS), split_by(sentences, 2)
    require("contextuality", len(by_word), 2, f"words with {LEAST_CONTEXTS} occurrences")
    require("contextuality", len(by_sentence), 2, "sentences of two words")
    cloud = np.asarray(vectors, dtype=np.float64)
    everywhere = anisotropy(cloud)
    alike = np.array([self_similarity(cloud[part]) for part in by_word])
    explained = np.array([maximum_explainable_variance(cloud[part]) for part in by_word])
    within = np.array([intra_sentence_similarity(cloud[part]) for part in by_sentence])

    def average(values: Floats) -> Estimate:
        return bootstrap_estimate(lambda places: float(np.nanmean(values[places])), len(values), times, rng)

    # Both depend on how many vectors there are, so the control has as many, of any words.
    dealt = [rng.permutation(len(cloud)) for _ in range(_BASELINE_DRAWS)]
    anyhow = np.array([[maximum_explainable_variance(cloud[deal[part]]) for part in by_word] for deal in dealt])
    mixed = np.array([[intra_sentence_similarity(cloud[deal[part]]) for part in by_sentence] for deal in dealt])
    any_words, any_sentences = anyhow.mean(axis=0), mixed.mean(axis=0)
    return Contextuality(
        Contrast(average(alike), Estimate(everywhere, everywhere, everywhere)),
        average(alike - everywhere),
        Contrast(average(within), average(any_sentences)),
        average(within - any_sentences),
        Contrast(average(explained), average(any_words)),
        average(explained - any_words),
        everywhere,
    )


def measure_senses(
    vectors: Vectors, words: Labels, senses: Labels, rng: np.random.Generator, *, times: int = TIMES
) -> Contrast:
    """How often the nearest other occurrence of a word has the same sense. Control: senses dealt anew within words.

    Of senses that occur twice at least. Words are drawn again, and every word counts once.
    """
    require_finite("senses", vectors)
    told = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *split_by(senses, 2)]))
    units = normalise(vectors[told])
    senses = senses[told]
    by_word = [part for part in split_by(words[told], 4) if len(np.unique(senses[part])) > 1]
    require("senses", len(by_word), 2, "words with two senses that occur twice")
    nearest = [part[_find_nearest(units[part])] for part in by_word]

    def score(given: Labels) -> Floats:
        return np.array([(given[part] == given[near]).mean() for part, near in zip(by_word, nearest, strict=True)])

    def deal() -> float:
        dealt = senses.copy()
        for part in by_word:
            dealt[part] = rng.permutation(dealt[part])
        return float(score(dealt).mean())

    shares = score(senses)
    estimate = bootstrap_estimate(lambda places: float(shares[places].mean()), len(shares), times, rng)
    return Contrast(estimate, summarise(deal() for _ in range(times)))


def _find_nearest(units: Floats) -> Places:
    """(n,) of each row the nearest other."""
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(cosines.argmax(axis=1), dtype=np.int64)


def trace_self_similarity(layers: list[Vectors], words: Labels) -> Floats:
    """(W, L) the corrected self-similarity of each word at each layer: the curves whose smoothness is asked."""
    by_word = split_by(words, LEAST_CONTEXTS)
    require("contextuality", len(by_word), 2, f"words with {LEAST_CONTEXTS} occurrences")
    columns = [
        [self_similarity(layer[part]) - everywhere for part in by_word]
        for layer, everywhere in ((layer, anisotropy(layer)) for layer in layers)
    ]
    return np.array(columns).T


def smoothness(curve: Floats) -> float:
    """1 - sum |second differences| / 2 sum |first differences|: 1 for a straight curve, 0 for a jump or a zigzag."""
    steps = np.diff(curve)
    travelled = float(np.abs(steps).sum())
    return 1 - float(np.abs(np.diff(steps)).sum()) / (2 * travelled) if travelled else 1.0


def measure_smoothness(curves: Floats, rng: np.random.Generator, *, times: int = TIMES) -> Contrast:
    """Of the mean over words of curves (W, L), words drawn again. Control: the layers in an order without meaning."""
    require("smoothness", curves.shape[1], 3, "layers")
    require("smoothness", len(curves), 2, "words")
    estimate = bootstrap_estimate(lambda places: smoothness(curves[places].mean(axis=0)), len(curves), times, rng)
    middle = curves.mean(axis=0)
    return Contrast(estimate, shuffle_estimate(lambda order: smoothness(middle[order]), len(middle), times, rng))
