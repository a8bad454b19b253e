"""Pages about runs as they really are: what people look for first, data by its place, the better score in bold."""

import json
import re
import shutil
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import SMALL, write_text

pytestmark = pytest.mark.flow


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Shell:
    """Two runs on one data folder, and one on another."""
    shell = Shell(tmp_path_factory.mktemp("runs"))
    shutil.copytree(prepared / "data", shell.folder / "data/first")
    write_text(shell.folder / "other.txt", seed=1)
    shell.must("prepare", "other.txt", "--out", "data/second", "--vocab-size", 200, "--sequence-length", 32)
    rate = "--optimizer.learning-rate"
    for name, data, more in (("a", "first", (rate, 0.01)), ("b", "first", (rate, 0.0001)), ("c", "second", ())):
        shell.must("pretrain", "--data", f"data/{data}", "--out", name, *SMALL, "--steps", 12, *more)
    return shell


def report(shell: Shell, *folders: str) -> str:
    shell.must("report", *folders, "--out", "page.html")
    return (shell.folder / "page.html").read_text()


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([\w-]+)"', page)


def test_a_run_is_shown_at_work_right_after_its_summary(runs: Shell) -> None:
    page = report(runs, "a")
    assert sections(page)[:2] == ["summary", "examples"]
    shown, folded = (
        page.partition('<section id="examples"')[2].split("</section>")[0].split("<summary>4 more</summary>")
    )
    assert (shown.count('class="example"'), folded.count('class="example"')) == (3, 4)  # all held-out rows there are
    assert sections(report(runs, "a", "b")).index("examples") > sections(report(runs, "a", "b")).index("scores")


def test_data_are_known_by_their_place(runs: Shell) -> None:
    assert "tokens of data/first in" in report(runs, "a")
    page = report(runs, "a", "c")
    row = re.search(r'<th scope="row">data</th><td>(.*?)</td><td>(.*?)</td>', page)
    assert row is not None
    assert row.groups() == ("data/first", "data/second")
    assert '<th scope="row">data</th>' not in report(runs, "a", "b").split('id="environment"')[0]


def test_data_of_a_run_that_did_not_write_its_place_are_those_of_its_command(runs: Shell, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shutil.copytree(runs.folder / "a", tmp_path / "a")
    environment = json.loads((tmp_path / "a/environment.json").read_text())
    assert environment.pop("data") == "data/first"
    (tmp_path / "a/environment.json").write_text(json.dumps(environment))
    assert "tokens of data/first in" in report(shell, "a")
    (tmp_path / "a/environment.json").write_text(json.dumps({**environment, "command": ["my_script.py"]}))
    assert "tokens in" in report(shell, "a")


def test_data_that_lay_in_one_place_in_turn_are_told_apart(runs: Shell, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    for name in ("a", "c"):
        shutil.copytree(runs.folder / name, tmp_path / name)
        environment = json.loads((tmp_path / name / "environment.json").read_text())
        (tmp_path / name / "environment.json").write_text(json.dumps({**environment, "data": "data/now"}))
    hashed = json.loads((tmp_path / "c/run.json").read_text())["data"][:8]
    assert f"<td>data/now</td><td>data/now, fingerprint {hashed}</td>" in report(shell, "a", "c")


def test_the_better_of_two_scores_is_bold_where_they_can_be_compared(runs: Shell) -> None:
    page = report(runs, "a", "b")
    assert "<caption>Last scores; the better in bold</caption>" in page
    losses = [
        json.loads((runs.folder / name / "results.json").read_text())["heldout"]["generator_loss"] for name in "ab"
    ]
    assert losses[0] < losses[1]
    assert f'<strong>{losses[0]:.4g}</strong></td><td class="number">{losses[1]:.4g}</td>' in page
    assert "<strong>" not in report(runs, "a", "c").partition('id="scores"')[2].partition("</section>")[0]
