"""Clouds whose shape was drawn by hand: balls, planes, islands."""

import numpy as np
import pytest
from little_analysis import draws
from scipy.spatial.distance import pdist

from electralab.analysis.finding import Resampler
from electralab.analysis.measures import geometry

RNG = np.random.default_rng


def test_anisotropy_is_the_mean_cosine_of_all_pairs() -> None:
    cloud = RNG(0).normal(0.3, 1, (12, 4))
    units = cloud / np.linalg.norm(cloud, axis=1, keepdims=True)
    slow = np.mean([units[i] @ units[j] for i in range(12) for j in range(12) if i != j])
    assert geometry.anisotropy(cloud) == pytest.approx(slow)


def test_a_ball_has_no_direction_and_a_needle_one() -> None:
    ball = geometry.measure_anisotropy(RNG(0).normal(size=(600, 16)), draws(1))
    assert ball.estimate.low < 0 < ball.estimate.high
    assert ball.control.value == pytest.approx(0, abs=0.01)
    needle = RNG(0).normal(size=(50, 16)) * 1e-6 + 1
    assert geometry.measure_anisotropy(needle, draws(1)).estimate.low == pytest.approx(1)


def test_gaussian_vectors_about_a_mean_have_the_anisotropy_of_theory() -> None:
    # In many dimensions cos = |m|^2 / (|m|^2 + D).
    cloud = RNG(0).normal(size=(400, 400)) + 0.5
    assert geometry.anisotropy(cloud) == pytest.approx(0.25 / 1.25, abs=0.01)


def test_an_isotropic_cloud_uses_all_its_axes() -> None:
    spectrum = geometry.compute_spectrum(RNG(0).normal(size=(20_000, 10)))
    assert geometry.effective_rank(spectrum) == pytest.approx(10, abs=0.05)
    assert geometry.participation_ratio(spectrum) == pytest.approx(10, abs=0.05)


def test_a_planted_plane_has_rank_two_and_its_control_all_axes() -> None:
    rng = RNG(0)
    plane = rng.normal(size=(2000, 2)) @ np.linalg.qr(rng.normal(size=(30, 2)))[0].T
    found = geometry.measure_dimension(plane, Resampler(rng))
    assert found.effective_rank.estimate.value == pytest.approx(2, abs=0.01)
    assert found.participation_ratio.estimate.value == pytest.approx(2, abs=0.02)
    assert found.effective_rank.estimate.low <= found.effective_rank.estimate.value
    assert found.effective_rank.control.value > 15
    assert found.axes_for_90 == 2
    assert found.spectrum[2:].max() < 1e-12


def test_fewer_rows_than_axes_have_the_same_spectrum_as_by_singular_values() -> None:
    few = RNG(0).normal(size=(5, 40))
    slow = np.linalg.svd(few - few.mean(axis=0), compute_uv=False) ** 2
    assert geometry.compute_spectrum(few) == pytest.approx(slow / slow.sum(), abs=1e-12)


def test_islands_lie_apart_and_their_shuffled_names_do_not() -> None:
    labels = np.repeat([0, 1, 2], 40)
    islands = np.eye(3)[labels] * 10 + RNG(0).normal(size=(120, 3)) * 0.1
    found = geometry.measure_silhouette(islands, labels, draws(1))
    assert found.estimate.low > 0.95
    assert found.control.high < 0.05
    mixed = geometry.measure_silhouette(RNG(0).normal(size=(120, 8)), labels, draws(1))
    assert mixed.estimate.value == pytest.approx(0, abs=0.05)


def test_words_of_one_spelling_are_one_word() -> None:
    spellings, distinct = geometry.number_spellings(["Saw", "saw", "saw", "cat"], np.array([0, 0, 1, 0]))
    assert spellings.tolist() == [1, 1, 1, 0]
    assert sorted(distinct.tolist()) == [0, 2, 3], "the noun once, the verb, the cat"


def test_a_probe_finds_a_straight_cut_and_its_shuffle_does_not() -> None:
    rng = RNG(0)
    cloud = rng.normal(size=(400, 6))
    found = geometry.measure_probe(cloud, (cloud[:, 0] > 0).astype(int), Resampler(rng), groups=np.arange(400) // 4)
    assert found.estimate.value > 0.93
    assert found.control.low < 0.5 + 0.15
    assert found.control.high < found.estimate.low


def test_a_word_counts_once_however_often_it_stands_there() -> None:
    # 60 words that a plane tells apart, and one, seen 500 times, on the wrong side of it.
    rng = RNG(0)
    kinds = np.append(np.arange(60) % 2, np.zeros(500, dtype=int))
    cloud = rng.normal(size=(560, 1)) * 0.1
    cloud[:60, 0] += kinds[:60] * 4 - 2
    cloud[60:, 0] += 2
    words = np.append(np.arange(60), np.full(500, 60))
    assert not geometry.split_groups(words, draws(1))[60:].any(), "the word is one of those asked about"
    found = geometry.measure_probe(cloud, kinds, draws(1), groups=words)
    assert found.estimate.value == pytest.approx(29 / 30)


def test_principal_coordinates_keep_the_distances_of_a_plane() -> None:
    rng = RNG(0)
    flat = rng.normal(size=(20, 2))
    lifted = flat @ np.linalg.qr(rng.normal(size=(9, 2)))[0].T
    found = geometry.project_pca(lifted)
    assert pdist(found) == pytest.approx(pdist(flat), abs=1e-9)
    assert geometry.project_pca(-lifted)[np.abs(found[:, 0]).argmax(), 0] > 0
    assert geometry.project_pca(flat, 3)[:, 2].tolist() == [0.0] * 20


@pytest.mark.parametrize("dimensions", [2, 3])
def test_neighbours_stay_together_and_the_same_seed_draws_the_same(dimensions: int) -> None:
    labels = np.repeat([0, 1], 20)
    cloud = np.eye(8)[labels] * 50 + RNG(0).normal(size=(40, 8))
    found = geometry.project_tsne(cloud, 3, dimensions)
    assert found.shape == (40, dimensions)
    apart = np.linalg.norm(found[:, None] - found[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (labels[apart.argmin(axis=1)] == labels).mean() >= 0.9
    assert (geometry.project_tsne(cloud, 3, dimensions) == found).all()
