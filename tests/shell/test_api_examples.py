"""The examples in the docstrings of Python's verbs are run as they stand, in the order in which a model lives."""

import doctest
import json
from pathlib import Path

import pytest
import torch
from little_runs import write_scores
from networks import make_pair

import electralab
from electralab.model.folders.hf_config import SpecialTokenIds, export_config
from electralab.model.folders.hf_weights import export_weights

TEXT = "we the people of the united states are free and the congress shall keep the peace"
WORDS = TEXT.split()
ORDER = (
    *("prepare", "quickstart", "pretrain", "flops", "plan", "finetune", "fit", "glue", "evaluate", "study", "analyze"),
    *("claims", "report", "show", "load", "detect", "predict", "proofread", "measure", "calibrate", "serve", "export"),
    *("compress", "import_model"),
)
OTHER_NAMES = {"run_study", "judge_claims"}


def test_no_verb_is_without_an_example() -> None:
    assert set(ORDER) == set(electralab.__all__) - OTHER_NAMES
    lacking = [verb for verb in ORDER if ">>>" not in (getattr(electralab, verb).__doc__ or "")]
    assert not lacking, f"an example is missing in the docstring of {lacking}"


def write_inputs(folder: Path) -> None:
    documents = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 60)) + f" {i}" for i in range(40)]
    (folder / "speeches.txt").write_text("\n\n".join(documents))
    rows = [f"{'the people' if i % 2 else 'the peace'} {i},{'good' if i % 2 else 'bad'}" for i in range(40)]
    (folder / "messages.csv").write_text("\n".join(["text,label", *rows]))
    write_scores(folder)
    (folder / "benchmarks").mkdir()
    # As models were stored before there were safetensors.
    network = make_pair("tiny", backbone="electra", embedding_size=32).discriminator
    (folder / "old").mkdir()
    (folder / "old" / "config.json").write_text(json.dumps(export_config(network, SpecialTokenIds(0))))
    torch.save(export_weights(network), folder / "old" / "pytorch_model.bin")


@pytest.mark.flow
def test_every_verb_has_an_example_that_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"electralab": electralab}
    runner = doctest.DocTestRunner(verbose=False)
    finder = doctest.DocTestFinder(recurse=False)
    for verb in ORDER:
        (example,) = finder.find(getattr(electralab, verb), verb, globs=names)
        runner.run(example, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0
