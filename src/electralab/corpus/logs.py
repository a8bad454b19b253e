"""Files of a log -> messages, sessions and templates.

files -> lines -> LogLine (its message, its time) -> Sessions of line numbers;  TemplateTree names their events
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from electralab.corpus.readers import split_lines
from electralab.corpus.sources import ByteCounter, Source, open_source, read_utf8
from electralab.corpus.templates import TemplateTree
from electralab.errors import UsageError
from electralab.records.logs import LogTemplates, SessionRule
from electralab.stopping import StopSignal

CONTENT = "Content"
UNSEEN = "unseen"
"""The event of a line that fits no template."""
_STOP_EVERY = 1 << 12

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d+))?"
_TIMES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?P<y>\d{{4}})[-/.](?P<mo>\d\d)[-/.](?P<d>\d\d)[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?",
        rf"(?P<y>\d\d)/(?P<mo>\d\d)/(?P<d>\d\d) {_CLOCK}",
        rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<month>{'|'.join(_MONTHS)}) +(?P<d>\d{{1,2}}) {_CLOCK}"
        r"(?: (?P<y>\d{4})\b)?",
        r"(?P<y>\d\d)(?P<mo>\d\d)(?P<d>\d\d) (?P<h>\d\d)(?P<mi>\d\d)(?P<s>\d\d)\b",
        r"(?P<epoch>\d{10})(?:\.(?P<f>\d+))?(?!\d)",
    )
)
_LEVEL = re.compile(
    r"\[?\b(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRIT|CRITICAL|ALERT|FATAL|SEVERE)\b\]?:?(?=\s|$)", re.I
)
_MARK = re.compile(r"(?:-|\||\d+)(?=\s)")
_BRACKET = re.compile(r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\](?=\s|:)")
_SPACE = re.compile(r"[\s:]*")
# What reports, as `dfs.DataNode$PacketResponder:` and `sshd(pam_unix)[19939]:` do.
_COMPONENT = re.compile(r"[A-Za-z][\w$/-]*(?:[.$][\w$/.-]+|\[\d+\]|\([\w.-]+\))+:(?=\s|$)")
# Of the classical system log, which names the machine first.
_HOST = re.compile(r"(?!\[)[\w.-]+ [^\s:\[]+(?: [\d.]+)?(?:\[\d+\])?:(?=\s|$)")


@dataclass(frozen=True, slots=True)
class LogLine:
    message: str
    seconds: float | None
    """When it was written, counted from any point in time; None where the line does not say."""
    is_fitting: bool = True
    """Whether it has the line format that was given."""


class LineReader:
    """Finds the message in a line, behind time, level and what reports."""

    def __init__(self, line_format: str = "") -> None:
        """`line_format`: such as `<Date> <Time> <Level>: <Content>`; empty to look for what heads of lines hold."""
        self._pattern = _compile_format(line_format) if line_format else None

    def read(self, line: str) -> LogLine:
        """
        >>> LineReader().read("2015-10-18 18:01:47,978 INFO [main] org.apache.Master: Created 3 tasks").message
        'Created 3 tasks'
        """
        if self._pattern is not None:
            match = self._pattern.fullmatch(line)
            head = line if match is None else line[: match.start(CONTENT)]
            times = (pattern.search(head) for pattern in _TIMES)
            seconds = next((_read_time(time) for time in times if time), None)
            return LogLine(line if match is None else match[CONTENT], seconds, match is not None)
        place, seconds, is_system = 0, None, False
        while True:
            inside = place + (line[place : place + 1] == "[")
            time = next(filter(None, (pattern.match(line, inside) for pattern in _TIMES)), None)
            if time and seconds is None:
                seconds, end = _read_time(time), time.end()
                is_system = bool(time.groupdict().get("month")) and line[end : end + 1] == " "
                end += line[end : end + 1] == "]"
            else:
                piece = _LEVEL.match(line, place) or _MARK.match(line, place)
                piece = piece or (_BRACKET.match(line, place) if place else None)
                if piece is None:
                    break
                end = piece.end()
            space = _SPACE.match(line, end)
            place = space.end() if space else end
        source = _HOST.match(line, place) if is_system else None
        source = source or (_COMPONENT.match(line, place) if place else None)
        place = source.end() if source else place
        return LogLine(line[place:].strip() or line.strip(), seconds)


def _compile_format(line_format: str) -> re.Pattern[str]:
    pattern, names = "", []
    for part in re.split(r"(<[A-Za-z]\w*>)", line_format):
        if re.fullmatch(r"<\w+>", part):
            names.append(part[1:-1])
            pattern += f"(?P<{part[1:-1]}>.*?)"
        else:
            pattern += r"\s+".join(map(re.escape, re.split(r"\s+", part)))
    if CONTENT not in names or len(set(names)) < len(names):
        raise UsageError(
            f"--line-format: {line_format!r} has no <{CONTENT}>, or a name twice; name each part of a line once, as in "
            f"'<Date> <Time> <Level>: <{CONTENT}>'"
        )
    return re.compile(pattern)


def _read_time(match: re.Match[str]) -> float | None:
    parts = match.groupdict()
    fraction = float(f"0.{parts.get('f') or 0}")
    if epoch := parts.get("epoch"):
        return int(epoch) + fraction
    month = _MONTHS.index(name) + 1 if (name := parts.get("month")) else int(parts["mo"])
    # Without a year any leap year will do.
    year = int(parts["y"] or 2000)
    try:
        day = date(year + 2000 * (year < 100), month, int(parts["d"]))
    except ValueError:
        return None
    hours, minutes, seconds = (int(parts[name]) for name in ("h", "mi", "s"))
    return day.toordinal() * 86400.0 + hours * 3600 + minutes * 60 + seconds + fraction


def read_lines(files: Sequence[Source], stop: StopSignal, counter: ByteCounter | None = None) -> Iterator[str]:
    """The lines of all files; one that is no UTF-8 is read as far as it is."""
    number = 0
    for source in files:
        with open_source(source, counter) as stream:
            for line in split_lines(source, read_utf8(stream, "utf-8")):
                number += 1
                if number % _STOP_EVERY == 0:
                    stop.check()
                yield line.decode("utf-8", "replace").rstrip("\r")


class LogReader:
    """Reads new lines of a log as those were read that its templates come from."""

    def __init__(self, templates: LogTemplates) -> None:
        self.templates = {template.event: template for template in templates.templates}
        self._lines, self._tree = LineReader(templates.line_format), TemplateTree(templates.templates)
        self._format, self._rule = templates.line_format, templates.sessions

    def read(self, lines: Iterable[str]) -> "LogSessions":
        """The sessions of these lines, with the events of their lines."""
        cutter, heads, events = SessionCutter(self._rule), HeadCounts(self._format, self._rule), []
        for number, line in enumerate(lines, start=1):
            read = self._lines.read(line)
            # A blank line is no event.
            events.append(self._tree.find(read.message) or UNSEEN if read.message else "")
            if read.message:
                heads.add(number, read)
                cutter.add(number, line, read.seconds)
        cutter.finish()
        warnings = heads.find_complaints()
        least = min(map(len, cutter.sessions.values()), default=0)
        if not self._rule.gap and least < self._rule.lines:
            warnings.append(
                f"{least:,} lines are fewer than the {self._rule.lines:,} of a session that the model knows, so it may "
                "look odd for that alone"
            )
        sessions = [
            Session(name, tuple(numbers), tuple(events[number - 1] for number in numbers))
            for name, numbers in cutter.sessions.items()
        ]
        return LogSessions(sessions, warnings)


@dataclass(slots=True)
class HeadCounts:
    """How many lines have what a line format, or a rule for sessions, looks for in them."""

    line_format: str
    rule: SessionRule
    lines: int = 0
    fitting: int = 0
    timed: int = 0
    first_other: int = 0
    """The first line that the format does not fit."""

    def add(self, number: int, line: LogLine) -> None:
        self.lines += 1
        self.fitting += line.is_fitting
        self.timed += line.seconds is not None
        if not line.is_fitting and not self.first_other:
            self.first_other = number

    def find_complaints(self) -> list[str]:
        """What was looked for and is missing in some lines, or in all."""
        complaints = []
        if self.fitting < self.lines:
            complaints.append(
                f"--line-format {self.line_format!r} fits {self.fitting:,} of {self.lines:,} lines, not line "
                f"{self.first_other:,}; what does not fit is read whole"
            )
        if self.rule.gap and self.timed < self.lines:
            complaints.append(
                f"--session-gap: {self.lines - self.timed:,} of {self.lines:,} lines have no time that is known; no "
                "session ends before them"
            )
        return complaints


@dataclass(frozen=True, slots=True)
class LogSessions:
    sessions: list["Session"]
    warnings: list[str]
    """What speaks against reading the lines in this way."""


@dataclass(frozen=True, slots=True)
class Session:
    name: str
    lines: tuple[int, ...]
    """Counted from 1."""
    events: tuple[str, ...]


@dataclass(slots=True)
class SessionCutter:
    """Lines, one after the other, to the sessions that they belong to."""

    rule: SessionRule
    sessions: dict[str, list[int]] = field(default_factory=dict)
    """The lines of each, by its name."""
    _key: re.Pattern[str] | None = None
    _window: list[int] = field(default_factory=list)
    _before: list[int] = field(default_factory=list)
    _last: float | None = None

    def __post_init__(self) -> None:
        if self.rule.key:
            try:
                self._key = re.compile(self.rule.key)
            except re.error as error:
                raise UsageError(f"--session-key: {self.rule.key!r} is no regular expression ({error})") from None

    def add(self, number: int, line: str, seconds: float | None) -> None:
        if self._key is not None:
            names = {match[1] if match.re.groups else match[0] for match in self._key.finditer(line)}
            for name in sorted(names - {None, ""}):
                self.sessions.setdefault(name, []).append(number)
            return
        is_late = seconds is not None and self._last is not None and seconds - self._last > self.rule.gap > 0
        if self._window and (is_late or len(self._window) >= self.rule.lines > 0):
            self.finish()
        self._window.append(number)
        self._last = self._last if seconds is None else seconds

    def finish(self) -> None:
        """The last window ends with the log. It begins early enough to be as long as the others: a shorter one would
        look odd for that alone."""
        if not self._window:
            return
        if self.rule.lines > len(self._window) and not self.rule.gap:
            self._window = [*self._before, *self._window][-self.rule.lines :]
        self.sessions[f"lines {self._window[0]}-{self._window[-1]}"] = self._window
        self._before, self._window = self._window, []
