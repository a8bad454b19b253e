"""Texts of other domains are cut from their sources, whole lines of them, the same every time."""

import json
import lzma
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "domain_texts.py"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("enwiki/enwiki", "news/reuters21578", "novels/novels", "pt_machado/pt_machado"):
        write(folder / "corpora" / f"{name}.txt.xz", "ação de um.\n\n" * 60_000)
    write(folder / "corpora" / "wikitext-2" / "wiki.valid.tokens", "a line\n")
    write(folder / "glue" / "CoLA" / "train.tsv", 'gj04\t1\t\tAnna "sees it.\ngj04\t0\t*\tAnna it sees.\n')
    write(folder / "glue" / "SST-2" / "train.tsv", "sentence\tlabel\na fine film \t1\n")
    questions = {"data": [{"paragraphs": [{"qas": [{"question": "Who sees it?"}]}]}]}
    write(folder / "squad" / "v1.1" / "dev-v1.1.json.xz", json.dumps(questions))
    return folder


def test_eight_texts_are_written_and_none_is_too_long(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), "--data", str(data), "--out", str(tmp_path / "out")])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert len(texts) == 8
    assert all(len(text) <= 400_000 for text in texts.values())
    assert texts["news"].startswith("ação de um.\n\nação")
    assert texts["news"].endswith("ação de um.\n"), "no line is cut"
    assert texts["linguists"] == 'Anna "sees it.\n\nAnna it sees.\n'
    assert texts["reviews"] == "a fine film\n"
    assert texts["questions"] == "Who sees it?\n"
