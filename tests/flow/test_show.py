"""`electra show` on every kind of folder that a verb writes, whole and damaged."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from electra_process import Shell
from little_runs import SMALL, damage, label_sentences, little_study, write_rows, write_scores
from safetensors.torch import load_file
from test_analyze import BRIEF as BRIEF_ANALYSIS
from test_compress import BRIEF as BRIEF_COMPRESSION
from test_predict import QUICK
from transformers import AutoModel, AutoTokenizer

import electralab
from electralab.artifacts import MANIFEST
from electralab.errors import ElectraError
from electralab.inspection import View

pytestmark = pytest.mark.flow

# Where the writers below leave them, and what `show` calls them.
KINDS = {
    "data": "data",
    "data/tokenizer": "tokenizer",
    "run": "run",
    "run/export": "networks",
    "run/export/discriminator": "model",
    "run/checkpoints": "checkpoints",
    "run/checkpoints/step-4": "checkpoint",
    "run/snapshots": "snapshots",
    "run/snapshots/step-2": "snapshot",
    "mlm/export/model": "model",
    "towers/export/generator": "model",
    "tuned": "fine-tuning run",
    "tuned/seed-0": "seed",
    "tuned/export/model": "model",
    "suite": "GLUE run",
    "suite/rte": "fine-tuning run",
    "hf": "export",
    "onnx": "export",
    "int8": "export",
    "int8/discriminator": "model",
    "tuned-int8": "export",
    "small": "trade-off",
    "small/variants/bf16": "model",
    "seen": "analysis",
    "studied": "study",
    "imported": "model",
    "bare": "model",
}


def write_foreign(folder: Path) -> None:
    """A pickle of `transformers` to be imported, and a body that it saved without a head."""
    whole = folder / "classic/export/discriminator"
    (folder / "old").mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(whole / name, folder / "old" / name)
    torch.save(load_file(whole / "model.safetensors"), folder / "old/pytorch_model.bin")
    AutoModel.from_pretrained(whole).save_pretrained(folder / "bare")
    AutoTokenizer.from_pretrained(whole).save_pretrained(folder / "bare")


@pytest.fixture(scope="module")
def made(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One of every kind."""
    shell = Shell(tmp_path_factory.mktemp("made"))
    shutil.copytree(prepared / "data", shell.folder / "data")
    train = ("pretrain", "--data", "data", *SMALL, "--steps", 4)
    shell.must(*train, "--out", "run", "--snapshots", "0.5", "--save-every", 2)
    shell.must(*train, "--out", "mlm", "--objective", "mlm")
    shell.must(*train, "--out", "towers", "--generator.kind", "two-tower")
    shell.must(*train, "--out", "classic", "--model.backbone", "electra")
    rows = [f"{text},{label}" for text, label in label_sentences(32)]
    write_rows(shell.folder / "table/train.csv", "review,stars", *rows)
    shell.must("finetune", "run", "--task", "classify", "--data", "table", "--out", "tuned", *QUICK)
    write_scores(shell.folder)
    shell.must("glue", "run", "--data", "glue", "--out", "suite", *QUICK, "--epochs", "0.5")
    for model, form, out in (
        *(("run", "hf", "hf"), ("run", "onnx", "onnx"), ("run", "onnx-int8", "int8")),
        ("tuned", "onnx-int8", "tuned-int8"),
    ):
        shell.must("export", model, "--format", form, "--out", out)
    shell.must("compress", "run", "--data", "data", "--out", "small", "--storage", "bf16", *BRIEF_COMPRESSION)
    shell.must("analyze", "run", "--data", "data", "--out", "seen", "--only", "M36", *BRIEF_ANALYSIS)
    (shell.folder / "little.toml").write_text(little_study())
    shell.must("study", "little.toml", "--corpus", "data", "--data", ".", "--out", "studied")
    write_foreign(shell.folder)
    shell.must("import", "old", "--out", "imported")
    return shell


