"""Cells side by side: a chain stops at its first failure, the others go on, and what is finished is not done again."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from electralab.errors import IdentityMismatch, Stopped
from electralab.experiments.cells import Cell, Step, run_cells
from electralab.stopping import StopSignal

# Stands for `electra`: the first word says what to do.
ACTOR = textwrap.dedent(
    """
    import json, pathlib, signal, sys, time
    what, name, *_ = sys.argv[1:]
    with open(sys.argv[3], "a") as log:
        log.write(name + "\\n")
    if what == "fail":
        sys.exit("electra: the disk is full")
    if what == "mumble":
        print("not JSON")
        sys.exit()
    if what == "saves":
        def save(*_):
            pathlib.Path(sys.argv[3]).with_name(name + ".saved").write_text("yes")
            sys.exit(143)
        signal.signal(signal.SIGTERM, save)
        pathlib.Path(sys.argv[3]).with_name(name + ".begun").write_text("yes")
        time.sleep(60)
    print(json.dumps({"name": name, "words": sys.argv[4:]}))
    """
)


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "actor.py"
    path.write_text(ACTOR)
    return [sys.executable, "-S", str(path)]


def make_cell(folder: Path, arm: str, *what: str, version: int = 1) -> Cell:
    steps = [
        Step(f"{number}", (word, f"{arm}{number}", str(folder / "log")), {"version": version}, 1.0)
        for number, word in enumerate(what)
    ]
    return Cell(arm, 0, folder / arm, tuple(steps))


def log_of(folder: Path) -> list[str]:
    return (folder / "log").read_text().split()


def test_a_chain_runs_in_order_and_keeps_every_result(tmp_path: Path, program: list[str]) -> None:
    cell = make_cell(tmp_path, "a", "work", "work")
    events = list(run_cells([cell], 1, 3, StopSignal(), program))
    expected = [(state, step) for step in "01" for state in ("started", "finished")]
    assert [(event.state, event.step.name) for event in events] == expected
    assert cell.finished()["1"].result == {"name": "a1", "words": ["--threads", "3", "--json"]}


def test_a_failure_ends_its_own_chain_only_and_is_named(tmp_path: Path, program: list[str]) -> None:
    cells = [make_cell(tmp_path, "a", "fail", "work"), make_cell(tmp_path, "b", "work")]
    events = list(run_cells(cells, 1, 1, StopSignal(), program))
    failed = [event for event in events if event.state == "failed"]
    assert [(event.cell.arm, event.step.name, event.reason) for event in failed] == [("a", "0", "the disk is full")]
    assert log_of(tmp_path) == ["a0", "b0"]


def test_a_child_that_says_nothing_of_use_has_failed(tmp_path: Path, program: list[str]) -> None:
    events = list(run_cells([make_cell(tmp_path, "a", "mumble")], 1, 1, StopSignal(), program))
    assert events[-1].state == "failed"
    assert "ended with status 0" in events[-1].reason


def test_what_is_finished_is_not_done_again_and_what_failed_is(tmp_path: Path, program: list[str]) -> None:
    list(run_cells([make_cell(tmp_path, "a", "work", "fail")], 1, 1, StopSignal(), program))
    list(run_cells([make_cell(tmp_path, "a", "work", "work")], 1, 1, StopSignal(), program))
    assert log_of(tmp_path) == ["a0", "a1", "a1"]


def test_a_result_of_other_settings_is_refused(tmp_path: Path, program: list[str]) -> None:
    list(run_cells([make_cell(tmp_path, "a", "work")], 1, 1, StopSignal(), program))
    with pytest.raises(IdentityMismatch, match="version was 1, now 2; give the same study, or choose another --out"):
        make_cell(tmp_path, "a", "work", version=2).finished()


def test_as_many_cells_run_at_once_as_are_asked_for(tmp_path: Path, program: list[str]) -> None:
    cells = [make_cell(tmp_path, arm, "work") for arm in "abcd"]
    running = most = 0
    for event in run_cells(cells, 3, 1, StopSignal(), program):
        running += 1 if event.state == "started" else -1
        most = max(most, running)
    assert most == 3


def test_a_stop_lets_children_save_and_starts_no_more(tmp_path: Path, program: list[str]) -> None:
    stop = StopSignal()
    cells = [make_cell(tmp_path, arm, "saves") for arm in "ab"]

    def stop_when_begun() -> None:
        _wait_for(tmp_path / "a0.begun")
        stop.number = signal.SIGTERM

    watcher = threading.Thread(target=stop_when_begun)
    watcher.start()
    with pytest.raises(Stopped) as caught:
        list(run_cells(cells, 1, 1, stop, program))
    watcher.join()
    assert caught.value.status == 143
    assert (tmp_path / "a0.saved").exists()
    assert log_of(tmp_path) == ["a0"]


def test_a_killed_child_is_named_with_its_signal(tmp_path: Path, program: list[str]) -> None:
    cell = make_cell(tmp_path, "a", "saves")
    events = run_cells([cell], 1, 1, StopSignal(), program)
    assert next(events).state == "started"
    killer = threading.Thread(target=_kill_when_begun, args=(tmp_path,))
    killer.start()
    failed = list(events)[-1]
    killer.join()
    assert failed.state == "failed"
    assert failed.reason.startswith("ended by signal 9 (SIGKILL), see ")


def _kill_when_begun(folder: Path) -> None:
    _wait_for(folder / "a0.begun")
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    for child in children:
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"actor.py" in command and str(folder).encode() in command:
            os.kill(int(child), signal.SIGKILL)


def test_results_on_the_disk_are_whole_files(tmp_path: Path, program: list[str]) -> None:
    cell = make_cell(tmp_path, "a", "work")
    list(run_cells([cell], 1, 1, StopSignal(), program))
    stored = json.loads((cell.folder / "0.json").read_text())
    assert stored["identity"] == {"version": 1}
    assert not list(cell.folder.glob(".*.tmp"))


def test_the_seconds_of_all_sittings_of_a_step_add_up(tmp_path: Path, program: list[str]) -> None:
    failing, working = (make_cell(tmp_path, "a", word) for word in ("fail", "work"))
    failing.add_seconds(failing.steps[0], 100.0)
    list(run_cells([failing], 1, 1, StopSignal(), program))
    list(run_cells([working], 1, 1, StopSignal(), program))
    assert working.finished()["0"].seconds > 100
    assert working.add_seconds(working.steps[0], 1.0) == 1.0, "what is finished begins anew"


PARENT = """
import sys
from pathlib import Path
from electralab.stopping import StopSignal
from electralab.experiments.cells import Cell, Step, run_cells
folder = Path(sys.argv[1])
cell = Cell("a", 0, folder / "a", (Step("0", ("saves", "a0", str(folder / "log")), {}, 1.0),))
list(run_cells([cell], 1, 1, StopSignal(), sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_children_of_a_study_that_is_killed_save_and_end_too(tmp_path: Path, program: list[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), *program]) as parent:
        _wait_for(tmp_path / "a0.begun")
        parent.kill()
    _wait_for(tmp_path / "a0.saved")
    assert not (tmp_path / "a" / "0.json").exists()  # nobody was left to call it finished


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} never came"
        time.sleep(0.01)


def test_a_step_waits_for_what_another_cell_makes_and_fails_where_nobody_does(
    tmp_path: Path, program: list[str]
) -> None:
    maker, waiter = make_cell(tmp_path, "a", "work"), make_cell(tmp_path, "b", "work")
    waiter = replace(waiter, steps=(replace(waiter.steps[0], needs=(tmp_path / "a" / "0.json",)),))
    failed = list(run_cells([waiter], 2, 1, StopSignal(), program))
    assert [event.state for event in failed] == ["failed"]
    events = list(run_cells([waiter, maker], 2, 1, StopSignal(), program))
    assert [event.cell.arm for event in events if event.state == "finished"] == ["a", "b"]
