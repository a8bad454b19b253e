"""Every exception a user can meet.

    ElectraError               status 1: something failed; the message is one sentence
    ├── UsageError             status 2: the command or a setting is wrong; nothing was started
    ├── InputError             a file or folder the user gave cannot be used
    ├── DamagedArtifact        a file of ours does not match its manifest
    ├── FolderInUse            another process holds the folder
    ├── StorageError           the disk is full, read-only or failing
    ├── IdentityMismatch       a run would be resumed with other data or settings
    ├── AnswersDiffer          an exported network does not answer like its model
    ├── TrainingDiverged       too many non-finite steps in a row
    ├── WorkerFailed           a process that computes a part of each step has ended
    └── StudyFailed            cells of a study failed; the others are finished
    Stopped                    not an error: SIGINT, SIGTERM or SIGHUP arrived; carries the exit status

A message says where, what, got and what to do. An OSError that nobody foresaw becomes "FILE: reason" at the very end.
Anything else that escapes is our bug and keeps its traceback.
"""

import reprlib
from collections.abc import Iterable

_LONGEST_QUOTE = 120


def shorten(text: str) -> str:
    """A name from a stranger's file as a message may repeat it."""
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def quote(value: object) -> str:
    """What a stranger's file says as a message may repeat it: its repr, cut where it is long or deep."""
    short = reprlib.Repr()
    short.maxstring = short.maxlong = short.maxother = _LONGEST_QUOTE
    short.maxlevel = 2
    return shorten(short.repr(value))


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a sentence about a name that nobody knows: the nearest known one, else what else to do."""
    from difflib import get_close_matches  # only who errs waits for it

    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


class ElectraError(Exception):
    status = 1


class UsageError(ElectraError):
    status = 2


class InputError(ElectraError):
    pass


class DamagedArtifact(ElectraError):
    pass


class FolderInUse(ElectraError):
    pass


class StorageError(ElectraError):
    pass


class IdentityMismatch(ElectraError):
    pass


class AnswersDiffer(ElectraError):
    pass


class TrainingDiverged(ElectraError):
    pass


class WorkerFailed(ElectraError):
    pass


class StudyFailed(ElectraError):
    pass


class Stopped(BaseException):
    """Raised where work was abandoned on a signal; a BaseException so that no handler of failures swallows it."""

    def __init__(self, signal_number: int, left: str = "the same command continues from here") -> None:
        """`left`: what the user finds, and what to do."""
        super().__init__(f"stopped by signal {signal_number}")
        self.status = 128 + signal_number
        self.left = left