@pytest.mark.parametrize(("path", "kind"), KINDS.items(), ids=KINDS)
def test_show_tells_what_every_kind_of_folder_is(made: Shell, path: str, kind: str) -> None:
    found = electralab.show(made.folder / path)
    assert found["kind"] == kind
    assert json.loads(json.dumps(found.to_json()))["kind"] == kind
    printed = made.must("show", path).out
    assert path in printed or kind in ("GLUE run", "study", "trade-off", "analysis")
    has_hashes = any((made.folder / path).rglob(MANIFEST))
    assert ("verified: " in printed) == bool(found["verified"]) == has_hashes
    assert ("not verified" in printed) == bool(found["unverified"])


def test_a_network_is_told_by_its_size_and_a_graph_by_its_bytes(made: Shell) -> None:
    lines = made.must("show", "int8").out.splitlines()
    assert lines[0] == "export int8 as onnx-int8"
    assert "discriminator, 1 layer, hidden size 32" in lines[1]
    assert lines[1].endswith("bytes")
    assert made.must("show", "hf").out.splitlines()[1].endswith("parameters")
    assert electralab.show(made.folder / "bare")["network"] == "encoder"


def look(path: Path) -> tuple[str, View | None]:
    """The sentence of a refusal, or what is shown; anything else that is raised is a traceback."""
    try:
        return "", electralab.show(path)
    except ElectraError as error:
        return str(error), None


@pytest.mark.parametrize("path", KINDS)
def test_show_names_a_damaged_file_or_says_that_it_was_not_verified(made: Shell, path: str, tmp_path: Path) -> None:
    """Where a manifest has its hash the file is named; no other file is passed off as sound."""
    folder = Path(shutil.copytree(made.folder / path, tmp_path / Path(path).name))
    whole = electralab.show(folder)
    for name in sorted({*whole["verified"], *whole["unverified"]}):
        content = (folder / name).read_bytes()
        for is_truncated in (False, True) if content else ():
            damage(folder / name, is_truncated=is_truncated)
            sentence, shown = look(folder)
            if name in whole["verified"]:
                assert Path(name).name in sentence, (name, is_truncated)
            else:
                assert Path(name).name in sentence or (shown and name in shown.unverified), (name, is_truncated)
            (folder / name).write_bytes(content)
    assert electralab.show(folder) == whole


def test_what_cannot_be_shown_gets_a_sentence_of_its_own(made: Shell, tmp_path: Path) -> None:
    folder = made.folder
    for path, sentence in (
        ("nowhere", "nowhere: no such file or folder; give a data folder, run, "),
        ("table/train.csv", "table/train.csv: is a file, and not a metrics.jsonl; give "),
        ("table", "table: not an artifact of electralab; give a data folder, run, "),
    ):
        assert (path, look(folder / path)[0].removeprefix(f"{folder}/")[: len(sentence)]) == (path, sentence)
    assert look(folder)[0].startswith(f"{folder}: is not an artifact itself; give one of the folders in it (bare, ")
    for name, verb in (("compress.json", "compress"), (".build", "prepare")):
        (tmp_path / name).mkdir()
        assert look(tmp_path)[0] == f"{tmp_path}: is not finished yet; run the same 'electra {verb}' again"
        (tmp_path / name).rmdir()
    shutil.copy(folder / "run/run.json", tmp_path)
    (tmp_path / "metrics.jsonl").touch()
    assert electralab.show(tmp_path)["kind"] == "run"


@pytest.mark.parametrize("form", ["hf", "onnx"])
def test_a_pair_whose_generator_has_no_such_form_exports_its_discriminator(made: Shell, form: str) -> None:
    ended = made.must("export", "towers", "--format", form, "--out", f"towers-{form}", "--json")
    assert list(ended.json["networks"]) == ["discriminator"]
    assert "left out: towers/export/generator: holds a twotower" in ended.json["networks"]["discriminator"]["note"]
    assert "left out: towers/export/generator" in ended.err
    assert made.must("detect", f"towers-{form}", "Anna sees the house.", "--json").json["tokens"]
    refused = made.run("export", "towers/export/generator", "--format", form, "--out", "no")
    assert refused.err.endswith("use it as it is; towers/export/discriminator can be exported\n")
    assert not (made.folder / "no").exists()
