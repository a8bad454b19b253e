"""What a log is made of: the templates of its lines, and how it is cut into sessions.

prepared data/log/templates.json, which a run carries on as export/log/templates.json -> LogTemplates
"""

from typing import ClassVar

from electralab.records.record import FileRecord, Record

LOG = "log"
"""The folder, in prepared data and beside the networks of a model, of what is known of the lines of a log."""

SESSIONS = "sessions.jsonl"
"""In that folder of prepared data: the events of each session."""


class LogTemplate(Record):
    event: str
    template: str
    """The words that all lines of the event have in common, and <*> where they differ."""
    pieces: tuple[str, ...]
    """The same as new lines are compared with it: words and punctuation, each by itself."""
    lines: int
    example: str
    """The first line of the event."""


class SessionRule(Record):
    """How lines become sessions. What is 0 or empty does not count."""

    key: str = ""
    """A regular expression, whose group 1 (or all of it) names the sessions that a line belongs to."""
    lines: int = 0
    """So many lines one after the other are a session."""
    gap: float = 0.0
    """A session ends where nothing is logged for so many seconds."""


class LogTemplates(FileRecord):
    """What is needed to read new lines of the same log."""

    FILE: ClassVar[str] = "templates.json"

    line_format: str
    """Where the message stands in a line, such as `<Date> <Time> <Level>: <Content>`; empty where it is to be found."""
    sessions: SessionRule
    templates: tuple[LogTemplate, ...]
