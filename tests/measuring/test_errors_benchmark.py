"""benchmarks/errors.py splits by sentences, and what it compares was said about the same words."""

import importlib.util
import lzma
import sys
from pathlib import Path
from types import ModuleType

import pytest
from little_models import build_pair, save_pair

import electralab

PATH = Path(__file__).parents[2] / "benchmarks" / "errors.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("errors_benchmark", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["errors_benchmark"] = module
    spec.loader.exec_module(module)
    return module


def write_sentence(index: int) -> str:
    """In every second one the last word stands where another belongs."""
    words = ["the", "cat", "sat", "on", "the", "sat" if index % 2 else "mat"]
    return "\n".join(f"{word}\t{'i' if place == 5 and index % 2 else 'c'}" for place, word in enumerate(words))


def test_sentences_after_the_first_thousand_test_and_are_scored_twice(benchmark: ModuleType, tmp_path: Path) -> None:
    packed = tmp_path / "data" / benchmark.LABELLED
    packed.parent.mkdir(parents=True)
    packed.write_bytes(lzma.compress("\n\n".join(write_sentence(index) for index in range(1090)).encode()))
    folder = benchmark.split_realec(tmp_path / "data", tmp_path / "realec", 60)
    parts = [(folder / f"{name}.tsv").read_text().strip().split("\n\n") for name in ("train", "test")]
    assert [len(part) for part in parts] == [1000, 60]
    assert parts[1][0] == write_sentence(1000)

    model, tuned = save_pair(tmp_path / "run", build_pair()), tmp_path / "tuned"
    electralab.finetune(model, "errors", folder, tuned, settings={"steps": 3}, threads=1, baseline=False)
    bare, both = benchmark.measure_realec(model, folder, tuned)
    assert (bare.items, bare.wrong, bare.groups) == (both.items, both.wrong, both.groups) == (360, 30, 60)
    assert [scores.name for scores in both.detectors] == ["tuned", bare.detectors[0].name]
    # Not as counting, but as what labels are compared with.
    assert both.detectors[1].auc == bare.detectors[0].auc
    assert benchmark.time_proofreading(model, ["the cat sat.", "the mat"])["ratio"] > 0
