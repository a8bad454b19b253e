"""Heads of lines, times and sessions."""

import pytest

from electralab.corpus.logs import LineReader, LogReader, SessionCutter
from electralab.errors import UsageError
from electralab.records.logs import LogTemplate, LogTemplates, SessionRule


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("081109 203615 148 INFO dfs.DataNode$PacketResponder: PacketResponder 1 ends", "PacketResponder 1 ends"),
        ("Jun 14 15:16:01 combo sshd(pam_unix)[19939]: check pass; user unknown", "check pass; user unknown"),
        ("Jun 14 15:16:01 combo kernel: CPU 0 is up", "CPU 0 is up"),
        ("[Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok", "workerEnv.init() ok"),
        ("17/06/09 20:10:40 INFO executor.Backend: Registered: [TERM]", "Registered: [TERM]"),
        ("2015-07-29 17:41:44,747 - WARN  [Peer[myid=1]/0:0:2181:Election@774] - Time out: 3200", "Time out: 3200"),
        ("2024-01-05T10:00:00.123Z ERROR [main] com.acme.Shop: no: such item", "no: such item"),
        ("a line without a head", "a line without a head"),
        ("Times: total = 3", "Times: total = 3"),
    ],
)
def test_the_message_begins_behind_the_head_of_a_line(line: str, message: str) -> None:
    assert LineReader().read(line).message == message


def test_a_given_format_says_where_the_message_is() -> None:
    reader = LineReader("<Id> <Node> <State> <Content>")
    assert reader.read("17 node-3   up link is fine").message == "link is fine"
    assert reader.read("torn").message == "torn"


@pytest.mark.parametrize("line_format", ["<Date> <Message>", "<Content> <Content>"])
def test_a_format_without_the_message_is_refused(line_format: str) -> None:
    with pytest.raises(UsageError, match="<Content>"):
        LineReader(line_format)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2015-07-29 23:59:58,500 - INFO a", "2015-07-30 00:00:00,000 - INFO a"),
        ("Jun 30 23:59:59 host a: b", "Jul  1 00:00:00 host a: b"),
        ("081109 203615 1 INFO a", "081109 203617 1 INFO a"),
        ("[Sun Dec 04 04:47:44 2005] a", "[Sun Dec 04 04:47:45 2005] a"),
        ("1117838570.5 a", "1117838572 a"),
    ],
)
def test_times_differ_by_seconds(first: str, second: str) -> None:
    begin, end = (LineReader().read(line).seconds for line in (first, second))
    assert begin is not None
    assert end is not None
    assert 1 <= end - begin <= 2


def cut(rule: SessionRule, *lines: tuple[str, float]) -> dict[str, list[int]]:
    cutter = SessionCutter(rule)
    for number, (line, seconds) in enumerate(lines, start=1):
        cutter.add(number, line, seconds)
    cutter.finish()
    return cutter.sessions


def test_lines_with_the_same_key_are_a_session_and_a_line_may_be_of_several() -> None:
    lines = (("got blk_1", 0.0), ("got blk_2", 0.0), ("copied blk_1 to blk_2", 0.0), ("nothing", 0.0))
    assert cut(SessionRule(key=r"blk_\d"), *lines) == {"blk_1": [1, 3], "blk_2": [2, 3]}
    assert cut(SessionRule(key=r"blk_(\d)"), *lines) == {"1": [1, 3], "2": [2, 3]}


def test_windows_have_so_many_lines_or_end_where_nothing_is_logged() -> None:
    lines = (("a", 0.0), ("b", 1.0), ("c", 20.0), ("d", 21.0), ("e", 22.0))
    assert cut(SessionRule(lines=2), *lines) == {"lines 1-2": [1, 2], "lines 3-4": [3, 4], "lines 4-5": [4, 5]}
    assert cut(SessionRule(gap=5.0), *lines) == {"lines 1-2": [1, 2], "lines 3-5": [3, 4, 5]}
    assert list(cut(SessionRule(gap=5.0, lines=2), *lines)) == ["lines 1-2", "lines 3-4", "lines 5-5"]


def test_a_log_shorter_than_a_session_is_one() -> None:
    assert cut(SessionRule(lines=9), ("a", 0.0), ("b", 1.0)) == {"lines 1-2": [1, 2]}


def test_a_key_that_is_no_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="--session-key"):
        SessionCutter(SessionRule(key="("))


def test_new_lines_are_read_by_stored_templates() -> None:
    template = LogTemplate(event="E1", template="job <*>", pieces=("job", "<*>"), lines=1, example="job 1")
    templates = LogTemplates(line_format="", sessions=SessionRule(lines=10), templates=(template,))
    reader = LogReader(LogTemplates.parse(templates.to_json(), __file__))  # type: ignore[arg-type]
    read = reader.read(["job 7", "", "jobs"])
    (session,) = read.sessions
    assert (session.name, session.lines, session.events) == ("lines 1-3", (1, 3), ("E1", "unseen"))
    assert read.warnings == [
        "2 lines are fewer than the 10 of a session that the model knows, so it may look odd for that alone"
    ]
    assert reader.read(["job 7"] * 25).warnings == []


def test_new_lines_without_the_format_or_the_times_that_are_looked_for_are_said() -> None:
    template = LogTemplate(event="E1", template="job <*>", pieces=("job", "<*>"), lines=1, example="job 1")
    rule = SessionRule(gap=5.0)
    templates = LogTemplates(line_format="<Time> host <Content>", sessions=rule, templates=(template,))
    reader = LogReader(templates)
    assert reader.read(["1117838570 host job 7"]).warnings == []
    assert reader.read(["1117838570 host job 7", "job 8", "late host job 9"]).warnings == [
        "--line-format '<Time> host <Content>' fits 2 of 3 lines, not line 2; what does not fit is read whole",
        "--session-gap: 2 of 3 lines have no time that is known; no session ends before them",
    ]
