"""A measure is one file, found by being there; its example in a docstring is true, and the docs name it."""

import doctest
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from little_analysis import draws

from electralab.analysis import arrays, data, finding, measures
from electralab.analysis.claims.rules import list_claims
from electralab.analysis.measures import (
    Measure,
    context_length,
    contextuality,
    equivariance,
    geometry,
    gradients,
    heads,
    list_measures,
    replacements,
    scaling,
    transfer,
)
from electralab.errors import InputError

MEASURES = list(list_measures().values())
PAGE = (Path(__file__).parents[2] / "docs" / "analysis.md").read_text(encoding="utf-8")
each_measure = pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.id)


def test_every_file_of_the_folder_is_a_measure() -> None:
    files = {path.stem for path in Path(measures.__path__[0]).glob("*.py")} - {"__init__"}
    assert {measure.id for measure in MEASURES} == files
    assert len({measure.claim for measure in MEASURES}) == len(MEASURES)


@each_measure
def test_the_examples_of_a_measure_are_true(measure: Measure) -> None:
    results = doctest.testmod(import_module(f"electralab.analysis.measures.{measure.id}"))
    assert results.failed == 0
    assert results.attempted > 0, "show one estimator at work, on numbers that can be checked by eye"


@pytest.mark.parametrize("module", [arrays, data, finding], ids=lambda module: module.__name__)
def test_examples_are_true(module: object) -> None:
    results = doctest.testmod(module)  # type: ignore[arg-type]
    assert (results.failed, results.attempted > 0) == (0, True)


@each_measure
def test_the_page_of_measures_has_a_row_for_it(measure: Measure) -> None:
    assert f"\n| {measure.claim} |" in PAGE
    assert f"`{measure.id}`" in PAGE


def test_claims_name_measures_that_exist() -> None:
    ids = {measure.id for measure in MEASURES}
    assert {id for claim in list_claims() for id in claim.measures} <= ids


NONE, THREE, TWELVE, ONES = np.zeros(3, dtype=bool), np.arange(3), np.arange(12.0), np.ones((20, 2))
LOSSES = context_length.mean_losses(np.zeros((2, 3)))
ALONE = gradients.GradientFlow(np.ones(2), np.zeros(2, dtype=int), NONE[:2], NONE[:2])
ONE_ROW = heads.HeadPatterns(np.zeros((1, 2, len(heads.PATTERNS))), (0, 0), ("0.0", "0.1"))
HOME, AWAY = (transfer.TokenScores(np.ones(4), np.arange(4) % rows) for rows in (4, 2))
RISING = np.stack([TWELVE + 1, (TWELVE + 1) ** 2], axis=1)
DIVERGED = np.array([[1.0, 2.0]] * 9 + [[np.nan, 0.0]])
RNG = draws(0)


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (lambda: context_length.auc_scores(np.zeros((2, 3)), NONE), "at least 2 replaced tokens, got 0"),
        (lambda: context_length.measure_curve(LOSSES, THREE * 0, [0, 1], RNG), "at least 2 rows, got 1"),
        (lambda: contextuality.measure_contextuality(ONES[:3], THREE, THREE, RNG), "2 words with 5 occurrences, got 0"),
        (
            lambda: equivariance.measure_equivariance(ONES, ONES, RNG, groups=np.arange(20) // 10),
            "equivariance: needs at least 8 pairs that are not of one group, got 2",
        ),
        (lambda: geometry.measure_silhouette(ONES[:3], THREE * 0, RNG), "at least 2 categories, got 1"),
        (lambda: geometry.measure_anisotropy(DIVERGED, RNG), "anisotropy: 1 of 20 numbers are not finite; see whether"),
        (lambda: list(gradients.flow_findings(ALONE, RNG)), "gradient flow: needs at least 2 rows, got 1"),
        (lambda: heads.mean_over_heads(ONE_ROW, "self", RNG), "attention heads: needs at least 2 rows, got 1"),
        (lambda: replacements.score_replacements(ONES, THREE, THREE, RNG), "needs at least 2 replaced tokens, got 0"),
        (lambda: scaling.measure_power_law(1 + TWELVE % 2, TWELVE, RNG), "at least 4 runs of different compute, got 2"),
        (lambda: scaling.measure_log_law(RISING, TWELVE, RNG), "size and data of the runs cannot be told apart; vary"),
        (lambda: transfer.measure_rise(HOME, AWAY, RNG), "transfer: needs at least 4 rows of each domain, got 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_measured_says_what_it_needs(compute: Callable[[], object], reason: str) -> None:
    with pytest.raises(InputError) as refusal:
        compute()
    assert reason in str(refusal.value)
