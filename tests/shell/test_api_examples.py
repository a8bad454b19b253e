"""The examples in the docstrings of Python's verbs are run as they stand, in the order in which a model lives."""

import doctest
from pathlib import Path

import pytest
from little_runs import write_scores

import electralab

TEXT = "we the people of the united states are free and the congress shall keep the peace"
WORDS = TEXT.split()
ORDER = (
    *("prepare", "pretrain", "flops", "finetune", "glue", "evaluate", "study", "analyze", "claims", "report", "show"),
    *("load", "detect", "predict", "proofread", "serve", "export", "compress"),
)


def write_inputs(folder: Path) -> None:
    documents = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 60)) + f" {i}" for i in range(40)]
    (folder / "speeches.txt").write_text("\n\n".join(documents))
    rows = [f"{'the people' if i % 2 else 'the peace'} {i},{'good' if i % 2 else 'bad'}" for i in range(40)]
    (folder / "messages.csv").write_text("\n".join(["text,label", *rows]))
    write_scores(folder)
    (folder / "benchmarks").mkdir()


@pytest.mark.flow
def test_every_verb_has_an_example_that_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"electralab": electralab}
    runner = doctest.DocTestRunner(verbose=False)
    finder = doctest.DocTestFinder(recurse=False)
    for verb in ORDER:
        (example,) = finder.find(getattr(electralab, verb), verb, globs=names)
        assert example.examples, f"{verb} has no example"
        runner.run(example, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0
