"""The examples in docstrings say what the code does."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    *("serving.encoder_handlers", "serving.predictor", "detection.lexicon", "detection.words", "serving.model"),
    *("records.answers", "exporting.export", "compression.task"),
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    results = doctest.testmod(import_module(f"electralab.{name}"))
    assert results.attempted
    assert not results.failed
