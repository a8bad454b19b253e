"""The examples in the docstrings of tasks/ say what happens."""

import doctest
from types import ModuleType

import pytest

from electralab.tasks import catalog, texts
from electralab.tasks.kinds import classification, qa, regression, tagging


@pytest.mark.parametrize("module", [catalog, texts, classification, qa, regression, tagging], ids=lambda m: m.__name__)
def test_examples_of_docstrings_run(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0, "a public function shows what it does"
    assert results.failed == 0
