"""The page that training leaves: however it ends, and never at its cost."""

import signal
from pathlib import Path

import pytest
from report_folders import make_run

from electralab.api import _page_at_end as page_at_end
from electralab.display import Display
from electralab.errors import Stopped, TrainingDiverged, UsageError
from electralab.reporting import page


def test_a_finished_run_has_its_page_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    with page_at_end(run, Display()):
        pass
    assert "<h1>run</h1>" in (run / "report.html").read_text()
    assert capsys.readouterr().err == f"page  {run / 'report.html'}\n"


@pytest.mark.parametrize("end", [Stopped(signal.SIGTERM), TrainingDiverged("run: 9 steps were not finite")])
def test_a_run_that_stops_early_has_one_too(tmp_path: Path, end: BaseException) -> None:
    run = make_run(tmp_path / "run", steps=20, total=80)
    with pytest.raises(type(end)), page_at_end(run, Display(quiet=True)):
        raise end
    assert "It is at step 20 of 80" in (run / "report.html").read_text()


def test_a_folder_that_was_refused_stays_as_it_was(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with pytest.raises(UsageError), page_at_end(run, Display(quiet=True)):
        raise UsageError("run: holds data or a model")
    assert not (run / "report.html").exists()


def test_a_stop_before_the_first_step_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Stopped), page_at_end(tmp_path, Display()):
        raise Stopped(signal.SIGINT)
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == ""


def test_a_page_that_cannot_be_written_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "run")
    (run / "report.html").mkdir()
    with page_at_end(run, Display()):
        pass
    said = capsys.readouterr().err
    assert said.startswith(f"warning: {run / 'report.html'}: could not be written (")
    assert said.endswith("tries again\n")


def test_a_mistake_of_ours_in_the_page_costs_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(page, "compose_page", fail)
    with page_at_end(make_run(tmp_path / "run"), Display()):
        pass
    assert "could not be written (ZeroDivisionError); 'electra report" in capsys.readouterr().err
