"""Whatever is wrong with what was given: one sentence that names it and says what to do, and no traceback."""

import shutil
from pathlib import Path

import pytest
from electra_process import Shell, Words
from little_runs import SMALL, damage, state_of

pytestmark = pytest.mark.flow

RUN: Words = ("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 4, "--save-every", 2, "--keep", 5)


@pytest.fixture(scope="module")
def finished(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A finished run, kept whole: stories that damage one take a copy."""
    shell = Shell(tmp_path_factory.mktemp("finished"))
    shutil.copytree(prepared / "data", shell.folder / "data")
    shell.must(*RUN)
    return shell


@pytest.fixture
def broken(finished: Shell, tmp_path: Path) -> Shell:
    shutil.copytree(finished.folder, tmp_path, dirs_exist_ok=True)
    return Shell(tmp_path)


UNREADABLE = {
    "missing.txt": None,
    "bytes.txt": b"\x80\x81 " * 50,
    "torn.txt.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03KLJ",
    "columnless.csv": b"title,body\na,b\n",
}


@pytest.mark.parametrize(("name", "content"), UNREADABLE.items())
def test_prepare_names_the_input_it_cannot_use(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = Shell(tmp_path).refuse("prepare", name, "--out", "data")
    assert name in said or "no document left" in said
    assert ";" in said, "a sentence also says what to do"
    assert not (tmp_path / "data" / "manifest.json").exists()


def test_prepare_names_what_cannot_be_read(tmp_path: Path) -> None:
    # A file that opens and fails on reading, for root as for anyone.
    assert "/proc/self/mem" in Shell(tmp_path).refuse("prepare", "/proc/self/mem", "--out", "data")


SETTINGS = {
    "--masking.mask-shares 0.2": "command line: masking: no setting named 'mask_shares'; did you mean 'mask_share'?",
    "--maskin.mask-share 0.2": "command line: no setting named 'maskin'; did you mean 'masking'?",
    "--masking.mask-share": "--masking.mask-share: has no value; give --masking.mask-share VALUE",
    "--masking.mask-share 1.5": (
        "command line: masking: mask_share: input should be less than 1 (got 1.5); correct this setting"
    ),
    "--batch.size many": (
        "command line: batch: size: input should be a valid integer, unable to parse string as an integer "
        "(got 'many'); correct this setting"
    ),
    "--config tinny": "--config: no preset or file named 'tinny'; did you mean 'tiny'?",
    "--config nowhere.toml": "nowhere.toml: no such settings file; give a TOML file or the name of a preset",
    "--model.num-heads 3": "command line: model: hidden_size 32 does not divide into 3 heads; change one of them",
    "--minutes 3": "pretrain: argument --minutes: not allowed with argument --steps; see 'electra pretrain --help'",
    "--save-every often": (
        "pretrain: argument --save-every: must be a whole number of at least 0, got 'often'; "
        "see 'electra pretrain --help'"
    ),
    "--runtime.device cudo": "runtime.device: 'cudo' cannot be used here",
    "--batch.micro-size 9": "batch.micro_size 9 is larger than batch.size 8",
}


@pytest.mark.parametrize("words", SETTINGS)
def test_pretrain_names_the_wrong_setting(shell: Shell, words: str) -> None:
    status = 1 if "nowhere" in words else 2  # a file that is not there is no wrong word
    asked: Words = ("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 2)
    assert SETTINGS[words] in shell.refuse(*asked, *words.split(), status=status)
    assert not (shell.folder / "run" / "run.json").exists()


def test_pretrain_refuses_data_that_is_none(shell: Shell) -> None:
    (shell.folder / "empty").mkdir()
    first = "run 'electra prepare {} --out DATA' first and give DATA"
    for name, sentence in {
        "nowhere": "no such folder; give one that 'electra prepare' has written",
        "empty": f"holds no prepared data (no manifest.json); if it holds text, {first}",
        "text.txt": f"is a file, not a folder of prepared data; {first}",
    }.items():
        said = shell.refuse("pretrain", "--data", name, "--out", "run", "--steps", 2)
        assert said == f"{name}: {sentence.format(name)}"
    assert not (shell.folder / "run").exists()


def test_pretrain_tells_an_unfinished_build_from_raw_text(broken: Shell) -> None:
    (broken.folder / "data/manifest.json").unlink()
    said = broken.refuse("pretrain", "--data", "data", "--out", "other", "--steps", 2)
    assert said == "data: has no manifest.json, so it was never finished; rerun 'electra prepare' to build it again"


def test_pretrain_does_not_train_into_a_data_folder(shell: Shell) -> None:
    said = shell.refuse("pretrain", "--data", "data", "--out", "data", "--steps", 2, status=2)
    assert said == "data: holds data or a model, not a run; choose another --out"


def test_a_damaged_shard_is_named(shell: Shell) -> None:
    shard = next((shell.folder / "data" / "shards").glob("train-*"))
    damage(shard)
    said = shell.refuse("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 2)
    assert said.startswith(f"{shard.relative_to(shell.folder)}: does not match its manifest")
    assert said.endswith("; rerun 'electra prepare' to build it again")


def test_a_damaged_checkpoint_is_named_and_the_one_before_goes_on(broken: Shell) -> None:
    before = state_of(broken.folder / "run", 4)
    damage(broken.folder / "run/checkpoints/step-4/optimizer.safetensors")
    ended = broken.must(*RUN)
    first, second = ended.err.splitlines()[:2]
    assert first.startswith(
        "warning: run/checkpoints/step-4/optimizer.safetensors: does not match its manifest (sha256 "
    )
    assert second.startswith("resuming at step 3 of 4")
    assert state_of(broken.folder / "run", 4) == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"step": 1}', "not json"])
def test_a_damaged_identity_is_named(broken: Shell, content: str) -> None:
    (broken.folder / "run/run.json").write_text(content)
    assert broken.refuse(*RUN).startswith("run/run.json: not ")


def test_damaged_metrics_are_named_and_a_torn_last_line_is_no_damage(broken: Shell) -> None:
    log = broken.folder / "run/metrics.jsonl"
    whole = log.read_text()
    log.write_text(whole + '{"step": 5, "lo')
    broken.must(*RUN)
    assert log.read_text() == whole
    first, rest = whole.split("\n", 1)
    log.write_text(f"{first}\n\0\0\0\n{rest}")
    expected = "run/metrics.jsonl: line 2 is not the record of a step; remove the line or restore the file"
    assert broken.refuse("show", "run") == broken.refuse(*RUN) == expected


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_export_is_named(broken: Shell, name: str) -> None:
    damage(broken.folder / "run/export/discriminator" / name)
    said = broken.refuse("detect", "run", "Anna sees it.")
    assert said.startswith(f"run/export/discriminator/{name}: does not match its manifest")


REFUSED = {
    ("detect", "nowhere", "text"): "nowhere: no such file or folder; give ",
    ("detect", "a.txt", "text"): "a.txt: is a file, not a model; give ",
    ("detect", "data", "text"): "data: is prepared data, not a model; train ",
    ("detect", "empty", "text"): "empty: holds no model (no config.json); give ",
    ("detect", "begun", "text"): (
        "begun: this run has not exported its networks yet; let 'electra pretrain' finish it"
    ),
    ("detect", "run/export/generator", "text"): (
        "run/export/generator: holds a generator, which cannot detect; it can fill, embed"
    ),
    ("detect", "run", "--file", "nowhere.txt"): "nowhere.txt: no such file",
    ("detect", "run", "--file", "data"): "data: cannot be read (",
    ("detect", "run", "--file", "bytes.txt"): "bytes.txt: not UTF-8 at byte 5; convert it, for example with iconv",
    ("detect", "run", "Anna \udcff"): "TEXT: not UTF-8 at byte 5; convert it, for example with iconv",
    ("show", "nowhere"): "nowhere: no such file or folder; give ",
    ("show", "empty"): "empty: not an artifact of electralab; give ",
    ("show", "texts.jsonl"): "texts.jsonl: line 1 is not the record of a step",
    ("show", "data", "--row", "100000"): "data: has no row 100000",
    ("show", "data", "--row", "-1"): "data: has no row -1",
    ("show", "data", "--row", "1", "--model", "data"): "data: is prepared data, not a model",
    ("import", "nowhere", "--out", "new"): "nowhere: ",
    ("import", "pytorch_model.bin", "--out", "new"): "pytorch_model.bin: ",
    ("pretrain", "--data", "run", "--out", "other", "--steps", "2"): "run: is a run, not prepared data; ",
}


@pytest.fixture(scope="module")
def strange(finished: Shell) -> Shell:
    """With what is no model, no text and no artifact beside the run."""
    folder = finished.folder
    for name in ("empty", "begun"):
        (folder / name).mkdir()
    shutil.copy(folder / "run/run.json", folder / "begun/run.json")
    (folder / "a.txt").write_text("text")
    (folder / "bytes.txt").write_bytes(b"Anna \xff")
    (folder / "texts.jsonl").write_text('{"text": "hello"}\n')
    (folder / "pytorch_model.bin").write_bytes(b"no pickle")
    return finished


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_is_not_what_a_verb_takes_is_named(strange: Shell, words: tuple[str, ...]) -> None:
    assert strange.refuse(*words).startswith(REFUSED[words])


def test_detect_says_nothing_of_an_empty_text(finished: Shell) -> None:
    said = finished.must("detect", "run", "", "--json").json
    assert (said["text"], said["tokens"], said["suspicious"], said["is_relative"]) == ("", [], [], False)


def test_a_file_in_the_way_of_a_folder_is_named(shell: Shell) -> None:
    (shell.folder / "taken").write_text("precious")
    words = ("--out", "taken", "--steps", 2)
    said = shell.refuse("pretrain", "--data", "data", *words)
    assert said.startswith("taken: is a file where a folder is needed")
    assert shell.refuse("prepare", "text.txt", "--out", "taken").startswith("taken: ")
    assert (shell.folder / "taken").read_text() == "precious"
