"""A measure is one file, found by being there; its example in a docstring is true, and the docs name it."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from electralab.analysis import arrays, finding, measures, model
from electralab.analysis.claims.rules import list_claims
from electralab.analysis.measures import Measure, list_measures

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


@pytest.mark.parametrize("module", [arrays, finding, model], ids=lambda module: module.__name__)
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
