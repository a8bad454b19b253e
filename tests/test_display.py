"""What long work says on its way: plain lines in a pipe, a bar in a terminal, names as they are."""

import io
from collections.abc import Iterator

import pytest

from electralab.display import Display, TameConsole
from electralab.events import Event, Note, Progress, Result, format_minutes


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "\x1b" not in captured.err
    return captured.err.splitlines()


def test_a_note_and_a_live_line_give_no_orders_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "run\x1b[2J\nelectra: finished"
    display = Display()
    display.say(f"saved {hostile}", style="green")
    assert lines_of(capsys) == ["saved run�[2J electra: finished"]
    display.console = TameConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=120)
    display.follow(iter((Progress(hostile, 1, 2), Result(0))))
    drawn = display.console.file.getvalue()  # type: ignore[attr-defined]
    assert "run�[2J electra: finished" in drawn
    assert hostile not in drawn


def work() -> Iterator[Event[int]]:
    yield Progress("reading [b]", 0, 0, line="reading [b]")
    yield Note("no dev file: :smile: [b]", "warning")
    yield Progress("training", 0, 2)
    yield Progress("training", 1, 2, text="loss 0.5 [red]", line="step 1/2  loss 0.5  eta 0:02")
    yield Progress("training", 1, 2, line="saved run/step-1")
    yield Note("       held out  G 4.5", "score")
    yield Result(7)


def test_a_pipe_gets_the_lines_and_notes_of_a_stage_and_its_caller_the_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert Display().follow(work()) == 7
    assert lines_of(capsys) == [
        "reading [b]",
        "no dev file: :smile: [b]",
        "step 1/2  loss 0.5  eta 0:02",
        "saved run/step-1",
        "       held out  G 4.5",
    ]


def test_a_terminal_gets_a_bar_and_the_notes() -> None:
    display = Display()
    display.console = TameConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=120, emoji=False)
    assert display.follow(work()) == 7
    drawn = display.console.file.getvalue()  # type: ignore[attr-defined]
    for text in ("no dev file: :smile: [b]", "held out  G 4.5", "loss 0.5 [red]", " 50%", "eta"):
        assert text in drawn
    assert "step 1/2" not in drawn
    assert "saved" not in drawn


def test_a_stage_is_followed_to_its_end_so_that_it_gives_back_what_it_holds() -> None:
    held = ["lock"]

    def locked() -> Iterator[Event[int]]:
        yield Result(1)
        held.clear()

    assert Display().follow(locked()) == 1
    assert held == []


def test_nobody_asks_a_quiet_display(capsys: pytest.CaptureFixture[str]) -> None:
    assert Display(quiet=True).follow(work()) == 7
    assert lines_of(capsys) == []


@pytest.mark.parametrize(("minutes", "text"), [(0.5, "30 s"), (12.2, "12 min"), (210, "3.5 h")])
def test_a_duration_is_told_in_the_unit_that_says_enough(minutes: float, text: str) -> None:
    assert format_minutes(minutes) == text
