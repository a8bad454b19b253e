"""How much a token's state depends on where it stands, layer by layer, and how smoothly that comes (Ethayarajh 2019).

AnalysisModel, rows -> self-similarity, intra-sentence similarity, explainable variance, smoothness
AnalysisModel, sentences with senses -> share of occurrences whose nearest has the same sense
"""

from typing import NamedTuple

import numpy as np

from electralab.analysis import arrays
from electralab.analysis.arrays import FloatArray, Indices, IntArray, Matrix, label_ids, normalise
from electralab.analysis.finding import Controlled, Finding, Resampler, exact, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.measures.geometry import anisotropy
from electralab.analysis.outputs import TokenStates, embed_rows, embed_words
from electralab.analysis.probe_sets import NO_TAG, OUTSIDE, TaggedSentence
from electralab.statistics import Interval, null_interval

# A word seen less often says little of what contexts do to it.
LEAST_CONTEXTS = 5
_BASELINE_DRAWS = 20
_ENDS = frozenset(".!?。！？…")
# Words must recur for their contexts to be compared.
_TOKENS_PER_VECTOR = 4


def intra_sentence_similarity(vectors: Matrix) -> float:
    """The mean cosine of one sentence's words (n, D) with their mean."""
    middle = normalise(np.mean(vectors, axis=0, keepdims=True, dtype=np.float64))[0]
    return float((normalise(vectors) @ middle).mean())


def maximum_explainable_variance(vectors: Matrix) -> float:
    """The first squared singular value over the sum of all, of one word's occurrences (n, D), not centred.

    >>> maximum_explainable_variance(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]]))
    1.0
    """
    squares = np.linalg.svd(np.asarray(vectors, dtype=np.float64), compute_uv=False) ** 2
    whole = float(squares.sum())
    return float(squares[0]) / whole if whole else float("nan")


def split_by(labels: IntArray, least: int) -> list[Indices]:
    """The indices of each label that has at least so many."""
    _, counts = np.unique(labels, return_counts=True)
    parts = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
    return [part for part in parts if len(part) >= least]


class Contextuality(NamedTuple):
    """One layer. Each measure stands beside what any vectors of this layer give; less that, it is corrected."""

    self_similarity: Controlled
    """The mean cosine of a word's occurrences: 1 for a word that is the same everywhere. Control: the anisotropy."""
    self_similarity_corrected: Interval
    intra_sentence: Controlled
    """The mean cosine of words with the mean of their sentence. Control: with sentences of words dealt at random."""
    intra_sentence_corrected: Interval
    explainable: Controlled
    """How much of a word's occurrences its first singular direction holds. Control: of occurrences of any words."""
    explainable_corrected: Interval


def measure_contextuality(vectors: Matrix, words: IntArray, sentences: IntArray, draws: Resampler) -> Contextuality:
    """Of occurrences (N, D) at one layer. Words are drawn again for what is said of words, sentences for sentences."""
    by_word, by_sentence = split_by(words, LEAST_CONTEXTS), split_by(sentences, 2)
    arrays.require_count("contextuality", len(by_word), 2, f"words with {LEAST_CONTEXTS} occurrences")
    arrays.require_count("contextuality", len(by_sentence), 2, "sentences of two words", vectors)
    cloud = np.asarray(vectors, dtype=np.float64)
    everywhere = anisotropy(cloud)
    alike = np.array([anisotropy(cloud[part]) for part in by_word])
    explained = np.array([maximum_explainable_variance(cloud[part]) for part in by_word])
    within = np.array([intra_sentence_similarity(cloud[part]) for part in by_sentence])
    # Both depend on how many vectors there are, so the control has as many, of any words.
    dealt = [draws.rng.permutation(len(cloud)) for _ in range(_BASELINE_DRAWS)]
    anyhow = np.array([[maximum_explainable_variance(cloud[deal[part]]) for part in by_word] for deal in dealt])
    mixed = np.array([[intra_sentence_similarity(cloud[deal[part]]) for part in by_sentence] for deal in dealt])
    any_words, any_sentences = anyhow.mean(axis=0), mixed.mean(axis=0)

    def average(values: FloatArray) -> Interval:
        return draws.interval(lambda indices: float(np.nanmean(values[indices])), len(values))

    # The corrected ones draw from the same stream: without them, those after them would have other intervals.
    return Contextuality(
        Controlled(average(alike), exact(everywhere)),
        average(alike - everywhere),
        Controlled(average(within), average(any_sentences)),
        average(within - any_sentences),
        Controlled(average(explained), average(any_words)),
        average(explained - any_words),
    )


def measure_senses(vectors: Matrix, words: IntArray, senses: IntArray, draws: Resampler) -> Controlled:
    """How often the nearest other occurrence of a word has the same sense. Control: senses dealt anew within words.

    Of senses that occur twice at least. Words are drawn again, and every word counts once.
    """
    repeated = np.sort(np.concatenate([np.empty(0, dtype=np.int64), *split_by(senses, 2)]))
    units, senses = normalise(vectors[repeated]), senses[repeated]
    by_word = [part for part in split_by(words[repeated], 4) if len(np.unique(senses[part])) > 1]
    arrays.require_count("senses", len(by_word), 2, "words with two senses that occur twice", vectors)
    # Only among occurrences of the same word: another word's would tell words apart, not senses.
    nearest = []
    for part in by_word:
        cosines = units[part] @ units[part].T
        np.fill_diagonal(cosines, -np.inf)
        nearest.append(part[cosines.argmax(axis=1)])

    def score(given: IntArray) -> FloatArray:
        return np.array([(given[part] == given[near]).mean() for part, near in zip(by_word, nearest, strict=True)])

    def deal() -> float:
        dealt = senses.copy()
        for part in by_word:
            dealt[part] = draws.rng.permutation(dealt[part])
        return float(score(dealt).mean())

    estimate = draws.mean(score(senses))
    return Controlled(estimate, null_interval(deal() for _ in range(draws.num_resamples)))


