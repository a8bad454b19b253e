"""Whatever is wrong with what was given: one sentence that names it and says what to do, and no traceback."""

import json
import shutil
from pathlib import Path

import pytest
from electra_process import Ended, Shell
from little_runs import SMALL, state_of

pytestmark = pytest.mark.flow


def sentence(ended: Ended, status: int = 1) -> str:
    """The one line on standard error, without the program's name."""
    assert "Traceback" not in ended.err, ended.err
    assert ended.status == status, ended.err
    assert ended.out == ""
    lines = ended.err.splitlines()
    assert lines, "nothing was said"
    assert lines[-1].startswith("electra: ")
    return lines[-1].removeprefix("electra: ")


def damage(path: Path) -> None:
    """Flip a bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.fixture(scope="module")
def finished(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A finished run, kept whole: stories that damage one take a copy."""
    shell = Shell(tmp_path_factory.mktemp("finished"))
    shutil.copytree(prepared / "data", shell.folder / "data")
    words = ("--steps", 4, "--save-every", 2, "--keep", 5)
    shell.must("pretrain", "--data", "data", "--out", "run", *SMALL, *words)
    return shell


@pytest.fixture
def broken(finished: Shell, tmp_path: Path) -> Shell:
    shutil.copytree(finished.folder, tmp_path, dirs_exist_ok=True)
    return Shell(tmp_path)


def resume(shell: Shell) -> Ended:
    words = ("--steps", 4, "--save-every", 2, "--keep", 5)
    return shell.run("pretrain", "--data", "data", "--out", "run", *SMALL, *words)


PREPARE = {
    "missing": ("missing.txt", None),
    "empty.txt": ("empty.txt", b""),
    "bytes.txt": ("bytes.txt", b"\x80\x81 " * 50),
    "torn.txt.gz": ("torn.txt.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03KLJ"),
    "wrong.txt.gz": ("wrong.txt.gz", b"this is no gzip\n"),
    "wrong.txt.zst": ("wrong.txt.zst", b"this is no zstandard\n"),
    "wrong.parquet": ("wrong.parquet", b"this is no parquet\n"),
    "wrong.jsonl": ("wrong.jsonl", b'{"text": "a"}\n{"text": \n'),
    "fieldless.jsonl": ("fieldless.jsonl", b'{"body": "some text here"}\n'),
    "columnless.csv": ("columnless.csv", b"title,body\na,b\n"),
}


@pytest.mark.parametrize("case", PREPARE)
def test_prepare_names_the_input_it_cannot_use(tmp_path: Path, case: str) -> None:
    name, content = PREPARE[case]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = sentence(Shell(tmp_path).run("prepare", name, "--out", "data"))
    assert name in said or "no document left" in said
    assert ";" in said, "a sentence also says what to do"
    assert not (tmp_path / "data" / "manifest.json").exists()


def test_prepare_names_what_cannot_be_read(tmp_path: Path) -> None:
    # A file that opens and fails on reading, for root as for anyone.
    assert "/proc/self/mem" in sentence(Shell(tmp_path).run("prepare", "/proc/self/mem", "--out", "data"))


def test_prepare_refuses_symbols_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text('{"symbols": "not a list"}\n')
    said = sentence(Shell(tmp_path).run("prepare", "text.jsonl", "--symbols", "--out", "data"))
    assert "text.jsonl" in said


def test_prepare_refuses_a_tokenizer_that_is_none(shell: Shell) -> None:
    (shell.folder / "tokenizer.json").write_text("{}")
    words = ("prepare", "text.txt", "--out", "other")
    assert "tokenizer.json: not a tokenizer.json" in sentence(shell.run(*words, "--tokenizer", "tokenizer.json"))
    assert sentence(shell.run(*words, "--tokenizer", "nowhere")).startswith("nowhere: no such tokenizer; give")


def test_prepare_refuses_a_folder_that_holds_something_else(shell: Shell) -> None:
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / "thesis.tex").write_text("precious")
    said = sentence(shell.run("prepare", "text.txt", "--out", "mine"), status=2)
    assert said == "mine: holds files that are not prepared data; choose another --out"
    assert (shell.folder / "mine" / "thesis.tex").read_text() == "precious"


