"""A study and its folder: what is refused before it begins, and what is left where it is stopped."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from little_study import finish, plan_little

from electralab.artifacts import write_json
from electralab.errors import Stopped, UsageError
from electralab.experiments import stage
from electralab.experiments.plan import Plan, StudyRequest, write_command
from electralab.experiments.stage import describe_plan, run_study
from electralab.stopping import StopSignal

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]


def ask(out: Path, **changes: Any) -> StudyRequest:
    values: dict[str, Any] = {"study": "little.toml", "corpus": Path("data"), "data_dir": None, "settings": {}}
    return StudyRequest(out=out, **values | changes)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    made = plan_little(tmp_path / "out")
    monkeypatch.setattr(stage, "plan_study", lambda _: made)
    return made


def test_a_folder_with_something_else_in_it_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    for run in (describe_plan, lambda request: next(run_study(request, StopSignal()))):
        with pytest.raises(UsageError, match=r"holds something else than a study \(it has README.md\); choose another"):
            run(ask(tmp_path))
    with pytest.raises(UsageError, match="is a file, and not a folder for a study; choose another --out"):
        describe_plan(ask(tmp_path / "README.md"))
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.usefixtures("plan")
def test_a_dry_run_refuses_what_the_real_one_would(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "study.toml").write_text('name = "another"')
    with pytest.raises(UsageError, match="holds the study 'another', not 'little'"):
        describe_plan(ask(out))


@pytest.mark.usefixtures("plan")
def test_other_threads_than_those_of_the_study_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_json(out / "environment.json", {"threads": 2})
    (out / "study.toml").write_text('name = "little"')
    with pytest.raises(
        UsageError, match=r"run with 2 threads each, not 1, .*; give --threads 2, or choose another --out"
    ):
        describe_plan(ask(out))


def test_a_study_that_is_stopped_leaves_a_report_of_what_there_is(tmp_path: Path, plan: Plan) -> None:
    out = tmp_path / "out"
    finish(plan.cells[0])
    (out / "study.toml").write_text('name = "little"')
    stop = StopSignal()
    stop.number = signal.SIGTERM
    with pytest.raises(Stopped):
        list(run_study(ask(out), stop, SLEEPER))
    statuses = [cell["status"] for cell in json.loads((out / "results.json").read_text())["cells"]]
    assert statuses == ["finished", "unfinished", "unfinished", "unfinished"]
    assert "- better seed 0: not run to its end" in (out / "report.md").read_text()


def test_the_command_is_written_as_a_shell_would_take_it() -> None:
    settings = {
        "pretrain": {"batch": {"size": 4}, "config": "my file.toml"},
        "seeds": [0, 1],
        "budget": {"flops": 1e13},
    }
    command = write_command(ask(Path("out"), data_dir=Path("scores"), settings=settings, only=("a", "b"), threads=2))
    assert command == (
        "electra study little.toml --corpus data --out out --data scores --pretrain.batch.size 4 "
        "--pretrain.config 'my file.toml' --seeds 0,1 --budget.flops 10000000000000.0 --only a,b --threads 2"
    )