def smoothness(curve: FloatArray) -> float:
    """1 - sum |second differences| / 2 sum |first differences|: 1 for a straight curve, 0 for a jump or a zigzag.

    >>> smoothness(np.array([0.0, 0.5, 1.0])), smoothness(np.array([0.0, 1.0, 0.0]))
    (1.0, 0.5)
    """
    steps = np.diff(curve)
    travelled = float(np.abs(steps).sum())
    return 1 - float(np.abs(np.diff(steps)).sum()) / (2 * travelled) if travelled else 1.0


def measure_smoothness(layers: list[Matrix], words: IntArray, draws: Resampler) -> Controlled:
    """Of the mean over words of the curve of their self-similarity less the anisotropy, layer by layer.

    Words are drawn again. Control: the layers in an order without meaning.
    """
    by_word = split_by(words, LEAST_CONTEXTS)
    arrays.require_count("contextuality", len(by_word), 2, f"words with {LEAST_CONTEXTS} occurrences")
    arrays.require_count("smoothness", len(layers), 3, "layers")
    columns = []
    for layer in layers:
        everywhere = anisotropy(layer)
        columns.append([anisotropy(layer[part]) - everywhere for part in by_word])
    curves = np.array(columns).T  # (W, L)
    estimate = draws.interval(lambda indices: smoothness(curves[indices].mean(axis=0)), len(curves))
    middle = curves.mean(axis=0)
    return Controlled(estimate, draws.shuffled(lambda order: smoothness(middle[order]), len(middle)))


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """How much does a state depend on its context, and how smoothly does that come?"""
    settings = data.settings
    with skip_on_error("self_similarity", "self-similarity") as skipped:
        tokens = embed_rows(model, data, _TOKENS_PER_VECTOR * settings.vectors, is_spread=False)
        sentences = number_sentences(model, tokens)
        for layer, states in enumerate(tokens.layers):
            data.conditions.check()
            draws = settings.resampler("contextuality", str(layer))
            result = measure_contextuality(states, tokens.ids, sentences, draws)
            id, name = "self_similarity", "self-similarity"
            meaning = "mean cosine of a token's occurrences: 1 where context changes nothing"
            control = "the mean cosine of any two tokens (anisotropy)"
            yield Finding(id, name, "cosine", meaning, *result.self_similarity, control, layer=layer)
            id, name = "intra_sentence_similarity", "intra-sentence similarity"
            meaning = "mean cosine of tokens with the mean of their sentence"
            control = "with the mean of as many tokens dealt at random"
            yield Finding(id, name, "cosine", meaning, *result.intra_sentence, control, layer=layer)
            id, name = "explainable_variance", "explainable variance"
            meaning = (
                "variance of a token's occurrences along their first direction: 1 where one vector could stand for all"
            )
            control = "of as many occurrences of any tokens"
            yield Finding(id, name, "share", meaning, *result.explainable, control, layer=layer)
        with skip_on_error("smoothness", "smoothness") as rough:
            smooth = measure_smoothness(tokens.layers, tokens.ids, settings.resampler("smoothness"))
            meaning = (
                "of the curve of self-similarity less anisotropy over the layers: 1 straight, 0 a jump or a zigzag"
            )
            control = "layers in an order without meaning"
            yield Finding("smoothness", "smoothness", "smoothness", meaning, *smooth, control)
        yield from rough
    yield from skipped
    with skip_on_error("senses", "senses told") as skipped:
        items = data.senses.read_by(model)
        split = [item.split() for item in items]
        # Embedded as tagged sentences are, without tags: each word has one state.
        untagged = [TaggedSentence(words, (NO_TAG,) * len(words), (OUTSIDE,) * len(words)) for words, _ in split]
        embedded = embed_words(model, untagged, data)
        indices = np.searchsorted(embedded.sentences, np.arange(len(items))) + np.array([index for _, index in split])
        words = label_ids([item.word for item in items])
        senses = label_ids([f"{item.word}\t{item.sense}" for item in items])
        meaning = "how often a word's nearest other occurrence has the same sense"
        control, note = "senses dealt anew among a word's occurrences", f"{len(items)} sentences"
        for layer, vectors in enumerate(embedded.layers):
            shares = measure_senses(vectors[indices], words, senses, settings.resampler("senses", str(layer)))
            yield Finding("senses", "senses told", "share", meaning, *shares, control, note, layer)
    yield from skipped


def number_sentences(model: AnalysisModel, tokens: TokenStates) -> IntArray:
    """A row's tokens up to each mark that ends a sentence; pieces of a row are no sentences where none is known."""
    tokenizer = model.tokenizer
    ends = [index for index in range(tokenizer.vocab_size) if tokenizer.decode_token(index) in _ENDS]
    is_end = np.isin(tokens.ids, ends)
    starts = np.concatenate([[True], (np.diff(tokens.rows) > 0) | is_end[:-1]])
    return np.asarray(np.cumsum(starts), dtype=np.int64)


MEASURE = Measure("M35", "contextualisation", measure)
