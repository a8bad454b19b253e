"""M34: whether a is to b as c is to d, in the table of embeddings and in the states of every layer.

Specimen, analogies -> shares of answers found
"""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from electralab.analysis.analogies import measure_analogies as measure_answers
from electralab.analysis.finding import Finding, Floats, Labels, Missing, Places, Vectors, attempt
from electralab.analysis.material import Material
from electralab.analysis.probe_sets import Analogy
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.vectors import finish, list_layers
from electralab.errors import InputError
from electralab.evaluation.states import take_tokens

CLAIM = "M34"
_DEALT = "vectors dealt to other words"


def measure_analogies(
    specimen: Specimen, material: Material, settings: AnalysisSettings
) -> Iterator[Finding | Missing]:
    yield from attempt("analogies, table", CLAIM, partial(_tell_table, specimen, material, settings))
    yield from attempt("analogies, states", CLAIM, partial(_tell_states, specimen, material, settings))


def _tell_table(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    words, pieces, asked, families = _read(specimen, material)
    weights = specimen.encoder.embeddings.tokens.weight.detach().float().cpu().numpy()
    vectors = np.stack([weights[ids].mean(axis=0) for ids in pieces])
    note = f"{len(asked)} analogies of {len(words)} words, which are the answers to choose from"
    yield from _tell(vectors, asked, families, settings, "table", "in the table of embeddings", note)


def _tell_states(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding]:
    words, pieces, asked, families = _read(specimen, material)
    note = f"{len(asked)} analogies of {len(words)} words, each read by itself"
    for layer, vectors in enumerate(_embed(specimen, pieces, material)):
        yield from _tell(vectors, asked, families, settings, "states", "by the states of each layer", note, layer)


def _tell(
    vectors: Vectors,
    asked: Labels,
    families: Labels,
    settings: AnalysisSettings,
    space: str,
    where: str,
    note: str,
    layer: int | None = None,
) -> Iterator[Finding]:
    rng = settings.make_rng("analogies", space, str(layer))
    found = measure_answers(vectors, asked, rng, groups=families, times=settings.times)
    meaning = f"share of analogies whose answer is nearest to b - a + c {where}"
    yield found.tell(f"analogies, {space}", CLAIM, "share", meaning, _DEALT, note, layer)
    plain = measure_answers(vectors, asked, rng, groups=families, with_step=False, times=settings.times)
    meaning = f"share whose answer is nearest to c alone {where}: found without any analogy"
    yield plain.tell(f"nearest to c, {space}", CLAIM, "share", meaning, _DEALT, layer=layer)


def _read(specimen: Specimen, material: Material) -> tuple[list[str], list[Places], Labels, Labels]:
    """Words with their pieces, analogies as numbers of words, their families; those with unknown words left out."""
    analogies = material.analogies.read_by(specimen)
    unknown = specimen.tokenizer.special.unk
    words = list(dict.fromkeys(word for one in analogies for word in (one.a, one.b, one.c, one.d)))
    pieces = dict(zip(words, specimen.tokenizer.encode_many(words), strict=True))
    known = [word for word in words if len(pieces[word]) and unknown not in pieces[word]]
    number_of = {word: number for number, word in enumerate(known)}
    kept = [one for one in analogies if all(word in number_of for word in _list(one))]
    kept = [one for one in kept if len(set(_list(one))) == 4]
    if not kept:
        raise InputError(f"{specimen.name}: its vocabulary knows no analogy whole; give others as --analogies FILE")
    asked = np.array([[number_of[word] for word in _list(one)] for one in kept])
    _, families = np.unique([one.family for one in kept], return_inverse=True)
    return known, [pieces[word] for word in known], asked, families


def _list(analogy: Analogy) -> tuple[str, str, str, str]:
    return analogy.a, analogy.b, analogy.c, analogy.d


def _embed(specimen: Specimen, pieces: Sequence[Places], material: Material) -> Iterator[Floats]:
    """The mean of a word's states where nothing else stands in the row."""
    special = specimen.tokenizer.special
    rows = [np.concatenate([[special.cls], ids, [special.sep]]).astype(np.int64) for ids in pieces]
    columns = [np.arange(1, len(row) - 1) for row in rows]
    layers = finish(take_tokens(specimen.frozen, rows, columns, material.conditions, "words"))
    starts = np.cumsum([0, *map(len, columns)])[:-1]
    for states in list_layers(specimen, layers):
        sums = np.add.reduceat(states.astype(np.float64), starts, axis=0)
        yield sums / np.array([len(one) for one in columns])[:, None]
