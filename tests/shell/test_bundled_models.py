"""A model in the package is given by its name, wherever a MODEL is asked for; a folder of that name wins over it."""

import json
import shutil
from pathlib import Path

import pytest
from little_runs import label_sentences, write_rows
from little_tuned import TEXT, save_pretrained

import electralab
from electralab.artifacts import describe_files, write_manifest
from electralab.errors import InputError
from electralab.records import kinds
from electralab.records.kinds import find_model, list_models
from electralab.records.run import METRICS, Budget, PretrainResults, RunFingerprint
from electralab.shell.cli import main

NAME = "mini-en"
HELDOUT = {"auc": 0.75, "recall": 0.1, "precision": 0.5, "called_replaced": 0.02, "replaced_share": 0.15}


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package's own folder of it; work is done in an empty one."""
    folder = save_pretrained(tmp_path / "models" / NAME)
    results = PretrainResults(
        objective="electra", step=3, tokens=72, flops=9_000, seconds=1.0, heldout=HELDOUT, baselines={}
    )
    results.write(folder)
    budget = Budget("steps", 3.0)
    RunFingerprint(data="", init_from="", settings={}, budget=budget, total_steps=3, threads=1).write(folder)
    write_rows(folder / METRICS, json.dumps({"step": 3, "loss": 2.0}))
    write_manifest(folder)
    monkeypatch.setattr(kinds, "MODELS", tmp_path / "models")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


def test_a_name_is_that_of_the_package_unless_a_folder_has_it(bundled: Path) -> None:
    assert find_model(NAME) == bundled
    assert list_models() == {NAME: bundled}
    assert find_model(f"runs/{NAME}") == Path("runs") / NAME
    Path(NAME).mkdir()
    assert find_model(NAME) == Path(NAME)


def test_a_misspelt_name_is_guessed_and_another_is_left_as_it_is(bundled: Path) -> None:
    with pytest.raises(InputError) as caught:
        find_model("mini-em")
    assert str(caught.value) == "mini-em: no such file or folder; did you mean 'mini-en'?"
    assert find_model("something") == Path("something")
    assert find_model("x" * 5000) == Path("x" * 5000)
    assert bundled.is_dir()


def test_python_loads_it_by_name(bundled: Path) -> None:
    model = electralab.load(NAME)
    assert model.path == bundled
    assert model.can == ("detect", "fill", "play", "embed")
    assert electralab.detect(NAME, ["the cat"]) == electralab.detect(bundled, ["the cat"])


VERBS = {
    "detect": ("detect", NAME, "the cat sat"),
    "proofread": ("proofread", "texts.txt", "--model", NAME),
    "evaluate": ("evaluate", NAME, "--suite", "mlm", "--data", "texts.txt", "--dry-run"),
    "evaluate, fixed generator": (
        *("evaluate", NAME, "--suite", "rtd", "--data", "texts.txt", "--generator", NAME),
        *("--heldout.bootstrap", "0", "--threads", "1"),
    ),
    "export": ("export", NAME, "--out", "exported", "--dry-run"),
    "compress": ("compress", NAME, "--data", "texts.txt", "--out", "small", "--dry-run"),
    "finetune": ("finetune", NAME, "--task", "classify", "--data", "rows.tsv", "--out", "tuned", "--dry-run"),
    "finetune, encoder of another": (
        *("finetune", NAME, "--task", "classify", "--data", "rows.tsv", "--out", "tuned", "--init-from", NAME),
        "--dry-run",
    ),
    "serve": ("serve", NAME, "--dry-run"),
    "serve, named": ("serve", f"other={NAME}", "--dry-run"),
    "analyze": ("analyze", NAME, "--data", "texts.txt", "--out", "analysis", "--dry-run"),
    "prepare": ("prepare", "texts.txt", "--tokenizer", NAME, "--out", "data", "--workers", "1"),
    "show": ("show", NAME),
}


@pytest.mark.parametrize("words", VERBS.values(), ids=list(VERBS))
def test_every_verb_takes_the_name(words: tuple[str, ...], bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = describe_files(bundled)
    Path("texts.txt").write_text("\n\n".join(f"{TEXT} {number}" for number in range(40)))
    write_rows(Path("rows.tsv"), "text\tlabel", *("\t".join(row) for row in label_sentences(40)))
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out
    assert describe_files(bundled) == before


def test_show_lists_the_models_of_the_package(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 0
    assert "mini-en" in (out := capsys.readouterr().out)
    assert "72 tokens" in out
    assert "0.750" in out
    assert main(["show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][NAME]["heldout"] == HELDOUT
    assert bundled.is_dir()


def test_it_is_not_changed_but_copied_first(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("texts.txt").write_text(f"{TEXT}\n")
    assert main(["calibrate", NAME, "texts.txt"]) == 2
    assert capsys.readouterr().err.endswith(
        f"electra: mini-en: comes with electralab and is not changed; copy it first (cp -r {bundled} my-model) and "
        "give my-model\n"
    )
    shutil.copytree(bundled, "my-model")
    assert main(["calibrate", "my-model", "texts.txt"]) == 1
    assert "too few words to plant errors in" in capsys.readouterr().err
