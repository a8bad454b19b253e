"""A verb is one file; each default and choice is written once, and help, signatures, settings and docs agree."""

import inspect
import json
import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import electralab
from electralab.config import list_bundled
from electralab.records.evaluation import Suite
from electralab.shell import commands
from electralab.shell.call import SETTING_DEFAULTS
from electralab.shell.cli import build_parser, main

ROOT = Path(__file__).parents[2]
VERBS = build_parser()[1]

GREET = '''
"""A verb that greets."""

SUMMARY = "greet somebody, as often as you like"
EXAMPLE = "electra greet Ada --times 2"


def greet(name: str, *, times: int = 3) -> list[str]:
    return [f"hello {name}"] * times


def add_flags(parser):
    parser.add_argument("name", metavar="NAME", help="whom to greet")
    parser.add_argument("--times", type=int, metavar="N", help="how often")


def run(call):
    greetings = greet(call.flags.name, times=call.flags.times)
    call.print(*greetings)
    call.answer(greetings=greetings)
'''


def test_a_new_file_is_a_new_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "greet.py").write_text(GREET)
    monkeypatch.setattr(commands, "__path__", [*commands.__path__, str(tmp_path)])
    for words in (["--help"], ["greet", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
    out = capsys.readouterr().out
    assert "greet somebody, as often as you like" in out
    assert "how often (3)" in out
    assert main(["greet", "Ada", "--times", "2"]) == 0
    assert capsys.readouterr().out == "hello Ada\nhello Ada\n"
    assert main(["greet", "Ada", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"greetings": ["hello Ada"] * 3}
    assert main(["gret", "Ada"]) == 2
    assert capsys.readouterr().err == "electra: no verb named 'gret'; did you mean 'greet'?\n"
    assert getattr(electralab, "greet")("Ada", times=1) == ["hello Ada"]  # noqa: B009  no stub names it
    assert "greet" in electralab.__all__


def test_what_is_generated_is_what_verbs_and_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    generate = import_module("generate")
    assert json.loads(SETTING_DEFAULTS.read_text()) == generate.find_defaults(), "run 'make generate'"
    assert generate.STUB.read_text() == generate.write_stub(), "run 'make generate'"


def test_every_verb_is_a_function_of_python_with_its_name() -> None:
    names = {commands.python_name(verb) for verb in VERBS} - {"completion"}
    assert {getattr(electralab, name).__name__ for name in names} == names
    assert set(electralab.__all__) == names | {"load", "run_study", "judge_claims"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_goes_somewhere(verb: str) -> None:
    """To an argument of the function, or to a setting; but for those that only the shell has."""
    function = commands.python_function(verb)
    known = {*inspect.signature(function).parameters} if function else set()
    of_shell = {"help", "json", "verbose", "dry_run", "config", "input", "files", "text", "file", "lines", "shell"}
    of_shell |= {"evaluate": {"out"}, "detect": {"html"}}.get(verb, set())
    dests = {action.dest for action in VERBS[verb]._actions if not action.dest.startswith(".")}
    assert dests - known - of_shell == set()


def help_of(verb: str, flag: str) -> str:
    return next(str(action.help) for action in VERBS[verb]._actions if flag in (*action.option_strings, action.dest))


def test_the_help_names_every_study_suite_and_task() -> None:
    from electralab.shell.commands.evaluate import SUITES

    assert set(list_bundled("studies")) <= set(re.findall(r"[\w-]+", help_of("study", "config")))
    assert get_args(Suite) == SUITES


def test_names_of_before_still_work() -> None:
    assert (electralab.run_study, electralab.judge_claims) == (electralab.study, electralab.claims)
