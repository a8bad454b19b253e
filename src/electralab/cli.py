"""The shell: words -> one call of a verb -> its result printed, and an exit status.

Only the standard library is imported until a verb runs: `electra --help` must be quick.
"""

import argparse
import errno
import io
import json
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from electralab.errors import ElectraError, Stopped, UsageError
from electralab.flags import build_parser
from electralab.parser import Parser, Words, hint
from electralab.stopping import stop_signals
from electralab.terminal import tame_line


def split_overrides(words: Sequence[str]) -> tuple[Words, Words]:
    """Take dotted settings (`--masking.mask-share 0.25`) out before argparse could mistake their values for inputs."""
    plain: Words = []
    dotted: Words = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*plain, word, *rest], dotted
        flag = word.partition("=")[0]
        if not (flag.startswith("--") and "." in flag):
            plain.append(word)
            continue
        dotted.append(word)
        if "=" not in word and rest:
            dotted.append(rest.pop(0))
    return plain, dotted


def _run(words: Sequence[str]) -> int:
    parser, verbs = build_parser()
    plain, dotted = split_overrides(words)
    verb = plain[0] if plain else ""
    if not plain:
        # As click does: the help, on standard error, for nothing was asked for that could be done.
        sys.stderr.write(parser.format_help())
        return UsageError.status
    if verb in verbs:
        verbs[verb].check_flags(plain[1:])
        plain = [verb, *verbs[verb].gather(plain[1:])]
    elif not verb.startswith("-"):
        raise UsageError(f"no verb named '{verb}'; {hint(verb, list(verbs), parser.prog)}")
    arguments, unknown = parser.parse_known_args(plain)
    verbs[arguments.verb].refuse_unknown(unknown)
    if dotted and not hasattr(arguments, "config"):
        verbs[arguments.verb].refuse_unknown(dotted)
    if arguments.verb == "completion":
        return _print_completion(parser, arguments)

    from electralab.runtime import wait_passively

    wait_passively()  # before the verb loads torch

    from electralab import shell

    result = shell.run_verb(arguments, dotted)
    if arguments.json:
        shell.print_json(result)
    return 0


def _print_completion(parser: Parser, arguments: argparse.Namespace) -> int:
    if arguments.dry_run:
        plan = f"would print a completion script for {arguments.shell}"
        sys.stdout.write((json.dumps({"shell": arguments.shell}) if arguments.json else plan) + "\n")
        return 0
    import shtab

    script = shtab.complete(parser, shell=arguments.shell)
    sys.stdout.write(json.dumps({"shell": arguments.shell, "script": script}) + "\n" if arguments.json else script)
    return 0


def _raise_stopped(number: int, _frame: object) -> NoReturn:
    raise Stopped(number)


def _ignore_signals() -> None:
    """What was asked for is being done: a second signal must not tear the farewell."""
    if threading.current_thread() is threading.main_thread():
        for number in stop_signals():
            signal.signal(number, signal.SIG_IGN)


def main(words: Sequence[str] | None = None) -> int:
    if words is None:
        # Before a stage listens itself, while libraries load, a signal still ends in our exit status.
        for number in set(stop_signals()) - {signal.SIGINT}:
            signal.signal(number, _raise_stopped)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal that knows only ASCII gets a stand-in for what it cannot show, not an error.
            sys.stdout.reconfigure(errors="replace")
    try:
        status = _run(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
        return status
    except ElectraError as error:
        _complain(str(error))
        return error.status
    except Stopped as stopped:
        _ignore_signals()
        _complain(f"stopped; {stopped.left}")
        return stopped.status
    except KeyboardInterrupt:
        _ignore_signals()
        return 130
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        _silence_stdout()
        return 0
    except OSError as error:
        _complain(_explain(error))
        return 1


def _complain(sentence: str) -> None:
    """The one place where an error reaches the terminal: names in it may have been chosen to deceive who reads it."""
    sys.stderr.write(f"electra: {tame_line(sentence)}\n")


def _silence_stdout() -> None:
    """What could not be written must not be tried again, and complained about, when Python flushes at exit."""
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123


def _explain(error: OSError) -> str:
    """The last resort: what the operating system refused and no stage foresaw, as one sentence."""
    where = error.filename
    # Whoever else writes names the file that is too large for its disk.
    is_stdout = where is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    try:
        sys.stdout.flush()
    except OSError:
        is_stdout = True
    if is_stdout:
        _silence_stdout()
        where = where or "standard output"
    reason = error.strerror or str(error)
    return f"{where}: {reason}" if where else reason
