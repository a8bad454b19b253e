"""The shell: words -> one call of a verb -> its result printed, and an exit status.

Only the standard library is imported until a verb runs: `electra --help` must be quick.
"""

import argparse
import errno
import io
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from electralab.errors import ElectraError, Stopped, UsageError, suggest
from electralab.shell.call import SETTING_DEFAULTS, Call, Parser
from electralab.shell.commands import list_verbs, load_command, python_function
from electralab.stopping import stop_signals
from electralab.terminal import tame_line


def split_overrides(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take dotted settings (`--masking.mask-share 0.25`) out before argparse could mistake their values for inputs."""
    plain: list[str] = []
    dotted: list[str] = []
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
            # Whatever it looks like: a negative number begins as a flag does.
            dotted.append(rest.pop(0))
    return plain, dotted


def build_parser(only: str = "", *, has_flags: bool = True) -> tuple[Parser, dict[str, Parser]]:
    """Every verb with its flags; or only the one that was asked for, whose file is then the only one to be read."""
    from electralab import __version__

    about = "From a folder of text to a pre-trained, fine-tuned ELECTRA. Start with 'electra quickstart'."
    parser = Parser(prog="electra", description=about, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"electra {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for verb in {"": list_verbs(), "--version": []}.get(only, [only]):
        command = load_command(verb)
        if not has_flags:
            # The list of verbs names no flags, and to build them all takes longer than everything else.
            verbs.add_parser(verb, help=command.SUMMARY, add_help=False)
            continue
        verb_parser: Parser = verbs.add_parser(
            verb,
            help=command.SUMMARY,
            description=command.SUMMARY[:1].upper() + command.SUMMARY[1:] + ".",
            epilog=f"example:\n  {command.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        add, settings = verb_parser.add_argument, {}
        add("--json", action="store_true", help="print the result as one JSON object on standard output")
        add("--dry-run", action="store_true", help="check everything and say what would be done, but do nothing")
        add("--verbose", action="store_true", help="print all settings and figures")
        command.add_flags(verb_parser)
        has_settings = hasattr(command, "SETTINGS")
        if about := getattr(command, "CONFIG_HELP", "a TOML file of settings" if has_settings else ""):
            add("--config", metavar="FILE", help=f"{about}; any setting also as --section.name VALUE")
        if has_settings:
            import json

            settings = json.loads(SETTING_DEFAULTS.read_text(encoding="utf-8")).get(verb, {})
        if function := python_function(verb):
            verb_parser.take_defaults(function, settings)
    return parser, verbs.choices


def _run(words: Sequence[str]) -> int:
    plain, dotted = split_overrides(words)
    verb, known = plain[0] if plain else "", list_verbs()
    if not plain:
        # As click does: the help, on standard error, for nothing was asked for that could be done.
        sys.stderr.write(build_parser(has_flags=False)[0].format_help())
        return UsageError.status
    if verb not in known and not verb.startswith("-"):
        nearest = suggest(verb, known, "see 'electra --help'")
        raise UsageError(f"no verb named '{verb}'; {nearest}")
    parser, verbs = build_parser(verb if verb in (*known, "--version") else "", has_flags=verb not in ("-h", "--help"))
    if verb in verbs:
        plain = [verb, *verbs[verb].flags_first(plain[1:])]
    # Known ones only: argparse's own complaint would list all that it does not know, without the nearest word.
    flags, unknown = parser.parse_known_args(plain)
    verbs[flags.verb].refuse_unknown(unknown)
    if dotted and not hasattr(flags, "config"):
        verbs[flags.verb].refuse_unknown(dotted)
    command = load_command(flags.verb)
    if python_function(flags.verb):  # completion is answered from the parser alone
        from electralab.runtime import count_launched, wait_passively

        if (count := count_launched()) > 1 and not getattr(command, "RUNS_ON_RANKS", False):
            spread = ", ".join(verb for verb in known if getattr(load_command(verb), "RUNS_ON_RANKS", False))
            raise UsageError(
                f"{flags.verb}: is not spread over ranks, and torchrun started it {count} times; only {spread} are, "
                "so start this one without torchrun"
            )
        wait_passively()  # before the verb loads torch
    command.run(Call(flags, dotted))
    return 0


def _raise_stopped(number: int, _frame: object) -> NoReturn:
    raise Stopped(number)


def _complain(sentence: str) -> None:
    """The one place where an error reaches the terminal: names in it may have been chosen to deceive who reads it."""
    sys.stderr.write(f"electra: {tame_line(sentence)}\n")


def _ignore_signals() -> None:
    """What was asked for is being done: a second signal must not tear the farewell."""
    if threading.current_thread() is threading.main_thread():
        for number in stop_signals():
            signal.signal(number, signal.SIG_IGN)


def _silence_stdout() -> None:
    """What could not be written must not be tried again, and complained about, when Python flushes at exit."""
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123


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
        # The last resort: what the operating system refused and no stage foresaw, as one sentence. Whoever else
        # writes names the file that is too large for its disk.
        where = error.filename
        is_stdout = where is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        try:
            sys.stdout.flush()
        except OSError:
            is_stdout = True
        if is_stdout:
            _silence_stdout()
            where = where or "standard output"
        reason = error.strerror or str(error)
        _complain(f"{where}: {reason}" if where else reason)
        return 1