SETTINGS = {
    "unknown name": (
        ("--masking.mask-shares", "0.2"),
        "command line: masking: no setting named 'mask_shares'; did you mean 'mask_share'?",
    ),
    "unknown section": (
        ("--maskin.mask-share", "0.2"),
        "command line: no setting named 'maskin'; did you mean 'masking'?",
    ),
    "no value": (("--masking.mask-share",), "--masking.mask-share: has no value; give --masking.mask-share VALUE"),
    "out of range": (
        ("--masking.mask-share", "1.5"),
        "command line: masking: mask_share: input should be less than 1 (got 1.5); mend this setting",
    ),
    "wrong kind": (
        ("--batch.size", "many"),
        "command line: batch: size: input should be a valid integer, unable to parse string as an integer "
        "(got 'many'); mend this setting",
    ),
    "unknown preset": (("--config", "tinny"), "--config: no preset or file named 'tinny'; did you mean 'tiny'?"),
    "missing file": (
        ("--config", "nowhere.toml"),
        "nowhere.toml: no such settings file; give a TOML file or the name of a preset",
    ),
    "heads": (
        ("--model.num-heads", "3"),
        "command line: model: hidden_size 32 does not divide into 3 heads; change one of them",
    ),
    "two budgets": (
        ("--minutes", "3"),
        "pretrain: argument --minutes: not allowed with argument --steps; see 'electra pretrain --help'",
    ),
    "no number": (
        ("--save-every", "often"),
        "pretrain: argument --save-every: must be a whole number of at least 0, got 'often'; see 'electra pretrain "
        "--help'",
    ),
    "device": (("--runtime.device", "cudo"), "runtime.device: 'cudo' cannot be used here"),
    "larger parts than the whole": (
        ("--batch.micro-size", "9"),
        "batch.micro_size 9 is larger than batch.size 8",
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_pretrain_names_the_wrong_setting(shell: Shell, case: str) -> None:
    words, expected = SETTINGS[case]
    ended = shell.run("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 2, *words)
    assert expected in sentence(ended, status=1 if case == "missing file" else 2)
    assert not (shell.folder / "run" / "run.json").exists()


def test_pretrain_names_the_damaged_settings_file(shell: Shell) -> None:
    (shell.folder / "mine.toml").write_text("[masking\n")
    said = sentence(shell.run("pretrain", "--data", "data", "--out", "run", "--config", "mine.toml"))
    assert said.startswith("mine.toml: not valid TOML (")
    (shell.folder / "mine.toml").write_text("size = ['tiny']\n")
    said = sentence(shell.run("pretrain", "--data", "data", "--out", "run", "--config", "mine.toml"), status=2)
    assert said.startswith("mine.toml: size: ")


def test_pretrain_refuses_data_that_is_none(shell: Shell) -> None:
    words = ("--out", "run", "--steps", 2)
    said = sentence(shell.run("pretrain", "--data", "nowhere", *words))
    assert said == "nowhere: no such folder; give one that 'electra prepare' has written"
    (shell.folder / "empty").mkdir()
    said = sentence(shell.run("pretrain", "--data", "empty", *words))
    first = "run 'electra prepare {} --out DATA' first and give DATA"
    expected = f"empty: holds no prepared data (no manifest.json); if it holds text, {first}"
    assert said == expected.format("empty")
    said = sentence(shell.run("pretrain", "--data", "text.txt", *words))
    assert said == f"text.txt: is a file, not a folder of prepared data; {first}".format("text.txt")
    assert not (shell.folder / "run").exists()


def test_pretrain_tells_a_run_and_an_unfinished_build_from_raw_text(finished: Shell) -> None:
    words = ("--out", "other", "--steps", 2)
    assert sentence(finished.run("pretrain", "--data", "run", *words)).startswith("run: is a run, not prepared data; ")
    (finished.folder / "data/manifest.json").rename(finished.folder / "manifest.json")
    said = sentence(finished.run("pretrain", "--data", "data", *words))
    assert said == "data: has no manifest.json, so it was never finished; rerun 'electra prepare' to build it again"
    (finished.folder / "manifest.json").rename(finished.folder / "data/manifest.json")


def test_pretrain_does_not_train_into_a_data_folder(shell: Shell) -> None:
    said = sentence(shell.run("pretrain", "--data", "data", "--out", "data", "--steps", 2), status=2)
    assert said == "data: holds data or a model, not a run; choose another --out"


@pytest.mark.parametrize("how", ["flipped", "truncated", "missing"])
def test_a_damaged_shard_is_named(shell: Shell, how: str) -> None:
    shard = next((shell.folder / "data" / "shards").glob("train-*"))
    name = shard.relative_to(shell.folder)
    if how == "flipped":
        damage(shard)
        expected = f"{name}: does not match its manifest"
    elif how == "truncated":
        shard.write_bytes(shard.read_bytes()[:-8])
        expected = f"{name}: has {shard.stat().st_size} bytes, its manifest says {shard.stat().st_size + 8}"
    else:
        shard.unlink()
        expected = f"data: manifest names {name.relative_to('data')} but it is missing"
    said = sentence(shell.run("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 2))
    assert said.startswith(expected)
    assert said.endswith("; rerun 'electra prepare' to build it again")


def test_a_damaged_checkpoint_is_named_and_the_one_before_goes_on(broken: Shell) -> None:
    before = state_of(broken.folder / "run", 4)
    damage(broken.folder / "run/checkpoints/step-4/optimizer.safetensors")
    ended = resume(broken)
    assert ended.status == 0
    first, second = ended.err.splitlines()[:2]
    assert first.startswith(
        "warning: run/checkpoints/step-4/optimizer.safetensors: does not match its manifest (sha256 "
    )
    assert second.startswith("resuming at step 3 of 4")
    assert state_of(broken.folder / "run", 4) == before


def test_when_no_checkpoint_is_intact_a_run_begins_again_and_says_so(broken: Shell) -> None:
    before = state_of(broken.folder / "run", 4)
    for step in (2, 4):
        (broken.folder / f"run/checkpoints/step-{step}/manifest.json").write_text("{")
    ended = resume(broken)
    assert ended.status == 0
    assert "run/checkpoints: no checkpoint is intact; starting again from step 1" in ended.err
    assert state_of(broken.folder / "run", 4) == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"step": 1}', "not json"])
def test_a_damaged_identity_is_named(broken: Shell, content: str) -> None:
    (broken.folder / "run/run.json").write_text(content)
    assert sentence(resume(broken)).startswith("run/run.json: not ")


def test_damaged_metrics_are_named(broken: Shell) -> None:
    lines = (broken.folder / "run/metrics.jsonl").read_text().splitlines(keepends=True)
    (broken.folder / "run/metrics.jsonl").write_text("".join([lines[0], "\0\0\0\n", *lines[1:]]))
    expected = "run/metrics.jsonl: line 2 is not the record of a step; remove the line or restore the file"
    assert sentence(broken.run("show", "run")) == expected
    assert sentence(resume(broken)) == expected


def test_a_torn_last_line_of_the_metrics_is_no_damage(broken: Shell) -> None:
    whole = (broken.folder / "run/metrics.jsonl").read_text()
    (broken.folder / "run/metrics.jsonl").write_text(whole + '{"step": 5, "lo')
    assert resume(broken).status == 0
    assert (broken.folder / "run/metrics.jsonl").read_text() == whole


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_export_is_named(broken: Shell, name: str) -> None:
    damage(broken.folder / "run/export/discriminator" / name)
    said = sentence(broken.run("detect", "run", "Anna sees it."))
    assert said.startswith(f"run/export/discriminator/{name}: does not match its manifest")


def test_a_foreign_model_folder_that_is_damaged_is_named(broken: Shell) -> None:
    """Without a manifest there is no hash to compare: the files must speak for themselves."""
    folder = broken.folder / "run/export/discriminator"
    (folder / "manifest.json").unlink()
    config = (folder / "config.json").read_text()

    def said(name: str, content: bytes) -> str:
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        ended = broken.run("detect", str(folder.relative_to(broken.folder)), "Anna sees it.")
        (folder / name).write_bytes(before)
        return sentence(ended)

    weights = (folder / "model.safetensors").read_bytes()
    assert "model.safetensors" in said("model.safetensors", weights[:-100])
    assert "model.safetensors" in said("model.safetensors", b"")
    assert "config.json" in said("config.json", b"{")
    assert "run/export/discriminator" in said("config.json", b"{}")
    assert "run/export/discriminator" in said("config.json", json.dumps({"model_type": "gpt2"}).encode())
    wider = config.replace('"hidden_size": 32', '"hidden_size": 64')
    assert "run/export/discriminator" in said("config.json", wider.encode())
    assert "tokenizer.json" in said("tokenizer.json", b"{}")


def test_detect_refuses_what_is_no_model_or_no_text(finished: Shell) -> None:
    assert sentence(finished.run("detect", "nowhere", "text")).startswith("nowhere: no such file or folder; give ")
    (finished.folder / "a.txt").write_text("text")
    assert sentence(finished.run("detect", "a.txt", "text")).startswith("a.txt: is a file, not a model; give ")
    assert sentence(finished.run("detect", "data", "text")).startswith("data: is prepared data, not a model; train ")
    (finished.folder / "begun").mkdir()
    assert sentence(finished.run("detect", "begun", "text")).startswith("begun: holds no model (no config.json); give ")
    shutil.copy(finished.folder / "run/run.json", finished.folder / "begun/run.json")
    said = sentence(finished.run("detect", "begun", "text"))
    assert said == "begun: this run has not exported its networks yet; let 'electra pretrain' finish it"
    said = sentence(finished.run("detect", "run/export/generator", "text"))
    assert said == "run/export/generator: holds a generator, which cannot detect; it can fill, embed"
    assert sentence(finished.run("detect", "run"), status=2) == (
        "detect: give one of TEXT, --file PATH, or - for standard input"
    )
    assert sentence(finished.run("detect", "run", "--file", "nowhere.txt")).startswith("nowhere.txt: no such file")
    assert "cannot be read" in sentence(finished.run("detect", "run", "--file", "data"))
    (finished.folder / "bytes.txt").write_bytes(b"Anna \xff")
    assert sentence(finished.run("detect", "run", "--file", "bytes.txt")) == (
        "bytes.txt: not UTF-8 at byte 5; convert it, for example with iconv"
    )
    assert sentence(finished.run("detect", "run", "Anna \udcff")) == (
        "TEXT: not UTF-8 at byte 5; convert it, for example with iconv"
    )


def test_detect_says_nothing_of_an_empty_text(finished: Shell) -> None:
    said = finished.must("detect", "run", "", "--json").json
    assert (said["text"], said["tokens"], said["suspicious"], said["is_relative"]) == ("", [], [], False)


def test_show_refuses_what_it_does_not_know(finished: Shell) -> None:
    assert sentence(finished.run("show", "nowhere")).startswith("nowhere: no such file or folder; give ")
    (finished.folder / "folder").mkdir()
    assert sentence(finished.run("show", "folder")).startswith("folder: not an artifact of electralab; give ")
    (finished.folder / "texts.jsonl").write_text('{"text": "hello"}\n')
    assert sentence(finished.run("show", "texts.jsonl")).startswith("texts.jsonl: line 1 is not the record of a step")
    assert "has no row 100000" in sentence(finished.run("show", "data", "--row", 100_000))
    assert "has no row -1" in sentence(finished.run("show", "data", "--row", -1))
    assert "is prepared data, not a model" in sentence(finished.run("show", "data", "--row", 1, "--model", "data"))


def test_import_refuses_what_it_cannot_convert(finished: Shell) -> None:
    assert "nowhere" in sentence(finished.run("import", "nowhere", "--out", "new"))
    (finished.folder / "pytorch_model.bin").write_bytes(b"no pickle")
    assert "pytorch_model.bin" in sentence(finished.run("import", "pytorch_model.bin", "--out", "new"))


def test_a_file_in_the_way_of_a_folder_is_named(shell: Shell) -> None:
    (shell.folder / "taken").write_text("precious")
    words = ("--out", "taken", "--steps", 2)
    said = sentence(shell.run("pretrain", "--data", "data", *words))
    assert said.startswith("taken: is a file where a folder is needed")
    assert sentence(shell.run("prepare", "text.txt", "--out", "taken")).startswith("taken: ")
    assert (shell.folder / "taken").read_text() == "precious"
