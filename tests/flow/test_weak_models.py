"""A model that has hardly learned says so, wherever it is asked, and names the most suspicious words all the same."""

import json
import shutil

import pytest
from electra_process import Shell
from little_runs import KINDS, NAMES, SMALL

import electralab

pytestmark = pytest.mark.flow

TEXT = (
    "Anna sees the old house and Ben likes it. Clara calls the quiet garden and David finds it. "
    "Emma helps the red river."
)
# So fast that it learns how many tokens are replaced, and nothing else.
FAST = ("--steps", 20, "--optimizer.learning-rate", "0.01", "--evaluation.times", 1)
WARNING = "this model is too weak to use: on held-out text its AUC is 0."


def test_a_run_that_has_hardly_learned_says_so(shell: Shell) -> None:
    shell.must("pretrain", "--data", "data", "--out", "run", *FAST, *SMALL)
    said = shell.must("detect", "run", TEXT, "--json").json
    assert said["warning"].startswith(WARNING)
    assert said["is_relative"]
    assert 3 <= len(said["suspicious"]) <= 5
    for token in said["tokens"]:
        assert token["p_original"] == pytest.approx(1 - token["p_replaced"])
        assert token["unknown"] is False
    # In a pipe: the table alone, and what is to be known of it on standard error.
    piped = shell.must("detect", "run", TEXT)
    assert len(piped.out.splitlines()) == 1 + len(said["tokens"])
    loading, warning, told = piped.err.splitlines()
    assert loading == "loading run"
    assert warning.startswith(f"warning: {WARNING}")
    assert told.startswith(f"none of {len(said['tokens'])} tokens passes 0.5; the most suspicious of this text: ")
    worst = said["tokens"][said["suspicious"][0]]
    assert f"{worst['text']} ({worst['p_replaced']:.2f})" in told

    (shell.folder / "letter.txt").write_text(TEXT)
    proof = shell.must("proofread", "letter.txt", "--model", "run")
    lines = proof.out.splitlines()
    assert lines[0].startswith(f"warning: {WARNING}")
    assert lines[1] == "letter.txt: 0 of 23 words look wrong at 0.5; the 4 most suspicious of this text"
    assert len(lines) == 2 + 4
    found = shell.must("proofread", "letter.txt", "--model", "run", "--json").json
    assert found["warning"] == said["warning"]
    assert [len(found["proofs"][0][key]) for key in ("findings", "most_suspicious")] == [0, 4]

    run = shell.folder / "run"
    assert "; too weak to use (AUC 0." in repr(electralab.load(run))
    examples = electralab.load(run).examples
    assert 1 <= len(examples) <= 6
    known = " ".join((shell.folder / "text.txt").read_text().lower().split())
    for example in examples:
        (original,) = example.texts
        assert original[:40] in known
        assert example.corrupted != original
    assert electralab.load(run).detect(TEXT).warning == said["warning"]
    assert electralab.load(run / "export" / "discriminator").detect(TEXT).warning == said["warning"]
    # Of a folder that was taken out of its run nothing is known.
    shutil.copytree(run / "export", shell.folder / "elsewhere")
    assert electralab.load(shell.folder / "elsewhere").detect(TEXT).warning is None
    # Damaged scores are no reason not to answer.
    (run / "results.json").write_text("{")
    assert json.loads(shell.must("detect", "run", TEXT, "--json").out)["warning"] is None


def test_a_tuned_run_has_an_example_of_each_class(shell: Shell) -> None:
    shell.must("pretrain", "--data", "data", "--out", "run", "--steps", 1, *SMALL)
    things = {"yes": "horse", "no": "letter"}
    texts = {f"{who} sees the {kind} {things[label]}.": label for who in NAMES for kind in KINDS for label in things}
    rows = [f"{text},{label}" for text, label in texts.items()]
    (shell.folder / "table.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    words = ("--epochs", 1, "--data.dev-share", "0.5", "--threads", 1)
    shell.must("finetune", "run", "--task", "classify", "--data", "table.csv", "--out", "tuned", *words)
    examples = electralab.load(shell.folder / "tuned").examples
    assert sorted(example.truth or "" for example in examples) == ["no", "yes"]
    assert all(texts[example.texts[0]] == example.truth for example in examples)
