"""What shape the cloud of states has at each layer: how narrow, how many directions, whether words of a kind lie apart.

AnalysisModel, rows, tagged sentences -> anisotropy, ranks, silhouettes, probes; pictures and points
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from electralab.analysis import arrays
from electralab.analysis.arrays import BoolArray, FloatArray, IntArray, Matrix, label_ids, normalise
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import embed_rows, embed_texts, embed_words
from electralab.analysis.probe_sets import NO_TAG, OUTSIDE
from electralab.errors import InputError
from electralab.reporting.plots import LineFigure, Projection, ScatterFigure
from electralab.statistics import Interval, null_interval, subsample

_SHUFFLES = 20
_PERPLEXITY = 30.0
# Each draw takes the eigenvalues of a layer anew.
_RANK_RESAMPLES = 40
_AXES_SHOWN = 64
_SHUFFLED = "labels shuffled"


def mean_cosine(units: FloatArray, counts: FloatArray | IntArray) -> float:
    """Over all pairs of different rows, each row as often as its count: never of a row with a copy of itself."""
    whole = counts @ units
    # |sum of units|^2 holds every pair twice and every row with itself once: no need for all pairs.
    pairs = counts.sum() ** 2 - (counts**2).sum()
    return float((whole @ whole - (counts**2) @ (units**2).sum(axis=1)) / pairs) if pairs else float("nan")


def anisotropy(vectors: Matrix) -> float:
    """The mean cosine of pairs of different rows: 0 for directions without preference, 1 for a single one.

    >>> anisotropy(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    0.3333333333333333
    """
    return mean_cosine(normalise(vectors), np.ones(len(vectors)))


def measure_anisotropy(vectors: Matrix, draws: Resampler, *, groups: IntArray | None = None) -> Controlled:
    """Control: Gaussian noise of the same shape."""
    arrays.require_count("anisotropy", len(vectors), 3, "vectors", vectors)

    def estimate(cloud: Matrix, group_ids: IntArray | None) -> Interval:
        units, count = normalise(cloud), len(cloud)

        def cosine(indices: IntArray) -> float:
            return mean_cosine(units, np.bincount(indices, minlength=count))

        return draws.interval(cosine, count, group_ids)

    return Controlled(estimate(vectors, groups), estimate(draws.rng.normal(size=vectors.shape), None))


def compute_spectrum(vectors: Matrix) -> FloatArray:
    """The share of the variance along each principal axis, falling. (min(N, D),)"""
    centred = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    # The smaller of the two products has the same eigenvalues.
    product = centred.T @ centred if centred.shape[1] <= len(centred) else centred @ centred.T
    variances = np.clip(np.linalg.eigvalsh(product)[::-1], 0, None)
    total = variances.sum()
    return np.asarray(variances / total if total > 0 else variances, dtype=np.float64)


def participation_ratio(spectrum: FloatArray) -> float:
    """(sum of variances)^2 / sum of their squares: k for k equal directions."""
    squares = float((spectrum**2).sum())
    return float(spectrum.sum()) ** 2 / squares if squares else 0.0


def effective_rank(spectrum: FloatArray) -> float:
    """e to the entropy of the shares of variance: k for k equal directions.

    >>> round(effective_rank(np.array([0.5, 0.5, 0.0])), 6)
    2.0
    """
    shares = spectrum[spectrum > 0]
    return float(np.exp(-(shares * np.log(shares)).sum())) if len(shares) else 0.0


class Dimension(NamedTuple):
    spectrum: FloatArray
    effective_rank: Controlled
    participation_ratio: Controlled
    axes_for_90: int
    """How many principal axes hold 90 % of the variance."""


def measure_dimension(vectors: Matrix, draws: Resampler, *, groups: IntArray | None = None) -> Dimension:
    """Control: each coordinate shuffled over the rows, which keeps its values and unties it from the others."""
    arrays.require_count("effective rank", len(vectors), 3, "vectors", vectors)
    spectrum = compute_spectrum(vectors)
    # Repeated rows span less: hence centred.
    interval = draws.readings(lambda rows: compute_spectrum(vectors[rows]), len(vectors), groups, centred=True)
    untied = [compute_spectrum(draws.rng.permuted(vectors, axis=0)) for _ in range(_SHUFFLES)]
    rank, ratio = (
        Controlled(interval(summary), null_interval(map(summary, untied)))
        for summary in (effective_rank, participation_ratio)
    )
    axes = int(np.searchsorted(np.cumsum(spectrum), 0.9 * spectrum.sum() * (1 - 1e-12)) + 1)
    return Dimension(spectrum, rank, ratio, axes)


def measure_silhouette(vectors: Matrix, labels: IntArray, draws: Resampler) -> Controlled:
    """How much nearer rows are to their own category than to the next: 1 apart, 0 mixed, below 0 astray.

    By the cosine. Each row's value is of the whole cloud; the interval is of their mean. Control: labels shuffled.
    """
    from sklearn.metrics import pairwise_distances, silhouette_samples

    arrays.require_count("silhouette", len(np.unique(labels)), 2, "categories")
    arrays.require_count("silhouette", len(vectors), len(np.unique(labels)) + 1, "vectors", vectors)
    distances = pairwise_distances(np.asarray(vectors, dtype=np.float64), metric="cosine")
    # Rounding leaves a row a little away from itself, which the next call refuses.
    np.fill_diagonal(distances, 0)

    def silhouettes(order: IntArray) -> FloatArray:
        return np.asarray(silhouette_samples(distances, labels[order], metric="precomputed"))

    estimate = draws.mean(silhouettes(np.arange(len(labels))))
    return Controlled(estimate, draws.shuffled(lambda order: float(silhouettes(order).mean()), len(labels), _SHUFFLES))


def measure_probe(
    vectors: Matrix, labels: IntArray, draws: Resampler, *, groups: IntArray, strength: float = 0.1
) -> Controlled:
    """The accuracy of a linear probe taught on half of the groups, on the other half. Control: taught shuffled labels.

    Every group counts once, however many rows it has: a few words make up half of a text. The same probe as that of
    `electra evaluate --suite probe`, with its penalty given.
    """
    from electralab.evaluation.context import EvalContext
    from electralab.evaluation.probes import LinearProbe, ProbeConfig

    truth, group_ids = label_ids(labels), label_ids(groups)
    arrays.require_count("probe", int(group_ids.max(initial=-1)) + 1, 4, "examples", vectors)
    is_taught = split_groups(group_ids, draws)
    if len(np.unique(truth[is_taught])) < 2:
        raise InputError("probe: half of the examples have fewer than two categories; give more examples")
    probe = LinearProbe(("accuracy",), int(truth.max()) + 1, ProbeConfig(), EvalContext())
    cloud = np.asarray(vectors, dtype=np.float32)
    test_groups = label_ids(group_ids[~is_taught])

    def score(taught: IntArray) -> Interval:
        predict = probe.fit(cloud[is_taught], np.asarray(taught, dtype=np.int64), strength)
        is_right = predict(cloud[~is_taught]) == truth[~is_taught]
        return draws.mean(np.bincount(test_groups, is_right) / np.bincount(test_groups))

    return Controlled(score(truth[is_taught]), score(draws.rng.permutation(truth[is_taught])))


def split_groups(groups: IntArray, draws: Resampler) -> BoolArray:
    """True for the rows of half of the groups: no group is on both sides."""
    names = np.unique(groups)
    return np.isin(groups, draws.rng.permutation(names)[: (len(names) + 1) // 2])


def project_pca(vectors: Matrix, dimensions: int = 2) -> FloatArray:
    """(N, dimensions) coordinates along the first principal axes; zeros where there are fewer axes.

    An axis points where its largest coordinate is positive, so that a picture does not flip from machine to machine.
    """
    centred = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0, dtype=np.float64)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    points = left[:, :dimensions] * lengths[:dimensions]
    furthest = np.abs(points).argmax(axis=0)
    points = points * np.where(points[furthest, np.arange(points.shape[1])] < 0, -1.0, 1.0)
    return np.pad(points, ((0, 0), (0, dimensions - points.shape[1])))


def project_tsne(vectors: Matrix, seed: int, dimensions: int = 2) -> FloatArray:
    """(N, dimensions) coordinates that keep neighbours: distances between far groups mean nothing."""
    from sklearn.manifold import TSNE

    arrays.require_count("t-SNE", len(vectors), 5, "vectors", vectors)
    start = project_pca(vectors, dimensions)
    layout = TSNE(
        dimensions,
        perplexity=min(_PERPLEXITY, (len(vectors) - 1) / 3),
        init=(start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32),
        # The usual floor of 50 throws a few dozen points across each other.
        learning_rate=max(len(vectors) / 48, 10.0),
        random_state=seed,
        n_jobs=1,
    )
    return np.asarray(layout.fit_transform(np.asarray(vectors, dtype=np.float32)), dtype=np.float64)


def number_spellings(texts: Sequence[str], numbers: IntArray) -> tuple[IntArray, IntArray]:
    """(N,) the spelling of each word, and the first words of each spelling and category.

    A word that a probe learned by heart must not be asked again, and words of one spelling are near each other
    whatever the category.
    """
    spellings = label_ids([text.lower() for text in texts])
    _, distinct = np.unique(np.stack([spellings, numbers]), axis=1, return_index=True)
    return spellings, np.asarray(distinct, dtype=np.int64)


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """What shape has the cloud of states, and do parts of speech and entities lie apart in it?"""
    settings = data.settings
    with skip_on_error("anisotropy", "anisotropy") as skipped:
        tokens = embed_rows(model, data, settings.vectors, is_spread=True)
        curves: dict[str, FloatArray] = {}
        for layer, states in enumerate(tokens.layers):
            draws = settings.resampler("shape", str(layer))
            data.conditions.check()
            narrow = measure_anisotropy(states, draws, groups=tokens.rows)
            meaning = "mean cosine of pairs of tokens: 0 all directions alike, 1 a single one"
            control = "Gaussian noise of the same shape"
            yield Finding("anisotropy", "anisotropy", "cosine", meaning, *narrow, control, layer=layer)
            few = replace(draws, num_resamples=min(draws.num_resamples, _RANK_RESAMPLES))
            spectrum, rank, _, axes = measure_dimension(states, few, groups=tokens.rows)
            meaning = "e to the entropy of the shares of variance along the principal axes"
            note = f"{len(states):,} tokens in {states.shape[1]} coordinates; {axes} axes hold 90 % of it"
            control = "each coordinate shuffled over the tokens"
            yield Finding("effective_rank", "effective rank", "axes", meaning, *rank, control, note, layer)
            curves[f"layer {layer}"] = np.cumsum(spectrum)[:_AXES_SHOWN]
        yield LineFigure(
            f"{model.name}: variance along the principal axes",
            "spectrum",
            "How much of the variance the first axes hold, by layer: a curve that rises at once is a narrow cloud.",
            "share of the variance that the first axes hold",
            "principal axes",
            curves,
        )
    yield from skipped
    try:
        words = embed_words(model, data.tagged.read_by(model), data)
    except InputError as error:
        for id, name in (("part_of_speech", "part of speech"), ("entity", "entity")):
            yield Skipped(f"{id}_silhouette", f"{name} silhouette", str(error))
            yield Skipped(f"{id}_probe", f"{name} probe", str(error))
    else:
        for what, labels, absent in (("part of speech", words.tags, NO_TAG), ("entity", words.entities, OUTSIDE)):
            yield from _label_findings(model, data, what, words.layers, words.texts, labels, absent)
    if data.classes:
        with skip_on_error("class_silhouette", "class silhouette") as skipped:
            texts, labels = [item.text for item in data.classes], [item.label for item in data.classes]
            yield from _label_findings(model, data, "class", embed_texts(model, texts, data), texts, labels, NO_TAG)
        yield from skipped


def _label_findings(
    model: AnalysisModel,
    data: AnalysisData,
    what: str,
    layers: Sequence[Matrix],
    texts: Sequence[str],
    labels: Sequence[str],
    absent: str,
) -> Outputs:
    """Whether words or texts of one label lie apart, and can be told by a probe; their pictures at the best layer."""
    settings, id, things = data.settings, what.replace(" ", "_"), "texts" if what == "class" else "words"
    with skip_on_error(f"{id}_silhouette", f"{what} silhouette") as skipped:
        kept = np.array([index for index, label in enumerate(labels) if label != absent], dtype=np.int64)
        if not len(kept):
            raise InputError(f"{what}: the tagged sentences tell none; give --tagged with a column for it")
        kept = kept[subsample(len(kept), settings.vectors, settings.seed)]
        numbers = label_ids([labels[index] for index in kept])
        spellings, distinct = number_spellings([texts[index] for index in kept], numbers)
        accuracies = []
        for layer, cloud in enumerate(layers):
            states, draws = cloud[kept], settings.resampler("silhouette", what, str(layer))
            apart = measure_silhouette(states[distinct], numbers[distinct], draws)
            meaning = f"how much nearer {things} are to those of their own {what} than to the next: 1 apart, 0 mixed"
            name, note = f"{what} silhouette", f"{len(distinct)} different {things}"
            yield Finding(f"{id}_silhouette", name, "silhouette", meaning, *apart, _SHUFFLED, note, layer)
            # The same halves at every layer, so that layers can be compared.
            probe = measure_probe(states, numbers, settings.resampler("probe", what), groups=spellings)
            meaning = f"accuracy of a linear probe of the {what}, taught on half of the {things}, on others"
            name, control = f"{what} probe", f"taught {_SHUFFLED}"
            yield Finding(f"{id}_probe", name, "accuracy", meaning, *probe, control, layer=layer)
            accuracies.append(probe.estimate.value)
        # Where layers do equally well, the deepest is drawn.
        best = len(accuracies) - 1 - int(np.argmax(accuracies[::-1]))
        chosen = kept[subsample(len(kept), settings.points, settings.seed)]
        states, seed = layers[best][chosen], settings.seed
        categories = tuple(str(labels[index]) for index in chosen)
        title = f"{model.name}: {things} by {what}, layer {best}"
        meaning = (
            f"Each dot is one of the {things} at layer {best}, whose probe does best. PCA keeps distances "
            "along two axes; t-SNE keeps neighbours, and its distances between groups mean nothing."
        )
        views = {"PCA": project_pca(states), "t-SNE": project_tsne(states, seed)}
        yield ScatterFigure(title, what.replace(" ", "-"), meaning, views, categories)
        for view, points in {"PCA": project_pca(states, 3), "t-SNE": project_tsne(states, seed, 3)}.items():
            yield Projection(f"{title}, {view}", meaning, points, categories, tuple(texts[index] for index in chosen))
    yield from skipped


MEASURE = Measure("M33", "geometry", measure, answers=("geometry.part_of_speech_probe",))
