"""M33: what shape the cloud of states has at each layer, and whether words of a kind lie together in it.

Specimen, rows, tagged sentences -> anisotropy, ranks, silhouettes, probes; pictures and points
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from electralab.analysis.drawing import Cloud, Drawing
from electralab.analysis.finding import Finding, Floats, Labels, Missing, Vectors, attempt
from electralab.analysis.geometry import (
    find_spectrum,
    lay_out_pca,
    lay_out_tsne,
    measure_anisotropy,
    measure_dimension,
    measure_probe,
    measure_silhouette,
)
from electralab.analysis.material import Material
from electralab.analysis.probe_sets import NO_TAG, OUTSIDE
from electralab.analysis.scatter import draw_clouds, draw_spectra
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.analysis.vectors import Words, embed_rows, embed_texts, embed_words
from electralab.errors import InputError
from electralab.evaluation.resampling import choose_some

CLAIM = "M33"
# Each draw takes the eigenvalues of a layer anew.
_RANK_TIMES = 40
_SHUFFLED = "labels shuffled"

Found = Finding | Missing | Drawing | Cloud


@dataclass(frozen=True, slots=True)
class Categories:
    """Words that have a category, and which."""

    what: str
    layers: list[Vectors]
    names: tuple[str, ...]
    numbers: Labels  # (N,) of the names
    texts: list[str]

    @property
    def spellings(self) -> Labels:
        """(N,) of each the number of its spelling: a word that a probe learned by heart must not be asked again."""
        return np.unique([text.lower() for text in self.texts], return_inverse=True)[1]

    @property
    def distinct(self) -> Labels:
        """Of words of one spelling and category the first: those are near each other whatever the category."""
        _, places = np.unique(np.stack([self.spellings, self.numbers]), axis=1, return_index=True)
        return np.asarray(places, dtype=np.int64)

    @property
    def things(self) -> str:
        return "texts" if self.what == "class" else "words"


def measure_geometry(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Found]:
    yield from attempt("anisotropy", CLAIM, partial(_tell_shape, specimen, material, settings))
    yield from _tell_words(specimen, material, settings)
    if material.classes:
        yield from attempt("class silhouette", CLAIM, partial(_tell_classes, specimen, material, settings))


def _tell_words(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Found]:
    try:
        words = embed_words(specimen, material.tagged.read_by(specimen), material)
    except InputError as error:
        for name in ("part of speech", "entity"):
            yield Missing(f"{name} silhouette", CLAIM, str(error))
            yield Missing(f"{name} probe", CLAIM, str(error))
        return
    for what, labels, absent in (("part of speech", words.tags, NO_TAG), ("entity", words.entities, OUTSIDE)):
        tell = partial(_tell_labels, specimen, words, labels, absent, what, settings)
        yield from attempt(f"{what} silhouette", CLAIM, tell)


def _tell_labels(
    specimen: Specimen, words: Words, labels: Sequence[str], absent: str, what: str, settings: AnalysisSettings
) -> Iterator[Found]:
    yield from _tell_categories(specimen, _select(words, labels, absent, what, settings), settings)


def _tell_classes(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Found]:
    texts = [one.text for one in material.classes]
    layers = embed_texts(specimen, texts, material)
    blank = [""] * len(texts)
    whole = Words(layers, texts, [one.label for one in material.classes], blank, np.arange(len(texts)))
    yield from _tell_labels(specimen, whole, whole.tags, NO_TAG, "class", settings)


def _tell_shape(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Found]:
    tokens = embed_rows(specimen, material, settings.vectors, is_spread=True)
    spectra: list[Floats] = []
    for layer, states in enumerate(tokens.layers):
        rng = settings.make_rng("shape", str(layer))
        material.conditions.check()
        found = measure_anisotropy(states, rng, groups=tokens.rows, times=settings.times)
        meaning = "mean cosine of pairs of tokens: 0 all directions alike, 1 a single one"
        yield found.tell("anisotropy", CLAIM, "cosine", meaning, "Gaussian noise of the same shape", layer=layer)
        shape = measure_dimension(states, rng, groups=tokens.rows, times=min(settings.times, _RANK_TIMES))
        meaning = "e to the entropy of the shares of variance along the principal axes"
        note = f"{len(states):,} tokens in {states.shape[1]} coordinates; {shape.axes_for_90} axes hold 90 % of it"
        control = "each coordinate shuffled over the tokens"
        yield shape.effective_rank.tell("effective rank", CLAIM, "axes", meaning, control, note, layer)
        spectra.append(find_spectrum(states))
    title = f"{specimen.name}: variance along the principal axes"
    meaning = "How much of the variance the first axes hold, by layer: a curve that rises at once is a narrow cloud."
    yield Drawing(CLAIM, title, "spectrum", meaning, draw_spectra(title, spectra))


def _tell_categories(specimen: Specimen, told: Categories, settings: AnalysisSettings) -> Iterator[Found]:
    what, distinct, spellings = told.what, told.distinct, told.spellings
    accuracies = []
    for layer, states in enumerate(told.layers):
        rng = settings.make_rng("silhouette", what, str(layer))
        apart = measure_silhouette(states[distinct], told.numbers[distinct], rng, times=settings.times)
        meaning = f"how much nearer {told.things} are to those of their own {what} than to the next: 1 apart, 0 mixed"
        note = f"{len(distinct)} different {told.things}"
        yield apart.tell(f"{what} silhouette", CLAIM, "silhouette", meaning, _SHUFFLED, note, layer)
        # The same halves at every layer, so that layers can be compared.
        rng = settings.make_rng("probe", what)
        probe = measure_probe(states, told.numbers, rng, groups=spellings, times=settings.times)
        meaning = f"accuracy of a linear probe of the {what}, taught on half of the {told.things}, on others"
        yield probe.tell(f"{what} probe", CLAIM, "accuracy", meaning, "taught " + _SHUFFLED, layer=layer)
        accuracies.append(probe.estimate.value)
    # Where layers do equally well, the deepest.
    best = len(accuracies) - 1 - int(np.argmax(accuracies[::-1]))
    yield from _draw_categories(specimen, told, best, settings)


def _select(words: Words, labels: Sequence[str], absent: str, what: str, settings: AnalysisSettings) -> Categories:
    kept = np.array([place for place, label in enumerate(labels) if label != absent], dtype=np.int64)
    if not len(kept):
        raise InputError(f"{what}: the tagged sentences tell none; give --tagged with a column for it")
    kept = kept[choose_some(len(kept), settings.vectors, settings.seed)]
    names, numbers = np.unique([labels[place] for place in kept], return_inverse=True)
    return Categories(
        what,
        [states[kept] for states in words.layers],
        tuple(map(str, names)),
        numbers,
        [words.texts[place] for place in kept],
    )


def _draw_categories(
    specimen: Specimen, told: Categories, layer: int, settings: AnalysisSettings
) -> Iterator[Drawing | Cloud]:
    shown = choose_some(len(told.numbers), settings.points, settings.seed)
    states = told.layers[layer][shown]
    categories = [told.names[number] for number in told.numbers[shown]]
    texts = tuple(told.texts[place] for place in shown)
    title = f"{specimen.name}: {told.things} by {told.what}, layer {layer}"
    views = {"PCA": lay_out_pca(states), "t-SNE": lay_out_tsne(states, settings.seed)}
    meaning = (
        f"Each dot is one of the {told.things} at layer {layer}, whose probe does best. PCA keeps distances "
        "along two axes; t-SNE keeps neighbours, and its distances between groups mean nothing."
    )
    name = told.what.replace(" ", "-")
    yield Drawing(CLAIM, title, name, meaning, draw_clouds(title, views, categories))
    for view, points in (("PCA", lay_out_pca(states, 3)), ("t-SNE", lay_out_tsne(states, settings.seed, 3))):
        yield Cloud(CLAIM, f"{title}, {view}", meaning, points, tuple(categories), texts)
