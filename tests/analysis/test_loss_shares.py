"""M30 of runs as training leaves them: which share of the tokens a loss is about."""

from pathlib import Path
from typing import Any

import pytest
from little_runs import write_text

import electralab
from electralab.analysis.data import AnalysisSettings, load_analysis_data
from electralab.analysis.finding import Finding
from electralab.analysis.measures.information import measure
from electralab.analysis.model import load_analysis_model
from electralab.display import Display

QUIET = Display(quiet=True)
SIZES = {"hidden_size": 32, "embedding_size": 32, "num_layers": 1, "num_heads": 2, "feedforward_size": 32}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_text(folder / "text.txt")
    settings = {"tokenizer": {"vocab_size": 200}, "packing": {"sequence_length": 32}}
    electralab.prepare([folder / "text.txt"], folder / "data", settings=settings, display=QUIET)
    return folder / "data"


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("electra", 1.0),
        ("electric", 1.0),
        ("all-tokens-mlm", 1.0),
        ("causal", 1.0),
        ("electra-15", 0.15),
        ("mlm", 0.15),
    ],
)
def test_the_share_of_ordinary_tokens_with_a_loss_is_the_objectives(
    data: Path, objective: str, expected: float, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"objective": objective, "model": SIZES, "evaluation": {"rows": 8}}
    electralab.pretrain(data, tmp_path / "run", settings=settings, steps=1, threads=1, display=QUIET)
    asked = AnalysisSettings(rows=8, times=5)
    found = list(measure(load_analysis_model(tmp_path / "run"), load_analysis_data(data, asked)))
    figures = {finding.name: finding for finding in found if isinstance(finding, Finding)}
    # Of the thirty tokens of a row 15 % are four or five.
    assert figures["positions with a loss"].estimate.value == pytest.approx(
        expected, abs=0.0 if expected == 1 else 0.02
    )
    is_of_generator = objective in ("electra", "electra-15", "electric")
    assert figures["guess bits"].note == ("of its generator" if is_of_generator else "")
