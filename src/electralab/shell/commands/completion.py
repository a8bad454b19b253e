"""`electra completion`: a script with which a shell completes verbs and flags. It has no function of Python."""

import sys

from electralab.shell.call import Call, Parser

SUMMARY = "print a completion script for a shell"
EXAMPLE = 'eval "$(electra completion bash)"'


def add_flags(parser: Parser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="the shell to complete words in")


def run(call: Call) -> None:
    # Written without a console: rich takes longer to load than the script to be made.
    flags = call.flags
    if flags.dry_run:
        script = f"would print a completion script for {flags.shell}\n"
        answer = {"shell": flags.shell}
    else:
        import shtab

        from electralab.shell.cli import build_parser

        script = shtab.complete(build_parser()[0], shell=flags.shell)
        answer = {"shell": flags.shell, "script": script}
    if flags.json:
        call.answer(**answer)
    else:
        sys.stdout.write(script)
