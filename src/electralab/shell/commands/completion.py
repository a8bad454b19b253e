"""`electra completion`: a script with which a shell completes verbs and flags."""

from typing import TYPE_CHECKING, Any

from electralab.shell.parser import Parser

if TYPE_CHECKING:
    from electralab.shell.call import Call

SUMMARY = "print a completion script for a shell"
EXAMPLE = 'eval "$(electra completion bash)"'


def FUNCTION() -> None:  # noqa: N802
    """Nothing of Python's: it is about the words of the shell."""


def add_flags(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="the shell to complete words in")


def run(call: "Call") -> Any:
    raise AssertionError(f"{call.flags.verb} is answered by the parser itself")
