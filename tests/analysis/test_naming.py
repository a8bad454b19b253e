"""Models are called by what tells them apart."""

from pathlib import Path

import pytest

from electralab.analysis.model import name_models, slug
from electralab.errors import UsageError


def test_names_are_what_differs() -> None:
    assert name_models([Path("/runs/a"), Path("/other/b")]) == ["a", "b"]
    assert name_models([Path("/s/electra/seed-0/run"), Path("/s/mlm/seed-0/run"), Path("/x/ko")]) == [
        "electra",
        "mlm",
        "ko",
    ]
    seeds = [Path(f"/s/{arm}/run") for arm in ("electra/seed-0", "electra/seed-1", "mlm/seed-0")]
    assert name_models(seeds) == ["electra/seed-0", "electra/seed-1", "mlm/seed-0"]
    assert name_models([Path("/a/mlm/run"), Path("/b/mlm/run"), Path("/c/a")]) == ["a/mlm/run", "b/mlm/run", "c/a"]


def test_a_model_is_given_once() -> None:
    with pytest.raises(UsageError, match="/a/b is given twice; give it once"):
        name_models([Path("/a/b"), Path("/a/c/../b")][:1] * 2)


def test_files_have_harmless_names() -> None:
    assert slug("electra/seed-0, untrained") == "electra-seed-0.untrained"
    assert slug("a, untrained") != slug("a-untrained")


def test_models_whose_files_would_have_one_name_are_numbered() -> None:
    assert name_models([Path("/a/run 1"), Path("/a/run-1")]) == ["run 1", "run-1 (2)"]
