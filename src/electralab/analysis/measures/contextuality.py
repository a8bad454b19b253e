"""M35: how much a token's state depends on where it stands, layer by layer, and how smoothly that comes.

Specimen, rows -> self-similarity, intra-sentence similarity, explainable variance, smoothness
Specimen, sentences with senses -> share of senses told
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from electralab.analysis.contextuality import measure_contextuality as measure_layer
from electralab.analysis.contextuality import measure_senses, measure_smoothness, trace_self_similarity
from electralab.analysis.finding import Finding, Labels, Missing, attempt
from electralab.analysis.material import Material
from electralab.analysis.probe_sets import NO_TAG, OUTSIDE, TaggedSentence
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.vectors import Tokens, embed_rows, embed_words

CLAIM = "M35"
_ENDS = frozenset(".!?。！？…")
# Words must recur for their contexts to be compared.
_TOKENS_PER_VECTOR = 4


def measure_contextuality(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    yield from attempt("self-similarity", CLAIM, partial(_tell, specimen, material, settings))
    yield from attempt("senses told", CLAIM, partial(_tell_senses, specimen, material, settings))


def _tell(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    tokens = embed_rows(specimen, material, _TOKENS_PER_VECTOR * settings.vectors, is_spread=False)
    sentences = number_sentences(specimen, tokens)
    for layer, states in enumerate(tokens.layers):
        material.conditions.check()
        rng = settings.make_rng("contextuality", str(layer))
        found = measure_layer(states, tokens.ids, sentences, rng, times=settings.times)
        meaning = "mean cosine of a token's occurrences: 1 where context changes nothing"
        control = "the mean cosine of any two tokens (anisotropy)"
        yield found.self_similarity.tell("self-similarity", CLAIM, "cosine", meaning, control, layer=layer)
        meaning = "mean cosine of tokens with the mean of their sentence"
        control = "with the mean of as many tokens dealt at random"
        yield found.intra_sentence.tell("intra-sentence similarity", CLAIM, "cosine", meaning, control, layer=layer)
        meaning = (
            "variance of a token's occurrences along their first direction: 1 where one vector could stand for all"
        )
        control = "of as many occurrences of any tokens"
        yield found.explainable.tell("explainable variance", CLAIM, "share", meaning, control, layer=layer)
    yield from attempt("smoothness", CLAIM, partial(_tell_smoothness, tokens, settings))


def _tell_smoothness(tokens: Tokens, settings: AnalysisSettings) -> Iterator[Finding]:
    curves = trace_self_similarity(tokens.layers, tokens.ids)
    found = measure_smoothness(curves, settings.make_rng("smoothness"), times=settings.times)
    meaning = "of the curve of self-similarity less anisotropy over the layers: 1 straight, 0 a jump or a zigzag"
    yield found.tell("smoothness", CLAIM, "smoothness", meaning, "layers in an order without meaning")


def _tell_senses(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    told = material.senses.read_by(specimen)
    split = [one.split() for one in told]
    blank = [TaggedSentence(words, (NO_TAG,) * len(words), (OUTSIDE,) * len(words)) for words, _ in split]
    found = embed_words(specimen, blank, material)
    begins = np.searchsorted(found.sentences, np.arange(len(told)))
    places = begins + np.array([place for _, place in split])
    words = np.unique([one.word for one in told], return_inverse=True)[1]
    senses = np.unique([f"{one.word}\t{one.sense}" for one in told], return_inverse=True)[1]
    for layer, states in enumerate(found.layers):
        rng = settings.make_rng("senses", str(layer))
        shares = measure_senses(states[places], words, senses, rng, times=settings.times)
        meaning = "how often a word's nearest other occurrence has the same sense"
        control = "senses dealt anew among a word's occurrences"
        yield shares.tell("senses told", CLAIM, "share", meaning, control, f"{len(told)} sentences", layer)


def number_sentences(specimen: Specimen, tokens: Tokens) -> Labels:
    """A row's tokens up to each mark that ends a sentence; pieces of a row are no sentences where none is known."""
    tokenizer = specimen.tokenizer
    ends = [index for index in range(tokenizer.vocab_size) if tokenizer.decode_token(index) in _ENDS]
    is_end = np.isin(tokens.ids, ends)
    starts = np.concatenate([[True], (np.diff(tokens.rows) > 0) | is_end[:-1]])
    return np.asarray(np.cumsum(starts), dtype=np.int64)
