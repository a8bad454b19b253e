"""The words of the shell: quick help, the nearest known word, one sentence per error, JSON alone where asked for."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest

from electralab.objective.settings import ObjectiveName, Procedure
from electralab.records.answers import Detection, ProofreadResult
from electralab.records.tuned import PredictionRow, PredictResult
from electralab.shell.call import Call
from electralab.shell.cli import build_parser, main, split_overrides
from electralab.shell.commands import detect as detecting
from electralab.shell.commands import predict as predicting
from electralab.shell.commands import proofread as proofreading

VERBS = sorted(build_parser()[1])


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit status and standard error; standard output must stay empty."""
    status = main(list(words))
    out, err = capsys.readouterr()
    assert out == ""
    return status, err


def test_the_help_names_every_objective_and_procedure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a line break may fall inside a name
    with pytest.raises(SystemExit):
        main(["pretrain", "--help"])
    words = re.findall(r"[\w-]+", capsys.readouterr().out)
    assert {*get_args(ObjectiveName), *get_args(Procedure)} <= set(words)


@pytest.mark.parametrize("words", ["--help", *(f"{verb} --help" for verb in VERBS), "--version", "completion bash"])
def test_help_loads_nothing_heavy(words: str) -> None:
    heavy = {"torch", "numpy", "pydantic", "rich", "tokenizers", "safetensors", "inspect"}
    program = "import atexit, sys; atexit.register(lambda: print(sorted(%r & sys.modules.keys()), file=sys.stderr)); "
    program += "from electralab.shell.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program % heavy, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert "electra" in done.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_in_its_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    example = out.rpartition("example:\n")[2]
    assert f"electra {verb} " in example
    assert "--json" in out
    assert "--dry-run" in out


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "completion"])
def test_the_example_of_a_verb_is_one_that_it_accepts(verb: str) -> None:
    parser, verbs = build_parser()
    epilog = verbs[verb].epilog
    assert epilog is not None
    words = shlex.split(epilog.removeprefix("example:"))
    assert words[0] == "electra"
    plain, _ = split_overrides(words[1:])
    assert parser.parse_args(plain).verb == verb


def test_flops_prints_an_account_without_any_data(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["flops", "--config", "tiny", "--objective", "causal", "--vocab-size", "100", "--sequence-length", "16"]
    assert main([*words, "--tokens", "1600", "--batch.size", "10", "--threads", "1", "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert (account["steps"], account["tokens"], account["vocab_size"]) == (10, 1600, 100)
    assert account["paper_flops"] is None
    assert main([*words, "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "not defined" in out
    assert "time here, about" in out
    assert main(["flops", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["objective"] == "electra"


def test_the_bare_command_prints_the_help_with_the_status_of_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    status, err = said(capsys)
    assert status == 2
    assert err.startswith("usage: electra ")
    assert all(f"\n    {verb}" in err for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_and_argument_of_a_verb_has_help(verb: str) -> None:
    actions = build_parser()[1][verb]._actions
    told = {"/".join(action.option_strings) or action.dest: action.help or "" for action in actions}
    assert [name for name, text in told.items() if len(text) < len("fold case")] == []


WRONG_WORDS = {
    "pretrian": "no verb named 'pretrian'; did you mean 'pretrain'?",
    "fly": "no verb named 'fly'; see 'electra --help'",
    "pretrain --data d --out r --stesp 5": "pretrain: no flag named '--stesp'; did you mean '--steps'?",
    "pretrain --data d --ot r": "pretrain: no flag named '--ot'; did you mean '--out'?",
    "prepare x --out d --vocabsize=9": "prepare: no flag named '--vocabsize'; did you mean '--vocab-size'?",
    "prepare x --out d --qqq": "prepare: no flag named '--qqq'; see 'electra prepare --help'",
    "pretrain --data d": "pretrain: the following arguments are required: --out; see 'electra pretrain --help'",
    "show a b": "show: unexpected argument 'b'; see 'electra show --help'",
    "show a --masking.share 2": "show: no flag named '--masking.share'; see 'electra show --help'",
    "pretrain --data d --out r --steps 0": (
        "pretrain: argument --steps: must be a whole number of at least 1, got '0'; see 'electra pretrain --help'"
    ),
    "pretrain --data d --out r --minutes soon": (
        "pretrain: argument --minutes: must be a number above 0, got 'soon'; see 'electra pretrain --help'"
    ),
    "pretrain --data d --out r --masking.mask-shares 0.2": (
        "command line: masking: no setting named 'mask_shares'; did you mean 'mask_share'?"
    ),
    "pretrain --data d --out r --config tinny": "--config: no preset or file named 'tinny'; did you mean 'tiny'?",
    "prepare x --out d --tokenizer.vocab-sise 9": (
        "command line: tokenizer: no setting named 'vocab_sise'; did you mean 'vocab_size'?"
    ),
    "prepare x --out d --seed 1 --seed.x 2": "--seed: is given both as a value and as a section; keep one",
    "prepare x --out d --heldout-share 0.1 --heldout-share.x 2": (
        "--heldout-share: is given both as a value and as a section; keep one"
    ),
    "study s --corpus c --out o --only ,": (
        "study: argument --only: must be names with commas between them, got ','; see 'electra study --help'"
    ),
    "study s --corpus c --out o --flops 1e9 --budget.tokens 5": (
        "study: the budget is given as --flops and as --budget; keep one"
    ),
    "flops --table --objective mlm": "flops: --table is of the paper's runs, whatever else is given; give it alone",
    "flops --table --data d": "flops: --table is of the paper's runs, whatever else is given; give it alone",
    "flops --vocab-size 5": (
        "flops: vocab_size: input should be greater than or equal to 64 (got 5); correct this setting"
    ),
    "flops --sequence-length 1": (
        "flops: sequence_length: input should be greater than or equal to 8 (got 1); correct this setting"
    ),
    "detect m": "detect: give one of TEXT, --file PATH, --logs PATH, or - for standard input",
}


@pytest.mark.parametrize("line", WRONG_WORDS)
def test_wrong_words_are_answered_with_the_nearest_right_one(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *line.split()) == (2, f"electra: {WRONG_WORDS[line]}\n")


@pytest.mark.parametrize("is_torchrun", [True, False])
def test_torchrun_starts_verbs_that_ranks_share_only(
    is_torchrun: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two processes would write the same folder; a cluster that numbers its machines in WORLD_SIZE starts one."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    if is_torchrun:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    status, err = said(capsys, "prepare", str(tmp_path / "nowhere"), "--out", str(tmp_path / "data"))
    refusal = (
        "prepare: is not spread over ranks, and torchrun started it 2 times; only pretrain, finetune, glue are, so "
        "start this one without torchrun"
    )
    assert (refusal in err, status) == (is_torchrun, 2 if is_torchrun else 1)


@pytest.mark.parametrize("words", ["show {}", "flops --dry-run --data {}"])
def test_what_is_not_there_has_status_one(words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, err = said(capsys, *words.format(tmp_path / "nowhere").split())
    assert status == 1
    assert err.startswith(f"electra: {tmp_path / 'nowhere'}: no such f")


@pytest.mark.parametrize("content", ["[]", '{"table": []}', '{"title": 5, "table": 5}'])
def test_results_of_a_study_in_another_shape_are_one_sentence(
    content: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text('name = "little"')
    (tmp_path / "results.json").write_text(content)
    status, err = said(capsys, "show", str(tmp_path))
    assert status == 1
    assert err.endswith("run the command that wrote it again\n")
    assert err.count("\n") == 1


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("one two three four five\n\nsix seven eight nine ten\n")
    words = ["prepare", str(tmp_path / "text.txt"), "--out", str(tmp_path / "data"), "--vocab-size", "64", "--json"]
    assert main([*words, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["sources"] == [str(tmp_path / "text.txt")]
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["counts"]["documents"] == 2
    assert out.count("\n") == 1
    assert "finished" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_prints_a_script_that_knows_the_verbs(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "pretrain" in script
    assert "--save-every" in script or shell == "tcsh"  # whose scripts know no flags of subcommands
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script.encode(), check=True)


def test_dotted_settings_are_told_from_flags_and_inputs() -> None:
    words = ["pretrain", "--data", "d.x", "--model.num-layers", "2", "--out=r.1", "--a.b=c", "--", "--not.this", "1"]
    plain, dotted = split_overrides(words)
    assert plain == ["pretrain", "--data", "d.x", "--out=r.1", "--", "--not.this", "1"]
    assert dotted == ["--model.num-layers", "2", "--a.b=c"]


@pytest.mark.parametrize(
    "line",
    [
        "detect run word --json --file f",
        "detect run --json word --file f",
        "detect --file f run --json word",
        "detect --json --file=f run -- word",
    ],
)
def test_words_may_come_in_any_order(line: str) -> None:
    parser, verbs = build_parser()
    found = parser.parse_args(["detect", *verbs["detect"].flags_first(line.split()[1:])])
    assert (found.model, found.text, found.file, found.json) == ("run", "word", "f", True)


def test_inputs_may_stand_around_flags() -> None:
    words = ["a", "--out", "d", "b", "--no-lowercase", "-", "--seed", "-1"]
    parser, verbs = build_parser()
    found = parser.parse_args(["prepare", *verbs["prepare"].flags_first(words)])
    assert (found.inputs, found.out) == (["a", "b", "-"], "d")
    assert Call(found).settings == {"tokenizer": {"lowercase": False}, "seed": -1}


def test_flags_and_settings_with_any_characters_arrive_as_they_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"\U0001f600": "one two three"}\n', encoding="utf-8")
    words = ["prepare", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "d"), "--field", "\U0001f600", "--json"]
    assert main([*words, "--vocab-size", "64"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["documents"] == 1


def test_an_ascii_terminal_gets_stand_ins_and_valid_json(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5, "auc": 0.5, "warnings": ["über"]}\n')
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"}

    def show(*words: str) -> str:
        command = [sys.executable, "-m", "electralab", "show", str(tmp_path / "metrics.jsonl"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    assert "auc" in show()
    assert json.loads(show("--json"))["records"][0]["warnings"] == ["über"]


def test_every_line_of_json_is_escaped_for_an_ascii_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", errors="replace"))
    monkeypatch.setattr(detecting, "detect", lambda texts, **_: [Detection(text=text, tokens=()) for text in texts])
    (tmp_path / "lines.txt").write_text("über\n\nÄpfel\nnaïve\n", encoding="utf-8")
    assert main(["detect", "model", "--file", str(tmp_path / "lines.txt"), "--lines", "--json"]) == 0
    lines = written.getvalue().decode("ascii").splitlines()
    # A line for each, blank ones too.
    assert [json.loads(line)["text"] for line in lines] == ["über", "", "Äpfel", "naïve"]


HOSTILE = "x\x1b[31mred\x9b2J\nelectra: all is well"


@pytest.mark.parametrize(
    "words",
    [
        [HOSTILE],
        ["prepare", HOSTILE, "--out", "o"],
        ["prepare", "x", "--out", "o", f"--{HOSTILE}"],
        ["prepare", "x", "--out", "o", f"--filters.{HOSTILE}", "1"],
        ["prepare", "x", "--out", "o", "--config", HOSTILE],
        ["pretrain", "--data", HOSTILE, "--out", "o"],
        ["detect", HOSTILE, "text"],
        ["show", HOSTILE],
    ],
)
def test_no_name_in_an_error_gives_orders_to_the_terminal_or_forges_a_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, err = said(capsys, *words)
    assert status > 0
    assert err.startswith("electra: ")
    assert err.count("\n") == 1
    assert not set(err) & {"\x1b", "\x9b"}


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "loop"],
        ["report", "loop"],
        ["show", "loop"],
        ["detect", "loop", "text"],
        ["prepare", "loop", "--out", "o"],
        ["pretrain", "--data", "loop", "--out", "o"],
        ["analyze", "loop", "--data", ".", "--out", "o"],
    ],
)
def test_a_link_to_itself_is_one_sentence_that_names_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    status, err = said(capsys, *words)
    assert status > 0
    assert err.startswith("electra: ")
    assert "loop" in err


def test_json_on_standard_output_holds_no_control_character(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = PredictResult(predictions=(PredictionRow(prediction=HOSTILE),), bad_rows=0, cut=0)
    monkeypatch.setattr(predicting, "predict", lambda *_, **__: rows)
    assert main(["predict", "model", "rows.csv"]) == 0
    line = capsys.readouterr().out
    assert not set(line.removesuffix("\n")) & {"\x1b", "\x9b", "\n"}
    assert json.loads(line)["prediction"] == HOSTILE


@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("words", [["detect", "m", "-"], ["detect", "m", "--file", "a.txt"], ["proofread", "a.txt"]])
def test_text_that_ends_inside_a_character_loses_that_character_only(
    words: list[str], cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = "\ufeff한국어".encode() + "말".encode()[:cut]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    Path("a.txt").write_bytes(data)
    seen: list[str] = []

    def detect(texts: list[str], **_: object) -> list[Detection]:
        seen.extend(texts)
        return [Detection(text="", tokens=())]

    def proofread(texts: dict[str, str], **_: object) -> ProofreadResult:
        seen.extend(texts.values())
        return ProofreadResult(model="m", threshold=0.5, warning=None, proofs=())

    monkeypatch.setattr(detecting, "detect", detect)
    monkeypatch.setattr(proofreading, "proofread", proofread)
    assert main([*words, "--json"]) == 0
    assert seen == ["한국어"]
    name = "standard input" if "-" in words else "a.txt"
    assert capsys.readouterr().err == f"{name}: ends inside a character, which is left out\n"


def test_bytes_that_begin_no_character_are_still_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_bytes("한국어".encode() + b"\xff")
    assert said(capsys, "detect", "m", "--file", str(tmp_path / "a.txt"))[1].endswith(
        "a.txt: not UTF-8 at byte 9; convert it, for example with iconv\n"
    )
    broken = "한".encode()[:2].decode(errors="surrogateescape")
    assert said(capsys, "detect", "m", broken)[1].startswith("electra: TEXT: not UTF-8 at byte 0")


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """A folder that this process may not search; root, who may search any, becomes nobody for a while."""
    is_root = os.geteuid() == 0
    folder.chmod(0)
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


def test_a_folder_that_may_not_be_searched_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    text = str(Path(__file__))
    lines = [
        ["prepare", text, "--out", f"{closed}/data", "--dry-run"],
        ["prepare", text, "--out", f"{closed}/data"],
        ["pretrain", "--data", f"{closed}/nothing", "--out", f"{closed}/run"],
        ["detect", f"{closed}/model", "word"],
        ["detect", "model", "--file", f"{closed}/text.txt"],
        ["show", f"{closed}/data"],
        ["import", f"{closed}/old", "--out", f"{closed}/new"],
    ]
    for words in lines:  # what each verb imports, nobody may not be allowed to read
        main(words)
    capsys.readouterr()
    with forbidden(closed):
        found = [said(capsys, *words) for words in lines[1:]]
    for status, err in found:
        assert status == 1
        assert re.fullmatch(rf"electra: {closed}\S*: .*permission denied.*\n", err, re.IGNORECASE), err


@pytest.mark.parametrize(
    "words", ["completion bash", "completion bash --json", "prepare {text} --out d --dry-run --json"]
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_standard_output_is_one_sentence(words: str, unbuffered: str) -> None:
    environment = {"PYTHONUNBUFFERED": unbuffered, "PATH": "/usr/bin:/bin"}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "electralab", *words.format(text=__file__).split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (1, "electra: standard output: No space left on device\n")


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    """`electra … | head -0`: the pipe is closed before anything is written."""
    script = f"{sys.executable} -m electralab completion bash | head -c 0; echo ${{PIPESTATUS[0]}} >&2"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == "0\n"
